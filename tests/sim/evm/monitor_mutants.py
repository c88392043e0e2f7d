"""Seeded bugs of the monitor and of what owners do at its request: each a plausible mistake, put in by patching."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.sim.evm.planting import Bugs, Patch, arm_instead
from txmanager.core import alive
from txmanager.core.alive import Alive
from txmanager.core.budgets import Budget
from txmanager.core.chain import NonceView
from txmanager.core.decide import Kill, Policy, Replace, Step
from txmanager.core.gaps import Gaps
from txmanager.core.kills import Doom, KillCause
from txmanager.core.lane_plan import LanePlan
from txmanager.core.models import Lane
from txmanager.runtime.care import top_ups
from txmanager.runtime.care.monitor import Monitor
from txmanager.runtime.lane.checks import Checks
from txmanager.runtime.lane.gaps import GapFiller

MUTANTS = Bugs()
mutant, planted = MUTANTS.mutant, MUTANTS.planted


@mutant
def gaps_are_never_filled() -> Sequence[Patch]:
    return [patch.object(Gaps, "due", lambda self, now: [])]


@mutant
def drift_lowers_the_cursor() -> Sequence[Patch]:
    """Where the chain is behind, its count is taken for the next nonce."""
    sound = GapFiller.see

    def see(self: GapFiller, view: NonceView) -> None:
        lane = self._lane
        store = lane.context.ledger.stores[lane.id]  # type: ignore[attr-defined]
        if store.cursor is not None and view.next_nonce < store.cursor and not len(lane.plan.flights):
            store.cursor = lane.plan.head.cursor = view.next_nonce
        sound(self, view)

    return [patch.object(GapFiller, "see", see)]


@mutant
def number_of_an_intent_is_filled() -> Sequence[Patch]:
    """What is in flight is not looked at: every number that the chain has not used looks empty."""

    def unowned(self: LanePlan, start: int) -> list[int]:
        filled = {a.nonce for a in self.gaps.fills}
        return [n for n in range(start, self.head.cursor) if n not in filled]

    return [patch.object(LanePlan, "unowned", unowned)]


@mutant
def fill_sent_before_it_is_written_ahead() -> Sequence[Patch]:
    async def late(self: GapFiller, nonces: Sequence[int]) -> None:
        lane, now = self._lane, self._lane.context.clock()
        signed = [await lane.chain.noop(lane.id, nonce, (), now) for nonce in nonces]
        await lane.chain.broadcast(lane.id, [a for a in signed if a is not None])
        self._gaps.fills = await lane.context.ledger.fill(lane.fence, [a for a in signed if a is not None])
        self._gaps.empty = {}

    return [patch.object(GapFiller, "fill", late)]


@mutant
def late_ones_are_given_up_whatever_they_wait_for() -> Sequence[Patch]:
    def overdue(case: Alive) -> Step | None:
        limit = case.policy.cancel_after_ms
        if limit is None or case.to_kill or case.noops or case.seen.priced_out:
            return None
        late = case.now - min(a.signed_at for a in case.attempts) >= limit
        return Kill(Doom(KillCause.OVERDUE, "late"), "late") if late else None

    return [arm_instead(alive.kill_overdue, overdue)]


@mutant
def given_up_without_being_asked() -> Sequence[Patch]:
    def overdue(case: Alive) -> Step | None:
        policy = Policy(cancel_after_ms=case.policy.cancel_after_ms or 8_000)
        return alive.kill_overdue(replace(case, policy=policy))

    return [arm_instead(alive.kill_overdue, overdue)]


@mutant
def every_late_nonce_is_bumped() -> Sequence[Patch]:
    """Not the lowest alone: whatever waits offers more, for nothing."""

    def slow(case: Alive) -> Step | None:
        newest = max(case.rivals, key=lambda a: a.signed_at)
        late = case.now - newest.signed_at >= case.policy.replace_after_ms
        return Replace(newest, "late") if late and not case.seen.priced_out else None

    return [arm_instead(alive.offer_more_when_slow, slow)]


@mutant
def monitor_takes_the_lease() -> Sequence[Patch]:
    act = Monitor._act

    async def grabbing(self: Monitor, lane: Lane, seen: Any) -> None:
        if seen.alerts:
            await self._ledger.lease(lane.id, self._name, f"{self._name}:{self.rounds}:{lane.id}", 1_000)
        await act(self, lane, seen)

    return [patch.object(Monitor, "_act", grabbing)]


@mutant
def top_up_that_does_not_wait_for_the_last_one() -> Sequence[Patch]:
    """Each has a key of its own, and what was asked for before is not looked at."""
    keys = itertools.count()

    def once(purse: str, units: int, every_ms: int) -> Budget:
        return Budget(f"purse:{purse}:{next(keys)}", units, every_ms)

    return [
        patch.object(top_ups, "top_up_key", lambda *told: f"top-up:{next(keys)}"),
        patch.object(top_ups, "one_at_a_time", once),
        patch.object(top_ups, "settled_recently", lambda usage, budget: False),
    ]


@mutant
def foreign_use_of_an_idle_lane_is_taken_over() -> Sequence[Patch]:
    """A chain beyond the cursor is followed instead of asked about."""
    look = Checks.look

    async def follow(self: Checks) -> None:
        lane = self._lane
        view = await lane.chain.nonce(lane.id)
        if view.next_nonce > lane.plan.head.cursor:
            store = lane.context.ledger.stores[lane.id]  # type: ignore[attr-defined]
            store.cursor = lane.plan.head.cursor = view.next_nonce
        await look(self)

    return [patch.object(Checks, "look", follow)]
