"""`make truth` says what it needs, and really asks: here a devnet of its own stands for the node."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.devnet.process import Devnet
from tests.truth.__main__ import ROOT, WANTED, steps


def ask(**told: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.truth"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **told},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_without_a_node_it_says_what_to_set():
    said = ask()
    assert (said.returncode, said.stdout.strip()) == (2, WANTED)


def test_each_node_has_its_steps():
    assert [step.name for step in steps({"GETH": "/x/geth"})] == ["geth: refusals, order, kills, rollbacks"]
    assert len(list(steps({"NEAR_RPC": "http://x"}))) == 1
    assert len(list(steps({"NEAR_RPC": "http://x", "NEAR_ACCOUNT": "a", "NEAR_KEYS": "env:K"}))) == 4


def test_accounts_are_created_and_audited_on_a_node_that_is_not_ours(tmp_path):
    """The whole story against a node given by its URL: what `make truth` does with a real one."""
    with Devnet(accounts=1, keys=4, block_ms=100) as node:
        account = node.told["accounts"][0]
        keys = tmp_path / "keys.json"
        keys.write_text(json.dumps([{"account_id": account["account_id"], **key} for key in account["keys"]]))
        options = ["--near-rpc", node.told["url"], "--near-network", "localnet"]
        options += ["--near-account", account["account_id"], "--near-keys", f"file:{keys}"]
        said = subprocess.run(
            [sys.executable, "-m", "txmanager", "demo", "--accounts", "60", *options],
            cwd=tmp_path,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert said.returncode == 0, said.stdout + said.stderr
        assert "every promise held" in said.stdout


@pytest.mark.parametrize("story", ["delegates", "provision"])
def test_the_stories_of_make_truth_hold_on_a_node_given_by_its_url(tmp_path, story):
    with Devnet(accounts=1, keys=2, block_ms=100) as node:
        account = node.told["accounts"][0]
        keys = tmp_path / "keys.json"
        keys.write_text(json.dumps([{"account_id": account["account_id"], **key} for key in account["keys"]]))
        options = ["--rpc", node.told["url"], "--network", "localnet", "--account", account["account_id"]]
        said = subprocess.run(
            [sys.executable, "-m", "tests.truth.near", story, *options, "--keys", f"file:{keys}"],
            cwd=ROOT,
            env={**os.environ, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert said.returncode == 0, said.stdout + said.stderr
    assert "every promise held" in said.stdout
