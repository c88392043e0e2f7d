"""`txmanager monitor` as an operator runs it: beside a worker, without a key, on Redis and a real node."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.evm.machines import ROOT, Anvil
from tests.evm.stage import CHAIN_ID
from tests.evm.trouble import foreign
from tests.servers import end, free_port, spawn
from tests.waiting import until_sync
from txmanager.chains.evm import LaneId
from txmanager.signing.evm import EvmSigner
from txmanager.signing.secret import Secret


def program(argv: list[str], log: Path, config: Path, **environment: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "TXMANAGER_CONFIG": str(config), **environment}
    return spawn([sys.executable, *argv], log, cwd=ROOT, env=env)


def lines(log: Path) -> Iterator[dict[str, object]]:
    for line in log.read_text().splitlines():
        if line.startswith("{"):
            yield json.loads(line)


@pytest.fixture
def folder(tmp_path: Path, anvil: Anvil, redis7, prefix: str) -> Path:
    (tmp_path / "txmanager.toml").write_text(f"""
[ledger]
url = "{redis7.url}"
prefix = "{prefix}"
durability = "none"
[networks.anvil]
chain = "evm"
chain_id = {CHAIN_ID}
rpc = [{{ url = "{anvil.url}", direct = true }}]
[pools.p]
network = "anvil"
keys = ["env:LANE_KEY"]
[worker]
lease_s = 1
[monitor]
period_s = 0.5
""")
    return tmp_path


def test_it_alerts_in_log_and_metrics_has_the_lane_quarantined_and_stops_with_0(folder: Path, anvil: Anvil):
    secret, port = secrets.token_bytes(32), free_port()
    signer = EvmSigner(Secret(secret))
    anvil.fund(signer.address)
    lane, key = str(LaneId(CHAIN_ID, signer.address)), "0x" + secret.hex()
    config, log = folder / "txmanager.toml", folder / "monitor.log"
    # Without LANE_KEY in its environment: it could not read a key if it wanted to.
    monitor = program(["-m", "txmanager", "monitor"], log, config, TXMANAGER_METRICS_PORT=str(port), LANE_KEY="")
    worker = program(["-m", "consumers.lanes"], folder / "worker.log", config, LANE_KEY=key)

    def metrics() -> str:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/metrics").text
        except httpx.TransportError:
            return ""

    def alert(name: str) -> str:
        return f'txmanager_nonce_alert{{alert="{name}",lane="{lane}"}}'

    def said() -> list[object]:
        return [line.get("alert") for line in lines(log) if line["event"] == "nonce alert"]

    try:
        until_sync(lambda: f"{alert('foreign_nonce_use')} 0.0" in metrics(), 90.0, what="the lane is watched")
        assert not said()
        anvil.rpc("eth_sendRawTransaction", foreign(signer, 0))
        until_sync(lambda: f"{alert('foreign_nonce_use')} 1.0" in metrics(), 30.0, what="the metric says so")
        until_sync(lambda: {"foreign_nonce_use", "stopped"} <= set(said()), 30.0, what="the log says so")
        assert f'txmanager_nonce_chain{{lane="{lane}"}} 1.0' in metrics()
        assert f'txmanager_nonce_tracked{{lane="{lane}"}} 0.0' in metrics()
        [event] = [x for x in lines(log) if x["event"] == "nonce alert" and x["alert"] == "foreign_nonce_use"]
        assert (event["lane"], event["level"], event["cursor"]) == (lane, "error", "0")
        assert "lane quarantined" in (folder / "worker.log").read_text()
        monitor.send_signal(signal.SIGTERM)
        assert monitor.wait(20) == 0
        assert key[2:] not in log.read_text()
    finally:
        end(monitor)
        end(worker)


def test_without_a_network_it_says_so_and_exits_with_2(folder: Path):
    config = folder / "none.toml"
    config.write_text("")
    ran = subprocess.run(
        [sys.executable, "-m", "txmanager", "monitor", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 2
    assert "there is nothing to monitor" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_its_help_says_that_it_holds_no_key():
    ran = subprocess.run(
        [sys.executable, "-m", "txmanager", "monitor", "--help"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 0
    assert "Holds no key" in " ".join(ran.stdout.split())
