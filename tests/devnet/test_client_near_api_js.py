"""near-api-js, unchanged, against the devnet: one session of a wallet and a relayer, judged step by step.

Installed from its lock file into `.cache/`, once for each lock file; without node or npm the test is skipped.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.devnet.process import ROOT
from tests.devnet.test_recorded_answers import asked

CLIENT = Path(__file__).parent / "clients" / "js"
FILES = ("package.json", "package-lock.json", ".npmrc")


@pytest.fixture(scope="session")
def installed() -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("needs node and npm")
    lock = hashlib.sha256((CLIENT / "package-lock.json").read_bytes()).hexdigest()[:16]
    folder = ROOT / ".cache" / f"near-api-js-{lock}"
    if not (folder / "node_modules").exists():
        aside = folder.with_name(f"{folder.name}.{os.getpid()}")
        aside.mkdir(parents=True)
        for name in FILES:
            shutil.copy(CLIENT / name, aside / name)
        subprocess.run(["npm", "ci", "--ignore-scripts"], cwd=aside, check=True, capture_output=True, timeout=300)
        try:
            aside.rename(folder)
        except OSError:  # another run was faster
            shutil.rmtree(aside)
    for name in ("session.mjs", "parse.mjs"):
        shutil.copy(CLIENT / name, folder / name)
    return folder


@pytest.fixture
def told(devnet, installed):
    """Every step's report, by name."""
    who = {"relayer": devnet.account(8), "user": devnet.account(9)}
    argument = json.dumps({"url": devnet.url, "admin": f"{devnet.url}/admin", **who})
    ran = subprocess.run(
        ["node", "session.mjs", argument], cwd=installed, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return {step["step"]: step["told"] for step in map(json.loads, ran.stdout.splitlines())}


def value(word: str) -> dict[str, str]:
    return {"SuccessValue": base64.b64encode(word.encode()).decode()}


def test_a_session_of_near_api_js_goes_as_on_a_real_network(told):
    assert told["status"] == "localnet"
    assert told["block"] >= 100_000_000
    assert told["gas price"] == "100000000"
    assert told["transfer"] == "5"
    assert told["status by hash"] is True
    assert told["status with receipts"] >= 1

    assert told["create"] == value("true")
    assert told["create again"] == value("false")
    assert told["create sub-account"] == value("")
    assert "AccountAlreadyExists" in told["create sub-account again"]["error"]
    assert told["state"] == str(10**24)
    assert told["new account pays"] == value("")

    assert told["call"] == 2
    assert told["view"] == 2
    assert "on purpose" in told["panic"]["message"]

    assert told["add key"] == value("")
    assert told["limited key"]["FunctionCall"]["method_names"] == ["increment"]
    assert told["limited key calls"] == 4
    assert "error" in told["limited key pays"]
    assert told["delete key"] == value("")
    assert told["deleted key"]["error"] == "AccessKeyDoesNotExistError"
    assert told["key list"] == 1

    # The outer receipt answers for itself: what the relayed call returned is in its own receipt.
    assert told["relay"] == {"status": value(""), "signer": "dev8.near"}
    assert "Nonce" in told["relay again"]["error"]

    assert told["unknown account"]["error"] == "AccountDoesNotExistError"
    assert told["unknown transaction"]["error"] == "UnknownTransactionError"
    assert "Balance" in told["too poor"]["error"]
    assert told["stale nonce"]["error"] == "InvalidNonceError"
    assert "Expired" in told["expired"]["error"]
    assert "Timeout" in told["time-out"]["message"]


async def test_near_api_js_makes_of_the_devnets_answers_what_it_makes_of_the_recorded_ones(installed, tmp_path):
    pairs = [
        {
            "name": case.name,
            "method": case.request["method"],
            "params": case.request.get("params"),
            "real": {"status": case.http, "body": json.dumps(case.answer)},
            "ours": {"status": status, "body": json.dumps(answer)},
        }
        for case, status, answer in await asked()
        if (case.request or {}).get("method") and "jsonrpc" in case.answer
    ]
    file = tmp_path / "pairs.json"
    file.write_text(json.dumps(pairs))
    command = ["node", "parse.mjs", str(file)]
    run = partial(subprocess.run, capture_output=True, text=True, timeout=120, check=False)
    ran = await asyncio.to_thread(run, command, cwd=installed)
    assert ran.returncode == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(rows) == len(pairs) > 100
    assert [row for row in rows if row["real"] != row["ours"]] == []
