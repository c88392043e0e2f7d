"""Compares a lane with the history of its ledger and with the chain: what was lost, used by others, or undone.

Whatever does not fit stops the lane: it is quarantined with the evidence, and nothing is signed until a person looked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from txmanager.core.chain import NonceView
from txmanager.core.errors import Busy, KeyMissing, TxManagerError, Unavailable
from txmanager.core.models import IntentId, Json, Lane
from txmanager.core.stops import QuarantineCause
from txmanager.core.write_head import WriteHead

if TYPE_CHECKING:
    from txmanager.runtime.lane.owner import OwnedLane

_SHOWN = 20
"""How many intents a quarantine names."""


class Checks:
    def __init__(self, lane: OwnedLane) -> None:
        self._lane = lane
        self.deepest = (-1, -1)
        """The highest nonce of ours that was settled by this owner, and the height it was included at."""
        self.blind = False
        """Whether it was leased after a roll-back that nobody vouched for: what it read then proves nothing."""

    @property
    def remembered(self) -> WriteHead | None:
        """What this owner knows of its own writes, if that proves anything."""
        return None if self.blind else self._lane.plan.head

    def settled(self, deepest: tuple[int, int]) -> None:
        self.deepest = max(self.deepest, deepest)

    def vouched(self) -> None:
        """An operator answers for what the ledger lost."""
        self.blind = False

    def start_anew(self) -> None:
        """... and for what the chain undid."""
        self.deepest = (-1, -1)

    async def history(self, view: Lane, known: WriteHead | None) -> None:
        """Another history: go on only if nothing of ours can be missing in it."""
        lane = self._lane
        if not view.moved:
            return
        # An owner of a keyless lane knows nothing of its reservations, so its memory proves nothing.
        whole = known is not None and not lane.keyless and known.stands_in(view)
        evidence = {"stored": view.history_id, "found": view.found_history_id}
        if lane.context.ledger.vouches or whole:
            await lane.retry_while_leased(
                lambda: lane.context.ledger.vouch(lane.fence, view.history_id, view.found_history_id)
            )
            lane.log.info("ledger history accepted", **evidence)
        else:
            self.blind = self.blind or known is None
            await lane.quarantine(QuarantineCause.ROLLED_BACK, evidence)

    async def first_nonce(self) -> None:
        lane = self._lane
        view = await self.nonce()
        if view is not None:
            first = await self.agreed_nonce(view)
            cursor = await lane.retry_while_leased(lambda: lane.context.ledger.baseline(lane.fence, first))
            lane.plan.based_on(cursor, replace(lane.plan.stored, baseline=cursor))

    async def agreed_nonce(self, view: NonceView) -> int:
        """The next nonce as several nodes see it, however long that takes: a number that one invents would leave the
        lane out of order for ever."""
        lane = self._lane
        pause_s = 0.5
        while True:
            readings = await lane.retry_while_leased(lambda: lane.chain.readings(lane.id, view))
            if readings.next_nonce is not None:
                return readings.next_nonce
            lane.context.metrics.disagreements.labels(lane.id, "first_nonce").inc()
            lane.log.error("nodes disagree about the lane's nonce; nothing is signed", nodes=readings.answers)
            await asyncio.sleep(pause_s)
            pause_s = min(5.0, pause_s * 2)

    async def take_over(self) -> None:
        """A nonce on chain that none of our attempts explains is foreign use or lost data."""
        lane = self._lane
        view = await self.nonce()
        if view is None or lane.plan.stored.cursor is None:
            return
        used = view.next_nonce - 1
        cursor, landed = lane.plan.head.cursor, lane.plan.stored.landed
        evidence = {"chain_nonce": str(used), "cursor": str(cursor), "landed": str(landed)}
        lane.gaps.see(view)
        wrong, cause = lane.plan.unexplained, QuarantineCause.FOREIGN_NONCE_USE
        await lane.retry_while_leased(lambda: self._quarantine_if(wrong, view, cause, evidence))

    async def _quarantine_if(
        self, wrong: Callable[[NonceView], bool], view: NonceView, cause: QuarantineCause, evidence: Mapping[str, Json]
    ) -> None:
        """One node alone stops no lane: as many as must agree have to see it."""
        lane = self._lane
        if not wrong(view):
            return
        readings = await lane.chain.readings(lane.id, view)
        if readings.needed > 1:
            evidence = {**evidence, "nodes": readings.answers}
        if readings.say(wrong):
            await lane.quarantine(cause, evidence)
        else:
            lane.context.metrics.disagreements.labels(lane.id, cause.value).inc()
            lane.log.error("nodes disagree; the lane goes on", cause=cause.value, evidence=evidence)

    async def nonce(self) -> NonceView | None:
        lane = self._lane
        try:
            view = await lane.retry_while_leased(lambda: lane.chain.nonce(lane.id))
        except KeyMissing as error:
            await lane.quarantine(QuarantineCause.KEY_MISSING, {"message": str(error)})
            return None
        if view.balance is not None:
            lane.context.metrics.balance.labels(lane.id).set(view.balance)
        lane.wallet.see(view.funds)
        return view

    async def balance(self, purse: str = "") -> str:
        """What the lane, or one purse of it, can spend, as decimal digits; empty when nobody says."""
        lane = self._lane
        try:
            view = await lane.chain.nonce(lane.id)
        except (Unavailable, Busy, KeyMissing):
            return ""
        lane.wallet.see(view.funds)
        balance = view.balance
        for one in view.funds.purses if view.funds is not None else ():
            if one.name == purse:
                return str(one.balance)
        if balance is None:
            return ""
        lane.context.metrics.balance.labels(lane.id).set(balance)
        return str(balance)

    async def look(self) -> None:
        """Where gaps block: what belongs to nobody, what somebody else used, whether what was final is still there."""
        lane = self._lane
        try:
            view = await lane.chain.nonce(lane.id)
        except (Unavailable, Busy, KeyMissing):
            return
        lane.gaps.see(view)
        if self.deepest[0] < view.next_nonce <= lane.plan.settled_nonce:
            self.deepest = max(self.deepest, await self._before(view.next_nonce))
        nonce, height = self.deepest

        def undone(seen: NonceView) -> bool:
            """A settled nonce that the chain would take again. A node that lags says so, too: its height tells."""
            return nonce >= 0 and seen.height >= height and seen.next_nonce <= nonce

        used = str(view.next_nonce - 1)
        try:
            evidence = {"chain_nonce": used, "cursor": str(lane.plan.head.cursor)}
            await self._quarantine_if(lane.plan.foreign, view, QuarantineCause.FOREIGN_NONCE_USE, evidence)
            evidence = {"settled_nonce": str(nonce), "at_height": str(height), "chain_nonce": used}
            if undone(view):
                evidence |= await self._undone(view.next_nonce)
            await self._quarantine_if(undone, view, QuarantineCause.REORG_BEYOND_FINALITY, evidence)
        except (Unavailable, Busy) as error:  # too few nodes say so: the next look asks again
            lane.log.warning("not confirmed", error=str(error))

    async def _before(self, since: int) -> tuple[int, int]:
        """The highest nonce that an earlier owner saw final, with its height, as far as its bytes are kept."""
        ledger, height_of = self._lane.context.ledger, self._lane.chain.traits.height_of
        try:
            for one in reversed(await ledger.kept(self._lane.id, since)):
                record = await ledger.read(IntentId.parse(one.intent)) if one.intent else None
                if record is None or record.outcome is None or record.outcome.tx_hash != one.hash:
                    continue
                if (height := height_of(record.outcome)) is not None:
                    return one.nonce, height
        except TxManagerError as error:  # the next look reads again
            self._lane.log.warning("final bytes not read", error=str(error))
        return -1, -1

    async def _undone(self, since: int) -> dict[str, str]:
        """The intents whose end the chain took back, as far as their bytes are kept."""
        lane = self._lane
        try:
            kept = await lane.context.ledger.kept(lane.id, since)
        except TxManagerError:
            return {}
        keys = [one.intent for one in kept if one.intent]
        shown = ", ".join(keys[:_SHOWN]) + (f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else "")
        return {"undone": shown, "replay": f"txmanager lanes replay {lane.id}, before rebaseline"} if keys else {}
