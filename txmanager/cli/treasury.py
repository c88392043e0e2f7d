"""`txmanager treasury`: what every purse has, what treasuries pay in a day, and how long that lasts."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import typer

from txmanager.cli.options import AsJson, ConfigFile
from txmanager.core.errors import InvalidSettings
from txmanager.core.purses import METER_MS, days_left
from txmanager.settings import Settings, load

if TYPE_CHECKING:
    from txmanager.runtime.care.purses import PurseSeen
    from txmanager.runtime.care.treasury import TreasuryUse
    from txmanager.settings.family import Unit

Row = dict[str, Any]


def treasury(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Show balances, the rate per day and the days left of every purse and treasury. Nothing is paid."""
    settings = load(config)
    if settings.ledger.reveal_url().startswith("memory:"):
        raise InvalidSettings("ledger.url", "memory:// lives inside another process; commands need Redis or Valkey")
    purses, treasuries = asyncio.run(_read(settings))
    if as_json:
        tables = {"purses": purses, "treasuries": treasuries}
        typer.echo(json.dumps({name: [_bare(one) for one in rows] for name, rows in tables.items()}, indent=2))
        return
    if not purses:
        typer.echo("no lane of this configuration is in the ledger yet: start a worker", err=True)
    for one in (*purses, *treasuries):
        typer.echo(one["words"])


async def _read(settings: Settings) -> tuple[list[Row], list[Row]]:
    # Imported here: `--help` should not wait for the adapters' libraries.
    from txmanager.runtime.accept.billing import build_billing
    from txmanager.runtime.care.purses import PurseKeeper
    from txmanager.runtime.care.treasury import paid_per_day
    from txmanager.wiring import build_purses, open_ledger

    opened = await open_ledger(settings)
    cared, close = build_purses(settings, opened)
    try:
        keeper = PurseKeeper(opened, cared, build_billing(settings))
        found = await keeper.look()
        uses = await keeper.spending(found)
        span = min(METER_MS, settings.ledger.retention_s * 1000)
        purses = []
        for seen in found:
            unit = settings.family(_network(settings, seen)).unit
            paid = await paid_per_day(opened, [seen.purse], unit.budget, span)
            purses.append(_purse(seen, paid[seen.purse], unit))
        units = [settings.family(settings.pools[use.pool].network).unit for use in uses]
        return purses, [_treasury(use, unit) for use, unit in zip(uses, units, strict=True)]
    finally:
        await close()
        await opened.close()


def _network(settings: Settings, seen: PurseSeen) -> str:
    return next(
        name
        for name, network in settings.networks.items()
        if seen.purse.startswith(f"{settings.family(name).lanes(name, network)}:")
    )


def _bare(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "words"}


def _purse(seen: PurseSeen, paid: int, unit: Unit) -> Row:
    marks, left, words = seen.marks, days_left(seen.balance, paid), unit.words
    line = f"{seen.purse}  {seen.kind}  {words(seen.balance)}"
    if marks is not None:
        line += f"  low {words(marks.low)}" + (f"  high {words(marks.high)}" if marks.high is not None else "")
    if left is not None:
        line += f"  paid in per day {words(paid)}  lasts {left:.1f} days without"
    line += "  LOW" if seen.low else ""
    return {
        "purse": seen.purse,
        "kind": seen.kind,
        "balance": str(seen.balance),
        "low": None if marks is None else str(marks.low),
        "high": None if marks is None or marks.high is None else str(marks.high),
        "paid_in_per_day": str(paid),
        "days_left": None if left is None else round(left, 2),
        "is_low": seen.low,
        "treasury": seen.treasury,
        "words": line,
    }


def _treasury(use: TreasuryUse, unit: Unit) -> Row:
    line = f"treasury {use.pool}  {unit.words(use.balance)}  per day {unit.words(use.per_day)}"
    line += "  nothing paid yet" if use.days_left is None else f"  {use.days_left:.1f} days left"
    left = None if use.days_left is None else round(use.days_left, 2)
    return {
        "pool": use.pool,
        "balance": str(use.balance),
        "per_day": str(use.per_day),
        "days_left": left,
        "words": line,
    }
