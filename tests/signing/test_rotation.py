"""Rotation without downtime, as docs/signers.md walks it, under load: adopt, serve both, drain, close."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.devnet.process import Devnet
from tests.evm.machines import Anvil
from tests.runtime.stage import Stage, lane_of
from tests.servers import DURABLE, Server, end, spawn
from tests.signing.boxes import EVM, NEAR, ProgramBox
from tests.waiting import until
from txmanager.core.errors import TxManagerError
from txmanager.core.models import IntentId, new_intent
from txmanager.core.states import LaneState, Status
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.manager import TxManager

ROOT = Path(__file__).parent.parent.parent


class Installation:
    """A ledger, configurations and workers, steered by commands only."""

    def __init__(self, folder: Path, server: Server, network: str, environment: dict[str, str]) -> None:
        self._folder, self._network = folder, network
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        self._url = server.url
        self._workers: list[subprocess.Popen[bytes]] = []
        self.ledger = RedisLedger(server.url, prefix="rotation")
        self.manager = TxManager(self.ledger)

    def write(self, *keys: str) -> Path:
        path = self._folder / f"{len(list(self._folder.glob('*.toml')))}.toml"
        ledger = f'[ledger]\nurl = "{self._url}"\nprefix = "rotation"\n[worker]\nlease_s = 1.0\ngrace_s = 10.0\n'
        path.write_text(ledger + self._network.replace("KEYS", json.dumps(list(keys))))
        return path

    def run(self, config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "txmanager", *arguments, "--config", str(config)]
        return subprocess.run(
            command, cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=90, check=False
        )

    def start(self, config: Path) -> subprocess.Popen[bytes]:
        log = self._folder / f"worker-{len(self._workers)}.log"
        environment = {**self._environment, "TXMANAGER_CONFIG": str(config)}
        worker = spawn([sys.executable, "-m", "consumers.lanes"], log, cwd=ROOT, env=environment)
        self._workers.append(worker)
        return worker

    async def until_owned(self, *lanes: str) -> None:
        async def owned() -> bool:
            views = [await self.ledger.lane(lane) for lane in lanes]
            return all(view is not None and view.lease_ms > 0 for view in views)

        await until(owned, 40, what=f"{lanes} have owners")

    async def close(self) -> None:
        for worker in self._workers:
            end(worker)
        await self.ledger.close()


class Load:
    """Submits one intent after the other until it is told to stop; whatever is refused is a failure of the walk."""

    def __init__(self, manager: TxManager, kind: str, payload: dict[str, Any]) -> None:
        self._manager, self._kind, self._payload = manager, kind, payload
        self.ids: list[IntentId] = []
        self.refused: list[str] = []
        self._stopping = False

    async def run(self) -> None:
        while not self._stopping:
            amount = len(self.ids) + 1
            payload = {name: value.replace("AMOUNT", str(amount)) for name, value in self._payload.items()}
            intent = new_intent(key=f"k{amount}", pool="main", kind=self._kind, payload=payload)
            try:
                await self._manager.submit(intent)
            except TxManagerError as error:
                self.refused.append(str(error))
            self.ids.append(intent.id)
            await asyncio.sleep(0.02)

    def stop(self) -> None:
        self._stopping = True


async def walk(
    installation: Installation, load: Load, old: str, new: str, old_lane: str, new_lane: str, *options: str
) -> None:
    """The steps of docs/signers.md."""
    before, both, after = installation.write(old), installation.write(old, new), installation.write(new)
    first = installation.start(before)
    await installation.until_owned(old_lane)
    loading = asyncio.create_task(load.run())
    await until(lambda: len(load.ids) > 20, what="there is load")

    said = await asyncio.to_thread(installation.run, before, "keys", "adopt", "main", new, *options)
    assert said.returncode == 0, said.stderr + said.stdout
    assert "a trial signature was verified" in said.stdout
    again = await asyncio.to_thread(installation.run, before, "keys", "adopt", "main", new, *options)
    assert again.returncode == 0, again.stderr + again.stdout

    second = installation.start(both)
    await installation.until_owned(new_lane)
    await asyncio.to_thread(end, first)
    await installation.until_owned(old_lane, new_lane)
    drained = await asyncio.to_thread(installation.run, both, "lanes", "drain", old_lane)
    assert drained.returncode == 0, drained.stderr

    async def empty() -> bool:
        view = await installation.ledger.lane(old_lane)
        return view is not None and view.depth == 0

    await until(empty, 40, what="the old lane is empty")
    closed = await asyncio.to_thread(installation.run, both, "lanes", "close", old_lane, "--yes")
    assert closed.returncode == 0, closed.stderr
    installation.start(after)
    await asyncio.to_thread(end, second)
    await installation.until_owned(new_lane)
    count = len(load.ids)
    await until(lambda: len(load.ids) > count + 20, what="there is load on the new key alone")
    load.stop()
    await loading

    async def all_done() -> bool:
        records = [await installation.ledger.read(id) for id in load.ids]
        return all(record is not None and record.status.final for record in records)

    await until(all_done, 60, every=0.3, what="everything ended")
    records = [await installation.ledger.read(id) for id in load.ids]
    assert {record.status for record in records if record} == {Status.DONE}
    assert {record.lane for record in records if record} == {old_lane, new_lane}
    assert load.refused == []
    view = await installation.ledger.lane(old_lane)
    assert view is not None
    assert view.state is LaneState.CLOSED


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(config=DURABLE) as running:
        yield running


@asynccontextmanager
async def boxed(folder: Path, account: str) -> AsyncIterator[ProgramBox]:
    (folder / "signer").mkdir()
    async with ProgramBox(folder / "signer", account) as box:
        yield box


async def test_a_near_key_is_rotated_under_load(server: Server, tmp_path: Path) -> None:
    with Devnet(accounts=2, keys=2, block_ms=50, delay_ms=0) as devnet:
        account, receiver = devnet.account(0), devnet.account(1)
        # The account's second key is no lane: it signs for the new one.
        pairs = account["keys"]
        for name, pair in (("old", pairs[0]), ("admin", pairs[1])):
            told = {"account_id": account["account_id"], **pair}
            (tmp_path / f"{name}.json").write_text(json.dumps(told))
        async with boxed(tmp_path, account["account_id"]) as box:
            network = f"""
