"""Who may write to a lane, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.sim.mutants.registry import Patch, mutant
from txmanager.core.errors import Fenced
from txmanager.core.ledger import Lease
from txmanager.core.models import Fence
from txmanager.ledger.memory.lanes import LaneStore
from txmanager.runtime.lane.outbox import Outbox
from txmanager.runtime.lane.owner import LeaseLapsed, OwnedLane
from txmanager.runtime.lane.worker import Worker


def _unfenced(operation: str) -> Patch:
    """The operation takes whoever calls for the owner."""
    original = getattr(LaneStore, operation)

    def blind(self: LaneStore, fence: Fence, *args: Any) -> Any:
        return original(self, replace(fence, epoch=self.epoch, token=self.token), *args)

    return patch.object(LaneStore, operation, blind)


@mutant("take does not check the fence")
def no_fence_in_take() -> Sequence[Patch]:
    return [_unfenced("take")]


@mutant("settle does not check the fence")
def no_fence_in_settle() -> Sequence[Patch]:
    return [_unfenced("settle")]


@mutant("record_attempts does not check the fence: two owners write ahead")
def no_fence_in_write_ahead() -> Sequence[Patch]:
    return [_unfenced("record_attempts")]


@mutant("the fence is the epoch alone: one that a roll-back forgot comes again")
def fence_by_epoch_alone() -> Sequence[Patch]:
    def check(self: LaneStore, fence: Fence) -> None:
        if self.epoch != fence.epoch:
            raise Fenced(self.spec.id, self.owner, self.epoch)

    renew = LaneStore.renew

    def renew_by_epoch(self: LaneStore, fence: Fence, *args: Any) -> Any:
        return renew(self, replace(fence, token=self.token), *args)

    return [patch.object(LaneStore, "check_fence", check), patch.object(LaneStore, "renew", renew_by_epoch)]


@mutant("a take-over does not raise the epoch and keeps the token")
def lease_without_a_new_fence() -> Sequence[Patch]:
    original = LaneStore.lease

    def lease(self: LaneStore, owner: str, token: str, lease_ms: int, now: int, found: str) -> Lease:
        if self.token and self.lease_until <= now:
            token = self.token
        return original(self, owner, token, lease_ms, now, found)

    return [patch.object(LaneStore, "lease", lease)]


@mutant("the lease of a lane whose loop ended is renewed for ever")
def lease_renewed_by_a_dead_loop() -> Sequence[Patch]:
    broadcast = Outbox._broadcast

    async def die(self: Outbox, batch: Sequence[Any]) -> int:
        if (taken := await broadcast(self, batch)) < len(batch):
            raise LeaseLapsed("the loop of this lane ends")
        return taken

    async def keep(self: Worker, lane: OwnedLane) -> None:
        return None

    return [patch.object(Outbox, "_broadcast", die), patch.object(Worker, "_release", keep)]
