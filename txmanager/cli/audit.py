"""`txmanager audit`: who asked for what, newest first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from txmanager.cli.access import with_manager
from txmanager.cli.options import AsJson, ConfigFile
from txmanager.core.audit import ALL_TENANTS, AUDIT_LIMIT, AuditEntry
from txmanager.settings import Settings

if TYPE_CHECKING:
    from txmanager.runtime.manager import TxManager


def audit(
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=AUDIT_LIMIT, help="How many entries.")] = 20,
    tenant: Annotated[str, typer.Option(help="Only those of this tenant.", show_default="all")] = ALL_TENANTS,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show operators' calls: when, who, from where, and what; rejected calls with their error code."""

    async def read(manager: TxManager, settings: Settings) -> list[AuditEntry]:
        return await manager.audits.audit(tenant, count)

    from txmanager.api.audit import audit_json

    found = [audit_json(entry) for entry in with_manager(config, read)]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    if not found:
        typer.echo("no operator has made a call yet", err=True)
    for entry in found:
        refused = f"refused: {entry['refused']}" if entry["refused"] else ""
        parts = (entry["at"], entry["who"], entry["origin"], entry["what"], entry["on"], entry["told"], refused)
        typer.echo("  ".join(part for part in parts if part))
