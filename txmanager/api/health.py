"""Whether this process runs (`/healthz`), and whether intents can be accepted and carried out (`/readyz`, why not)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic

from txmanager.api.auth import Gate
from txmanager.api.endpoint import Call, Reply, json_reply
from txmanager.api.metrics import ApiMetrics
from txmanager.core.errors import InvalidInput, TxManagerError
from txmanager.core.ledger import Ledger, Member
from txmanager.core.models import Lane
from txmanager.core.states import LaneState

Probe = Callable[[], Awaitable[None]]
"""Asks a network for a sign of life; raises when there is none."""
_FRESH_S = 1.0
_CHAIN_FRESH_S = 5.0


@dataclass(slots=True)
class _Check:
    ok: bool
    reason: str = ""
    lanes: dict[str, int] = field(default_factory=dict)
    workers: int | None = None

    def shown(self) -> dict[str, object]:
        shown: dict[str, object] = {"ok": self.ok}
        if self.reason:
            shown["reason"] = self.reason
        if self.workers is not None:
            shown |= {"workers": self.workers, "lanes": self.lanes}
        return shown


class Health:
    def __init__(
        self,
        ledger: Ledger,
        pools: frozenset[str],
        probes: Mapping[str, Probe],
        metrics: ApiMetrics,
        gate: Gate,
        timeout_s: float,
    ) -> None:
        self._ledger = ledger
        self._pools = pools
        self._probes = probes
        self._metrics = metrics
        self._gate = gate
        self._timeout_s = timeout_s
        self._cached: tuple[float, dict[str, _Check]] | None = None
        self._chains: tuple[float, dict[str, _Check]] | None = None
        self._asking: asyncio.Lock = asyncio.Lock()

    async def healthz(self, call: Call) -> Reply:
        return json_reply({"status": "ok"})

    async def metrics(self, call: Call) -> Reply:
        self._metrics.bad_tokens.set(self._gate.refusals)
        return Reply(200, self._metrics.render(), [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")])

    async def readyz(self, call: Call) -> Reply:
        """`?for=submit` asks only whether intents can be accepted: a chain that is away does not stop that."""
        purpose = call.query.get("for", "all")
        if purpose not in ("all", "submit"):
            raise InvalidInput("for", "must be all or submit")
        async with self._asking:  # however many ask, the ledger and the chain are asked once
            checks = dict(await self._accepting())
            if purpose == "all":
                checks |= await self._chain_checks()
        ready = all(check.ok for check in checks.values())
        body = {
            "status": "ready" if ready else "unready",
            "checks": {name: check.shown() for name, check in checks.items()},
        }
        reply = json_reply(body, 200 if ready else 503)
        if not ready:
            reply.headers.append((b"retry-after", b"1"))
        return reply

    async def _accepting(self) -> dict[str, _Check]:
        if self._cached is None or monotonic() - self._cached[0] > _FRESH_S:
            self._cached = (monotonic(), await self._ledger_checks())
        return self._cached[1]

    async def _ledger_checks(self) -> dict[str, _Check]:
        try:
            async with asyncio.timeout(self._timeout_s):
                lanes, members = await asyncio.gather(self._ledger.lanes(), self._ledger.members())
        except TimeoutError:
            return {"ledger": _Check(False, f"no answer within {self._timeout_s:g} s")}
        except TxManagerError as error:
            return {"ledger": _Check(False, str(error))}
        checks = {"ledger": _Check(True)}
        pools = self._pools or {lane.spec.pool for lane in lanes}
        for pool in sorted(pools):
            checks[f"pool:{pool}"] = _pool_check([lane for lane in lanes if lane.spec.pool == pool], members)
        return checks

    async def _chain_checks(self) -> dict[str, _Check]:
        if self._chains is None or monotonic() - self._chains[0] > _CHAIN_FRESH_S:
            found = await asyncio.gather(*(self._ask(probe) for probe in self._probes.values()))
            checks = {f"chain:{name}": check for name, check in zip(self._probes, found, strict=True)}
            self._chains = (monotonic(), checks)
        return self._chains[1]

    @staticmethod
    async def _ask(probe: Probe) -> _Check:
        try:
            async with asyncio.timeout(3.0):
                await probe()
        except TimeoutError:
            return _Check(False, "no node answered within 3 s")
        except TxManagerError as error:
            return _Check(False, str(error))
        return _Check(True)


def _pool_check(lanes: list[Lane], members: list[Member]) -> _Check:
    states: dict[str, int] = {}
    for lane in lanes:
        states[lane.state.value] = states.get(lane.state.value, 0) + 1
    ids = {lane.id for lane in lanes}
    alive = [member for member in members if ids & member.lanes]
    check = _Check(True, "", states, len(alive))
    if not lanes:
        check.ok, check.reason = False, "no lane was ever registered; start a worker for this pool"
    elif not alive:
        check.ok, check.reason = False, "no worker of this pool is alive; intents are accepted and wait"
    elif LaneState.ACTIVE.value not in states:
        reasons = sorted({lane.reason for lane in lanes if lane.reason})
        check.ok, check.reason = False, f"no lane is active ({'; '.join(reasons) or 'see /v1/lanes'})"
    return check
