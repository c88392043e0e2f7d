"""Every operator's call leaves who, what, when and from where before it acts; refused ones, and commands, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.stage import ROOT
from tests.attacks.several import ALL, LANE, Several
from txmanager.core.models import LaneSpec, intent_id
from txmanager.core.states import LaneState, Status

TOKENS: dict[str, dict[str, Any]] = {
    "acme": {"scopes": ALL, "tenant": "acme"},
    "clerk": {"scopes": ["submit", "read"], "tenant": "acme"},
    "rival": {"scopes": ALL, "tenant": "rival"},
    "ops": {"scopes": ALL, "tenant": "*"},
}


@pytest.fixture(scope="module")
def several(redis7) -> Iterator[Several]:
    with Several(redis7.url, TOKENS) as running:
        yield running


def entries(several: Several, by: str = "ops", *, at: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = several.ask(by, "GET", "/v1/audit?count=1000", at=at).json()["audit"]
    return found


def test_a_verb_is_written_with_who_what_when_and_from_where(several: Several):
    since = time.time()
    paused = several.ask("ops", "POST", f"/v1/lanes/{LANE}/pause", json={"reason": "maintenance"})
    assert paused.json()["state"] == "paused"
    assert several.ask("ops", "POST", f"/v1/lanes/{LANE}/resume").status_code == 200
    by_verb = {e["what"]: e for e in entries(several, at=1)}  # another process tells the same
    entry = by_verb["POST /v1/lanes/{lane}/pause"]
    assert (entry["who"], entry["on"], entry["origin"], entry["refused"]) == ("ops", LANE, "127.0.0.1", "")
    assert "maintenance" in entry["told"]
    assert entry["at"] >= time.strftime("%Y-%m-%dT%H:%M", time.gmtime(since))
    assert '"event": "operator call"' in several.log()
    assert several.secrets["ops"] not in several.log()


def test_refused_calls_are_written_too_and_never_push_out_what_was_done(several: Several):
    for _ in range(3):
        assert several.ask("clerk", "POST", f"/v1/lanes/{LANE}/drain").status_code == 403
    assert several.ask("rival", "POST", f"/v1/lanes/{LANE}/drain").status_code == 403
    assert several.ask("clerk", "GET", "/v1/audit").status_code == 403
    found = [e for e in entries(several) if e["what"] == "POST /v1/lanes/{lane}/drain"]
    assert [(e["who"], e["refused"]) for e in found] == [("rival", "forbidden")] + [("clerk", "forbidden")] * 3
    lane = several.ledger(lambda ledger: ledger.lane(LANE))
    assert lane is not None
    assert lane.state is LaneState.ACTIVE


def test_a_tenant_reads_its_own_entries_and_nobody_elses(several: Several):
    several.transfer("acme", "audited")
    assert several.ask("acme", "POST", "/v1/intents/audited/cancel").status_code == 200
    own = entries(several, "acme")
    assert {e["tenant"] for e in own} == {"acme"}
    assert "audited" in {e["on"] for e in own}
    assert "audited" not in {e["on"] for e in entries(several, "rival")}
    assert several.ask("acme", "GET", "/v1/audit?tenant=rival").status_code == 403
    assert several.ask("acme", "GET", "/v1/audit?count=0").json()["field"] == "count"


def test_a_command_is_written_before_it_acts(several: Several):
    several.transfer("acme", "by-command")
    for words in (["lanes", "drain", LANE], ["lanes", "resume", LANE], ["cancel", "by-command", "--tenant", "acme"]):
        command = [sys.executable, "-m", "txmanager", *words, "--config", several.config]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    shown = {e["what"]: e for e in entries(several)}
    assert shown["txmanager lanes drain"]["on"] == LANE
    assert shown["txmanager cancel"]["tenant"] == "acme"
    assert shown["txmanager cancel"]["origin"] == "cli"
    assert "@" in shown["txmanager cancel"]["who"]
    told = subprocess.run(
        [sys.executable, "-m", "txmanager", "audit", "--config", several.config],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "txmanager lanes drain" in told.stdout


def test_a_verb_that_cannot_be_written_down_does_not_act(several: Several):
    """The audit's key is of another type: its script fails, the lane's would not."""
    several.transfer("rival", "stays")
    broken = f"{several.prefix}:{{audit}}:acted:rival"
    several.ledger(lambda ledger: ledger.runner.plain(broken, ("DEL", broken), ("SET", broken, "x")))
    refused = several.ask("rival", "POST", "/v1/intents/stays/cancel")
    assert refused.status_code >= 500
    record = several.ledger(lambda ledger: ledger.read(intent_id("stays", "main", "rival")))
    assert record is not None
    assert record.status is Status.QUEUED
    several.ledger(lambda ledger: ledger.runner.plain(broken, ("DEL", broken)))
    assert several.ask("rival", "POST", "/v1/intents/stays/cancel").json()["status"] == "cancelled"


def test_an_entry_outlives_the_process_that_wrote_it(redis7):
    with Several(redis7.url, TOKENS) as several:
        several.ledger(lambda ledger: ledger.register(LaneSpec(LANE, "main")))
        assert several.ask("ops", "POST", f"/v1/lanes/{LANE}/pause").status_code == 200
        os.kill(several.programs[0].pid, signal.SIGKILL)
        assert [e["who"] for e in entries(several, at=1)] == ["ops"]
