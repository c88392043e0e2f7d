"""The history of a scene in the simulator's words, so that the simulator's checker can judge the real thing.

Workers' journals say who leased, wrote ahead, sent and settled; callers what they were told; the ledger what it has at
the end; the devnet's blocks what really happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.chaos.blocks import SeenChain
from tests.sim.checker import Checked, check
from tests.sim.history import (
    Answered,
    Appended,
    Ended,
    Fact,
    Leased,
    Operated,
    Recorded,
    Released,
    RolledBack,
    Sent,
    Wrote,
)
from tests.sim.plan import Event
from tests.sim.plan import draw as draw_plan
from txmanager.core.models import IntentId, Lane, Outcome, Purpose, Record
from txmanager.core.states import Status

Line = dict[str, Any]


def read_journals(folder: Path) -> list[Line]:
    lines = [json.loads(line) for path in folder.glob("*.journal") for line in path.read_text().splitlines()]
    return sorted(lines, key=lambda line: float(line["at"]))


def last_cursor(lines: Iterable[Line], lane: str) -> int:
    """The highest cursor that a worker was told to be written."""
    return max((line["cursor"] for line in lines if line["what"] == "did_record" and line["lane"] == lane), default=-1)


def facts(lines: Sequence[Line], records: Mapping[IntentId, Record], one_history: bool = True) -> list[Fact]:
    """What workers did. A call without an answer counts from when it left, if the ledger shows that it was made."""
    stored = {attempt.hash for record in records.values() for attempt in record.attempts}
    told = {hash for line in lines if line["what"] == "did_record" for hash in line["hashes"]}
    found: list[Fact] = []
    seen: set[str] = set()
    # A lease that is heard of only after its successor's was over before it began: its answer was held back.
    newest: dict[str, int] = {}
    for line in lines:
        at, lane = line["at"], line["lane"]
        match line["what"]:
            case "leased" if line["epoch"] >= newest.get(lane, 0):
                newest[lane] = line["epoch"]
                found.append(Leased(at, lane, line["epoch"], line["token"], line["owner"]))
            case "released":
                found.append(Released(at, lane, line["token"]))
            case "sent":
                found += [Sent(at, lane, hash, "worker", known) for hash, known in line["hashes"]]
            case "try_record":
                made = [w for w in line["batch"] if w["hash"] in stored | told and w["hash"] not in seen]
                seen |= {w["hash"] for w in made}
                found += [_recorded(at, lane, w, records) for w in made]
            case "did_record" | "did_settle" | "did_hold":
                operation = line["what"].removeprefix("did_")
                found.append(Wrote(line["began"], lane, operation, line["epoch"], line["token"]))
    found += _ends(lines, records)
    if one_history:
        return found
    # Leases are not confirmed by replicas: two primaries, one of them deposed, may each have granted one. What such an
    # owner writes ahead is, and stays in the history; that no nonce is handed out twice is what the fence is for.
    return [fact for fact in found if not isinstance(fact, Leased | Released | Wrote)]


def _recorded(at: float, lane: str, line: Line, records: Mapping[IntentId, Record]) -> Recorded:
    id, purpose = IntentId.parse(line["id"]), Purpose(line["purpose"])
    record = records.get(id)
    names = [a.hash for a in record.attempts] if record is not None else []
    unproven: tuple[str, ...] = ()
    if record is not None and purpose is Purpose.RESIGN and line["hash"] in names:
        earlier = record.attempts[: names.index(line["hash"])]
        unproven = tuple(a.hash for a in earlier if not a.dead and a.name not in line["deaths"])
    return Recorded(
        at=at,
        lane=lane,
        id=id,
        life=line["life"],
        position=line["position"],
        nonce=line["nonce"],
        hash=line["hash"],
        purpose=purpose,
        deaths=dict.fromkeys(line["deaths"], True),
        unproven=unproven,
        open_below=(),
        alone=(),
    )


def _ends(lines: Sequence[Line], records: Mapping[IntentId, Record]) -> list[Fact]:
    ends: list[Fact] = []
    known: set[tuple[IntentId, str]] = set()
    for line in (line for line in lines if line["what"] == "did_settle"):
        for s in line["batch"]:
            known.add((IntentId.parse(s["id"]), s["life"]))
            ends.append(_ended(line["began"], line["lane"], s))
    for line in (line for line in lines if line["what"] == "try_settle"):
        for s in line["batch"]:
            key = (IntentId.parse(s["id"]), s["life"])
            record = records.get(key[0])
            if key not in known and record is not None and _same(record.outcome, s["outcome"]):
                known.add(key)
                ends.append(_ended(line["at"], line["lane"], s))
    # A cancelled intent ends by its caller's hand; nobody but the ledger wrote it down.
    ends += [
        Ended(0.0, r.lane, r.id, r.life, r.outcome, {})
        for r in records.values()
        if r.status is Status.CANCELLED and r.outcome is not None and (r.id, r.life) not in known
    ]
    return ends


def _ended(at: float, lane: str, line: Line) -> Ended:
    return Ended(
        at, lane, IntentId.parse(line["id"]), line["life"], _outcome(line["outcome"]), dict.fromkeys(line["deaths"], 1)
    )


def _outcome(told: Line) -> Outcome:
    return Outcome(Status(told["status"]), told["tx_hash"], told["nonce"], told["result"], told["error"])


def _plain(outcome: Outcome) -> Outcome:
    """As it looks after a journey through JSON, and as callers are told: without its cost, which budgets alone show."""
    return replace(
        outcome,
        cost=None,
        noop_cost=0,
        result=None if outcome.result is None else json.loads(json.dumps(outcome.result)),
        error=None if outcome.error is None else json.loads(json.dumps(outcome.error)),
    )


def _same(outcome: Outcome | None, told: Line) -> bool:
    return outcome is not None and _plain(outcome) == _outcome(told)


# -- all of it


@dataclass(frozen=True)
class SeenLane:
    state: Any
    reason: str
    evidence: Mapping[str, Any]
    records: Mapping[IntentId, Record]


def judge(
    *,
    lines: Sequence[Line],
    more: Sequence[Fact],
    records: Mapping[IntentId, Record],
    lanes: Sequence[Lane],
    chain: SeenChain,
    keys: Mapping[int, IntentId],
    acknowledged: set[IntentId],
    window: int,
    vouches: bool,
    rolled_back: bool,
    at_end: float,
) -> Checked:
    lives = {id: record.life for id, record in records.items()}
    told = [_with_life(fact, lives) for fact in more]
    born: list[Fact] = [Appended(0.0, r.lane, r.id, r.life, r.position) for r in records.values()]
    final = {
        id: Answered(
            at_end, "end", id, r.life, r.status, None if r.outcome is None else _plain(r.outcome), accepted=False
        )
        for id, r in records.items()
    }
    told = [_with_losses(fact, lines, records) for fact in told]
    one_history = not any(isinstance(fact, Operated | RolledBack) for fact in more)
    happened = sorted([*facts(lines, records, one_history), *told, *final.values()], key=lambda fact: fact.at)
    kinds = ("roll_back",) if rolled_back else ()
    plan = replace(
        draw_plan(0),
        window=window,
        max_inflight=256,
        vouches=vouches,
        retention_ms=7 * 24 * 3600 * 1000,
        events=tuple(Event(kind, 0.0, 0.0, 0.0) for kind in kinds),
    )
    open_records = {id: r for id, r in records.items() if not r.status.final}
    stores = {
        lane.id: SeenLane(
            lane.state, lane.reason, lane.evidence, {i: r for i, r in open_records.items() if r.lane == lane.id}
        )
        for lane in lanes
    }
    evidence: Any = {
        "plan": plan,
        "facts": [*born, *happened],
        "stores": stores,
        "chain": chain,
        "keys": keys,
        "acknowledged": acknowledged,
        "final": final,
        "tampered": set(),
        "landed": set(),
    }
    return check(Checked(**evidence))


def _with_life(fact: Fact, lives: Mapping[IntentId, str]) -> Fact:
    if not isinstance(fact, Answered):
        return fact
    outcome = None if fact.outcome is None else _plain(fact.outcome)
    return replace(fact, life=lives.get(fact.id, ""), outcome=outcome)


def _with_losses(fact: Fact, lines: Sequence[Line], records: Mapping[IntentId, Record]) -> Fact:
    """Which write-aheads a roll-back took: acknowledged before it, and in no record afterwards."""
    if not isinstance(fact, RolledBack):
        return fact
    stored = {attempt.hash for record in records.values() for attempt in record.attempts}
    written = [line for line in lines if line["what"] == "did_record" and line["at"] <= fact.at]
    forgotten = [
        f"{line['lane']} {hash}"
        for line in written
        for hash in line["hashes"]
        if line["lane"] in fact.lost and hash not in stored
    ]
    return replace(fact, forgotten=frozenset(forgotten))
