"""Whether this process runs (`/healthz`), and whether intents can be accepted and carried out (`/readyz`, why not).

Accepting needs the ledger alone. Each pool is judged on its own, and one that stands still takes no other one out: the
answer is 503 only when the ledger is away, or when no pool at all can work. Reasons are fixed words. What a lane or an
error says stays in the log, because anybody may ask here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic

import structlog
from pydantic import BaseModel

from txmanager.api.auth import Gate
from txmanager.api.call import Call, Reply, json_reply
from txmanager.api.metrics import ApiMetrics
from txmanager.core.errors import InvalidInput, TxManagerError
from txmanager.core.ledger import Member
from txmanager.core.models import Lane
from txmanager.core.states import LaneState
from txmanager.runtime.manager import TxManager

Probe = Callable[[], Awaitable[None]]
"""Asks a network for a sign of life; raises when there is none."""
_FRESH_S = 1.0
_CHAIN_FRESH_S = 5.0
_CHAIN_WITHIN_S = 3.0


class Reason(StrEnum):
    NO_ANSWER = "no_answer"
    UNAVAILABLE = "unavailable"
    NO_LANE = "no_lane"
    NO_WORKER = "no_worker"
    NO_ACTIVE_LANE = "no_active_lane"
    QUARANTINED = "quarantined"


_DETAIL = {
    Reason.NO_ANSWER: "no answer in time",
    Reason.UNAVAILABLE: "it cannot be used; the API's log says why",
    Reason.NO_LANE: "no lane is registered yet; start a worker for this pool",
    Reason.NO_WORKER: "no worker of this pool is alive; intents are accepted and wait",
    Reason.NO_ACTIVE_LANE: "no lane is active; `txmanager lanes` says why",
    Reason.QUARANTINED: "a lane is quarantined and others work; `txmanager lanes` says why",
}


@dataclass(slots=True)
class _Check:
    ok: bool = True
    reason: Reason | None = None
    lanes: dict[str, int] = field(default_factory=dict)
    workers: int | None = None

    def shown(self) -> dict[str, object]:
        shown: dict[str, object] = {"ok": self.ok}
        if self.reason is not None:
            shown |= {"reason": self.reason.value, "detail": _DETAIL[self.reason]}
        if self.workers is not None:
            shown |= {"workers": self.workers, "lanes": self.lanes}
        return shown


class Check(BaseModel):
    ok: bool
    reason: str | None = None
    detail: str | None = None
    workers: int | None = None
    lanes: dict[str, int] | None = None


class Readiness(BaseModel):
    status: str
    checks: dict[str, Check]


class Alive(BaseModel):
    status: str


class Health:
    """`pools` by name, each with its network; without any, every pool that the ledger has lanes of is reported."""

    def __init__(
        self,
        manager: TxManager,
        pools: Mapping[str, str],
        probes: Mapping[str, Probe],
        metrics: ApiMetrics,
        gate: Gate,
        timeout_s: float,
        measure: Probe,
    ) -> None:
        """`measure` brings up to date what only the ledger knows of the metrics."""
        self._manager = manager
        self._measure = measure
        self._pools = pools
        self._probes = probes
        self._metrics = metrics
        self._gate = gate
        self._timeout_s = timeout_s
        self._cached: tuple[float, dict[str, _Check]] | None = None
        self._chains: tuple[float, dict[str, _Check]] | None = None
        self._asking: asyncio.Lock = asyncio.Lock()
        self._said: dict[str, str] = {}
        self._log = structlog.get_logger("api")

    async def healthz(self, call: Call) -> Reply:
        return json_reply({"status": "ok"})

    async def metrics(self, call: Call) -> Reply:
        self._metrics.bad_tokens.set(self._gate.refusals)
        await self._measure()
        return Reply(200, self._metrics.render(), [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")])

    async def readyz(self, call: Call) -> Reply:
        """`?for=submit` asks only whether intents can be accepted; `?pool=` asks for one pool."""
        purpose, pool = call.query.get("for", "all"), call.query.get("pool")
        if purpose not in ("all", "submit"):
            raise InvalidInput("for", "must be all or submit")
        async with self._asking:  # however many ask, the ledger and the chain are asked once
            checks = dict(await self._accepting())
            if purpose == "all":
                checks |= await self._chain_checks()
        if pool is not None:
            checks = self._of_pool(pool, checks)
        ready = checks["ledger"].ok
        if ready and pool is not None:
            ready = self._works(pool, checks)
        elif ready and purpose == "all":
            ready = self._some_pool_works(checks)
        whole = all(check.ok and check.reason is None for check in checks.values())
        body = {
            "status": "unready" if not ready else "ready" if whole else "degraded",
            "checks": {name: check.shown() for name, check in checks.items()},
        }
        reply = json_reply(body, 200 if ready else 503)
        if not ready:
            reply.headers.append((b"retry-after", b"1"))
        return reply

    def _works(self, pool: str, checks: Mapping[str, _Check]) -> bool:
        """Whether it has a worker, a lane, and a chain that answers (where that was asked)."""
        chain = checks.get(f"chain:{self._pools.get(pool, '')}")
        return checks[f"pool:{pool}"].ok and (chain is None or chain.ok)

    def _some_pool_works(self, checks: Mapping[str, _Check]) -> bool:
        pools = [name.removeprefix("pool:") for name in checks if name.startswith("pool:")]
        if not pools:
            return all(check.ok for check in checks.values())
        return any(self._works(pool, checks) for pool in pools)

    def _of_pool(self, pool: str, checks: Mapping[str, _Check]) -> dict[str, _Check]:
        if checks["ledger"].ok and f"pool:{pool}" not in checks:
            raise InvalidInput("pool", f"{pool[:100]!r} is no pool of this configuration")
        wanted = ("ledger", f"pool:{pool}", f"chain:{self._pools.get(pool, '')}")
        return {name: checks[name] for name in wanted if name in checks}

    async def _accepting(self) -> dict[str, _Check]:
        if self._cached is None or monotonic() - self._cached[0] > _FRESH_S:
            self._cached = (monotonic(), await self._ledger_checks())
        return self._cached[1]

    async def _ledger_checks(self) -> dict[str, _Check]:
        try:
            async with asyncio.timeout(self._timeout_s):
                lanes, members = await asyncio.gather(self._manager.lanes(), self._manager.members())
        except (TimeoutError, TxManagerError) as error:
            return {"ledger": self._away("ledger", error)}
        checks = {"ledger": self._there("ledger")}
        of_pool: dict[str, list[Lane]] = {pool: [] for pool in self._pools}
        for lane in lanes:
            if not self._pools or lane.spec.pool in of_pool:
                of_pool.setdefault(lane.spec.pool, []).append(lane)
        for pool in sorted(of_pool):
            checks[f"pool:{pool}"] = _pool_check(of_pool[pool], members)
        return checks

    async def _chain_checks(self) -> dict[str, _Check]:
        if self._chains is None or monotonic() - self._chains[0] > _CHAIN_FRESH_S:
            found = await asyncio.gather(*(self._ask(name, probe) for name, probe in self._probes.items()))
            checks = {f"chain:{name}": check for name, check in zip(self._probes, found, strict=True)}
            self._chains = (monotonic(), checks)
        return self._chains[1]

    async def _ask(self, name: str, probe: Probe) -> _Check:
        try:
            async with asyncio.timeout(_CHAIN_WITHIN_S):
                await probe()
        except (TimeoutError, TxManagerError) as error:
            return self._away(f"chain:{name}", error)
        return self._there(f"chain:{name}")

    def _there(self, part: str) -> _Check:
        self._said.pop(part, None)
        return _Check()

    def _away(self, part: str, error: Exception) -> _Check:
        """The words go to the log, once per change: they may name hosts."""
        why = str(error) or "no answer in time"
        if self._said.get(part) != why:
            self._said[part] = why
            self._log.warning("not ready", part=part, error=why)
        return _Check(False, Reason.NO_ANSWER if isinstance(error, TimeoutError) else Reason.UNAVAILABLE)


def _pool_check(lanes: list[Lane], members: list[Member]) -> _Check:
    states: dict[str, int] = {}
    for lane in lanes:
        states[lane.state.value] = states.get(lane.state.value, 0) + 1
    ids = {lane.id for lane in lanes}
    alive = [member for member in members if ids & member.lanes]
    check = _Check(lanes=states, workers=len(alive))
    if not lanes:
        check.ok, check.reason = False, Reason.NO_LANE
    elif not alive:
        check.ok, check.reason = False, Reason.NO_WORKER
    elif LaneState.ACTIVE.value not in states:
        check.ok, check.reason = False, Reason.NO_ACTIVE_LANE
    elif LaneState.QUARANTINED.value in states:
        check.reason = Reason.QUARANTINED  # the pool works, and somebody has to look at it
    return check
