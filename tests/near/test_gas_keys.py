"""Gas keys: one key, many lanes, a balance of its own. From settings and `keys provision` to lanes that drain."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from tests.near.devnet import Devnet, devnet
from tests.near.test_provision import Told, advancing, fresh
from tests.near.world import ALICE, NearWorld, intent
from tests.waiting import until
from txmanager.chains.near.family import FAMILY
from txmanager.chains.near.policy import NearPolicy
from txmanager.chains.near.provision import provision
from txmanager.chains.near.settings import NearNetworkSettings, NearPoolSettings
from txmanager.cli.keys import app
from txmanager.core.errors import NotAllowed
from txmanager.core.models import new_intent
from txmanager.core.states import LaneState, Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.accept.producer import Producer
from txmanager.runtime.lane.worker import Timing, Worker
from txmanager.settings import load
from txmanager.settings.family import GasKeys
from txmanager.settings.variables import key_variables
from txmanager.signing import vault
from txmanager.signing.sources import KEY_SOURCES
from txmanager.wiring import build_services

NEAR = 10**24


def pool(*keys: object) -> NearPoolSettings:
    return NearPoolSettings.model_validate({"network": "n", "account": ALICE.account_id, "keys": list(keys)})


def test_a_gas_key_of_the_settings_is_as_many_lanes(monkeypatch):
    monkeypatch.setenv("GAS", ALICE.keys[0].private_key)
    monkeypatch.setenv("PLAIN", ALICE.keys[1].private_key)
    told = pool({"source": "env:GAS", "gas_key": True, "lanes": 3}, "env:PLAIN")
    network = NearNetworkSettings.model_validate({"chain": "near", "rpc": [{"url": "http://127.0.0.1:1"}]})
    lanes = dict(FAMILY.load_keys(KEY_SOURCES, "n", network, told))
    gas, plain = (f"near:n:{ALICE.account_id}:{key.public_key}" for key in ALICE.keys[:2])
    assert list(lanes) == [f"{gas}:0", f"{gas}:1", f"{gas}:2", plain]
    assert len({signer.public_key for signer in lanes.values()}) == 2
    assert pool(*told.keys) == told, "what the configuration shows can be read again"


def test_the_variable_of_a_gas_key_is_hidden_like_any_other():
    assert {"GAS", "PLAIN"} <= key_variables([*pool({"source": "env:GAS", "gas_key": True}).keys, "env:PLAIN"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": "env:GAS", "gas_key": True, "lanes": 0},
        {"source": "env:GAS", "gas_key": True, "lanes": 1_025},
        {"source": "env:GAS", "lanes": 4},
        {"source": "env:GAS", "gas_key": False},
        {"source": "ed25519:secret", "gas_key": True},
        {"gas_key": True},
        {"source": "env:GAS", "gas_key": True, "more": 1},
        "gas-key:0:env:GAS",
        "gas-key:x:env:GAS",
        "gas-key:5:ed25519:secret",
    ],
)
def test_what_is_no_gas_key_is_refused(wrong):
    with pytest.raises(ValidationError):
        pool(wrong)


async def test_a_gas_key_is_added_funded_and_topped_up():
    world, [key] = NearWorld(), fresh(1)
    world.see((advancing(world), True, False))
    assert await provision(world.chain, world.lane, [key], gas_keys=GasKeys(8, NEAR)) == [key]
    told = (await world.chain.keys(ALICE.account_id))[key]["permission"]["GasKeyFullAccess"]
    assert (told["num_nonces"], told["balance"]) == (8, str(NEAR))
    world.calls.clear()
    assert await provision(world.chain, world.lane, [key], gas_keys=GasKeys(8, NEAR)) == []
    assert "send_tx" not in world.calls, "what is full is not filled"
    clerk = Told()
    await provision(world.chain, world.lane, [key], gas_keys=GasKeys(8, 3 * NEAR), clerk=clerk)
    told = (await world.chain.keys(ALICE.account_id))[key]["permission"]["GasKeyFullAccess"]
    assert told["balance"] == str(3 * NEAR)
    assert str(2 * NEAR) in clerk.lines[0]
    for other in (GasKeys(9), None):
        with pytest.raises(NotAllowed, match="another permission"):
            await provision(world.chain, world.lane, [key], gas_keys=other)


async def test_the_balance_comes_back_and_the_key_is_removed_by_actions_of_the_account():
    world, [key] = (
        NearWorld(policy=NearPolicy(own_account=frozenset({"withdraw_from_gas_key", "delete_key"}))),
        fresh(1),
    )
    world.see((advancing(world), True, False))
    await provision(world.chain, world.lane, [key], gas_keys=GasKeys(2, 3 * NEAR))
    delete = {"type": "delete_key", "public_key": key}
    withdraw = {"type": "withdraw_from_gas_key", "public_key": key, "amount": str(3 * NEAR)}
    early = intent("k1", "near.transaction", {"receiver_id": ALICE.account_id, "actions": [delete]})
    assert (await world.run(early)).error["code"] == "gas_key_balance_too_high"
    both = intent("k2", "near.transaction", {"receiver_id": ALICE.account_id, "actions": [withdraw, delete]})
    assert (await world.run(both)).status is Status.DONE
    assert key not in await world.chain.keys(ALICE.account_id)


@pytest.fixture(scope="module")
def running() -> Iterator[Devnet]:
    with devnet("--block-ms", "50", "--accounts", "4", "--keys", "2", "--seed", "9") as started:
        yield started


class Provisioned:
    """An account with a gas key and a plain key, made by the command as its users run it."""

    def __init__(self, running: Devnet, account: int, tmp_path: Path, lanes: int, fund: str) -> None:
        told = running.accounts[account]
        self.account = told["account_id"]
        names = ("account_id", "public_key", "private_key")
        (tmp_path / "admin.json").write_text(json.dumps({name: told[name] for name in names}))
        second = {"account_id": self.account, **told["keys"][1]}
        (tmp_path / "plain.json").write_text(json.dumps(second))
        self.vault, self.config = tmp_path / "gas.json", tmp_path / "txmanager.toml"
        gas = f'{{ source = "vault:{self.vault}", gas_key = true, lanes = {lanes} }}'
        self.config.write_text(
            f'[ledger]\nurl = "memory://"\ndurability = "none"\n'
            f'[networks.localnet]\nchain = "near"\nrpc = [{{ url = "{running.nodes[0]}", direct = true }}]\n'
            f'[pools.gas]\nnetwork = "localnet"\naccount = "{self.account}"\nkeys = [{gas}]\n'
            f'[pools.plain]\nnetwork = "localnet"\naccount = "{self.account}"\nkeys = ["file:{tmp_path}/plain.json"]\n'
        )
        self.command = ["provision", "gas", "--vault", str(self.vault), "--signer", f"file:{tmp_path}/admin.json"]
        self.command += ["--gas-key", "--lanes", str(lanes), "--fund", fund, "-c", str(self.config)]
        self.said = CliRunner().invoke(app, self.command)
        assert self.said.exit_code == 0, self.said.output


@pytest.fixture(autouse=True)
def _passphrase(monkeypatch):
    monkeypatch.setenv("TXMANAGER_PASSPHRASE", "correct horse battery")


@asynccontextmanager
async def working(made: Provisioned) -> AsyncIterator[MemoryLedger]:
    """A worker that owns every lane of the configuration."""
    services, chains = build_services(load(made.config))
    ledger = MemoryLedger()
    worker = Worker(ledger, services, timing=Timing(lease_ms=3_000, margin_ms=500, poll_s=0.05, grace_s=2.0))
    task = asyncio.create_task(worker.run())
    try:
        await until(lambda: set(services) <= set(worker.owned), 30, what="the worker owns its lanes")
        yield ledger
    finally:
        worker.stop()
        await task
        for chain in chains:
            await chain.close()


async def test_lanes_of_one_gas_key_drain_side_by_side_and_the_list_shows_its_balance(running, tmp_path: Path):
    made = await asyncio.to_thread(Provisioned, running, 0, tmp_path, 8, "1.5")
    assert "gas_key = true, lanes = 8" in made.said.output
    listed = await asyncio.to_thread(CliRunner().invoke, app, ["list", "-c", str(made.config)])
    assert listed.output.count(f"can spend {3 * NEAR // 2} yoctoNEAR") == 8, listed.output
    [(_, public)] = vault.public_names(made.vault)
    async with working(made) as ledger:
        payload = {"receiver_id": running.accounts[1]["account_id"], "amount": "1"}
        intents = [new_intent(key=f"k{n}", pool="gas", kind="near.transfer", payload=payload) for n in range(40)]
        results = await Producer(ledger).submit_many(intents)
        assert not [r for r in results if isinstance(r, Exception)]

        async def ended() -> bool:
            records = [await ledger.read(i.id) for i in intents]
            return all(r is not None and r.status.final for r in records)

        await until(ended, 40, what="all have ended")
        records = [await ledger.read(i.id) for i in intents]
        assert {r.status for r in records if r is not None} == {Status.DONE}
        used = {r.lane for r in records if r is not None}
        assert len(used) > 4
        assert all(f":{public}:" in lane for lane in used)


async def test_a_gas_key_without_gas_pauses_its_own_lanes_only(running, tmp_path: Path):
    made = await asyncio.to_thread(Provisioned, running, 2, tmp_path, 2, "0.0001")
    async with working(made) as ledger:
        call = {"receiver_id": running.accounts[1]["account_id"], "amount": "1"}

        def pay(pool: str, key: str):
            return new_intent(key=key, pool=pool, kind="near.transfer", payload=call)

        gas, plain = pay("gas", "poor"), pay("plain", "rich")
        assert not [r for r in await Producer(ledger).submit_many([gas, plain]) if isinstance(r, Exception)]

        async def plain_done() -> bool:
            record = await ledger.read(plain.id)
            return record is not None and record.status is Status.DONE

        async def gas_paused() -> bool:
            states = [lane.state for lane in await ledger.lanes() if lane.id.count(":") == 5]
            return LaneState.PAUSED in states

        await until(plain_done, 30, what="the plain key pays")
        await until(gas_paused, 30, what="the gas key's lane pauses")
        others = [lane.state for lane in await ledger.lanes() if lane.id.count(":") == 4]
        assert others == [LaneState.ACTIVE]
        topped = await asyncio.to_thread(CliRunner().invoke, app, [*made.command, "--fund", "1"])
        assert topped.exit_code == 0, topped.output

        async def gas_done() -> bool:
            record = await ledger.read(gas.id)
            return record is not None and record.status is Status.DONE

        await until(gas_done, 60, what="topped up, the lane goes on by itself")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--count"),
        (["--count", "1", "--lanes", "4"], "--gas-key"),
        (["--count", "1", "--fund", "1"], "--gas-key"),
        (["--gas-key", "--fund", "one"], "--fund"),
        (["--gas-key", "--fund", "-1"], "--fund"),
        (["--gas-key", "--receiver", "a.near", "--allowance", "5"], "--allowance"),
    ],
)
def test_options_that_do_not_fit_are_named(running, tmp_path: Path, options, words):
    made = tmp_path / "txmanager.toml"
    made.write_text(
        '[ledger]\nurl = "memory://"\ndurability = "none"\n[networks.localnet]\nchain = "near"\n'
        'rpc = [{ url = "http://127.0.0.1:1" }]\n[pools.gas]\nnetwork = "localnet"\naccount = "a.near"\n'
    )
    command = ["provision", "gas", "--vault", "v", "--signer", "env:X", "-c", str(made), *options]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code != 0
    assert words in f"{refused.output}{refused.exception}"
