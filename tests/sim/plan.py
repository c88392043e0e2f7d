"""A plan: all that one schedule is made of, drawn from its seed before it starts. Shrinking makes a plan smaller."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

LEDGER = ("lost_request", "lost_reply", "late_request", "duplicate", "slow", "crash", "pause")
"""Faults of one ledger call, drawn at each call."""
RPC = (
    "rpc_lost",
    "rpc_timeout",
    "rpc_late",
    "rpc_error",
    "rpc_rate_limit",
    "rpc_refusal",
    "rpc_duplicate",
    "rpc_slow",
    "rpc_crash",
    "rpc_pause",
)
"""Faults of one call to a node."""
ROUTE = ("drop", "overtake", "delay", "congestion", "false_expiry")
"""Faults of one transaction on its way into the chain."""
WAKE = ("lost_wake",)
POINT = ("crash_point",)
"""A crash at a named point of the lane's loop, between two awaits."""
TIMED = (
    "kill",
    "freeze",
    "graceful_restart",
    "worker_clock_jump",
    "server_clock_jump",
    "ledger_restart",
    "roll_back",
    "node_lag",
    "stall",
    "reorg",
    "foreign_use",
    "funds_gone",
    "lane_pause",
    "lane_drain",
    "lane_add",
    "lane_close",
    "cancel",
    "retry_now",
    "producer_crash",
    "everybody_down",
    "replica_cut",
    "failover",
    "rebaseline",
    "resolve_held",
)
"""Events at a moment drawn in advance."""
GROUPS: Mapping[str, tuple[str, ...]] = {"ledger": LEDGER, "rpc": RPC, "route": ROUTE, "wake": WAKE, "point": POINT}
ALL = (*LEDGER, *RPC, *ROUTE, *WAKE, *POINT, *TIMED)

_BASE = {
    "lost_request": 0.01,
    "lost_reply": 0.01,
    "late_request": 0.006,
    "duplicate": 0.008,
    "slow": 0.01,
    "crash": 0.002,
    "pause": 0.001,
    "rpc_lost": 0.02,
    "rpc_timeout": 0.02,
    "rpc_late": 0.015,
    "rpc_error": 0.02,
    "rpc_rate_limit": 0.01,
    "rpc_refusal": 0.2,
    "rpc_duplicate": 0.05,
    "rpc_slow": 0.02,
    "rpc_crash": 0.004,
    "rpc_pause": 0.002,
    "drop": 0.12,
    "overtake": 0.15,
    "delay": 0.08,
    "congestion": 0.06,
    "false_expiry": 0.03,
    "lost_wake": 0.2,
    "crash_point": 0.02,
}
_OFTEN = {
    "kill": 0.5,
    "freeze": 0.5,
    "graceful_restart": 0.25,
    "worker_clock_jump": 0.2,
    "server_clock_jump": 0.12,
    "ledger_restart": 0.15,
    "roll_back": 0.08,
    "node_lag": 0.5,
    "stall": 0.12,
    "reorg": 0.3,
    "foreign_use": 0.05,
    "funds_gone": 0.08,
    "lane_pause": 0.2,
    "lane_drain": 0.25,
    "lane_add": 0.2,
    "lane_close": 0.3,
    "cancel": 0.35,
    "retry_now": 0.9,
    "producer_crash": 0.3,
    "everybody_down": 0.12,
    "replica_cut": 0.25,
    "failover": 0.4,
    "rebaseline": 0.5,
    "resolve_held": 0.5,
}
_PER_INTENT = ("cancel", "retry_now")


@dataclass(frozen=True, slots=True)
class Event:
    """One timed fault: what, when, and two numbers in [0, 1) that its meaning is made of."""

    kind: str
    at_s: float
    a: float
    b: float


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    lanes: int
    spare_lanes: int
    workers: int
    producers: int
    intents: int
    window: int
    max_inflight: int
    chaos_s: float
    block_ms: int
    validity: int
    epoch_blocks: int
    nodes: tuple[str, ...]
    """`direct`: one identified node each; `balancer`: every call goes to any of the chain's nodes."""
    lease_ms: int
    vouches: bool
    hold_after_ms: int
    retention_ms: int
    loss: float
    same_name: bool
    shuffle: float
    rates: Mapping[str, float]
    events: tuple[Event, ...]
    skipped: frozenset[tuple[str, int]] = frozenset()
    """Faults (group, ordinal) that a shrunk schedule leaves out."""
    one_step: bool = False
    """Whether one server holds homes and lanes: a new key is claimed and appended at once."""
    more: Mapping[str, Any] = field(default_factory=dict)

    def without(self, kind: str) -> Plan:
        rates = {k: v for k, v in self.rates.items() if k != kind}
        return replace(self, rates=rates, events=tuple(e for e in self.events if e.kind != kind))


