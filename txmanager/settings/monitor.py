"""The monitor's settings: from when on a lane is in trouble, from when on a purse is low, and who fills it up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from txmanager.core.errors import InvalidSettings
from txmanager.core.funds import PurseName
from txmanager.core.purses import Marks
from txmanager.settings.budgets import Amount
from txmanager.settings.family import find
from txmanager.settings.parts import Name, Part
from txmanager.settings.pools import NetworkSettings, PoolSettings

if TYPE_CHECKING:
    from txmanager.settings.family import Unit

RENAMED = {"low_balance": "low", "top_up": "high", "top_up_pool": "treasury", "top_up_every_s": "every_s"}
"""Settings of 0.2.0, and what stands in their place."""


class MarksSettings(Part):
    """From when on a purse is low, and what it is filled up to."""

    low: Amount
    high: Amount | None = None


class LowMarkSettings(Part):
    """From when on a purse is low that nobody can fill up."""

    low: Amount


class MonitoredNetwork(Part):
    """From when on the purses of a network are low, and who pays then."""

    low: Amount | None = None
    """An account, or an address, with less is low: an alert, and a top-up where `high` and `treasury` say so."""
    high: Amount | None = None
    gas_key: MarksSettings | None = None
    allowance: LowMarkSettings | None = None
    treasury: str | None = None
    every_s: float = Field(default=3600.0, ge=60)

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, value: object) -> object:
        old = [name for name in RENAMED if isinstance(value, Mapping) and name in value]
        if old:
            words = ", ".join(f"{name} is {RENAMED[name]} now" for name in old)
            raise ValueError(
                f"{words}; a purse is filled up from low to high, paid by the pool treasury (docs/money.md)"
            )
        return value

    def marks(self, unit: Unit) -> dict[PurseName, Marks]:
        """`ValueError` says what is wrong with an amount."""
        amounts: dict[PurseName, tuple[str | None, str | None]] = {"account": (self.low, self.high)}
        if self.gas_key is not None:
            amounts["gas_key"] = (self.gas_key.low, self.gas_key.high)
        if self.allowance is not None:
            amounts["allowance"] = (self.allowance.low, None)
        return {
            name: Marks(unit.parse(low), unit.parse(high) if high is not None else None)
            for name, (low, high) in amounts.items()
            if low is not None
        }

    @property
    def fills(self) -> bool:
        return self.high is not None or (self.gas_key is not None and self.gas_key.high is not None)


class MonitorSettings(Part):
    period_s: float = Field(default=30.0, gt=0, le=3600)
    reconcile_every_s: float = Field(default=600.0, gt=0)
    stuck_after_s: float = Field(default=300.0, gt=0)
    overdue_after_s: float = Field(default=1800.0, gt=0)
    dropped_after_s: float = Field(default=10.0, gt=0)
    drift: int = Field(default=64, ge=1)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=1, le=65535)
    networks: dict[Name, MonitoredNetwork] = Field(default_factory=dict)

    def contradictions(
        self, networks: Mapping[str, NetworkSettings], pools: Mapping[str, PoolSettings], retention_s: int
    ) -> Iterator[InvalidSettings]:
        if self.overdue_after_s < self.stuck_after_s:
            yield InvalidSettings("monitor.overdue_after_s", f"must be at least stuck_after_s, {self.stuck_after_s:g}")
        for name, wanted in self.networks.items():
            where = f"monitor.networks.{name}"
            if name not in networks or find(networks[name].chain).purses is None:
                yield InvalidSettings(where, f"names no network that is monitored; add [networks.{name}] or remove it")
                continue
            yield from _marks(where, wanted, networks[name])
            yield from _treasury(where, name, wanted, pools, retention_s)


def _marks(where: str, wanted: MonitoredNetwork, network: NetworkSettings) -> Iterator[InvalidSettings]:
    family = find(network.chain)
    assert family.purses is not None
    if wanted.high is not None and wanted.low is None:
        yield InvalidSettings(f"{where}.low", "is needed with high: from when on to fill up")
    for field in ("gas_key", "allowance"):
        if getattr(wanted, field) is not None and field not in family.purses.names:
            yield InvalidSettings(f"{where}.{field}", f"{family.title} has no such purse; remove it")
    try:
        marks = wanted.marks(family.unit)
    except ValueError as error:
        yield InvalidSettings(where, str(error))
        return
    for kind, mark in marks.items():
        if mark.high is not None and mark.high <= mark.low:
            field = "high" if kind == "account" else f"{kind}.high"
            yield InvalidSettings(f"{where}.{field}", "must be more than low: a purse is filled up from low to high")


def _treasury(
    where: str, name: str, wanted: MonitoredNetwork, pools: Mapping[str, PoolSettings], retention_s: int
) -> Iterator[InvalidSettings]:
    if not wanted.fills:
        if wanted.treasury is not None:
            yield InvalidSettings(f"{where}.high", "is needed with treasury: what purses are filled up to")
        return
    if wanted.treasury is None:
        yield InvalidSettings(f"{where}.treasury", "is needed with high: the pool that pays top-ups")
        return
    if wanted.every_s > retention_s:
        yield InvalidSettings(f"{where}.every_s", f"must not exceed ledger.retention_s, {retention_s} s")
    pool = pools.get(wanted.treasury)
    if pool is None or pool.network != name:
        yield InvalidSettings(f"{where}.treasury", f"{wanted.treasury!r} is no pool of this network")
    elif not pool.policy.budget:
        yield InvalidSettings(
            f"pools.{wanted.treasury}.policy.budget",
            f'is needed: it caps what top-ups cost, such as [{{ network = "{name}", amount = "...", per = "1d" }}]',
        )
