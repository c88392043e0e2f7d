"""`txmanager devnet near` and `python -m txmanager.devnet`: what they print, write, and how they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import httpx
import pytest
from near.keys import load_credentials

from tests.devnet.process import ROOT
from txmanager.devnet import Genesis

COMMAND = [sys.executable, "-c", "from txmanager.cli.devnet import app; app()", "near", "--port", "0"]


def start(*options):
    return subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def end(process, how=signal.SIGINT):
    process.send_signal(how)
    out, err = process.communicate(timeout=10)
    return process.returncode, out, err


def test_it_prints_the_accounts_and_keys_of_its_seed():
    process = start("--seed", "9", "--accounts", "2", "--keys", "2")
    lines = [process.stdout.readline()]
    while "Ctrl-C" not in lines[-1]:
        lines.append(process.stdout.readline())
        assert lines[-1], "it ended before it had said everything"
    code, _, err = end(process)
    rest = "".join(lines)
    assert rest.startswith("NEAR devnet at http://127.0.0.1:")
    assert (code, err) == (0, "")
    for account in Genesis.from_seed(9, accounts=2, keys=2).accounts.values():
        assert account.account_id in rest
        for key in account.keys:
            assert key.public_key in rest
            assert key.private_key in rest


def test_credentials_are_written_where_near_tools_look_for_them(tmp_path):
    process = start("--credentials", str(tmp_path), "--json")
    told = json.loads(process.stdout.readline())
    signer = load_credentials("dev0.near", told["chain_id"], credentials_dir=tmp_path)
    assert str(signer.public_key) == told["accounts"][0]["public_key"]
    assert (tmp_path / "localnet" / "dev0.near.json").stat().st_mode & 0o77 == 0
    assert httpx.get(told["url"] + "/status").status_code == 200
    assert end(process, signal.SIGTERM)[0] == 0


@pytest.mark.parametrize("option", [("--producers", "0"), ("--block-ms", "0"), ("--accounts", "x")])
def test_nonsense_is_refused(option):
    process = start(*option)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 2
    assert option[0] in err


def test_a_taken_port_is_said_in_words():
    first = start("--json")
    port = json.loads(first.stdout.readline())["url"].rpartition(":")[2]
    second = subprocess.run([*COMMAND[:-1], port], capture_output=True, text=True, timeout=20, cwd=ROOT, check=False)
    end(first)
    assert second.returncode == 1
    assert second.stderr.startswith("devnet: ")
    assert "Traceback" not in second.stderr


def test_the_same_seed_gives_the_same_keys_for_ever():
    """These are written into people's configuration: they must never change."""
    account = Genesis.from_seed(0).users[0]
    assert account.account_id == "dev0.near"
    assert account.keys[0].public_key == "ed25519:3aJNmAJQpVJGVwcbrs4zBhNbbTZxYNUicPjG5id9S2et"
    assert Genesis.from_seed(0).hash != Genesis.from_seed(1).hash
