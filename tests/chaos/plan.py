"""What a run is made of: scenes, each a ground with counts of faults; the seed decides the order and the details."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.chaos.victim import POINTS

ANYWHERE = "anywhere"
"""Killed from outside, wherever it happens to be."""
DEATHS = (*POINTS, ANYWHERE)

PARTITIONS = ("cut", "silence", "silence_to_server", "silence_to_client", "delay", "half_reply", "lost_reply")
"""What the network does to one seat, towards the ledger or the node."""


WEATHER = ("drop", "reorder", "stall", "disconnect", "error", "reorg")
"""What the chain and its node do to everybody."""


@dataclass(frozen=True)
class SceneSpec:
    name: str
    ground: str
    durability: str
    deaths: int
    """Workers that are killed with -9, evenly over the named points."""
    troubles: Mapping[str, int]
    """How often each other fault strikes, one after the other."""
    server: str = "redis"
    """`redis`, or `valkey` where there is one; libfaketime can bend the clock of the latter only."""
    lanes: int = 3
    workers: int = 3
    apis: int = 2
    window: int = 8
    lease_ms: int = 800
    seed: int = 0
    limit_s: float = 2400.0
    """When to stop striking and look at what was reached."""
    depth: int = 10
    """About how many intents wait on each lane."""
    signers: bool = False
    """Whether the first three lanes have their keys in SoftHSM2, in a KMS and in a `txmanager signer`."""
    bug: str = ""
    """A seeded bug of the workers, to see whether it is noticed."""

    @property
    def rng(self) -> random.Random:
        return random.Random(f"{self.name}:{self.seed}")


@dataclass(frozen=True)
class Strike:
    """One fault to come; `roll` is all the randomness it gets."""

    kind: str
    roll: int


@dataclass(frozen=True)
class Script:
    """A scene's plan: who dies where, and what else happens, in order."""

    deaths: tuple[tuple[str, int], ...]
    troubles: tuple[Strike, ...]
    rng: random.Random = field(compare=False)


def draw(spec: SceneSpec) -> Script:
    rng = spec.rng
    deaths = [(DEATHS[n % len(DEATHS)], rng.randint(1, 3)) for n in range(spec.deaths)]
    rng.shuffle(deaths)
    kinds = [kind for kind, count in spec.troubles.items() for _ in range(count)]
    rng.shuffle(kinds)
    troubles = tuple(Strike(kind, rng.randrange(1 << 30)) for kind in kinds)
    return Script(tuple(deaths), troubles, rng)


def _partitions(count: int) -> dict[str, int]:
    return {f"partition: {kind}": (count + n) // len(PARTITIONS) for n, kind in enumerate(PARTITIONS)}


def _weather(each: int) -> dict[str, int]:
    return {f"chain: {kind}": each for kind in WEATHER}


SIGNERS = ("softhsm", "kms", "program")


def _signers(each: int) -> dict[str, int]:
    return {f"signer kill -9: {kind}": each for kind in SIGNERS}


def scenes(seed: int, *, quick: bool) -> list[SceneSpec]:
    """The whole run. Longest first: they share the machine."""
    few = _quick() if quick else _full()
    return [SceneSpec(**{**spec.__dict__, "seed": seed}) for spec in few]


def _full() -> list[SceneSpec]:
    single = {
        "redis kill -9": 100,
        **_partitions(70),
        **_weather(4),
        "api kill -9": 20,
        "worker stopped past its lease": 20,
        "lane added": 2,
        "lane drained": 6,
        "disk full": 6,
        "clock skew: worker": 8,
    }
    cluster = {
        "failover": 25,
        "failover, last writes lost": 2,
        "slot migrated": 20,
        **_partitions(42),
        **_weather(2),
        "api kill -9": 10,
        "worker stopped past its lease": 6,
        "lane drained": 4,
        "disk full": 3,
    }
    sentinel = {
        "failover": 15,
        "failover, last writes lost": 10,
        **_partitions(35),
        **_weather(2),
        "api kill -9": 8,
        "worker stopped past its lease": 6,
        "lane drained": 4,
        "disk full": 3,
    }
    durable = {
        "workerd kill -9": 100,
        **_partitions(21),
        **_weather(1),
        "api kill -9": 10,
        "worker stopped past its lease": 5,
        "lane drained": 2,
    }
    signer = {**_signers(17), **_weather(1), "api kill -9": 2, "worker stopped past its lease": 3, "redis kill -9": 3}
    return [
        SceneSpec("signer", "single", "fsync", 24, signer, window=16, depth=40, signers=True),
        SceneSpec("cluster", "cluster", "replicas", 150, cluster),
        SceneSpec("durable", "durable", "fsync", 40, durable, lease_ms=2000),
        SceneSpec("single-redis", "single", "fsync", 350, single),
        SceneSpec("single-valkey", "single", "fsync", 350, {**single, "clock skew: ledger": 6}, "valkey", window=4),
        SceneSpec("sentinel", "sentinel", "replicas", 120, sentinel),
        SceneSpec("sentinel-loss", "sentinel", "none", 40, {"failover, last writes lost": 10}, lanes=1, workers=2),
    ]


def _quick() -> list[SceneSpec]:
    single = {
        "redis kill -9": 6,
        **_partitions(7),
        **_weather(1),
        "api kill -9": 2,
        "worker stopped past its lease": 2,
        "lane added": 1,
        "lane drained": 1,
        "disk full": 1,
        "clock skew: worker": 1,
        "clock skew: ledger": 1,
    }
    cluster = {"failover": 2, "slot migrated": 3, **_partitions(7), "api kill -9": 1}
    sentinel = {"failover": 1, "failover, last writes lost": 1, "disk full": 1, "lane drained": 1}
    return [
        SceneSpec("signer", "single", "fsync", 4, _signers(1), window=16, depth=40, signers=True, limit_s=150),
        SceneSpec("single-valkey", "single", "fsync", 40, single, "valkey", limit_s=150),
        SceneSpec("cluster", "cluster", "replicas", 10, cluster, limit_s=150),
        SceneSpec("durable", "durable", "fsync", 8, {"workerd kill -9": 6, **_partitions(3)}, limit_s=90),
        SceneSpec("sentinel", "sentinel", "replicas", 8, sentinel, limit_s=150),
        SceneSpec(
            "sentinel-loss",
            "sentinel",
            "none",
            2,
            {"failover, last writes lost": 2},
            lanes=1,
            workers=2,
            limit_s=150,
        ),
    ]
