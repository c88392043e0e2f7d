"""`txmanager ledger status|upgrade`: which formats the ledger is written in, and the word that newer ones may be."""

from __future__ import annotations

import asyncio
from collections import Counter

import typer

from txmanager.cli.options import ConfigFile, Yes
from txmanager.core.ledger import SCHEMA, Ledger
from txmanager.settings import Settings, load

app = typer.Typer(help="The ledger's formats: show the schema, raise it after an upgrade.", no_args_is_help=True)

_WARNING = """\
Not visible from here: APIs, sweepers, webhooks, archivers and gateways. Stop those of releases 0.1.0 and 0.2.0 first:
in a raised lane they find no room for new intents (429), and they cannot read its records and events.
A schema cannot be lowered again."""


@app.command()
def status(config: ConfigFile = None) -> None:
    """Show the installation's schema, and how many lanes have which."""
    asyncio.run(_status(load(config)))


@app.command()
def upgrade(yes: Yes = False, config: ConfigFile = None) -> None:
    """Let this release write its newest formats, once no older release runs beside it.

    Until then it writes what releases 0.1.0 and 0.2.0 can read. It refuses while a worker of theirs is alive.
    If it stops, run it again.
    """
    asyncio.run(_upgrade(load(config), yes))


async def _status(settings: Settings) -> None:
    from txmanager.wiring import open_ledger

    ledger = await open_ledger(settings)
    try:
        installed = await ledger.schema()
        typer.echo(f"schema {installed} of {SCHEMA}" + _advice(installed))
        lanes = Counter(lane.schema for lane in await ledger.lanes())
        for schema, count in sorted(lanes.items()):
            typer.echo(f"  {count} {'lane' if count == 1 else 'lanes'} of schema {schema}")
    finally:
        await ledger.close()


def _advice(installed: int) -> str:
    return "" if installed >= SCHEMA else "; `txmanager ledger upgrade` raises it once no older release runs"


async def _upgrade(settings: Settings, yes: bool) -> None:
    from txmanager.wiring import open_ledger

    ledger = await open_ledger(settings)
    try:
        before = await ledger.schema()
        lanes = [lane for lane in await ledger.lanes() if lane.schema < SCHEMA]
        if before >= SCHEMA and not lanes:
            typer.echo(f"schema {before} already; nothing to do")
            return
        await ledger.check_upgrade()
        typer.echo(f"Schema {before} -> {SCHEMA}, {len(lanes)} lanes to raise.")
        typer.echo(await _checked(ledger))
        typer.echo(_WARNING)
        if not yes:
            typer.confirm("Raise it?", abort=True)
        raised = await ledger.upgrade()
        typer.echo(f"schema {SCHEMA}, {len(raised)} lanes raised")
    finally:
        await ledger.close()


async def _checked(ledger: Ledger) -> str:
    workers = await ledger.members()
    return f"Checked: {len(workers)} live {'worker' if len(workers) == 1 else 'workers'}, none of an older release."
