"""The programs as an operator runs them: `python -m consumers.lanes`, `python -m consumers.sweeper`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.runtime.stage import POOL, Account, Stage
from tests.servers import end, free_port, spawn
from tests.waiting import until
from txmanager.core.models import IntentId
from txmanager.core.states import LaneState, Status
from txmanager.ledger.redis import RedisLedger

ROOT = Path(__file__).parent.parent.parent


class Program:
    def __init__(self, name: str, config: Path, folder: Path, **environment: str) -> None:
        self.log = folder / f"{name}.log"
        env = {**os.environ, "TXMANAGER_CONFIG": str(config), **environment}
        self.process = spawn([sys.executable, "-m", f"consumers.{name}"], self.log, cwd=ROOT, env=env)

    def signal(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)


@pytest.fixture
def config(tmp_path: Path, devnet: Devnet, fresh_accounts: Iterator[Account], redis7: HasUrl, prefix: str) -> Path:
    account = next(fresh_accounts)
    key = tmp_path / "key.json"
    key.write_text(json.dumps({name: account[name] for name in ("account_id", "public_key", "private_key")}))
    path = tmp_path / "txmanager.toml"
    path.write_text(f"""
[ledger]
url = "{redis7.url}"
prefix = "{prefix}"
[networks.localnet]
chain = "near"
rpc = [{{ url = "{devnet.url}", direct = true }}]
[pools.{POOL}]
network = "localnet"
account = "{account["account_id"]}"
keys = ["file:{key}"]
[worker]
lease_s = 1
grace_s = 5
""")
    return path


async def test_the_worker_program_works_reports_and_stops_with_0(
    config: Path, tmp_path: Path, devnet: Devnet, fresh_accounts: Iterator[Account], redis7: HasUrl, prefix: str
) -> None:
    port = free_port()
    program = Program("lanes", config, tmp_path, TXMANAGER_METRICS_PORT=str(port))
    stage = Stage(devnet, RedisLedger(redis7.url, prefix=prefix), fresh_accounts)
    try:
        await until(lambda: registered(stage), 20, what=f"the lane is registered: {program.log.read_text()}")
        records = await stage.done(await stage.submit(*stage.transfers(10)))
        async with httpx.AsyncClient() as client:
            told = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
        for name in (
            "queue_depth",
            "oldest_seconds",
            "inflight",
            "sign_seconds",
            "broadcast_seconds",
            "settle_seconds",
            "sends_total",
            "overtaken_total",
            "rebroadcasts_total",
            "resigns_total",
            "lease_changes_total",
            "fenced_writes_total",
            "quarantines_total",
            "balance",
            "lanes_owned",
        ):
            assert f"# TYPE txmanager_{name.removesuffix('_total')}" in told, name
        settled = re.findall(r'txmanager_settled_total\{.*status="done"\} (\d+)', told)
        assert settled == ["10"]
        assert program.signal(signal.SIGTERM) == 0
        lane = await stage.ledger.lane(records[0].lane)
        assert lane is not None
        assert (lane.owner, lane.lease_ms) == ("", 0)
        assert "private" not in program.log.read_text()
        assert json.loads(config.with_name("key.json").read_text())["private_key"] not in program.log.read_text()
    finally:
        end(program.process)
        await stage.close()


async def registered(stage: Stage) -> bool:
    return any(route.state is LaneState.ACTIVE for route in await stage.ledger.routes())


def test_a_traceback_in_the_log_shows_no_locals() -> None:
    code = """
import structlog
from txmanager.programs.process import configure_logs
configure_logs()
def fail(password):
    raise RuntimeError("a bug")
try:
    fail("hunter2")
except RuntimeError:
    structlog.get_logger("x").exception("broke")
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    told = json.loads(ended.stderr)
    assert told["exception"][0]["exc_value"] == "a bug"
    assert "hunter2" not in json.dumps(told["exception"][0]["frames"])


def test_a_configuration_that_cannot_work_exits_with_2_and_names_the_field(config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text().replace("lease_s = 1", 'lease_s = "soon"'))
    env = {**os.environ, "TXMANAGER_CONFIG": str(config)}
    command = [sys.executable, "-m", "consumers.lanes"]
    ended = subprocess.run(command, check=False, env=env, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    assert "worker.lease_s" in ended.stderr


async def test_the_sweeper_program_retires_what_a_killed_worker_left(
    config: Path, tmp_path: Path, devnet: Devnet, fresh_accounts: Iterator[Account], redis7: HasUrl, prefix: str
) -> None:
    ledger = RedisLedger(redis7.url, prefix=prefix)
    ledger._link.one_server = False  # as on a cluster: there an end goes home in a step of its own
    stage = Stage(devnet, ledger, fresh_accounts)

    def never_retire(name: str) -> None:
        if name == "after_settle":
            stage.running[0].task.cancel()

    program = None
    try:
        await stage.start(point=never_retire)
        [id] = await stage.submit(stage.transfer("left", 3))

        async def unretired() -> int:
            return len(await ledger.unretired(stage.lane, 10))

        await until(unretired, what="it is settled and not retired")
        await stage.running[0].crash()
        assert await unretired() == 1
        program = Program("sweeper", config, tmp_path)
        await until(lambda: retired(ledger, stage.lane, id), 20, what="the sweeper retires it")
        assert (await stage.read(id)).status is Status.DONE
        assert program.signal(signal.SIGTERM) == 0
    finally:
        if program is not None:
            end(program.process)
        await stage.close()


async def retired(ledger: RedisLedger, lane: str, id: IntentId) -> bool:
    return not await ledger.unretired(lane, 10)
