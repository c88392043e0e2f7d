"""What schedules found once, put in again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.sim.mutants.registry import Patch, deciding_instead, mutant
from txmanager.core import decide as deciding
from txmanager.core import signing_plan
from txmanager.core.chain import SendReply
from txmanager.core.decide import Observation, Step, Wait
from txmanager.core.flights import Flight
from txmanager.core.models import Attempt, Purpose, Record
from txmanager.core.states import LaneState
from txmanager.core.stops import StopCause
from txmanager.core.write_head import WriteHead
from txmanager.runtime.lane import tracker as runtime_tracker
from txmanager.runtime.lane.owner import OwnedLane
from txmanager.runtime.lane.requests import Requests
from txmanager.runtime.lane.sender import Sender
from txmanager.runtime.lane.worker import Worker


@mutant("a worker whose lane ended by itself during a renewal dies of it")
def worker_dies_with_its_lane() -> Sequence[Patch]:
    async def give_back(self: Worker, lane: str) -> None:
        held = self._held.pop(lane)
        await asyncio.sleep(0)
        held.task.cancel()
        await asyncio.gather(held.task, return_exceptions=True)
        await self._release(held.lane)

    async def release(self: Worker, lane: OwnedLane) -> None:
        self._held.pop(lane.id)
        await self._ledger.release(lane.fence)

    return [patch.object(Worker, "_give_back", give_back), patch.object(Worker, "_release", release)]


@mutant("what is cancelled in a full window waits for an intent that can never follow")
def cancelled_in_a_full_window_waits() -> Sequence[Patch]:
    def instead(record: Record, seen: Observation) -> Step | None:
        noop = any(a.purpose is Purpose.NOOP for a in record.attempts)
        stuck = record.cancel_requested and record.live and not noop and not seen.overtaken
        on_chain = any(s.where in ("included", "final") for s in seen.sightings.values())
        return Wait("killed by the next intent that lands") if stuck and not on_chain else None

    return [deciding_instead(instead)]


@mutant("a clock that is set back stops the asking after lost transactions")
def clock_set_back_stops_the_asking() -> Sequence[Patch]:
    def decide(record: Record, seen: Observation, policy: Any, traits: Any, now: int) -> Step:
        return deciding.decide(record, replace(seen, sent_at=min(seen.sent_at, now)), policy, traits, now)

    return [patch.object(runtime_tracker, "decide", decide)]


@mutant("the no-op that kills a re-signed intent waits for that intent, which waits for it")
def noop_waits_for_its_own_resign() -> Sequence[Patch]:
    turn = Sender._turn

    async def patient(self: Sender) -> bool:
        solo = self._lane.plan.solo
        if solo is None or solo.order is None:
            return await turn(self)
        order, solo.order = solo.order, None
        try:
            return await turn(self)
        finally:
            solo.order = order

    return [patch.object(Sender, "_turn", patient)]


@mutant("a cursor that does not fit the ledger's is tried again without pause and without end")
def cursor_moved_is_tried_again() -> Sequence[Patch]:
    quarantine = OwnedLane.quarantine

    async def carefree(self: OwnedLane, reason: str, evidence: Mapping[str, Any]) -> None:
        if reason != "cursor_moved":
            await quarantine(self, reason, evidence)

    return [patch.object(OwnedLane, "quarantine", carefree)]


@mutant("what a roll-back put in flight again is not looked at by the owner that vouched for it")
def rolled_back_flights_are_not_tracked() -> Sequence[Patch]:
    apply = Requests.apply

    async def unheard(self: Requests) -> None:
        with patch.object(self._lane.flying, "set"):
            await apply(self)

    return [patch.object(Requests, "apply", unheard)]


@mutant("a re-sign whose probe got no answer counts as refused: newer intents follow it")
def no_answer_is_a_refusal() -> Sequence[Patch]:
    return [patch.object(signing_plan, "NO_WORD", ())]


@mutant("an owner whose lane is closed under it takes the refusal for a fault of its own")
def breaks_when_its_lane_is_closed() -> Sequence[Patch]:
    async def stop(
        self: OwnedLane, state: LaneState, cause: StopCause, reason: str, evidence: Mapping[str, Any]
    ) -> Any:
        return await self.context.ledger.set_lane(self.id, state, reason, evidence, cause=cause, fence=self.fence)

    return [patch.object(OwnedLane, "_stop", stop)]


@mutant("what a node says late of bytes that were signed again since counts as its word about the new ones")
def late_word_counts_for_the_resign() -> Sequence[Patch]:
    probe = runtime_tracker.Tracker._probe_lowest

    async def gullible(self: runtime_tracker.Tracker, due: Sequence[tuple[Flight, Attempt]]) -> None:
        chain, heard = self._lane.chain, list[SendReply]()

        async def hear(lane: str, attempt: Attempt) -> SendReply:
            heard.append(await type(chain).probe(chain, lane, attempt))
            return heard[-1]

        with patch.object(chain, "probe", hear):
            await probe(self, due)
        due[0][0].reply = heard[-1]

    return [patch.object(runtime_tracker.Tracker, "_probe_lowest", gullible)]


@mutant("an owner takes the cursor that its own late request moved for a stranger's doing")
def late_copy_is_taken_for_a_stranger() -> Sequence[Patch]:
    return [
        patch.object(WriteHead, "follow", lambda *_: False),
        patch.object(WriteHead, "own", lambda *_: None),
    ]
