"""`txmanager up`: everything on this machine with one command, and a curl to try it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from txmanager.console.login import login_url, open_browser
from txmanager.core.errors import InvalidInput, Misconfigured, TxManagerError
from txmanager.extras import require
from txmanager.stack import NearOptions, Stack, StackOptions
from txmanager.stack.anvil import PHRASE, spare_account

T = TypeVar("T")


def up(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The API's port on 127.0.0.1.")] = 8080,
    data: Annotated[Path, typer.Option(help="The folder for intents, keys and logs.")] = Path("data"),
    workers: Annotated[int, typer.Option(min=1, max=16, help="Worker processes.")] = 2,
    keys: Annotated[int, typer.Option(min=1, max=64, help="Relayer keys of a new devnet; each is a lane.")] = 4,
    block_ms: Annotated[float, typer.Option(min=20, help="Block time of the devnet.")] = 600.0,
    redis: Annotated[str | None, typer.Option(help="URL of a Redis instead of the embedded Valkey.")] = None,
    near_rpc: Annotated[str | None, typer.Option(help="URL of a NEAR node instead of the devnet.")] = None,
    near_network: Annotated[str, typer.Option(help="Network of that node.")] = "testnet",
    near_account: Annotated[str | None, typer.Option(help="Relayer account on that network.")] = None,
    near_keys: Annotated[
        str | None, typer.Option(help="Keys of that account: file:PATH, env:NAME or vault:PATH.")
    ] = None,
    evm: Annotated[bool, typer.Option("--evm", help="Also start an EVM chain (anvil), with a pool `evm`.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Use this configuration instead of embedded parts.")
    ] = None,
    jemalloc: Annotated[
        bool, typer.Option(help="Preload jemalloc into the embedded Valkey if this machine has it (libjemalloc2).")
    ] = True,
) -> None:
    """Run the whole stack until Ctrl-C: store, NEAR devnet, API, workers, sweeper."""
    if config is None:
        require("txmanager up", "server", "near", "evm", "embedded", "devnet", "archive")
    near = None if near_rpc is None else NearOptions(near_rpc, near_network, near_account, near_keys)
    if near is None and (near_account or near_keys):
        raise InvalidInput("--near-rpc", "is missing: --near-account and --near-keys need your own node")
    if config is not None and near is not None:
        raise InvalidInput("--near-rpc", "cannot be combined with --config: name the node in [networks] of the file")
    if config is not None and evm:
        raise InvalidInput("--evm", "cannot be combined with --config: name the node in [networks] of the file")
    options = StackOptions(
        data, port, workers, keys, block_ms, redis=redis, near=near, config=config, evm=evm, jemalloc=jemalloc
    )
    asyncio.run(_up(options))


async def _up(options: StackOptions) -> None:
    stack = Stack(options, lambda text: typer.echo(f"  {text}"))
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if stopped.is_set():
            typer.echo("killing: the next start recovers what is in flight")
            stack.kill()
        stopped.set()

    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, interrupt)
    typer.echo("starting txmanager ...")
    try:
        if await _unless(stopped, stack.start()):
            _greet(stack)
            await _open_console(stack)
            if ended := await _unless(stopped, stack.supervise()):
                raise Misconfigured(f"{ended[0]} (the logs are in {stack.folder.path / 'logs'})")
    finally:
        if stack.started:
            typer.echo("stopping: workers settle what is in flight and hand their lanes back ...")
            await stack.stop()
            typer.echo("stopped; the next start continues with the same data")


async def _unless(stopped: asyncio.Event, work: Coroutine[Any, Any, T]) -> tuple[T] | None:
    """The result, or None when the stop came first; then the work is given up."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return (await working,)
        return None
    finally:
        for task in (working, stopping):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, TxManagerError):
                await task


async def _open_console(stack: Stack) -> None:
    """Print where the console is, logged in; open it where somebody sits before a screen."""
    token = None if stack.options.config is not None else stack.folder.token()
    try:
        address = await asyncio.to_thread(login_url, stack.url, token)
    except TxManagerError:
        typer.echo(f"console: {stack.url}/console  (log in with `txmanager console`)")
        return
    typer.echo(f"console: {address}  (works once, for a minute; later: txmanager console)")
    if sys.stdout.isatty():
        await asyncio.to_thread(open_browser, address)


def _greet(stack: Stack) -> None:
    if stack.options.config is not None:
        typer.echo(f"ready: {stack.url}  (Ctrl-C drains and stops)")
        return
    name = f"alice-{secrets.token_hex(3)}.{stack.account}"
    typer.echo(f"""
ready: {stack.url}  (docs at {stack.url}/docs, Ctrl-C drains and stops)
token: {stack.folder.token()}

Create an account; if you run it twice, the second answer is the stored one:

curl -i -w '\\n' '{stack.url}/v1/near/accounts?wait=30' \\
  -H 'Authorization: Bearer {stack.folder.token()}' \\
  -H 'Content-Type: application/json' \\
  -d '{{"new_account_id": "{name}", "new_public_key": "ed25519:{_SOME_KEY}"}}'
""")
    if stack.evm_url:
        typer.echo(f"""Send a wei on the EVM chain at {stack.evm_url}:

curl -i -w '\\n' '{stack.url}/v1/evm/transactions?wait=30' \\
  -H 'Authorization: Bearer {stack.folder.token()}' \\
  -H 'Idempotency-Key: {secrets.token_hex(8)}' \\
  -H 'Content-Type: application/json' \\
  -d '{{"pool": "evm", "to": "0x{secrets.token_hex(20)}", "value": "1"}}'

Or as a wallet does, through the JSON-RPC gateway at {stack.gateway_url}:

cast send --rpc-url {stack.gateway_url} --mnemonic '{PHRASE}' \\
  --mnemonic-index {spare_account(stack.options.keys)} 0x{secrets.token_hex(20)} --value 1
""")


_SOME_KEY = "6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"
"""A public key for the example; nobody needs its secret to see an account being created."""
