"""`txmanager up`: everything on this machine with one command, and a curl to try it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from pathlib import Path
from typing import Annotated

import typer

from txmanager.core.errors import Misconfigured
from txmanager.stack import Stack, StackOptions


def up(
    port: Annotated[int, typer.Option(help="The API's port on 127.0.0.1.")] = 8080,
    data: Annotated[Path, typer.Option(help="Where intents, keys and logs are kept.")] = Path("data"),
    workers: Annotated[int, typer.Option(min=1, max=16, help="Worker processes.")] = 2,
    keys: Annotated[int, typer.Option(min=1, max=64, help="Relayer keys, a lane each.")] = 4,
    block_ms: Annotated[float, typer.Option(min=20, help="Block time of the devnet.")] = 600.0,
    redis: Annotated[str | None, typer.Option(help="A Redis of yours instead of the embedded Valkey.")] = None,
    near_rpc: Annotated[str | None, typer.Option(help="A NEAR node of yours (needs --config for keys).")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Your configuration: nothing embedded.")] = None,
) -> None:
    """Run the whole stack until Ctrl-C: store, NEAR devnet, API, workers, sweeper."""
    options = StackOptions(data, port, workers, keys, block_ms, redis, near_rpc, config)
    asyncio.run(_up(options))


async def _up(options: StackOptions) -> None:
    stack = Stack(options, lambda text: typer.echo(f"  {text}"))
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stopped.set)
    typer.echo("starting txmanager ...")
    try:
        starting = asyncio.create_task(stack.start())
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            return
        await starting
        _greet(stack)
        watching = asyncio.create_task(stack.supervise())
        await asyncio.wait({watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            raise Misconfigured(watching.result())
        watching.cancel()
    finally:
        typer.echo("stopping: workers settle what is in flight and hand their lanes back ...")
        await stack.stop()
        typer.echo("stopped; the next start finds everything again")


def _greet(stack: Stack) -> None:
    if stack.options.config is not None:
        typer.echo(f"ready: {stack.url}  (Ctrl-C drains and stops)")
        return
    name = f"alice-{secrets.token_hex(3)}.{stack.account}"
    typer.echo(f"""
ready: {stack.url}  (docs at {stack.url}/docs, Ctrl-C drains and stops)
token: {stack.folder.token()}

Create an account; run it twice, and the second answer comes from the ledger:

curl -i '{stack.url}/v1/near/accounts?wait=30' \\
  -H 'Authorization: Bearer {stack.folder.token()}' \\
  -H 'Content-Type: application/json' \\
  -d '{{"new_account_id": "{name}", "new_public_key": "ed25519:{_SOME_KEY}"}}'
""")


_SOME_KEY = "6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"
"""A public key for the example; nobody needs its secret to see an account being created."""
