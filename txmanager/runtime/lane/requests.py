"""What operators, cancellers and monitors ask of a lane: read by its owner, carried out where all of it is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txmanager.core.alerts import Alert, Check
from txmanager.core.errors import Fenced
from txmanager.core.models import Lane
from txmanager.core.states import LaneState
from txmanager.core.stops import LaneCommand, PauseCause

if TYPE_CHECKING:
    from txmanager.runtime.lane.owner import OwnedLane


class Requests:
    def __init__(self, lane: OwnedLane, answered: Check) -> None:
        self._lane = lane
        self.answered = answered
        """The monitor's request that was answered last."""

    async def apply(self) -> None:
        """Something was asked of this lane: read what, and carry out what concerns the whole lane."""
        lane = self._lane
        lane.refresh = False
        view = await lane.retry_while_leased(lambda: lane.context.ledger.lane(lane.id))
        if view is None:
            raise Fenced(lane.id, "", 0)
        checked, self.answered = view.check != self.answered, view.check
        lane.plan.read(view)
        if lane.plan.command is not None:
            await self.carry_out(view)
        else:
            await lane.checks.history(view, lane.checks.remembered)
        await lane.load()
        lane.plan.ask_about_funds()  # a cancelled intent may be what the lane waits for
        if checked:
            await self._compare(view.check)
        lane.flying.set()  # what was read back may be in flight again, as after a roll-back of its end
        lane.wake()

    async def _compare(self, check: Check) -> None:
        """A monitor saw something: compare with the chain now, send again what it says was dropped."""
        lane = self._lane
        lane.context.metrics.checks.labels(lane.id).inc()
        lane.log.info("checked", check=str(check))
        if Alert.DROPPED in check.alerts and len(lane.plan.flights):
            lane.plan.send_all_again()
        if lane.plan.gaps.block and not lane.plan.quarantined:
            await lane.checks.look()

    async def carry_out(self, view: Lane) -> None:
        """What an operator asks of the whole lane."""
        if view.command is LaneCommand.TRIAL:  # the sender asks for the signature, which may take long
            await self._lane.checks.history(view, self._lane.checks.remembered)
            self._lane.signatures.ask_now()
        else:
            await self._rebaseline(view)

    async def _rebaseline(self, view: Lane) -> None:
        """An operator vouches for what happened: go on from the chain's nonce, never below the cursor."""
        lane = self._lane
        if view.moved:
            await lane.retry_while_leased(
                lambda: lane.context.ledger.vouch(lane.fence, view.history_id, view.found_history_id)
            )
        lane.checks.vouched()
        chain = await lane.checks.nonce()
        if chain is not None:
            # Above all that was signed, where gaps are harmless: what used those nonces is vouched for. Where they
            # block, what the chain has used is, and the cursor stays where it is.
            baseline = await lane.checks.agreed_nonce(chain)
            if not lane.chain.traits.gaps_block:
                baseline = max(baseline, lane.plan.head.cursor + 1)
            if lane.plan.gaps.block and chain.next_nonce <= lane.plan.settled_nonce:
                await lane.forget_kept()  # before the word that ends the quarantine: it cannot be replayed any more
            cursor = await lane.retry_while_leased(
                lambda: lane.context.ledger.baseline(lane.fence, baseline, operator=True)
            )
            lane.plan.based_on(cursor, view)
            lane.checks.start_anew()
            await lane.load()
            await lane.gaps.vouched(chain)
            if lane.keyless:
                await self._reclaim(chain.next_nonce)
            if view.command is LaneCommand.REBASELINE:
                await lane.resume("rebaselined by an operator")
            else:
                lane.plan.is_in(LaneState.ACTIVE)  # for a moment: only what works can be paused
                await lane.pause(PauseCause.REBASELINED, {})

    async def _reclaim(self, chain_nonce: int) -> None:
        """Keyless: numbers that a reorg took back from somebody else go to the next caller."""
        lane = self._lane
        ledger = lane.context.ledger
        unowned = (await lane.retry_while_leased(lambda: ledger.book(lane.id))).unowned(chain_nonce)
        count = await lane.retry_while_leased(lambda: ledger.reclaim(lane.fence, chain_nonce, unowned))
        lane.log.warning("numbers reclaimed", count=count, chain_nonce=str(chain_nonce))
