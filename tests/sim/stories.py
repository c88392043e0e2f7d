"""Small schedules written by hand: what random ones found once, so rare that nobody should wait for it again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.sim import logs
from tests.sim.checker import check
from tests.sim.history import Broke, History
from tests.sim.ledger import few_homes
from tests.sim.loop import Stuck, VirtualLoop, ordered_task_groups
from tests.sim.nodes import decoded_once
from tests.sim.plan import Event, Plan, draw
from tests.sim.world import World
from txmanager.core.errors import Unavailable
from txmanager.core.models import Fence, Purpose, Record
from txmanager.core.states import LaneState
from txmanager.core.stops import PauseCause
from txmanager.devnet import params
from txmanager.devnet.model import Transfer, Tx
from txmanager.rpc.errors import TimedOut

QUIET = replace(
    draw(0),
    lanes=1,
    spare_lanes=0,
    workers=2,
    producers=1,
    intents=2,
    window=4,
    max_inflight=256,
    chaos_s=25.0,
    block_ms=600,
    validity=86_400,
    epoch_blocks=20_000,
    nodes=("direct",),
    lease_ms=3000,
    vouches=False,
    hold_after_ms=24 * 3600 * 1000,
    retention_ms=7 * 24 * 3600 * 1000,
    loss=0.0,
    same_name=True,
    shuffle=0.0,
    rates={},
    events=(),
    one_step=False,
)
"""No faults at all: a story adds its own."""


@dataclass(frozen=True, slots=True)
class Story:
    plan: Plan
    arrivals: list[float]
    """When each intent is asked for."""
    begin: Callable[[World], None] = lambda _world: None
    """What else is different in this world."""


def tell(story: Story) -> tuple[list[str], World]:
    loop = VirtualLoop(random.Random(0))
    asyncio.set_event_loop(loop)
    history = History(loop.time)
    logs.listen(history)
    try:
        world = World(story.plan, loop, history)
        world.arrivals = story.arrivals
        story.begin(world)
        try:
            with decoded_once(), few_homes(), ordered_task_groups():
                loop.run_until_complete(world.main())
        except Stuck as stuck:
            history.note(Broke(loop.time(), str(stuck)))
        return check(world.evidence()).violations, world
    finally:
        asyncio.set_event_loop(None)
        loop.discard()
        logs.listen(None)


# -- parts of worlds


def _pays(tx: Tx, intent: int) -> bool:
    [action] = tx.actions
    return isinstance(action, Transfer) and action.deposit == 1000 + intent


def lose(world: World, intent: int, attempts: int) -> None:
    """The first bytes that pay this intent reach no producer before the storm is over, however often they are sent."""
    route, lost = world.network._route, set[bytes]()

    def routed(tx: Tx, node: int) -> None:
        if not world.healing and _pays(tx, intent) and (tx.hash in lost or len(lost) < attempts):
            lost.add(tx.hash)
            return
        route(tx, node)

    world.network._route = routed  # type: ignore[method-assign]


def mute(world: World, intent: int) -> None:
    """Whoever asks a node what it thinks of these bytes gets no answer before the storm is over."""
    answer = world.nodes.answer

    async def silent(method: str, asked: Any, node: int, timeout_s: float) -> Any:
        if method == "send_tx" and not world.healing and _pays(params.signed_tx(asked), intent):
            raise TimedOut("no answer in time")
        return await answer(method, asked, node, timeout_s)

    world.nodes.answer = silent  # type: ignore[method-assign]


def ponder(world: World, intent: int, seconds: float) -> None:
    """A node takes its time to say what it thinks of these bytes."""
    answer = world.nodes.answer

    async def late(method: str, asked: Any, node: int, timeout_s: float) -> Any:
        if method == "send_tx" and not world.healing and _pays(params.signed_tx(asked), intent):
            await asyncio.sleep(seconds)
        return await answer(method, asked, node, timeout_s)

    world.nodes.answer = late  # type: ignore[method-assign]


# -- the stories


def rolled_back_behind_a_frozen_owner(seat: float) -> Story:
    """The owner freezes; another takes over, signs and freezes too; the ledger forgets, the first one comes back."""
    events = (
        Event("roll_back", 6.0, 0.97, 0.0),
        Event("freeze", 6.05, seat, 0.99),
        Event("freeze", 11.5, 0.9 - seat, 0.99),
        Event("retry_now", 13.6, 0.6, 0.0),
    )
    # What the other sent is in no block yet: the chain gives no hint.
    return Story(replace(QUIET, events=events), [1.0, 11.2], lambda world: lose(world, 1, 1))


def lost_before_the_clock_is_set_back() -> Plan:
    """What was sent is dropped; then the clock of the only worker goes back by an hour."""
    back = Event("worker_clock_jump", 5.0, 0.0, 0.0)
    return replace(QUIET, workers=1, chaos_s=8.0, rates={"drop": 1.0}, events=(back,))


def vouched_for_what_forgot_an_end() -> Story:
    """The ledger forgets that two intents ended; the sender finds out, and the window has no room for the third."""
    back = Event("roll_back", 2.0, 0.6, 0.0)
    return Story(replace(QUIET, workers=1, window=2, intents=3, events=(back,)), [1.0, 1.1, 5.91])


def cancelled_after_a_lost_resign() -> Story:
    """Overtaken, signed again, lost again, cancelled: only a no-op can end it, though nothing may follow a re-sign."""
    plan = replace(QUIET, workers=1, events=(Event("cancel", 6.0, 0.0, 0.0),))
    return Story(plan, [1.0, 1.1], lambda world: lose(world, 0, 2))


def no_answer_about_a_resign() -> Story:
    """Signed again and lost; the node that is asked why does not answer; another intent waits behind it."""

    def begin(world: World) -> None:
        lose(world, 0, 2)
        mute(world, 0)

    return Story(replace(QUIET, workers=1, intents=3), [1.0, 1.1, 5.0], begin)


def late_word_about_old_bytes() -> Story:
    """Lost, asked about, overtaken, signed again and lost again; only then a node answers about the first bytes."""

    def begin(world: World) -> None:
        lose(world, 0, 2)
        ponder(world, 0, 4.0)

    return Story(replace(QUIET, workers=1, intents=3), [1.0, 5.2, 8.0], begin)


def late_copy_of_a_refused_write() -> Story:
    """A write-ahead gets no answer, then a no, since the lane is paused; it is resumed, and the first copy arrives."""

    def begin(world: World) -> None:
        record = world.ledger.record_attempts
        copies: list[Any] = []

        def resume(store: Any, write: Callable[[], Any]) -> None:
            store.set_state(LaneState.ACTIVE, "", {}, None)
            write()

        async def slow(fence: Fence, cursor: int, batch: Any) -> int:
            if copies:
                return await record(fence, cursor, batch)
            copies.append(batch)
            store, ledger = world.ledger.stores[fence.lane], world.ledger
            store.set_state(LaneState.PAUSED, "operator", {}, None, PauseCause.OPERATOR)
            now, found = ledger._clock(), ledger.history_id
            world.loop.later(3.0, resume, store, lambda: store.record_attempts(fence, cursor, batch, now, found))
            raise Unavailable("the ledger did not answer")

        world.ledger.record_attempts = slow  # type: ignore[method-assign]

    return Story(replace(QUIET, workers=1), [1.0, 8.0], begin)


def ended_before_its_no_op_was_confirmed() -> Story:
    """Cancelled in flight; the reply about the no-op is lost, and meanwhile the intent lands, ends and is retired."""

    def begin(world: World) -> None:
        route, record = world.network._route, world.ledger.record_attempts
        kept: list[tuple[Tx, int]] = []
        unheard: list[Any] = []

        def routed(tx: Tx, node: int) -> None:
            if _pays(tx, 0) and not unheard:
                kept.append((tx, node))
            else:
                route(tx, node)

        async def recorded(fence: Fence, cursor: int, batch: Any) -> int:
            answer = await record(fence, cursor, batch)
            if batch[0].attempt.purpose is Purpose.NOOP and not unheard:
                unheard.extend(batch)
                route(*kept[0])
                await asyncio.sleep(4.0)
                raise Unavailable("the ledger did not answer")
            return answer

        world.network._route = routed  # type: ignore[method-assign]
        world.ledger.record_attempts = recorded  # type: ignore[method-assign]

    plan = replace(QUIET, workers=1, events=(Event("cancel", 3.0, 0.0, 0.0),))
    return Story(plan, [1.0, 12.0], begin)


def cursor_moved_by_a_stranger() -> Story:
    """Something moves the cursor in the ledger, past the fence, between two intents."""

    def move(world: World) -> None:
        for lane, store in world.ledger.stores.items():
            assert store.cursor is not None
            store.cursor += 5
            world.damaged.add(lane)

    def begin(world: World) -> None:
        world.loop.later(5.0, move, world)
        world.loop.max_steps = 20_000

    return Story(replace(QUIET, workers=1), [1.0, 6.0], begin)


def inherited_from_an_owner_that_was_cut_off(seat: float) -> Story:
    """Written ahead where no replica hears it; the owner dies, another takes over, then the replica does."""
    events = (Event("failover", 1.0022, 0.99, 0.0), Event("kill", 1.2, seat, 0.0))
    return Story(replace(QUIET, intents=1, vouches=True, events=events), [1.0])


def closed_under_its_owner() -> Story:
    """A new owner is about to quarantine its lane, and an operator closes it, empty, a moment before."""

    def begin(world: World) -> None:
        unfinished = world.ledger.unfinished

        async def closing(fence: Fence) -> list[Record]:
            answer = await unfinished(fence)
            if world.tampered:
                for state in (LaneState.DRAINING, LaneState.CLOSED):
                    world.ledger.stores[fence.lane].set_state(state, "operator", {}, None)
            return answer

        world.ledger.unfinished = closing  # type: ignore[method-assign]

    events = (Event("kill", 5.0, 0.0, 0.0), Event("foreign_use", 5.1, 0.0, 0.0))
    return Story(replace(QUIET, workers=1, intents=1, events=events), [1.0], begin)


def closed_before_its_append() -> Story:
    """A claim is made, its append gets no answer, and meanwhile the lane, which is empty, is closed."""

    def begin(world: World) -> None:
        append, closed = world.ledger.append, list[str]()

        async def closing(lane: str, entries: Any) -> Any:
            if closed:
                return await append(lane, entries)
            closed.append(lane)
            for state in (LaneState.DRAINING, LaneState.CLOSED):
                world.ledger.stores[lane].set_state(state, "operator", {}, None)
            raise Unavailable("the ledger did not answer")

        world.ledger.append = closing  # type: ignore[method-assign]

    return Story(replace(QUIET, lanes=2, intents=1), [2.0], begin)


def another_payload_under_the_same_key(*, without_a_lane: bool) -> Story:
    """Somebody uses a key that is taken for a payload of their own, perhaps while no lane takes new intents."""

    def drain(world: World, state: LaneState) -> None:
        for store in world.ledger.stores.values():
            store.set_state(state, "operator", {}, None)

    def begin(world: World) -> None:
        lose(world, 0, 1)  # it is in flight until the end
        if without_a_lane:
            world.loop.later(3.0, drain, world, LaneState.DRAINING)
            world.loop.later(8.0, drain, world, LaneState.ACTIVE)
        world.loop.later(5.0, world.intrude, 0)

    return Story(replace(QUIET, workers=1, intents=1, chaos_s=12.0), [1.0], begin)


def held_and_overtaken() -> Story:
    """Lost and held for want of a proof; then the next intent lands, and proves that the bytes are dead."""
    return Story(replace(QUIET, workers=1, hold_after_ms=5_000, intents=2), [1.0, 9.0], lambda world: lose(world, 0, 1))


def used_by_a_stranger_while_nobody_owns_it() -> Story:
    """Every worker is down; somebody else uses the key, an intent is accepted, and a worker takes the lane over."""
    events = (Event("everybody_down", 5.0, 0.0, 0.2), Event("foreign_use", 5.1, 0.0, 0.0))
    return Story(replace(QUIET, intents=2, events=events), [1.0, 8.0])


def paused_before_the_write_ahead() -> Story:
    """An operator pauses the lane when the owner has taken and signed an intent, and not written it ahead yet."""

    def begin(world: World) -> None:
        record, paused = world.ledger.record_attempts, list[str]()

        async def pausing(fence: Fence, cursor: int, batch: Any) -> int:
            if not paused:
                paused.append(fence.lane)
                store = world.ledger.stores[fence.lane]
                store.set_state(LaneState.PAUSED, "operator", {}, None, PauseCause.OPERATOR)
            return await record(fence, cursor, batch)

        world.ledger.record_attempts = pausing  # type: ignore[method-assign]

    return Story(replace(QUIET, workers=1), [1.0, 1.1], begin)


STORIES: dict[str, list[Story]] = {
    "claim_of_a_closed_lane_never_moves": [closed_before_its_append()],
    "replay_without_comparing_payloads": [another_payload_under_the_same_key(without_a_lane=True)],
    "claim_without_comparing_payloads": [another_payload_under_the_same_key(without_a_lane=False)],
    "held_intent_signs_itself_again": [held_and_overtaken()],
    "no_chain_check_at_a_take_over": [used_by_a_stranger_while_nobody_owns_it()],
    "paused_lane_signs_first_attempts": [paused_before_the_write_ahead()],
    "former_owner_vouches": [rolled_back_behind_a_frozen_owner(seat) for seat in (0.0, 0.9)],
    "clock_set_back_stops_the_asking": [Story(lost_before_the_clock_is_set_back(), [4.0, 4.1])],
    "rolled_back_flights_are_not_tracked": [vouched_for_what_forgot_an_end()],
    "noop_waits_for_its_own_resign": [cancelled_after_a_lost_resign()],
    "late_word_counts_for_the_resign": [late_word_about_old_bytes()],
    "late_copy_is_taken_for_a_stranger": [late_copy_of_a_refused_write(), ended_before_its_no_op_was_confirmed()],
    "no_answer_is_a_refusal": [no_answer_about_a_resign()],
    "unconfirmed_write_ahead_is_sent_by_the_next_owner": [
        inherited_from_an_owner_that_was_cut_off(seat) for seat in (0.0, 0.9)
    ],
    "breaks_when_its_lane_is_closed": [closed_under_its_owner()],
    "cursor_moved_is_tried_again": [cursor_moved_by_a_stranger()],
}
"""By the mutant that each is about."""
