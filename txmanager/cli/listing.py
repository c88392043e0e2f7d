"""`txmanager list`: intents of the ledger and the archive, newest first; as a table, or one JSON object per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from txmanager.cli.access import with_manager
from txmanager.cli.options import ConfigFile
from txmanager.core.errors import InvalidInput
from txmanager.core.listing import PAGE_LIMIT, Filter, Mark
from txmanager.core.models import Record
from txmanager.core.states import Status
from txmanager.settings import Settings

if TYPE_CHECKING:
    from txmanager.runtime.manager import TxManager


def list(
    pool: Annotated[str | None, typer.Option(help="Of this pool.")] = None,
    status: Annotated[str | None, typer.Option(help="queued, inflight, held, done, failed or cancelled.")] = None,
    kind: Annotated[str | None, typer.Option(help="Of this kind.")] = None,
    lane: Annotated[str | None, typer.Option(help="In this lane.")] = None,
    key_prefix: Annotated[str, typer.Option("--key", help="With an idempotency key that starts like this.")] = "",
    hash: Annotated[str | None, typer.Option(help="With a transaction of this hash.")] = None,
    receiver: Annotated[str | None, typer.Option(help="That act on this account or address.")] = None,
    error: Annotated[str | None, typer.Option(help="With this error code, or held for this reason.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Of this tenant.", show_default="all")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of intents.")] = 50,
    ndjson: Annotated[bool, typer.Option("--ndjson", help="Print one JSON object per line.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="List all, ignoring --limit.")] = False,
    config: ConfigFile = None,
) -> None:
    """List intents, newest first: live ones, and ended ones if the configuration has an archive."""
    if status is not None and status not in set(Status):
        raise InvalidInput("--status", f"must be one of {', '.join(Status)}")
    wanted = Filter(
        tenant=tenant,
        pool=pool,
        status=None if status is None else Status(status),
        kind=kind,
        lane=lane,
        key_prefix=key_prefix,
        hash=hash,
        receiver=receiver,
        error=error,
    )

    async def work(manager: TxManager, settings: Settings) -> int:
        from txmanager.runtime.history import reads_receivers
        from txmanager.wiring import build_kinds

        history = manager.history(reads_receivers(build_kinds(settings)))
        if not history.archived:
            typer.echo("there is no [archive]: only live intents are listed", err=True)
        count = 0
        before: Mark | None = None
        while everything or count < limit:
            left = PAGE_LIMIT if everything else min(PAGE_LIMIT, limit - count)
            page = await history.page(wanted, before, left)
            for record in page.records:
                typer.echo(_json_line(record) if ndjson else _line(record))
            count += len(page.records)
            before = page.next
            if before is None:
                break
        return count

    count = with_manager(config, work, archive=True)
    if not ndjson:
        typer.echo(f"{count} intents", err=True)


def _json_line(record: Record) -> str:
    from txmanager.api.records import record_bytes

    return record_bytes(record, whole=True).decode()


def _line(record: Record) -> str:
    from txmanager.runtime.deliver.events import instant

    tx = record.outcome.tx_hash if record.outcome is not None else next((a.hash for a in record.live), None)
    columns = (instant(record.created_at), f"{record.status.value:9}", f"{record.intent.kind:20}", record.id.pool)
    return "  ".join((*columns, record.id.key, tx or "-"))
