"""`txmanager devnet`: an offline NEAR network with funded accounts, and what tells it from a real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from txmanager.extras import require

app = typer.Typer(help="Run test networks on this machine.", no_args_is_help=True)


@app.callback()
def devnet() -> None:
    """Run test networks on this machine."""


@app.command()
def near(
    port: Annotated[int, typer.Option(help="TCP port on 127.0.0.1; 0 picks a free one.")] = 3030,
    block_ms: Annotated[float, typer.Option(min=1, help="Time between blocks.")] = 600.0,
    seed: Annotated[int, typer.Option(help="Accounts, keys and random choices are derived from it.")] = 0,
    producers: Annotated[int, typer.Option(min=1, max=100, help="Chunk producers.")] = 3,
    nodes: Annotated[int, typer.Option(min=1, max=100, help="RPC nodes, each at /node/N.")] = 2,
    accounts: Annotated[int, typer.Option(min=1, max=10_000, help="Funded accounts.")] = 5,
    keys: Annotated[int, typer.Option(min=1, max=1_000, help="Full-access keys of each account.")] = 1,
    validity: Annotated[int, typer.Option(min=1, help="Blocks a transaction stays valid.")] = 86_400,
    delay_ms: Annotated[float, typer.Option(min=0, help="Longest delay from a node to a producer.")] = 20.0,
    timeout_ms: Annotated[float, typer.Option(min=1, help="Timeout of requests that wait.")] = 10_000.0,
    data_dir: Annotated[Path | None, typer.Option(help="Keep the state here across restarts.")] = None,
    credentials: Annotated[Path | None, typer.Option(help="Write NEAR credentials files here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line instead.")] = False,
) -> None:
    """Run a NEAR network on this machine until Ctrl-C."""
    # Imported here: near-kit takes a second to load, and `--help` should not.
    require("txmanager devnet near", "devnet")
    from txmanager.devnet.journal import JournalError
    from txmanager.devnet.launch import Settings, describe, run, write_credentials
    from txmanager.devnet.server import Server

    settings = Settings(
        port=port,
        block_ms=block_ms,
        seed=seed,
        producers=producers,
        nodes=nodes,
        accounts=accounts,
        keys=keys,
        validity=validity,
        delay_ms=delay_ms,
        timeout_ms=timeout_ms,
        data_dir=data_dir,
    )

    def ready(server: Server) -> None:
        if credentials is not None:
            write_credentials(server, credentials)
        if as_json:
            typer.echo(json.dumps(describe(server)))
            return
        typer.echo(f"NEAR devnet at {server.url}  (nodes: {', '.join(server.node_urls)})")
        for account in server.network.chain.genesis.accounts.values():
            typer.echo(f"  {account.account_id}" + (f"  [{account.contract}]" if account.contract else ""))
            for key in account.keys:
                typer.echo(f"    {key.public_key}\n    {key.private_key}")
        typer.echo("These keys are derived from the seed, so anyone can know them. Ctrl-C stops the network.")

    try:
        run(settings, ready)
    except (JournalError, OSError) as cause:
        typer.echo(f"devnet: {cause}", err=True)
        raise typer.Exit(1) from None


@app.command()
def compare(
    rpc: Annotated[str, typer.Option(help="A NEAR node. Only read-only requests are sent to it.")],
) -> None:
    """Send the same read-only requests to a real node and to the devnet. Exits with 1 if the answers differ."""
    from txmanager.devnet.compare import Node, running_devnet
    from txmanager.devnet.compare import compare as compare_nodes

    asked = differ = 0
    try:
        with running_devnet() as ours:
            for name, lines in compare_nodes(Node(rpc), ours):
                asked += 1
                differ += bool(lines)
                for line in lines:
                    typer.echo(f"{name}: {line}")
    except (OSError, ValueError, LookupError) as cause:
        # The reason of a failed connection names host and port at most, never the URL with its key.
        typer.echo(f"the node cannot be asked: {getattr(cause, 'reason', cause)}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{asked} questions, {differ} differ")
    if differ:
        raise typer.Exit(1)
