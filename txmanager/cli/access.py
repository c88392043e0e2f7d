"""The ledger as operator commands reach it: directly, so that they work when the API does not."""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from txmanager.core.audit import ALL_TENANTS, AuditEntry
from txmanager.core.errors import InvalidInput, InvalidSettings, NotFound
from txmanager.core.models import IntentId, Lane, Record, intent_id
from txmanager.settings import Settings, load

if TYPE_CHECKING:
    from txmanager.runtime.manager import TxManager

T = TypeVar("T")


def with_manager(
    config: Path | None, work: Callable[[TxManager, Settings], Awaitable[T]], *, archive: bool = False
) -> T:
    """Run `work` against the ledger of the configuration; with `archive`, against its archive, too."""
    settings = load(config)
    if settings.ledger.reveal_url().startswith("memory:"):
        raise InvalidSettings(
            "ledger.url", "memory:// exists only inside another process; commands need Redis or Valkey"
        )

    async def run() -> T:
        # Imported here: `--help` should not wait for the ledger's libraries.
        from txmanager.runtime.manager import TxManager
        from txmanager.wiring import open_archive_reader, open_ledger, open_seals

        ledger = await open_ledger(settings)
        history = await open_archive_reader(settings) if archive else None
        try:
            return await work(TxManager(ledger, seals=open_seals(settings), archive=history), settings)
        finally:
            await ledger.close()
            if history is not None:
                await history.close()

    return asyncio.run(run())


async def find_record(manager: TxManager, settings: Settings, key: str, pool: str | None, tenant: str) -> Record:
    """In the named pool, or in the only one that knows the key."""
    pools = [pool] if pool is not None else sorted({lane.spec.pool for lane in await manager.lanes()})
    pools = pools or sorted(settings.pools)
    ids: list[IntentId] = [intent_id(key, name, tenant) for name in pools]
    found = [record for id in ids if (record := await manager.read(id)) is not None]
    if not found:
        where = f"pool {pool!r}" if pool is not None else f"any pool ({', '.join(pools) or 'there is none'})"
        raise NotFound(f"no intent {key!r} in {where}; it was never accepted, or its retention time has passed")
    if len(found) > 1:
        raise InvalidInput("--pool", f"is needed: {', '.join(record.id.pool for record in found)} all have this key")
    return found[0]


async def find_lane(manager: TxManager, part: str) -> Lane:
    """By its id, or by any part of it that no other lane has; a parked one by its id."""
    lanes = await manager.lanes()
    found = [lane for lane in lanes if lane.id == part] or [lane for lane in lanes if part and part in lane.id]
    if not found and (parked := await manager.lane(part)) is not None:
        return parked
    if not found:
        raise NotFound(f"no lane has {part!r} in its id; `txmanager lanes` lists them")
    if len(found) > 1:
        raise InvalidInput("LANE", f"{part!r} matches {len(found)} lanes; give more of the id")
    return found[0]


def operator() -> str:
    """Who asks, for the record."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):
        return f"operator@{socket.gethostname()}"


async def note(manager: TxManager, what: str, on: str, tenant: str = ALL_TENANTS, details: str = "") -> None:
    """Into the audit, before the command acts; a command that cannot be written down does not act."""
    entry = AuditEntry(operator(), tenant, f"txmanager {what}", on, origin="cli", told=details)
    await manager.audits.note(entry)


def confirm(question: str, yes: bool) -> None:
    if yes:
        return
    try:
        typer.confirm(question, abort=True)
    except typer.Abort:
        raise InvalidInput("--yes", "nothing was done: answer y, or pass --yes if nobody can answer") from None
