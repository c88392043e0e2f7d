"""EVM lanes with a signer elsewhere: every type, high s, other bytes each time; replacements do not wait for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import pytest
from coincurve import PrivateKey

from tests.evm.machines import Anvil
from tests.evm.stage import CHAIN_ID, POLICY, Stage, lane_of, new_signer
from tests.signing.signers import RemoteSigner, high_s, other_secp256k1_signature
from tests.waiting import until
from txmanager.chains.evm.chain import EvmChain
from txmanager.core.errors import TransactionRefused
from txmanager.core.models import Purpose
from txmanager.core.states import Status
from txmanager.rpc.endpoint import Endpoint
from txmanager.signing import Secret
from txmanager.signing.evm import EvmSigner
from txmanager.signing.signer import Answer, SigningRequest


class RemoteStage(Stage):
    """The stage's keys behind remote signers."""

    def make_chain(self) -> EvmChain:
        self.remotes = {lane_of(s): RemoteSigner(s) for s in self.signers}
        endpoints = [Endpoint(self.machine.url, direct=True, timeout_s=2.0)]
        return EvmChain(CHAIN_ID, endpoints, self.remotes, settings=self.network, rng=random.Random(1))

    @property
    def remote(self) -> RemoteSigner:
        return self.remotes[self.lane_id]


@pytest.mark.parametrize("type", [0, 1, 2])
async def test_a_signer_with_high_s_and_no_recovery_id_serves_every_type(anvil: Anvil, type: int) -> None:
    async with RemoteStage(anvil, [new_signer()]) as stage:
        stage.remote.spoil = lambda n, right: high_s(right) if n % 2 else right[:64]
        payload = {"to": stage.receiver, "value": "1", "type": type}
        await stage.submit(*(stage.intent(f"k{n}", "evm.transaction", payload) for n in range(6)))
        records = await stage.until_done(*(f"k{n}" for n in range(6)))
        assert [r.attempts[0].terms["type"] for r in records] == [type] * 6
        assert stage.received() == 6


async def test_signatures_with_other_bytes_each_time_are_paid_once(anvil: Anvil) -> None:
    secret = random.Random(7).randbytes(32)
    key, signer = PrivateKey(secret), EvmSigner(Secret(secret))

    class Fickle(RemoteSigner):
        async def sign_many(self, requests: Sequence[SigningRequest]) -> list[Answer]:
            self.asked += requests
            return [other_secp256k1_signature(key, r.digest) for r in requests]

    class FickleStage(RemoteStage):
        def make_chain(self) -> EvmChain:
            endpoints = [Endpoint(self.machine.url, direct=True, timeout_s=2.0)]
            return EvmChain(CHAIN_ID, endpoints, {lane_of(signer): Fickle(signer)}, settings=self.network)

    stage = FickleStage(anvil, [signer])
    await stage.start()
    try:
        for round in range(3):
            await stage.submit(*(stage.transfer(f"k{round}.{n}") for n in range(5)))
            await stage.crash()
            await stage.start()
        await stage.until_done(*(f"k{round}.{n}" for round in range(3) for n in range(5)))
    finally:
        await stage.crash()
    assert stage.received() == 15


async def test_a_replacement_goes_out_while_the_signer_hangs_on_first_attempts(
    make_anvil: Callable[..., Anvil],
) -> None:
    """A stuck nonce is replaced although the batch behind it gets no signature."""
    anvil = make_anvil("--no-mining")
    async with RemoteStage(anvil, [new_signer()], policy=POLICY) as stage:
        remote, released = stage.remote, asyncio.Event()
        plain = remote.sign_many

        async def hang(requests: Sequence[SigningRequest]) -> list[Answer]:
            answers = await plain(requests)
            if not all(request.urgent for request in requests):
                await released.wait()
            return answers

        await stage.submit(stage.transfer("stuck"))
        await stage.until_attempts("stuck", 1)
        remote.sign_many = hang  # type: ignore[method-assign]
        before = len(remote.asked)
        await stage.submit(stage.transfer("behind"))
        await until(lambda: len(remote.asked) > before, what="the signer hangs on the next one")
        record = await stage.until_attempts("stuck", 2)
        assert record.attempts[1].purpose is Purpose.REPLACE
        assert (await stage.record("behind")).status is Status.QUEUED
        released.set()
        await stage.until_attempts("behind", 1)


async def test_what_the_signers_policy_refuses_fails_alone_and_the_lane_goes_on(anvil: Anvil) -> None:
    async with RemoteStage(anvil, [new_signer()]) as stage:
        thief = "66" * 20

        def refuse_some(n: int, right: bytes) -> Answer:
            forbidden = bytes.fromhex(thief) in stage.remote.asked[n].unsigned
            return TransactionRefused("evm-1: the receiver is not allowed") if forbidden else right

        stage.remote.spoil = refuse_some
        intents = [stage.transfer(f"k{n}") for n in range(6)]
        for n in (0, 3):
            intents[n] = stage.intent(f"k{n}", "evm.transfer", {"to": f"0x{thief}", "value": "1"})
        await stage.submit(*intents)
        await stage.until_done(*(f"k{n}" for n in (1, 2, 4, 5)))
        for n in (0, 3):
            record = await stage.record(f"k{n}")
            assert record.outcome is not None
            assert record.outcome.error is not None
            assert record.outcome.error["code"] == "transaction_refused"
            assert not record.attempts
        assert stage.received() == 4


async def test_a_replacement_that_the_signer_refuses_leaves_the_first_one_to_land(
    make_anvil: Callable[..., Anvil],
) -> None:
    anvil = make_anvil("--no-mining")
    async with RemoteStage(anvil, [new_signer()], policy=POLICY) as stage:
        await stage.submit(stage.transfer("stuck"))
        await stage.until_attempts("stuck", 1)
        asked = len(stage.remote.asked)
        stage.remote.spoil = lambda *_: TransactionRefused("evm-1: its fee may be too much")
        await until(lambda: len(stage.remote.asked) > asked, what="a replacement was asked for and refused")
        anvil.rpc("evm_mine")
        anvil.rpc("evm_mine")
        await stage.until_done("stuck")
        assert len((await stage.record("stuck")).attempts) == 1
        assert stage.received() == 1
