"""The keeper of purses: reads what lanes pay from, says what is low, and asks the treasury to fill it up.

It holds no key and takes no lease. A purse is read once in a round, however many lanes share it. Any number of keepers
may run; `TopUps` sees to it that they pay once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from txmanager.core.chain import Chain
from txmanager.core.errors import BudgetExhausted, PolicyRefused, TxManagerError
from txmanager.core.funds import Funds, PurseName
from txmanager.core.ledger import Ledger
from txmanager.core.models import Lane
from txmanager.core.purses import Marks
from txmanager.core.states import LaneState
from txmanager.runtime.accept.billing import Billing
from txmanager.runtime.care.purse_metrics import LOW, REFUSED, PurseMetrics
from txmanager.runtime.care.top_ups import TopUps
from txmanager.runtime.care.treasury import TreasuryUse, spending_of
from txmanager.settings.family import PurseSide

_ABREAST = 16
_PLAIN_FOR_S = 3_600.0
"""How long a key that has no purse of its own is taken for that: a permission changes only with the key."""
SAY_AGAIN_S = 600.0


@dataclass(frozen=True, slots=True)
class Cared:
    """One network as the keeper sees it."""

    name: str
    chain: Chain
    side: PurseSide
    marks: Mapping[PurseName, Marks] = field(default_factory=dict)
    top_ups: TopUps | None = None


@dataclass(frozen=True, slots=True)
class PurseSeen:
    purse: str
    kind: PurseName
    balance: int
    pools: frozenset[str]
    lane: str
    """One of those that pay from it."""
    marks: Marks | None = None
    treasury: bool = False
    """Whether lanes of the treasury pay from it: nobody fills it up."""
    keyless: bool = False
    network: str = ""
    payers: Sequence[Lane] = ()
    """All lanes that pay from it."""

    @property
    def low(self) -> bool:
        return self.marks is not None and self.balance < self.marks.low


class PurseKeeper:
    def __init__(
        self,
        ledger: Ledger,
        networks: Mapping[str, Cared],
        billing: Billing,
        *,
        period_s: float = 30.0,
        metrics: PurseMetrics | None = None,
        name: str = "monitor",
    ) -> None:
        """`networks` by the beginning of their lanes' ids."""
        self.metrics = metrics or PurseMetrics()
        self._ledger, self._networks, self._billing = ledger, networks, billing
        self._period_s = period_s
        self._plain: dict[str, float] = {}
        self._said: dict[tuple[str, str], float] = {}
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger("monitor").bind(monitor=name)

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        while not self._stopping.is_set():
            began = asyncio.get_running_loop().time()
            try:
                await self.check_all()
            except TxManagerError as error:
                self._log.warning("purses not read, again later", error=str(error))
            left = self._period_s - (asyncio.get_running_loop().time() - began)
            try:
                async with asyncio.timeout(max(0.05, left)):
                    await self._stopping.wait()
            except TimeoutError:
                pass

    async def check_all(self) -> list[PurseSeen]:
        """One round: every purse is read, and what is low is topped up."""
        found = await self.look()
        for seen in found:
            alerts = {LOW} if seen.low else set[str]()
            if seen.low and await self._refused(seen):
                alerts.add(REFUSED)
            self.metrics.note(seen.purse, seen.kind, seen.balance, alerts)
            self._tell(seen)
        self.metrics.keep({(seen.purse, seen.kind) for seen in found})
        for one in await self.spending(found):
            self.metrics.note_treasury(one.pool, one.balance, one.per_day, one.days_left)
        return found

    async def look(self) -> list[PurseSeen]:
        """Every purse of every lane that is not closed; nothing is paid."""
        groups: dict[tuple[str, str], list[Lane]] = {}
        for lane in await self._ledger.lanes():
            beginning = self._beginning(lane.id)
            if beginning is not None and lane.state is not LaneState.CLOSED:
                account = self._networks[beginning].side.of(lane.id, "account")
                groups.setdefault((beginning, account), []).append(lane)
        found: list[PurseSeen] = []
        todo = [(self._networks[beginning], lanes) for (beginning, _), lanes in sorted(groups.items())]
        for start in range(0, len(todo), _ABREAST):
            for purses in await asyncio.gather(*(self._account(*one) for one in todo[start : start + _ABREAST])):
                found += purses
        return found

    async def spending(self, found: Sequence[PurseSeen]) -> list[TreasuryUse]:
        pools = {cared.top_ups.pool for cared in self._networks.values() if cared.top_ups is not None}
        balances = {pool: sum(s.balance for s in found if s.kind == "account" and pool in s.pools) for pool in pools}
        return await spending_of(self._ledger, self._billing, balances)

    def _beginning(self, lane: str) -> str | None:
        fits = [beginning for beginning in self._networks if lane.startswith(f"{beginning}:")]
        return max(fits, key=len, default=None)

    async def _account(self, cared: Cared, lanes: Sequence[Lane]) -> list[PurseSeen]:
        """All purses of one account, each read through one of its lanes."""
        of, now = cared.side.of, asyncio.get_running_loop().time()
        by_purse: dict[str, list[Lane]] = {}
        for lane in lanes:
            for purse in {of(lane.id, "account"), of(lane.id, "gas_key")}:
                by_purse.setdefault(purse, []).append(lane)
        found: dict[str, PurseSeen] = {}
        for lane in lanes:
            key = of(lane.id, "gas_key")
            if of(lane.id, "account") in found and (key in found or now < self._plain.get(key, 0.0)):
                continue
            try:
                funds = (await cared.chain.nonce(lane.id)).funds
            except TxManagerError as error:
                self.metrics.failures.labels(type(error).__name__).inc()
                self._log.warning("purse not read", lane=lane.id, error=str(error))
                continue
            for one in funds.purses if funds is not None else ():
                purse = of(lane.id, one.name)
                if purse not in found:
                    found[purse] = _seen(cared, purse, one.name, one.balance, lane, by_purse[purse])
            if key not in found:
                self._plain[key] = now + _PLAIN_FOR_S
        return list(found.values())

    async def _refused(self, seen: PurseSeen) -> bool:
        """Top the purse up if somebody does; answers whether the treasury may not pay."""
        cared = self._networks[self._beginning(seen.lane) or ""]
        if cared.top_ups is None or seen.marks is None or seen.marks.high is None or seen.treasury or seen.keyless:
            return False

        async def balance() -> int:
            return await self._highest(cared, seen)

        log = self._log.bind(purse=seen.purse, pool=cared.top_ups.pool)
        try:
            made = await cared.top_ups.pay(seen.purse, seen.marks, balance)
        except (BudgetExhausted, PolicyRefused) as error:
            if self._due(seen.purse, REFUSED):
                log.error("top-up refused", error=str(error), code=error.code)
            return True
        except TxManagerError as error:
            log.warning("top-up not asked for, again later", error=str(error))
            return False
        if made is not None:
            self.metrics.top_ups.labels(seen.purse).inc()
            log.warning("top-up asked for", key=made.key, amount=str(made.amount))
        return False

    async def _highest(self, cared: Cared, seen: PurseSeen) -> int:
        """As the node says that knows of most: one that lags, or lies, moves no money by itself."""
        first = await cared.chain.nonce(seen.lane)
        readings = (await cared.chain.readings(seen.lane, first)).by_node.values()
        views = [view.funds for view in (first, *readings) if view.funds is not None]
        return max((_balance(funds, seen.kind) for funds in views), default=seen.balance)

    def _tell(self, seen: PurseSeen) -> None:
        if not seen.low:
            if self._said.pop((seen.purse, LOW), None) is not None:
                self._log.info("purse alert over", purse=seen.purse, kind=seen.kind)
            return
        if not self._due(seen.purse, LOW):
            return
        marks = seen.marks
        assert marks is not None
        facts = {"purse": seen.purse, "kind": seen.kind, "balance": str(seen.balance), "low": str(marks.low)}
        if seen.kind == "allowance":
            facts["do"] = f"an allowance cannot be filled up: run `txmanager keys renew` for {seen.lane}"
        self._log.error("purse alert", alert=LOW, **facts)

    def _due(self, purse: str, alert: str) -> bool:
        now = asyncio.get_running_loop().time()
        due = now - self._said.get((purse, alert), float("-inf")) >= SAY_AGAIN_S
        if due:
            self._said[purse, alert] = now
        return due


def _seen(cared: Cared, purse: str, kind: PurseName, balance: int, lane: Lane, payers: Iterable[Lane]) -> PurseSeen:
    payers = list(payers)
    pools = frozenset(one.spec.pool for one in payers)
    seen = PurseSeen(purse, kind, balance, pools, lane.id, cared.marks.get(kind))
    own = cared.top_ups is not None and cared.top_ups.pool in pools
    keyless = all(one.keyless for one in payers)
    return replace(seen, treasury=own, keyless=keyless, network=cared.name, payers=payers)


def _balance(funds: Funds, kind: PurseName) -> int:
    return next((one.balance for one in funds.purses if one.name == kind), 0)
