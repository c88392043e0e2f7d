"""`txmanager doctor`: can the real servers keep the promises? Each line is ok, warn or fail, with the fix."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import typer

from txmanager.cli.options import ConfigFile
from txmanager.core.errors import InvalidSettings
from txmanager.settings import Settings, load

if TYPE_CHECKING:
    from txmanager.ledger.redis.checks import Finding

COLOURS = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "fail": typer.colors.RED}


def doctor(config: ConfigFile = None) -> None:
    """Ask the servers whether they can keep the promises; exit code 2 if anything fails."""
    if asyncio.run(_examine(load(config))):
        raise typer.Exit(2)


async def _examine(settings: Settings) -> int:
    failed = 0
    async for part, finding in _findings(settings):
        failed += finding.level == "fail"
        level = typer.style(f"{finding.level:<4}", fg=COLOURS[finding.level])
        fix = f" (fix: {finding.fix})" if finding.fix else ""
        typer.echo(f"{level}  {part}: {finding.what}{fix}")
    return failed


async def _findings(settings: Settings) -> AsyncIterator[tuple[str, Finding]]:
    from txmanager.ledger.redis.checks import Finding

    yield "config", Finding("ok", f"{len(settings.networks)} networks, {len(settings.pools)} pools")
    for finding in await ledger(settings):
        yield "ledger", finding


async def ledger(settings: Settings) -> list[Finding]:
    # Imported here: the ledger's libraries take as long to load as all the rest, and `--help` should not wait.
    from txmanager.ledger.redis.checks import Finding, inspect

    try:
        url = settings.ledger.reveal_url()
    except InvalidSettings as problem:
        return [Finding("fail", str(problem), "see `txmanager config check`")]
    if url.startswith("memory:"):
        return [Finding("warn", "the memory ledger forgets everything with its process", "use Redis or Valkey")]
    return await inspect(url, settings.ledger.durability)
