"""Whole lanes of both chains on SoftHSM2, on a KMS and on `txmanager signer`: order, crashes, replacements, and a
signer that is killed while it owes many signatures."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.devnet.process import Devnet
from tests.evm.machines import Anvil
from tests.evm.stage import CHAIN_ID, POLICY
from tests.evm.stage import Stage as EvmStage
from tests.runtime.stage import POLICY as NEAR_POLICY
from tests.runtime.stage import Stage, make_chain
from tests.signing.boxes import EVM, NEAR, Box, key_of, make_box, provider_of, public_key_of
from tests.waiting import until
from txmanager.chains.evm.chain import EvmChain
from txmanager.chains.near import NearChain
from txmanager.chains.near.provision import provision
from txmanager.core.models import Purpose
from txmanager.ledger.memory import MemoryLedger
from txmanager.rpc.endpoint import Endpoint
from txmanager.signing.remote import RemoteKey
from txmanager.signing.sources import Curve

KINDS = ("softhsm", "kms", "program")
OWED = 8
"""How many signatures are outstanding whenever a signer is killed here."""


@pytest.fixture(scope="module")
def devnet() -> Iterator[Devnet]:
    with Devnet(accounts=8, keys=1, block_ms=50, delay_ms=0) as running:
        yield running


@pytest.fixture(scope="module")
def accounts(devnet: Devnet) -> Iterator[dict[str, Any]]:
    return iter(devnet.told["accounts"])


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    with Anvil() as running:
        yield running


async def strike(box: Box, away_s: float) -> None:
    """kill -9 while it owes many signatures; it stays away for a while."""
    await until(lambda: box.owed >= OWED, 20, every=0.002, what=f"{OWED} signatures are outstanding")
    await asyncio.to_thread(box.kill)
    await asyncio.sleep(away_s)
    await asyncio.to_thread(box.revive)


class OnBox:
    """Replaces a stage's own key by the one in the box."""

    def __init__(self, told: Mapping[str, Any], public_key: str) -> None:
        self._told, self._public_key = told, public_key

    def __call__(self, network: str, endpoints: Any, signers: Mapping[str, Any], **more: Any) -> NearChain:
        key = RemoteKey(provider_of(self._told), key_of(self._told, NEAR), Curve.ED25519, self._public_key)
        return NearChain(network, endpoints, dict.fromkeys(signers, key), **more)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_near_lane_keeps_its_order_through_crashes_of_worker_and_signer(
    kind: str, devnet: Devnet, accounts: Iterator[dict[str, Any]], tmp_path: Path
) -> None:
    stage = Stage(devnet, MemoryLedger(), accounts)
    account = stage.account
    async with make_box(kind, tmp_path, account["account_id"]) as box:
        public_key = await public_key_of(box.told, NEAR)
        adding = make_chain(devnet.url, [account])
        await provision(adding, stage.lane, [public_key])
        await adding.close()
        stage.account = {**account, "public_key": public_key}
        stage.lane = stage.lane.replace(account["public_key"], public_key)
        on_box: Any = OnBox(box.told, public_key)
        policy = replace(NEAR_POLICY, window=16)

        running = await stage.start(kind=on_box, policy=policy)
        ids = await stage.submit(*stage.transfers(20))
        await stage.done(ids)
        box.slow(0.3)
        striking = asyncio.create_task(strike(box, away_s=0.5))
        ids += await stage.submit(*stage.transfers(30, first=21))
        await striking
        await until(stage.landed, what="some landed")
        await running.crash()
        running = await stage.start(kind=on_box, policy=policy)
        ids += await stage.submit(*stage.transfers(10, first=51))
        await stage.done(ids, timeout=60)
        assert stage.amounts() == list(range(1, 61))
        nonces = [(await stage.read(id)).attempts[0].nonce for id in ids]
        assert nonces == sorted(nonces)
        await running.stop()


class Addressed:
    """What a stage needs of a key that is elsewhere."""

    def __init__(self, address: str) -> None:
        self.address = self.public_key = address


class BoxStage(EvmStage):
    told: Mapping[str, Any]

    def make_chain(self) -> EvmChain:
        key = RemoteKey(provider_of(self.told), key_of(self.told, EVM), Curve.SECP256K1, self.signer.public_key)
        endpoints = [Endpoint(self.machine.url, direct=True, timeout_s=2.0)]
        return EvmChain(CHAIN_ID, endpoints, {self.lane_id: key}, settings=self.network, rng=random.Random(1))


@pytest.mark.parametrize("kind", KINDS)
async def test_an_evm_lane_replaces_and_keeps_its_order_through_crashes_of_worker_and_signer(
    kind: str, anvil: Anvil, tmp_path: Path
) -> None:
    async with make_box(kind, tmp_path, "nobody.near") as box:
        signer: Any = Addressed(await public_key_of(box.told, EVM))
        stage = BoxStage(anvil, [signer], policy=POLICY)
        stage.told = box.told
        keys: Callable[[int, int], list[str]] = lambda first, last: [f"k{n}" for n in range(first, last)]  # noqa: E731

        await stage.start()
        await stage.submit(*(stage.transfer(key) for key in keys(0, 10)))
        await stage.until_done(*keys(0, 10))
        box.slow(0.3)
        striking = asyncio.create_task(strike(box, away_s=0.5))
        await stage.submit(*(stage.transfer(key) for key in keys(10, 40)))
        await striking
        await stage.crash()
        await stage.start()
        await stage.until_done(*keys(0, 40), timeout=60)

        anvil.rpc("evm_setAutomine", False)  # what is sent now is stuck, and gets a better price
        await stage.submit(stage.transfer("stuck"))
        record = await stage.until_attempts("stuck", 2)
        assert record.attempts[1].purpose is Purpose.REPLACE
        assert record.attempts[0].nonce == record.attempts[1].nonce
        anvil.rpc("evm_setAutomine", True)
        anvil.rpc("evm_mine")
        await stage.until_done("stuck")
        assert stage.received() == 41
        nonces = [(await stage.record(key)).attempts[0].nonce for key in keys(0, 40)]
        assert nonces == list(range(40))
        await stage.crash()
