"""The way out of a lane: bytes are written ahead, then sent. The plan is told what came of it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

from txmanager.core.chain import SendReply, Verdict
from txmanager.core.errors import Refused, RolledBack, TxManagerError
from txmanager.core.lane_plan import Batch
from txmanager.core.ledger import WriteAhead
from txmanager.core.stops import QuarantineCause
from txmanager.runtime.lane.owner import OwnedLane

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
_LOOK_BESIDE_S = 0.05


class Outbox:
    def __init__(self, lane: OwnedLane, rng: random.Random) -> None:
        self._lane = lane
        self._rng = rng
        self.pause_s = 0.0
        """How long to wait before what was not taken is sent again."""
        self._again_at = 0.0
        """When that pause is over."""

    @property
    def pausing(self) -> bool:
        return asyncio.get_running_loop().time() < self._again_at

    def went_on(self) -> None:
        """The lane did something: the next refusal starts with a short pause, once nothing is left unsent."""
        if not self._lane.plan.unsent:
            self.pause_s = 0.0

    # -- write ahead

    async def write_ahead(self, writes: Sequence[WriteAhead], *, allowed: bool) -> bool:
        """Store what the plan still allows; signing may have taken a while. False when it does not, or when the ledger
        refused. Either leaves the nonces unused."""
        lane, head = self._lane, self._lane.plan.head
        if not allowed:
            lane.log.info("signed, and not to be sent any more", intents=[str(w.id) for w in writes])
            lane.plan.take_again()
            return False
        try:
            with lane.context.metrics.record_s.time():
                head.moved(
                    await lane.retry_while_leased(
                        lambda: lane.context.ledger.record_attempts(lane.fence, head.cursor, writes)
                    )
                )
            return True
        except Refused as refusal:
            lane.log.warning("write-ahead refused", entry=refusal.entry, why=refusal.why)
            head.gave_up({w.attempt.name: w.position for w in writes})
            if refusal.entry == "cursor" and not await self._moved_it_ourselves():
                # Nobody but the owner moves it: data was lost, or somebody writes past the fence.
                evidence = {"cursor": str(head.cursor), "message": refusal.why}
                await lane.quarantine(QuarantineCause.CURSOR_MOVED, evidence)
        except RolledBack as change:
            lane.log.error("ledger history changed", stored=change.stored, found=change.found)
            head.gave_up({w.attempt.name: w.position for w in writes})
        await lane.requests.apply()
        return False

    async def _moved_it_ourselves(self) -> bool:
        lane = self._lane
        await lane.load()
        view = await lane.retry_while_leased(lambda: lane.context.ledger.lane(lane.id))
        return view is not None and lane.plan.head.follow(view)

    # -- send

    async def send(self, batch: Batch) -> int:
        """Answers how many were taken. What was not stays unsent; the plan says whether anything higher follows."""
        taken, rest = 0, self._lane.plan.lowest_first(batch)
        while rest:
            took = await self._broadcast(rest)
            taken += took
            rest = self._lane.plan.go_on(rest, took) if took < len(rest) else ()
        self._again_at = asyncio.get_running_loop().time() + self.pause_s
        return taken

    async def _broadcast(self, batch: Batch) -> int:
        """Until one is not taken; answers how many were."""
        lane = self._lane
        lane.check_lease()
        began = lane.context.clock()
        lane.plan.sending(batch, began)
        # The tracker looks when the batch is sent, or beside it when that takes long.
        beside = asyncio.get_running_loop().call_later(_LOOK_BESIDE_S, lane.flying.set)
        with lane.context.metrics.broadcast_s.time():
            try:
                replies = await lane.chain.broadcast(lane.id, [attempt for _, attempt in batch])
            except TxManagerError as error:
                lane.context.metrics.rpc_errors.labels(lane.id, type(error).__name__).inc()
                replies = [SendReply(Verdict.UNAVAILABLE, str(error))]
            finally:
                beside.cancel()
        if lane.traces is not None:
            lane.traces.sent(batch, replies, began)
        taken = self._tell(batch, replies)
        lane.flying.set()  # what was sent may be on chain already
        if taken < len(batch):
            self.pause_s = min(_LONGEST_PAUSE_S, self.pause_s * 2 or _FIRST_PAUSE_S) * self._rng.uniform(0.8, 1.2)
        lane.context.point("after_broadcast")
        return taken

    def _tell(self, batch: Batch, replies: list[SendReply]) -> int:
        lane, taken = self._lane, 0
        verdicts: Counter[Verdict] = Counter()
        for (flight, attempt), reply in zip(batch, replies, strict=False):
            verdicts[reply.verdict] += 1
            single = lane.plan.flights.single
            if lane.plan.answered(flight, attempt, reply):
                taken += 1
                continue
            lane.log.warning("send not taken", hash=attempt.hash, verdict=reply.verdict, message=reply.message)
            if lane.plan.flights.single and not single:
                lane.log.warning("one at a time from now on", message=reply.message)
        for verdict, count in verdicts.items():
            lane.context.metrics.sends.labels(lane.id, verdict).inc(count)
        return taken