def draw(seed: int) -> Plan:
    rng = random.Random(f"plan:{seed}")
    lanes = rng.choice((1, 1, 1, 2, 2))
    fast_collection, holds_soon = rng.random() < 0.12, rng.random() < 0.15
    short_validity = rng.random() < 0.25
    vouches = rng.random() < 0.7
    heat = rng.choice((0.3, 1.0, 1.0, 2.0, 4.0))
    rates = {kind: rate * heat * rng.choice((0.5, 1.0, 2.0)) for kind, rate in _BASE.items() if rng.random() < 0.5}
    chaos_s = rng.uniform(12.0, 30.0)
    intents = rng.randint(2, 8)
    events = []
    for kind, often in _OFTEN.items():
        times = intents if kind in _PER_INTENT else 2
        chance = often / 2 if kind in _PER_INTENT or often >= 0.5 else often / times
        for _ in range(times):
            if rng.random() < chance:
                events.append(Event(kind, rng.uniform(1.0, chaos_s), rng.random(), rng.random()))
    if fast_collection and rng.random() < 0.7:
        # Nodes forget while nobody looks: the only way to meet what was collected.
        events.append(Event("everybody_down", rng.uniform(2.0, chaos_s / 2), rng.random(), rng.uniform(0.5, 1.0)))
    if fast_collection or holds_soon:
        # Holds are due by the wall clock: one that is behind others delays them as much, as docs/simulation.md says.
        jumped = {e: replace(e, a=1.0, b=0.5 + e.b / 2) for e in events if e.kind == "worker_clock_jump"}
        events = [jumped.get(e, e) for e in events]
    forgetful = rng.random() < 0.15
    if forgetful:
        # An answer is kept for seconds here, and days in earnest; no request is under way for longer than that.
        rates = {kind: rate for kind, rate in rates.items() if kind not in ("late_request", "duplicate")}
    kinds = {e.kind for e in events}
    if "lane_close" in kinds:
        lanes = max(lanes, 2)
    if "roll_back" in kinds:
        # A store that forgets vouches for nothing; whoever rebaselines or adds lanes on top of it vouches in its place.
        vouches = False
        once = next(e for e in events if e.kind == "roll_back")  # a second one might bring back what the first took
        events = [e for e in events if e.kind != "roll_back" or e is once]
        # And a clock that jumps ends leases early, which a store that forgets can hide.
        events = [e for e in events if e.kind not in ("rebaseline", "lane_add", "lane_close", "server_clock_jump")]
        if rng.random() < 0.3:
            # Back to the very beginning, while the first transactions are still being sent.
            start = replace(once, at_s=rng.uniform(0.2, 1.5), a=rng.uniform(0.1, 0.8), b=0.3 * once.b)
            events = [start if e is once else e for e in events]
            rates |= {"rpc_lost": 0.45, "rpc_duplicate": 0.3, "rpc_refusal": 0.15}
    if not (vouches and rng.random() < 0.5):  # kept by a disk, or by nothing: there is no replica
        events = [e for e in events if e.kind not in ("replica_cut", "failover")]
    kinds = {e.kind for e in events}
    nodes = rng.choice((("direct",), ("direct", "direct"), ("balancer",), ("balancer", "direct")))
    return Plan(
        seed=seed,
        lanes=lanes,
        spare_lanes=1 if "lane_add" in kinds else 0,
        workers=rng.choice((1, 2, 2, 3)),
        producers=rng.choice((1, 2)),
        intents=intents,
        window=rng.choice((1, 2, 4, 16)),
        max_inflight=rng.choice((3, 8, 256)),
        chaos_s=chaos_s,
        block_ms=rng.choice((600, 1000)),
        validity=rng.randint(12, 30) if short_validity else 86_400,
        epoch_blocks=3 if fast_collection else 20_000,
        nodes=nodes,
        lease_ms=rng.choice((3000, 5000)),
        vouches=vouches,
        hold_after_ms=rng.choice((5_000, 12_000, 20_000)) if fast_collection or holds_soon else 24 * 3600 * 1000,
        retention_ms=rng.choice((12_000, 25_000)) if forgetful else 7 * 24 * 3600 * 1000,
        loss=rng.choice((0.0, 0.0, 0.2)),
        same_name=rng.random() < 0.5,
        shuffle=rng.choice((0.0, 0.1)),
        rates=rates,
        events=tuple(sorted(events, key=lambda e: e.at_s)),
        one_step=random.Random(f"steps:{seed}").random() < 0.5,
    )
