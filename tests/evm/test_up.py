"""`txmanager up --evm`: an anvil beside the devnet, whose chain and keys are found again after a stop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import httpx
import pytest

from tests.evm.machines import ROOT, installed
from tests.evm.stage import new_signer
from tests.servers.processes import end, free_port
from tests.stack.running import QUICK, Up
from tests.waiting import until_sync


@pytest.fixture
def anvil_on_path(monkeypatch):
    folder = installed() / "node_modules/@foundry-rs/anvil-linux-amd64/bin"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def send(up: Up, key: str, to: str) -> httpx.Response:
    said = up.until_said("/v1/evm/transactions")
    told = re.search(r"token: (\S+)", said)
    assert told is not None
    headers = {"Authorization": f"Bearer {told[1]}", "Idempotency-Key": key}
    url = f"http://127.0.0.1:{up.port}/v1/evm/transactions?wait=30"
    return httpx.post(url, json={"pool": "evm", "to": to, "value": "3"}, headers=headers, timeout=40.0)


def chain_of(url: str) -> str | None:
    try:
        return httpx.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}, timeout=5.0).json()["result"]
    except httpx.TransportError:
        return None


def test_an_evm_chain_runs_beside_and_is_found_again(tmp_path, anvil_on_path):
    receiver = new_signer().address
    first = Up(tmp_path, *QUICK, "--evm")
    try:
        answer = send(first, "k1", receiver)
        assert answer.json()["status"] == "done", answer.text
        told = re.search(r"cast send --rpc-url (\S+)", first.until_said("cast send"))
        assert told is not None
        until_sync(lambda: chain_of(told[1]) == "0x7a69", 60.0, what="the gateway answers wallets")
        log = tmp_path / "data/logs/monitor.log"
        until_sync(log.exists, 20.0, what="a monitor watches the EVM lanes")
    finally:
        end(first.process, signal.SIGTERM, 40.0)
    second = Up(tmp_path, *QUICK, "--evm")
    try:
        again = send(second, "k1", receiver)
        assert again.headers["idempotency-replayed"] == "true"
        assert again.json()["tx_hash"] == answer.json()["tx_hash"]
        assert send(second, "k2", receiver).json()["status"] == "done"
    finally:
        end(second.process, signal.SIGTERM, 40.0)


def test_without_anvil_it_says_what_to_do_in_one_sentence(tmp_path):
    environment = {**os.environ, "TXMANAGER_ANVIL": "no-such-program", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "txmanager",
            "up",
            "--evm",
            "--data",
            str(tmp_path / "data"),
            "--port",
            str(free_port()),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
        cwd=ROOT,
    )
    assert ran.returncode == 2
    assert "install foundry, or name the program in TXMANAGER_ANVIL" in ran.stderr
    assert "Traceback" not in ran.stderr
