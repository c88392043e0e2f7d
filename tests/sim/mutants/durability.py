"""What outlives a server: roll-backs and replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.sim.ledger import SimLedger
from tests.sim.mutants.registry import Patch, mutant
from txmanager.core.ledger import WriteAhead
from txmanager.core.models import Fence, Record
from txmanager.ledger.memory import ledger as memory_ledger
from txmanager.runtime.lane.checks import Checks
from txmanager.runtime.lane.outbox import Outbox


@mutant("a rolled-back ledger is trusted: what it forgot is signed again")
def resign_after_a_roll_back() -> Sequence[Patch]:
    original = Checks.history

    async def trust(self: Checks, lane: Any, remembered: Any) -> None:
        self._lane.context.ledger.vouches = True  # type: ignore[misc]
        await original(self, lane, remembered)

    return [patch.object(Checks, "history", trust)]


@mutant("an owner whose lease lapsed vouches for a rolled-back ledger by what it remembers")
def former_owner_vouches() -> Sequence[Patch]:
    known: dict[tuple[int, str], Any] = {}
    record, check = Outbox.write_ahead, Checks.history

    async def remember(self: Outbox, writes: Sequence[WriteAhead], **asked: Any) -> bool:
        done = await record(self, writes, **asked)
        lane = self._lane
        if done:
            lane.plan.head.signed_upto = writes[-1].position
        known[id(lane.context), lane.id] = replace(lane.plan.head)
        return done

    async def recall(self: Checks, lane: Any, footing: Any) -> None:
        await check(self, lane, footing or known.get((id(self._lane.context), self._lane.id)))

    return [patch.object(Outbox, "write_ahead", remember), patch.object(Checks, "history", recall)]


@mutant("a caller is told 'cancelled' by a server that no replica follows")
def told_before_it_is_durable() -> Sequence[Patch]:
    return [patch.object(memory_ledger, "_unsure", lambda read: False)]


@mutant("a successor sends what its predecessor wrote ahead and no replica has")
def unconfirmed_write_ahead_is_sent_by_the_next_owner() -> Sequence[Patch]:
    async def unfinished(self: SimLedger, fence: Fence) -> list[Record]:
        return await self._step("unfinished", lambda _: self._fenced(fence).unfinished(fence))

    return [patch.object(SimLedger, "unfinished", unfinished)]


@mutant("WAIT counts after a replay that wrote nothing: it has nothing to wait for, and confirms at once")
def wait_after_a_replay_that_wrote_nothing() -> Sequence[Patch]:
    return [patch.object(SimLedger, "waits_for_replicas", lambda self, wrote: wrote)]
