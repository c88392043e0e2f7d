"""Several worker processes on one ledger and one chain, killed with -9 while they work; reorgs under load."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evm.machines import PHRASE, ROOT, Anvil
from tests.evm.stage import CHAIN_ID, PATIENT, POOL, Stage, new_signer
from tests.servers.processes import end, spawn
from tests.waiting import until
from txmanager.chains.evm import EvmNetwork
from txmanager.core.models import IntentId, Record, intent_id, new_intent
from txmanager.core.states import LaneState, Status
from txmanager.runtime.accept.producer import Producer
from txmanager.settings import load
from txmanager.signing.evm import EvmSigner
from txmanager.signing.evm_sources import derive
from txmanager.signing.secret import Secret
from txmanager.wiring import open_ledger

INTENTS, LANES, KILLS, WORKERS = 1_000, 4, 10, 3
CONFIG = """
[ledger]
url = "{redis}"
prefix = "{prefix}"

[worker]
lease_s = 1.0

[networks.local]
chain = "evm"
chain_id = 31337
finality = 2
rpc = [{{ url = "{rpc}", direct = true }}]

[networks.local.fees]
resend_after_s = 2.0
replace_after_s = 4.0

[pools.p]
network = "local"
keys = ["mnemonic:PHRASE:4"]
window = 16  # more would be mined before the kills
"""


class Workers:
    """Processes that can be killed; each restart is another process."""

    def __init__(self, config: Path, folder: Path) -> None:
        self._environment = {**os.environ, "TXMANAGER_CONFIG": str(config), "PHRASE": PHRASE}
        self._folder = folder
        self._alive: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        log = self._folder / f"worker-{len(self._alive)}.log"
        command = [sys.executable, "-m", "consumers.lanes"]
        self._alive.append(spawn(command, log, cwd=ROOT, env=self._environment))

    def kill_one(self, rng: random.Random) -> None:
        victim = self._alive.pop(rng.randrange(len(self._alive)))
        victim.kill()
        victim.wait()
        end(victim)

    def stop(self) -> None:
        for process in self._alive:
            process.terminate()
        for process in self._alive:
            end(process)

    def logs(self) -> str:
        return "".join(path.read_text() for path in self._folder.glob("worker-*.log"))


async def test_a_thousand_intents_land_once_in_order_while_workers_are_killed(
    make_anvil, make_server, prefix, tmp_path
):
    anvil: Anvil = make_anvil("--block-time", "1")
    server = make_server(config={"appendonly": "yes", "appendfsync": "always"})
    signers = derive(Secret(PHRASE), 0, LANES - 1)
    receiver = new_signer().address
    config = tmp_path / "txmanager.toml"
    config.write_text(CONFIG.format(redis=server.url, prefix=prefix, rpc=anvil.url))
    workers, rng = Workers(config, tmp_path), random.Random(7)
    ledger = await open_ledger(load(config))
    try:
        for _ in range(WORKERS):
            workers.start()
        await until(lambda: _lanes(ledger), 60.0, what="four lanes are registered")
        producer = Producer(ledger)
        intents = [
            new_intent(key=f"k{n}", pool=POOL, kind="evm.transfer", payload={"to": receiver, "value": str(n + 1)})
            for n in range(INTENTS)
        ]
        for start in range(0, INTENTS, 100):
            await producer.submit_many(intents[start : start + 100])
        killed = 0
        while killed < KILLS:
            landed = sum(anvil.count(s.address) for s in signers)
            assert landed < INTENTS, f"all landed after {killed} kills: the test did not test"
            workers.kill_one(rng)
            workers.start()
            killed += 1
            await until(lambda landed=landed: sum(anvil.count(s.address) for s in signers) > landed, 90.0)
        ids = [intent.id for intent in intents]
        records = await until(lambda: _all_final(ledger, ids), 120.0, every=0.5, what="every intent has ended")
        assert {record.status for record in records} == {Status.DONE}
        assert anvil.balance(receiver) == INTENTS * (INTENTS + 1) // 2
        _check_chain(anvil, signers, receiver, records)
        assert "Traceback" not in workers.logs()
    finally:
        workers.stop()
        await ledger.close()


async def _lanes(ledger) -> bool:
    return len(await ledger.lanes(POOL)) == LANES


async def _all_final(ledger, ids: list[IntentId]) -> list[Record] | None:
    records = [await ledger.read(id) for id in ids]
    return records if all(r is not None and r.status.final for r in records) else None


def _check_chain(anvil: Anvil, signers: list[EvmSigner], receiver: str, records: list[Record]) -> None:
    """Once each, nonces without gaps, and in the order of acceptance on every lane."""
    by_hash = {record.outcome.tx_hash: record for record in records}
    assert len(by_hash) == INTENTS
    chain: dict[str, list[tuple[int, int, str]]] = {signer.address: [] for signer in signers}
    for height in range(anvil.number("eth_blockNumber") + 1):
        for tx in anvil.rpc("eth_getBlockByNumber", hex(height), True)["transactions"]:
            assert tx["to"] == receiver
            chain[tx["from"]].append((int(tx["nonce"], 16), int(tx["value"], 16), tx["hash"]))
    for mined in chain.values():
        mined.sort()
        assert [nonce for nonce, _, _ in mined] == list(range(len(mined)))
        values = [value for _, value, _ in mined]
        assert values == sorted(values)
        assert all(hash in by_hash for _, _, hash in mined)
    assert sum(len(mined) for mined in chain.values()) == INTENTS


async def test_reorgs_of_one_to_five_blocks_under_load_leave_everything_final(make_anvil):
    anvil: Anvil = make_anvil("--block-time", "0.3")
    signers = [new_signer(), new_signer()]
    stage = Stage(anvil, signers, policy=PATIENT, network=EvmNetwork(finality=8, max_fee=10**13, fees_fresh_s=0.0))
    rng = random.Random(11)
    async with stage:
        anvil.rpc("anvil_mine", "0x8")
        keys = [f"k{n}" for n in range(150)]
        feeding = asyncio.create_task(_feed(stage, keys))
        for depth in (1, 2, 3, 4, 5, rng.randint(1, 5), rng.randint(1, 5)):
            height = anvil.number("eth_blockNumber")
            anvil.rpc("anvil_reorg", depth, [])
            await until(lambda height=height: anvil.number("eth_blockNumber") >= height + 3, 20.0)
        await feeding
        records = await stage.until_done(*keys, timeout=60.0)
        assert stage.received() == sum(range(1, 151))
        for record in records:
            told = anvil.rpc("eth_getTransactionReceipt", record.outcome.tx_hash)
            assert told["blockHash"] == record.outcome.result["block_hash"]
        for signer in signers:
            assert anvil.count(signer.address) == sum(r.lane.endswith(signer.address) for r in records)
            assert (await stage.lane(f"evm:{CHAIN_ID}:{signer.address}")).state is LaneState.ACTIVE


async def _feed(stage: Stage, keys: list[str]) -> None:
    for n, key in enumerate(keys):
        await stage.submit(stage.transfer(key, n + 1))
        await asyncio.sleep(0.02)  # the load, not a synchronisation


@pytest.mark.parametrize("point", ["after_sign", "after_write_ahead", "after_broadcast", "after_replace_ahead"])
async def test_a_worker_that_dies_at_any_point_pays_once(make_anvil, point):
    anvil: Anvil = make_anvil("--no-mining")
    stage = Stage(anvil, [new_signer()])
    died = asyncio.Event()

    class Died(BaseException):
        pass

    def crash(at: str) -> None:
        if at == point and not died.is_set():
            died.set()
            raise Died

    await stage.start(point=crash)
    try:
        await stage.submit(*(stage.transfer(f"k{n}", n + 1) for n in range(5)))
        await asyncio.wait_for(died.wait(), 20.0)
        await stage.crash()
        recorded = await stage.record("k0")
        await stage.start()
        anvil.rpc("evm_setIntervalMining", 1)
        records = await stage.until_done(*(f"k{n}" for n in range(5)))
        assert stage.received() == 15
        assert [r.outcome.nonce for r in records] == list(range(5))
        names = {a.name for a in recorded.attempts}
        assert names <= {a.name for a in records[0].attempts}
        assert (await stage.manager.get(POOL, "k0")).id == intent_id("k0", POOL)
    finally:
        await stage.crash()
