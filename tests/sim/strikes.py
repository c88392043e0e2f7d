"""What each timed event of a plan does to the world, at the moment that was drawn for it.

A handler that finds nothing to strike answers False, and the fault is not counted.
"""

from __future__ import annotations

import asyncio
import contextlib

from tests.sim.cast import ADMIN, LANES, RECEIVER, RELAYER, SIGNERS, Seat
from tests.sim.faults import Faults
from tests.sim.history import History, Operated
from tests.sim.ledger import SimLedger
from tests.sim.loop import Life, Process, VirtualLoop
from tests.sim.nodes import Nodes, SimNetwork
from tests.sim.plan import Event, Plan
from txmanager.core.errors import NotAllowed, NotFound, TxManagerError, Unavailable
from txmanager.core.models import Intent, Record
from txmanager.core.states import LaneState
from txmanager.devnet import fees
from txmanager.devnet.model import Account


class Strikes:
    """The part of the world that strikes; `World` has the rest."""

    plan: Plan
    loop: VirtualLoop
    history: History
    faults: Faults
    ledger: SimLedger
    network: SimNetwork
    nodes: Nodes
    seats: list[Seat]
    producers: list[Process]
    intents: list[Intent]
    arrivals: list[float]
    tampered: set[str]
    served: int
    healing: bool
    server_offset_ms: int
    workers_offset_ms: int

    def _freeze(self, process: Process, amount: float) -> None:
        raise NotImplementedError

    def _fund(self) -> None:
        raise NotImplementedError

    def _pay(self, sender: str, key: str, receiver: str, amount: int) -> None:
        raise NotImplementedError

    def _call(self, n: int, producer: int) -> None:
        raise NotImplementedError

    def _revive(self, n: int) -> None:
        raise NotImplementedError

    def _answered(self, by: str, record: Record, *, accepted: bool) -> None:
        raise NotImplementedError

    def _strike(self, event: Event) -> None:
        if not self.healing and getattr(self, f"_on_{event.kind}")(event) is not False:
            self.faults.note(event.kind, "timed")

    def _seat(self, event: Event) -> Seat:
        return self.seats[int(event.a * len(self.seats))]

    def _lane(self, event: Event) -> str:
        return LANES[int(event.a * self.served)]

    def _on_kill(self, event: Event) -> bool | None:
        process = self._seat(event).process
        if process is None or process.life is Life.DEAD:
            return False
        process.kill()
        return None

    def _on_everybody_down(self, event: Event) -> None:
        until = self.loop.time() + 5.0 + 25.0 * event.b
        for seat in self.seats:
            seat.closed_until = until
            if seat.process is not None:
                seat.process.kill()

    def _on_freeze(self, event: Event) -> bool | None:
        process = self._seat(event).process
        if process is None or process.life is not Life.RUNNING:
            return False
        self._freeze(process, event.b)
        return None

    def _on_graceful_restart(self, event: Event) -> bool | None:
        worker = self._seat(event).worker
        if worker is None:
            return False
        worker.stop()
        return None

    def _on_worker_clock_jump(self, event: Event) -> bool | None:
        by_ms = int((event.b - 0.5) * 2 * 3_600_000)
        if event.a >= 1.0:  # every clock, those of processes to come as well
            self.workers_offset_ms += by_ms
            return None
        process = self._seat(event).process
        if process is None:
            return False
        process.clock_offset_ms += by_ms
        return None

    def _on_server_clock_jump(self, event: Event) -> None:
        self.server_offset_ms += int((event.b - 0.3) * 40_000)

    def _on_ledger_restart(self, event: Event) -> None:
        self.ledger.stop()
        self.loop.later(0.1 + 6.0 * event.b, self._ledger_up)

    def _ledger_up(self) -> None:
        if self.ledger.down:
            self.ledger.start()

    def _on_roll_back(self, event: Event) -> bool | None:
        if len(self.ledger.stores) < self.served:
            return False  # to a time before the lanes: that ledger was not rolled back, it is another one
        snapshot = self.ledger.snapshot()

        def back() -> None:
            if not self.healing:
                self.ledger.start(snapshot)

        def down() -> None:
            if not self.healing:
                self.ledger.stop()

        self.loop.later(0.2 + 6.0 * event.a, down)
        self.loop.later(0.3 + 6.0 * event.a + 2.0 * event.b, back)
        return None

    def _on_replica_cut(self, event: Event) -> bool | None:
        """The replica hears nothing for a while; then it hears all of it."""
        if self.ledger.cut_off:
            return False
        self.ledger.cut_off = True

        def mend() -> None:
            self.ledger.cut_off = False

        self.loop.later(0.1 + 4.0 * event.b, mend)
        return None

    def _on_failover(self, event: Event) -> bool | None:
        """The replica hears nothing more, the server dies, and the replica takes its place."""
        if self.ledger.cut_off:
            return False
        replica = self.ledger.snapshot()
        self.ledger.cut_off = True

        def down() -> None:
            if not self.healing:
                self.ledger.stop()

        def promoted() -> None:
            if not self.healing:
                self.ledger.fail_over(replica)

        self.loop.later(0.05 + 5.0 * event.a, down)
        self.loop.later(0.1 + 5.0 * event.a + 2.0 * event.b, promoted)
        return None

    def _on_node_lag(self, event: Event) -> None:
        node = int(event.a * self.network.config.nodes)
        self.network.stuck_at[node] = self.network.chain.blocks[-1].height
        self.loop.later(1.0 + 12.0 * event.b, self.network.stuck_at.pop, node, None)

    def _on_stall(self, event: Event) -> None:
        self.nodes.stalled = True

        def go_on() -> None:
            if self.nodes.stalled:
                self.nodes.stalled = False
                self.network.resume(self.loop.time() * 1000)

        self.loop.later(1.0 + 10.0 * event.b, go_on)

    def _on_reorg(self, event: Event) -> None:
        self.network.reorg(1 + int(event.b * 2))

    def _on_foreign_use(self, event: Event) -> bool | None:
        lane = self._lane(event)
        store = self.ledger.stores.get(lane)
        if store is None or store.cursor is None:
            return False
        self.tampered.add(lane)
        self.history.note(Operated(self.loop.time(), "foreign_use", lane))
        self.network.foreign_use(RELAYER.account_id, SIGNERS[LANES.index(lane)].public_key, by=1 + int(event.b * 3))
        return None

    def _on_funds_gone(self, event: Event) -> None:
        account: Account = self.network.chain.state.get((RELAYER.account_id,))
        left = account.storage_usage * 10**19 + fees.NEAR // 10_000
        self._pay(RELAYER.account_id, ADMIN.public_key, RECEIVER.account_id, account.amount - left - fees.NEAR // 1000)
        self.loop.later(2.0 + 15.0 * event.b, self._fund)

    def _set_lane(self, lane: str, state: LaneState, reason: str) -> None:
        async def carry_out() -> None:
            with contextlib.suppress(NotAllowed, NotFound):
                await self.ledger.set_lane(lane, state, reason)

        self.loop.create_task(carry_out(), context=self.loop.outside)

    def _on_lane_pause(self, event: Event) -> bool | None:
        lane = self._lane(event)
        store = self.ledger.stores.get(lane)
        if store is None or store.state not in (LaneState.ACTIVE, LaneState.DRAINING):
            return False
        self._set_lane(lane, LaneState.PAUSED, "operator")

        def resume() -> None:
            now = self.ledger.stores[lane]
            if now.state is LaneState.PAUSED and now.reason == "operator":
                self._set_lane(lane, LaneState.ACTIVE, "")

        self.loop.later(1.0 + 10.0 * event.b, resume)
        return None

    def _on_lane_drain(self, event: Event) -> bool | None:
        lane = self._lane(event)
        store = self.ledger.stores.get(lane)
        if store is None or store.state is not LaneState.ACTIVE:
            return False
        self._set_lane(lane, LaneState.DRAINING, "operator")
        if event.b < 0.7:

            def undrain() -> None:
                if self.ledger.stores[lane].state is LaneState.DRAINING:
                    self._set_lane(lane, LaneState.ACTIVE, "")

            self.loop.later(1.0 + 12.0 * event.b, undrain)
        return None

    def _on_lane_close(self, event: Event) -> bool | None:
        """Drain a lane, and close it as soon as the ledger allows it; some other lane must stay."""
        lane = self._lane(event)
        store = self.ledger.stores.get(lane)
        others = [s for name, s in self.ledger.stores.items() if name != lane and s.state is LaneState.ACTIVE]
        if store is None or not others or store.state not in (LaneState.ACTIVE, LaneState.DRAINING):
            return False
        self._set_lane(lane, LaneState.DRAINING, "operator")

        def close() -> None:
            if self.ledger.stores[lane].state is LaneState.DRAINING and not self.healing:
                self._set_lane(lane, LaneState.CLOSED, "operator")
                self.loop.later(0.1, close)

        self.loop.later(0.5 + 5.0 * event.b, close)
        return None

    def _on_lane_add(self, event: Event) -> bool | None:
        if self.served >= self.plan.lanes + self.plan.spare_lanes:
            return False
        self.served += 1
        for number, seat in enumerate(self.seats):  # a roll-out: one after the other
            if seat.worker is not None:
                self.loop.later(number * 3.0 * event.b, seat.worker.stop)
        return None

    def _on_cancel(self, event: Event) -> bool | None:
        n = int(event.a * len(self.intents))
        process = self.producers[int(event.b * len(self.producers))]
        if process.life is Life.DEAD:
            return False

        async def cancel() -> None:
            """Asked until it is answered: whoever was told 'cancelled' may rely on it."""
            for _ in range(8):
                try:
                    record = await self.ledger.cancel(self.intents[n].id)
                except Unavailable:
                    await asyncio.sleep(0.4)
                except TxManagerError:
                    return
                else:
                    self._answered(process.name, record, accepted=False)
                    return

        process.spawn(cancel())
        return None

    def _on_retry_now(self, event: Event) -> bool | None:
        n = int(event.a * len(self.intents))
        if self.arrivals[n] > self.loop.time():
            return False
        producer = int(event.b * len(self.producers))
        self._call(n, producer)
        if self.producers[producer].life is not Life.DEAD:
            self.producers[producer].spawn(self._look(self.producers[producer], n))
        return None

    async def _look(self, process: Process, n: int) -> None:
        """A caller that only asks what became of its key."""
        with contextlib.suppress(TxManagerError):
            record = await self.ledger.read(self.intents[n].id)
            if record is not None:
                self._answered(process.name, record, accepted=False)

    def _on_producer_crash(self, event: Event) -> bool | None:
        n = int(event.a * len(self.producers))
        if self.producers[n].life is Life.DEAD:
            return False
        self.producers[n].kill()
        self.loop.later(0.5 + 5.0 * event.b, self._revive, n)
        return None

    def _on_rebaseline(self, event: Event) -> bool:
        """Only says that an operator will vouch in the end."""
        return False

    def _on_resolve_held(self, event: Event) -> bool:
        return False
