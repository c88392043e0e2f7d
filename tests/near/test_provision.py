"""`keys provision`: as many keys as asked for, in the file before they are on the chain, however often it is run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from tests.near.devnet import Devnet, devnet
from tests.near.world import ALICE, NearWorld
from txmanager.archive import Database, SqlReader
from txmanager.chains.near.actions import CallPermission
from txmanager.chains.near.provision import provision
from txmanager.cli.keys import app
from txmanager.core.archive import Group, Spending, UsageLine, UsageQuery
from txmanager.core.errors import NotAllowed, Unavailable
from txmanager.rpc import ConnectionFailed
from txmanager.settings.family import Clerk
from txmanager.signing import Ed25519Signer, vault
from txmanager.testing.waiting import until


class Told(Clerk):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def fresh(count: int) -> list[str]:
    return [Ed25519Signer.generate().public_key for _ in range(count)]


async def on_chain(world: NearWorld) -> set[str]:
    return set(await world.chain.keys(ALICE.account_id))


async def test_missing_keys_are_added_and_a_second_run_does_nothing():
    world, keys = NearWorld(), fresh(5)
    world.see((advancing(world), True, False))
    assert await provision(world.chain, world.lane, keys, per_transaction=2) == keys
    assert set(keys) <= await on_chain(world)
    world.calls.clear()
    assert await provision(world.chain, world.lane, keys) == []
    assert "send_tx" not in world.calls


async def test_a_run_that_was_cut_off_is_taken_up_again():
    world, keys = NearWorld(), fresh(6)
    honest, sends = advancing(world), 0

    async def dies_after_the_second_send(method, params):
        nonlocal sends
        answer = await honest(method, params)
        sends += method == "send_tx"
        if sends == 2:
            raise ConnectionFailed("cut off after the transaction was taken")
        return answer

    world.see((dies_after_the_second_send, True, False))
    with pytest.raises(Unavailable):
        await provision(world.chain, world.lane, keys, per_transaction=2)
    world.network.advance(5)
    before = set(keys) & await seen_by(world, honest)
    assert len(before) == 4
    added = await provision(world.chain, world.lane, keys, per_transaction=2)
    assert set(added) == set(keys) - before
    assert set(keys) <= await on_chain(world)


async def test_a_thousand_keys_are_added_through_an_interruption_and_listed_page_by_page():
    """A node lists a hundred keys at once; beyond that it wants pages."""
    world, keys = NearWorld(), fresh(1_000)
    honest, sends, clerk = advancing(world), 0, Told()

    async def dies_halfway(method, params):
        nonlocal sends
        sends += method == "send_tx"
        if sends == 6:
            raise ConnectionFailed("cut off")
        return await honest(method, params)

    world.see((dies_halfway, True, False))
    with pytest.raises(Unavailable):
        await provision(world.chain, world.lane, keys, per_transaction=100, clerk=clerk)
    assert clerk.lines[-1].startswith("added 500 of 1000 keys")
    world.see((honest, True, False))
    assert await provision(world.chain, world.lane, keys, per_transaction=100) == keys[500:]
    assert set(keys) <= await on_chain(world)


async def test_a_node_whose_pages_never_end_is_not_followed_for_ever():
    world = NearWorld()
    page = {"keys": [{"public_key": ALICE.keys[0].public_key, "access_key": {"nonce": 1, "permission": "FullAccess"}}]}

    async def circles(method, params):
        if "limit" not in params:
            return {"error": {"name": "HANDLER_ERROR", "cause": {"name": "TOO_MANY_ACCESS_KEYS", "info": {}}}}
        return {"result": {**page, "last_key": ALICE.keys[0].public_key}}

    world.see((circles, True, False))
    assert await on_chain(world) == {ALICE.keys[0].public_key}


async def seen_by(world: NearWorld, handler) -> set[str]:
    world.see((handler, True, False))
    return await on_chain(world)


def advancing(world: NearWorld):
    """A chain that makes a block with every question, as time would."""
    honest = world.node(0)

    async def handle(method, params):
        world.network.advance(1)
        return await honest(method, params)

    return handle


async def test_a_key_with_another_permission_is_refused_and_nothing_is_sent():
    world, keys = NearWorld(), fresh(2)
    world.see((advancing(world), True, False))
    permission = CallPermission("counter.near", ("increment",), 10**24)
    await provision(world.chain, world.lane, keys[:1], permission)
    assert await provision(world.chain, world.lane, keys[:1], permission) == []
    world.calls.clear()
    with pytest.raises(NotAllowed, match="another permission"):
        await provision(world.chain, world.lane, keys)
    assert "send_tx" not in world.calls


@pytest.fixture(scope="module")
def running() -> Iterator[Devnet]:
    with devnet("--block-ms", "50", "--seed", "9") as started:
        yield started


def test_the_command_adds_lists_and_can_be_repeated(running, tmp_path: Path, monkeypatch):
    account = running.accounts[0]
    admin = tmp_path / "admin.json"
    admin.write_text(json.dumps({name: account[name] for name in ("account_id", "public_key", "private_key")}))
    safe = tmp_path / "keys.json"
    config = tmp_path / "txmanager.toml"
    config.write_text(
        f'[ledger]\nurl = "memory://"\ndurability = "none"\n'
        f'[networks.localnet]\nchain = "near"\nrpc = [{{ url = "{running.nodes[0]}", direct = true }}]\n'
        f'[pools.relayers]\nnetwork = "localnet"\naccount = "{account["account_id"]}"\nkeys = ["vault:{safe}"]\n'
    )
    monkeypatch.setenv("TXMANAGER_PASSPHRASE", "correct horse battery")
    command = ["provision", "relayers", "--vault", str(safe), "--signer", f"file:{admin}", "-c", str(config)]
    run = CliRunner()
    first = run.invoke(app, [*command, "--count", "3"])
    assert first.exit_code == 0, first.output
    assert "all 3 are on chain" in first.output
    names = [key for _, key in vault.public_names(safe)]
    again = run.invoke(app, [*command, "--count", "3"])
    assert "added" not in again.output
    assert [key for _, key in vault.public_names(safe)] == names
    more = run.invoke(app, [*command, "--count", "4"])
    assert more.exit_code == 0, more.output
    assert [key for _, key in vault.public_names(safe)][:3] == names
    listed = run.invoke(app, ["list", "-c", str(config)])
    assert listed.exit_code == 0, listed.output
    assert listed.output.count("next nonce") == 4
    assert account["private_key"] not in first.output + again.output + more.output + listed.output


def test_what_the_command_spends_is_a_row_of_its_own(running, tmp_path: Path, monkeypatch):
    """Equal to the yoctoNEAR with what the account lost."""
    account = running.accounts[1]
    admin, safe, config = tmp_path / "admin.json", tmp_path / "keys.json", tmp_path / "txmanager.toml"
    admin.write_text(json.dumps({name: account[name] for name in ("account_id", "public_key", "private_key")}))
    config.write_text(
        f'[ledger]\nurl = "memory://"\ndurability = "none"\n[archive]\nurl = "sqlite:///{tmp_path}/archive.db"\n'
        f'[networks.localnet]\nchain = "near"\nrpc = [{{ url = "{running.nodes[0]}", direct = true }}]\n'
        f'[pools.relayers]\nnetwork = "localnet"\naccount = "{account["account_id"]}"\nkeys = ["vault:{safe}"]\n'
    )
    monkeypatch.setenv("TXMANAGER_PASSPHRASE", "correct horse battery")
    before = owned(running, account["account_id"])
    command = ["provision", "relayers", "--vault", str(safe), "--signer", f"file:{admin}", "-c", str(config)]
    for more in (["--count", "2"], ["--count", "2"], ["--count", "3"]):
        done = CliRunner().invoke(app, [*command, *more])
        assert done.exit_code == 0, done.output

    async def booked() -> list[UsageLine]:
        database = Database(f"sqlite:///{tmp_path}/archive.db")
        lines = await SqlReader(database).usage(UsageQuery((Group.POOL,)))
        await database.close()
        return lines

    [line] = asyncio.run(booked())
    assert (line.spending, line.count, line.group) == (Spending.KEY_ACTION, 2, {"pool": "relayers"})

    async def settled() -> bool:
        return before - owned(running, account["account_id"]) == line.cost > 0

    asyncio.run(until(settled, 30, what="the account lost what the books say"))


def owned(running: Devnet, account_id: str) -> int:
    params = {"request_type": "view_account", "account_id": account_id, "finality": "optimistic"}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "query", "params": params}
    return int(httpx.post(running.nodes[0], json=asked).json()["result"]["amount"])
