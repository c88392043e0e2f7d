"""Reads a history once and says which promises were broken. Knows nothing of how the code works, only what it owes.

1. one effect at most for each life of a key, and none that was never written ahead;
2. every acknowledged intent ends, or waits under a name;
3. first attempts of a lane in order of acceptance; with window 1 the effects too;
4. every answer about an ended intent is the same, and is what the chain says;
5. nothing is done by an owner after the lane went to another; every proof of death stays true;
6. what operators rely on: a held intent does nothing by itself, a paused lane signs no first attempt and a quarantined
   one nothing, whoever takes a lane over signs nothing on top of a stranger's nonce, a moved claim is accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.sim.history import (
    Answered,
    Appended,
    Broke,
    Closed,
    Ended,
    Fact,
    Held,
    Leased,
    Moved,
    Operated,
    Recorded,
    Released,
    Retired,
    RolledBack,
    Sent,
    Wrote,
)
from tests.sim.plan import Plan
from tests.sim.rules import broken_by_attempt, broken_by_end
from txmanager.core.models import IntentId, Purpose
from txmanager.core.states import LaneState, Status
from txmanager.devnet.chain import Chain
from txmanager.devnet.model import Transfer
from txmanager.devnet.views import b58
from txmanager.ledger.memory.lanes import LaneStore

Key = tuple[IntentId, str]


def order(position: str) -> tuple[int, ...]:
    return tuple(map(int, position.split("-")))


def blocked_by_holds(plan: Plan, store: LaneStore) -> bool:
    """Whether what is queued waits, visibly, for held intents to be resolved."""
    held = sum(1 for record in store.records.values() if record.status is Status.HELD)
    return held >= (1 if plan.window == 1 else plan.max_inflight)


@dataclass(slots=True)
class Checked:
    """The evidence of one schedule, and what was found in it."""

    plan: Plan
    facts: Sequence[Fact]
    stores: Mapping[str, LaneStore]
    chain: Chain
    keys: Mapping[int, IntentId]
    """Which intent an amount on chain belongs to."""
    acknowledged: set[IntentId]
    final: Mapping[IntentId, Answered]
    tampered: set[str]
    landed: set[str]
    violations: list[str] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    damaged: set[str] = field(default_factory=set)
    """Lanes whose cursor somebody moved in the ledger itself."""


@dataclass(slots=True)
class _Memory:
    owners: dict[str, tuple[int, str] | None] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    lost: dict[str, set[str]] = field(default_factory=dict)
    """Lanes whose ledger forgot writes of an owner: those that nobody wrote again yet."""
    rolled_back: bool = False
    streams: dict[Key, tuple[str, str]] = field(default_factory=dict)
    lives: dict[IntentId, list[str]] = field(default_factory=dict)
    last_first: dict[str, tuple[tuple[int, ...], int, str]] = field(default_factory=dict)
    firsts: set[Key] = field(default_factory=set)
    attempts: dict[str, Recorded] = field(default_factory=dict)
    nonces: dict[tuple[str, int], str] = field(default_factory=dict)
    dead: dict[str, str] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    last_sent: dict[str, int] = field(default_factory=dict)
    ended: dict[Key, Ended] = field(default_factory=dict)
    told: dict[Key, Answered] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    solo: dict[str, Recorded] = field(default_factory=dict)
    retired: dict[Key, float] = field(default_factory=dict)
    killed: set[Key] = field(default_factory=set)
    """Intents with a no-op."""
    moved: dict[IntentId, Moved] = field(default_factory=dict)
    failed_over: bool = False
    foretold: dict[Key, Answered] = field(default_factory=dict)
    """Told before it ended: what the chain shows may be lost with a server, since it is found again. It must be."""


def check(evidence: Checked) -> Checked:
    memory = _Memory()
    memory.failed_over = any(isinstance(fact, Operated) and fact.what == "failover" for fact in evidence.facts)
    for fact in evidence.facts:
        _HANDLERS[type(fact)](evidence, memory, fact)
    _check_chain(evidence, memory)
    _check_ends(evidence, memory)
    _check_lanes(evidence)
    return evidence


def _say(evidence: Checked, at: float, words: str) -> None:
    evidence.violations.append(f"{at:.3f} {words}")


# -- while it happened


def _leased(evidence: Checked, memory: _Memory, fact: Leased) -> None:
    before = memory.owners.get(fact.lane)
    if before is not None and before[1] != fact.token and fact.epoch <= before[0] and not memory.rolled_back:
        _say(evidence, fact.at, f"lane {fact.lane[-6:]} went to {fact.owner} without a new epoch")
    memory.owners[fact.lane] = (fact.epoch, fact.token)
    memory.unsure.discard(fact.lane)


def _released(evidence: Checked, memory: _Memory, fact: Released) -> None:
    owner = memory.owners.get(fact.lane)
    if owner is not None and owner[1] == fact.token:
        memory.owners[fact.lane] = None


def _wrote(evidence: Checked, memory: _Memory, fact: Wrote) -> None:
    if fact.lane not in memory.unsure and memory.owners.get(fact.lane) != (fact.epoch, fact.token):
        _say(
            evidence, fact.at, f"{fact.operation} on {fact.lane[-6:]} by an owner that was fenced (epoch {fact.epoch})"
        )


def _appended(evidence: Checked, memory: _Memory, fact: Appended) -> None:
    key = (fact.id, fact.life)
    if key in memory.streams and not memory.rolled_back:
        _say(evidence, fact.at, f"{fact.id.key} was queued twice in one life")
    memory.streams[key] = (fact.lane, fact.position)
    lives = memory.lives.setdefault(fact.id, [])
    if fact.life not in lives:
        lives.append(fact.life)
    if len(lives) > 1 and lives[-1] == fact.life and not memory.rolled_back:
        before = memory.retired.get((fact.id, lives[-2]))
        drift_ms = 100_000 if any(e.kind == "server_clock_jump" for e in evidence.plan.events) else 1
        if before is None or (fact.at - before) * 1000 + drift_ms < evidence.plan.retention_ms:
            _say(evidence, fact.at, f"{fact.id.key} got a second life before the first one's retention was over")


def _recorded(evidence: Checked, memory: _Memory, fact: Recorded) -> None:
    key, name = (fact.id, fact.life), fact.id.key
    forgotten = memory.lost.get(fact.lane)
    if forgotten is not None and fact.hash in forgotten:
        # An owner that never heard of its write writes the same bytes again: nothing else ever came of them.
        forgotten.discard(fact.hash)
        if not forgotten:
            del memory.lost[fact.lane]
        return
    if forgotten is not None:
        _say(evidence, fact.at, f"{name} was signed on a lane whose ledger was rolled back")
        return
    owner = memory.nonces.setdefault((fact.lane, fact.nonce), fact.hash)
    if owner != fact.hash:
        _say(evidence, fact.at, f"nonce {fact.nonce} was handed out twice, again for {name}")
    memory.attempts[fact.hash] = fact
    for dead in fact.deaths:
        memory.dead[dead.partition(":")[2]] = name
    for words in broken_by_attempt(fact):
        _say(evidence, fact.at, words)
    if fact.purpose is Purpose.NOOP:
        memory.killed.add(key)
    if fact.purpose is Purpose.FIRST:
        _first(evidence, memory, fact)
        return
    if fact.purpose is Purpose.RESIGN and fact.unproven:
        _say(evidence, fact.at, f"{name} was signed again without a proof of death")
    if fact.open_below:
        _say(evidence, fact.at, f"{fact.purpose} of {name} could overtake {len(fact.open_below)} lower nonces")
    if fact.purpose is Purpose.RESIGN and key not in memory.firsts:
        _say(evidence, fact.at, f"{name} was signed again before it was signed")


def _first(evidence: Checked, memory: _Memory, fact: Recorded) -> None:
    key = (fact.id, fact.life)
    if key in memory.firsts:
        _say(evidence, fact.at, f"{fact.id.key} got a second first attempt")
    if fact.alone:
        _say(evidence, fact.at, f"{fact.id.key} followed a re-sign or a no-op that may still land")
    memory.firsts.add(key)
    place = (order(fact.position), fact.nonce, fact.id.key)
    before = memory.last_first.get(fact.lane)
    if before is not None and (place[0] <= before[0] or place[1] <= before[1]):
        _say(evidence, fact.at, f"{fact.id.key} was signed after {before[2]}, which was accepted later")
    memory.last_first[fact.lane] = place


def _sent(evidence: Checked, memory: _Memory, fact: Sent) -> None:
    if not fact.known:
        _say(evidence, fact.at, f"{fact.hash[:8]} was sent by {fact.process} before it was written ahead")
        return
    attempt = memory.attempts.get(fact.hash)
    if attempt is None and not memory.rolled_back:
        _say(evidence, fact.at, f"{fact.hash[:8]} was sent, and its write-ahead did not outlive the server")
    if attempt is None or fact.hash in memory.sent:
        return
    memory.sent.add(fact.hash)
    if attempt.nonce < memory.last_sent.get(attempt.lane, -1):
        _say(evidence, fact.at, f"{attempt.id.key} (nonce {attempt.nonce}) was first sent after a higher nonce")
    memory.last_sent[attempt.lane] = max(attempt.nonce, memory.last_sent.get(attempt.lane, -1))


def _ended(evidence: Checked, memory: _Memory, fact: Ended) -> None:
    key = (fact.id, fact.life)
    again = memory.ended.get(key)
    # What the chain shows is settled unconfirmed: after a failover it may have to be written once more, the same.
    same = memory.failed_over and again is not None and again.outcome == fact.outcome
    if again is not None and not memory.rolled_back and not same:
        _say(evidence, fact.at, f"{fact.id.key} ended twice")
    for words in broken_by_end(fact, killed=key in memory.killed):
        _say(evidence, fact.at, words)
    memory.ended[key] = fact
    for dead in fact.deaths:
        memory.dead[dead.partition(":")[2]] = fact.id.key


def _answered(evidence: Checked, memory: _Memory, fact: Answered) -> None:
    if not fact.status.final or memory.rolled_back:
        return
    key = (fact.id, fact.life)
    before = memory.told.setdefault(key, fact)
    if (before.status, before.outcome) != (fact.status, fact.outcome):
        _say(evidence, fact.at, f"{fact.id.key} was answered {fact.status}, and {before.status} before")
    end = memory.ended.get(key)
    if end is None and memory.failed_over and fact.outcome is not None and fact.outcome.tx_hash is not None:
        memory.foretold[key] = fact
        return
    if end is None or (end.outcome.status, end.outcome) != (fact.status, fact.outcome):
        _say(evidence, fact.at, f"{fact.id.key} was answered {fact.status}, which is not how it ended")


def _retired(evidence: Checked, memory: _Memory, fact: Retired) -> None:
    memory.retired.setdefault((fact.id, fact.life), fact.at)


def _held(evidence: Checked, memory: _Memory, fact: Held) -> None:
    memory.held.add(fact.lane)


def _moved(evidence: Checked, memory: _Memory, fact: Moved) -> None:
    memory.moved[fact.id] = fact


def _closed(evidence: Checked, memory: _Memory, fact: Closed) -> None:
    if fact.records:
        _say(evidence, fact.at, f"lane {fact.lane[-6:]} was closed with {fact.records} records in it")


def _rolled_back(evidence: Checked, memory: _Memory, fact: RolledBack) -> None:
    memory.rolled_back = True
    for lane in fact.lost:
        memory.lost.setdefault(lane, set())
    for attempt in fact.forgotten:
        lane, _, hash = attempt.partition(" ")
        memory.lost[lane].add(hash)
    memory.unsure |= set(memory.owners)


def _operated(evidence: Checked, memory: _Memory, fact: Operated) -> None:
    if fact.what != "rebaseline":
        return
    # An operator vouches for it: it may sign again, and what was forgotten may be signed as if it never had been.
    for hash in memory.lost.pop(fact.lane, ()):
        attempt = memory.attempts.get(hash)
        if attempt is not None:
            memory.nonces.pop((attempt.lane, attempt.nonce), None)
            memory.firsts.discard((attempt.id, attempt.life))
    memory.last_first.pop(fact.lane, None)
    memory.last_sent.pop(fact.lane, None)


def _broke(evidence: Checked, memory: _Memory, fact: Broke) -> None:
    _say(evidence, fact.at, fact.what)


_HANDLERS: dict[type, Any] = {
    Leased: _leased,
    Released: _released,
    Wrote: _wrote,
    Appended: _appended,
    Recorded: _recorded,
    Sent: _sent,
    Ended: _ended,
    Answered: _answered,
    Held: _held,
    Moved: _moved,
    Retired: _retired,
    Closed: _closed,
    RolledBack: _rolled_back,
    Operated: _operated,
    Broke: _broke,
}


# -- when it was over


def _check_chain(evidence: Checked, memory: _Memory) -> None:
    effects: Counter[Key] = Counter()
    where: dict[str, list[tuple[tuple[int, ...], str]]] = {}
    for block in evidence.chain.blocks:
        for tx in block.txs:
            name = b58(tx.hash)
            if name in memory.dead:
                _say(evidence, 0, f"{memory.dead[name]}: {name[:8]} was proven dead, and is on chain")
            [action] = tx.actions
            if not isinstance(action, Transfer) or action.deposit not in evidence.keys:
                continue
            attempt = memory.attempts.get(name)
            if attempt is None:
                _say(evidence, 0, f"{evidence.keys[action.deposit].key}: on chain, and never written ahead")
                continue
            effects[attempt.id, attempt.life] += 1
            stream = memory.streams.get((attempt.id, attempt.life))
            if stream is not None:
                where.setdefault(attempt.lane, []).append((order(stream[1]), attempt.id.key))
    for (id, _), count in effects.items():
        if count > 1:
            _say(evidence, 0, f"{id.key} took effect {count} times")
    for key, told in memory.foretold.items():
        end = memory.ended.get(key)
        if end is None:
            _check_unended(evidence, told)
        elif end.outcome != told.outcome:
            _say(evidence, told.at, f"{told.id.key} was answered {told.status}, and did not end so")
    for (id, life), end in memory.ended.items():
        _check_end(evidence, memory, end, effects[id, life])
    if evidence.plan.window == 1:
        for lane, seen in where.items():
            if seen != sorted(seen) and lane not in memory.held and lane not in evidence.tampered:
                _say(evidence, 0, f"window 1, and yet executed as {', '.join(key for _, key in seen)}")


def _check_unended(evidence: Checked, told: Answered) -> None:
    """Told, lost with a server, and not found again, since nodes have collected it: held, and true all the same."""
    lane = next((s for s in evidence.stores.values() if told.id in s.records), None)
    waits = lane is not None and (lane.state is LaneState.QUARANTINED or lane.records[told.id].status is Status.HELD)
    hash = told.outcome.tx_hash if told.outcome is not None else None
    record = next((r for h, r in evidence.chain.records.items() if b58(h) == hash), None)
    failed = record is None or any(o.failed for o in record.outcomes)
    if not waits or record is None or failed != (told.status is Status.FAILED):
        _say(evidence, told.at, f"{told.id.key} was answered {told.status}, and did not end so")


def _check_end(evidence: Checked, memory: _Memory, end: Ended, effects: int) -> None:
    outcome, key = end.outcome, end.id.key
    evidence.ends[outcome.status] += 1
    if outcome.tx_hash is None:
        if effects and not memory.rolled_back:
            _say(evidence, end.at, f"{key} ended {outcome.status}, and took effect")
        return
    record = next((r for h, r in evidence.chain.records.items() if b58(h) == outcome.tx_hash), None)
    if record is None:
        _say(evidence, end.at, f"{key} ended {outcome.status} by {outcome.tx_hash[:8]}, which is not on chain")
        return
    failed = any(o.failed for o in record.outcomes)
    if failed != (outcome.status is Status.FAILED):
        _say(evidence, end.at, f"{key} ended {outcome.status}, and the chain says {'failed' if failed else 'done'}")
    blocks = {b58(block.hash) for block in (evidence.chain.by_height[record.height],)}
    if outcome.result is not None and outcome.result.get("block_hash") not in blocks:
        _say(evidence, end.at, f"{key} ended by a block that is not on the chain")


def _check_ends(evidence: Checked, memory: _Memory) -> None:
    missing = set(evidence.keys.values()) - evidence.acknowledged
    open_lanes = any(s.state is LaneState.ACTIVE for s in evidence.stores.values())
    if missing and open_lanes:
        _say(evidence, 0, f"never accepted: {', '.join(sorted(id.key for id in missing)[:20])}")
    for id, move in sorted(memory.moved.items()):
        store = evidence.stores.get(move.lane)
        if id in missing and store is not None and store.state is not LaneState.CLOSED:
            _say(evidence, move.at, f"{id.key} was moved to another lane and never accepted there")
    for id in sorted(evidence.acknowledged):
        fact = evidence.final.get(id)
        if fact is None:
            lapsed = any(life_id == id for life_id, _ in memory.retired) and evidence.plan.retention_ms < 3_600_000
            if not memory.rolled_back and not lapsed:
                _say(evidence, 0, f"{id.key} was acknowledged and is lost")
            continue
        if fact.status.final or fact.status is Status.HELD:
            evidence.ends["held"] += fact.status is Status.HELD
            continue
        lane = next((s for s in evidence.stores.values() if id in s.records), None)
        if lane is not None and lane.state is LaneState.QUARANTINED:
            evidence.ends["quarantined"] += 1
            continue
        if lane is not None and blocked_by_holds(evidence.plan, lane):
            evidence.ends["behind a held one"] += 1
            continue
        state = f"lane {lane.state} {lane.reason}" if lane is not None else "no lane"
        _say(evidence, 0, f"{id.key} is still {fact.status} ({state})")


def _check_lanes(evidence: Checked) -> None:
    """A lane stops for a cause, not out of fear. One that works retires what ended."""
    kinds = {event.kind for event in evidence.plan.events}
    for lane, store in evidence.stores.items():
        if store.state is not LaneState.QUARANTINED:
            for record in store.records.values():
                if record.status.final:
                    _say(evidence, 0, f"{record.id.key} ended {record.status}, and was never retired")
            continue
        moved = bool(kinds & {"ledger_restart", "roll_back"}) and not evidence.plan.vouches
        foreign = lane in evidence.tampered or "roll_back" in kinds
        lost = "roll_back" in kinds  # an owner that sees its own transaction land, and its write-ahead gone
        causes = {
            "foreign_nonce_use": foreign,
            "ledger_rolled_back": moved,
            "unexplained_outcome": lost,
            "cursor_moved": lane in evidence.damaged,
        }
        if not causes.get(store.reason, False):
            _say(evidence, 0, f"lane {lane[-6:]} is quarantined without a cause: {store.reason} {store.evidence}")
