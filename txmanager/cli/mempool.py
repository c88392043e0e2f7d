"""`txmanager mempool status|drop`: look into the mempools of the gateway, and take transactions out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from txmanager.cli.options import ConfigFile
from txmanager.core.admission import Mempool
from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.settings import Settings, load
from txmanager.settings.gateway import GatewaySettings

T = TypeVar("T")
app = typer.Typer(help="Show the gateway's mempools, and remove transactions.", no_args_is_help=True)
Network = Annotated[str | None, typer.Option(help="The network; not needed if the gateway serves only one.")]


@app.command()
def status(config: ConfigFile = None, network: Network = None) -> None:
    """Show how many transactions wait, are being sent, and are tracked."""
    for name in _names(load(config), network):
        totals = _with(load(config), name, lambda mempool: mempool.totals())
        typer.echo(
            f"{name}: {totals.waiting} waiting ({totals.gapped} gapped), {totals.processing} processing, "
            f"{totals.unsure} unsure, {totals.sent} sent, {totals.landed} landed; {totals.senders} senders, "
            f"{totals.waiting_bytes + totals.kept_bytes} bytes, {totals.alive} gateways"
        )


@app.command()
def drop(
    what: Annotated[str | None, typer.Argument(help="A transaction hash, or a sender's address.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Everything that waits in this mempool.")] = False,
    config: ConfigFile = None,
    network: Network = None,
) -> None:
    """Remove transactions that were not sent yet. Those that a node may have stay until the chain decides."""
    if (what is None) is not all:
        raise InvalidInput("what", "give a transaction hash or an address, or --all")
    [name] = _names(load(config), network, one=True)
    text = (what or "").lower()
    if not all and (not text.startswith("0x") or len(text) not in (42, 66)):
        raise InvalidInput("what", "must be a transaction hash (0x and 64 digits) or an address (0x and 40)")
    dropped = _with(
        load(config),
        name,
        lambda mempool: mempool.drop(
            hash=text if len(text) == 66 else "", sender=text if len(text) == 42 else "", all=all
        ),
    )
    for hash in dropped:
        typer.echo(hash)
    typer.echo(f"{len(dropped)} dropped from {name}", err=True)


def _names(settings: Settings, network: str | None, one: bool = False) -> list[str]:
    served = settings.with_gateway()
    if network is not None:
        if network not in served:
            raise InvalidInput("network", f"{network} is none of {', '.join(served)}")
        return [network]
    if one and len(served) != 1:
        raise InvalidInput("network", f"is needed here: one of {', '.join(served)}")
    return served


def _with(settings: Settings, name: str, work: Callable[[Mempool], Awaitable[T]]) -> T:
    # Imported here: `--help` works without the server's libraries.
    from txmanager.runtime.gateway.build import limits_of
    from txmanager.wiring import open_mempool

    options = settings.gateway or GatewaySettings()
    if options.store == "memory" or not settings.ledger.reveal_url().startswith("redis"):
        raise InvalidSettings("gateway.store", "is memory, which only the gateway's own process can see")
    family = settings.family(name)
    assert family.upstream is not None

    async def run() -> T:
        upstream = family.upstream(name, settings.networks[name], options)  # type: ignore[misc]
        mempool = open_mempool(
            settings, upstream.chain_id, limits_of(options, upstream.strict, upstream.resend_after_s)
        )
        try:
            await mempool.start()
            return await work(mempool)
        finally:
            await mempool.close()
            await upstream.close()

    return asyncio.run(run())