[networks.localnet]
chain = "near"
rpc = [{{ url = "{devnet.url}", direct = true }}]
[signers.box]
provider = "txmanager"
address = "unix:{box.told["path"]}"
[pools.main]
network = "localnet"
account = "{account["account_id"]}"
keys = KEYS
"""
            installation = Installation(tmp_path, server, network, {})
            payload = {"receiver_id": receiver["account_id"], "amount": "AMOUNT"}
            load = Load(installation.manager, "near.transfer", payload)
            old_lane = lane_of({"account_id": account["account_id"], **pairs[0]})
            new_lane = old_lane.replace(pairs[0]["public_key"], box.public_keys[NEAR])
            chain = Stage(devnet, installation.ledger, iter([{**account, **pairs[0]}, receiver]))
            try:
                wrong = await asyncio.to_thread(
                    installation.run,
                    installation.write(f"file:{tmp_path}/old.json"),
                    "keys",
                    "adopt",
                    "main",
                    "box:near-1",
                )
                assert wrong.returncode == 2
                assert "--signer: is required" in wrong.stderr
                admin = ("--signer", f"file:{tmp_path}/admin.json")
                await walk(installation, load, f"file:{tmp_path}/old.json", f"box:{NEAR}", old_lane, new_lane, *admin)
                used = await asyncio.to_thread(
                    installation.run,
                    installation.write(f"box:{NEAR}"),
                    *("keys", "adopt", "main", f"box:{NEAR}", "--signer", f"box:{NEAR}"),
                )
                assert used.returncode == 1
                assert "is served by" in used.stderr
                lanes = [chain.account, {**account, "public_key": box.public_keys[NEAR]}]
                paid = [amount for lane in lanes for amount in chain.amounts(lane)]
                assert sorted(paid) == list(range(1, len(load.ids) + 1)), "every intent was paid once"
            finally:
                await installation.close()


async def test_an_evm_key_is_rotated_under_load(server: Server, tmp_path: Path) -> None:
    secret = "07" * 32
    from txmanager.signing import Secret
    from txmanager.signing.evm import EvmSigner

    old = EvmSigner(Secret(bytes.fromhex(secret)))
    with Anvil() as anvil:
        async with boxed(tmp_path, "nobody.near") as box:
            new = box.public_keys[EVM]
            anvil.fund(old.address)
            anvil.fund(new)
            network = f"""
[networks.anvil]
chain = "evm"
chain_id = 31337
finality = 1
rpc = [{{ url = "{anvil.url}", direct = true }}]
[signers.box]
provider = "txmanager"
address = "unix:{box.told["path"]}"
[pools.main]
network = "anvil"
keys = KEYS
"""
            installation = Installation(tmp_path, server, network, {"OLD_KEY": secret})
            receiver = "0x" + "5a" * 20
            load = Load(installation.manager, "evm.transfer", {"to": receiver, "value": "AMOUNT"})
            try:
                lanes = (f"evm:31337:{old.address}", f"evm:31337:{new}")
                await walk(installation, load, "env:OLD_KEY", f"box:{EVM}", *lanes)
                count = len(load.ids)
                assert anvil.balance(receiver) == count * (count + 1) // 2
            finally:
                await installation.close()
