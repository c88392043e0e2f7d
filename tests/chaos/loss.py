"""A failover that takes the last writes with it, and the operator who cleans up after it by the runbook."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Mapping

from tests.chaos import evidence
from tests.chaos.blocks import SeenChain
from tests.chaos.ground import Replicated
from tests.chaos.scene import PREFIX, Scene
from tests.sim.history import Operated, RolledBack
from tests.waiting import until
from txmanager.core.errors import NotAllowed, NotFound, TxManagerError
from txmanager.core.models import Lane
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import PauseCause
from txmanager.ledger.redis import RedisLedger
from txmanager.ledger.redis.keys import Keys


def some_key(scene: Scene, rng: random.Random) -> str:
    """A key of a lane or of a home: in a cluster, whose primary is hit."""
    keys = Keys(PREFIX)
    ids = list(scene.crowd.keys.values())
    if ids and rng.random() < 0.4:
        return keys.home(rng.choice(ids))
    return keys.lane(rng.choice(scene.lanes))


async def lose_writes(scene: Scene, rng: random.Random) -> None:
    """The last writes die with the primary. Acknowledged by a replica or not at all: nothing of them was sent.
    With `none` they were, and the lane must stop until an operator looked."""
    ground = scene.ground
    assert isinstance(ground, Replicated)
    key = some_key(scene, rng)
    cut = ground.cut_off(key)
    old, new = await asyncio.to_thread(cut.__enter__)
    await asyncio.sleep(rng.uniform(0.3, 0.9))
    old.kill9()
    at = time.monotonic()
    lost = await _lanes_behind(scene, new.url) if ground.durability == "none" else frozenset()
    if ground.durability == "none":
        scene.rolled_back = True
        scene.facts.append(RolledBack(at, lost))
    else:
        scene.facts.append(Operated(at, "failover", ""))
    await asyncio.to_thread(cut.__exit__, None, None, None)
    if ground.durability == "none":
        await _operate(scene, lost)


async def _lanes_behind(scene: Scene, url: str) -> frozenset[str]:
    """Lanes whose write-aheads are not all on the replica that is about to take over."""
    lines = evidence.read_journals(scene.folder)
    replica = RedisLedger(url, prefix=PREFIX, durability="none")
    try:
        views = [await replica.lane(lane) for lane in scene.lanes]
    finally:
        await replica.close()
    return frozenset(v.id for v in views if v is not None and (v.cursor or 0) < evidence.last_cursor(lines, v.id))


async def _view(scene: Scene, lane: str) -> Lane | None:
    """The lane, or None while the ledger is away."""
    try:
        return await scene.ledger.lane(lane)
    except TxManagerError:
        return None


async def _operate(scene: Scene, lost: frozenset[str]) -> None:
    """What the runbook says: wait until nothing is on its way, compare with the chain, tell callers, rebaseline."""
    for lane in scene.lanes:

        async def decided(lane: str = lane) -> Lane | None:
            """A lane that lost something has to stop; one that did not may also go on."""
            view = await _view(scene, lane)
            if view is None or view.state is LaneState.QUARANTINED:
                return view
            return None if view.moved or lane in lost else view

        view = await until(decided, 40, what=f"{lane} is quarantined, or goes on rightly")
        if view is None or view.state is not LaneState.QUARANTINED:
            continue
        scene.quarantined += 1
        scene.counts[f"quarantined: {view.reason}"] += 1
        await _until_quiet(scene)
        paid = await asyncio.to_thread(lambda: SeenChain().read(scene.devnet).paid())
        await _tell_callers(scene, paid)
        scene.facts.append(Operated(time.monotonic(), "rebaseline", lane))
        await scene.manager.rebaseline(lane, paused=True)

        async def rebaselined(lane: str = lane) -> bool:
            view = await _view(scene, lane)
            return view is not None and view.cause is PauseCause.REBASELINED

        await until(rebaselined, 40, what=f"{lane} is rebaselined")
        await _cancel_paid(scene, paid)
        await scene.manager.resume(lane)

        async def active(lane: str = lane) -> bool:
            view = await _view(scene, lane)
            return view is not None and view.state is LaneState.ACTIVE

        await until(active, 40, what=f"{lane} goes on after rebaseline")


async def _until_quiet(scene: Scene) -> None:
    def quiet() -> bool:
        summary = scene.devnet.admin("", method="GET")
        return not any(summary["pools"]) and summary["in_transit"] == 0

    await until(lambda: asyncio.to_thread(quiet), 30, what="nothing is on its way to the chain")
    head = int(scene.devnet.head()["height"])
    await until(lambda: int(scene.devnet.head("final")["height"]) >= head, what="all of it is final")


async def _tell_callers(scene: Scene, paid: Mapping[int, int]) -> None:
    """Paid, and unknown here or not known as paid: a retry would be a new intent."""
    for amount, id in list(scene.crowd.keys.items()):
        if paid.get(amount):
            record = await scene.ledger.read(id)
            if record is None or record.status is Status.QUEUED:
                scene.crowd.given_up.add(amount)


async def _cancel_paid(scene: Scene, paid: Mapping[int, int]) -> None:
    for amount, id in list(scene.crowd.keys.items()):
        record = await scene.ledger.read(id) if paid.get(amount) else None
        if record is not None and record.status is Status.QUEUED:
            scene.crowd.given_up.add(amount)
            with contextlib.suppress(NotAllowed, NotFound):
                await scene.ledger.cancel(id)
