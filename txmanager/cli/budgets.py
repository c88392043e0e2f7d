"""`txmanager budgets`: what tokens and pools may spend, what is left, and an operator's limit for one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from txmanager.cli.access import note, with_manager
from txmanager.cli.options import AsJson, ConfigFile
from txmanager.core.budgets import MOST_UNITS
from txmanager.core.errors import InvalidInput, NotAllowed, NotFound
from txmanager.settings import Settings

if TYPE_CHECKING:
    from txmanager.core.budgets import Usage
    from txmanager.runtime.accept.billing import Billing, Named
    from txmanager.runtime.manager import TxManager

app = typer.Typer(help="Show and change what tokens and pools may spend.")

BudgetName = Annotated[str, typer.Argument(metavar="BUDGET", help="Its name, as `txmanager budgets` shows it.")]
Amount = Annotated[str, typer.Argument(help="A number with a unit, or a whole number in the smallest unit.")]


@app.callback(invoke_without_command=True)
def budgets(context: typer.Context, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """List the budgets of tokens and pools. With a verb: change the limit of one of them."""
    if context.invoked_subcommand is None:
        _list(as_json, config)


@app.command("list")
def list_(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """List the budgets of tokens and pools: limit, charged, spent, left."""
    _list(as_json, config)


def _list(as_json: bool, config: Path | None) -> None:
    async def read(manager: TxManager, settings: Settings) -> list[tuple[Named, Usage]]:
        named = list(_billing(settings).configured())
        usages = await manager.budgets.usage([one.budget.name for one in named])
        return list(zip(named, usages, strict=True))

    found = with_manager(config, read)
    if as_json:
        from txmanager.api.budgets import budget_json

        typer.echo(json.dumps([budget_json(named, used) for named, used in found], indent=2))
        return
    if not found:
        typer.echo("no token and no pool has a budget in this configuration", err=True)
    for named, used in found:
        typer.echo(_line(named, used))


def _line(named: Named, used: Usage) -> str:
    words, unit, budget = named.unit.words, named.unit.budget, named.budget
    limit = words(used.limit(budget) * unit)
    line = f"{budget.name}  left {words(used.left(budget) * unit)} of {limit}"
    line += f"  charged {words(used.open * unit)}  spent {words(used.costs(budget) * unit)}"
    if used.override is not None:
        line += f"  (set by an operator; the configuration says {words(budget.limit * unit)})"
    return line + ("  rebuilding: new intents are rejected" if used.moved else "")


@app.command("set")
def set_(name: BudgetName, amount: Amount, config: ConfigFile = None) -> None:
    """Override the configured limit until `reset`."""
    _change(config, name, "set", amount, lambda now, units: units)


@app.command("raise")
def raise_(name: BudgetName, amount: Amount, config: ConfigFile = None) -> None:
    """Add to the current limit until `reset`."""
    _change(config, name, "raise", amount, lambda now, units: now + units)


@app.command()
def reset(name: BudgetName, config: ConfigFile = None) -> None:
    """Use the configured limit again. The amount spent does not change."""
    _change(config, name, "reset", "", None)


def _change(config: Path | None, name: str, verb: str, amount: str, limit: Callable[[int, int], int] | None) -> None:
    async def act(manager: TxManager, settings: Settings) -> str:
        named = _find(_billing(settings), name)
        [used] = await manager.budgets.usage([named.budget.name])
        wanted = None
        if limit is not None:
            wanted = limit(used.limit(named.budget), _units(named, amount))
            if not 0 <= wanted <= MOST_UNITS:
                raise InvalidInput(
                    "AMOUNT", f"a budget holds at most {named.unit.words(MOST_UNITS * named.unit.budget)}"
                )
        await note(manager, f"budgets {verb}", named.budget.name, details=amount)
        if not await manager.budgets.override(named.budget.name, wanted, used.override):
            raise NotAllowed(f"somebody else changed {name} at the same time; check it and try again")
        [now] = await manager.budgets.usage([named.budget.name])
        return _line(named, now)

    typer.echo(with_manager(config, act))


def _units(named: Named, amount: str) -> int:
    """Rounded down, against the caller."""
    try:
        return named.unit.parse(amount) // named.unit.budget
    except ValueError as error:
        raise InvalidInput("AMOUNT", str(error)) from None


def _billing(settings: Settings) -> Billing:
    from txmanager.runtime.accept.billing import build_billing

    return build_billing(settings)


def _find(billing: Billing, name: str) -> Named:
    """A key's budget is found by its name, too: key:TENANT/POOL/KEY/SPAN."""
    named = list(billing.configured())
    kind, _, rest = name.partition(":")
    if kind == "key" and rest.count("/") == 3:
        tenant, pool, key, _ = rest.split("/")
        named += billing.of_key(tenant, pool, key)
    found = [one for one in named if one.budget.name == name]
    if not found:
        known = ", ".join(one.budget.name for one in billing.configured()) or "none"
        raise NotFound(f"no budget is called {name!r}; there are {known}, and key:TENANT/POOL/KEY/SPAN")
    return found[0]
