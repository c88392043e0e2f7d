"""`txmanager api`, `worker` and the others: become one of the programs, with the configuration found."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from txmanager.cli.options import ConfigFile
from txmanager.extras import require
from txmanager.settings import CONFIG_VARIABLE, load


def api(config: ConfigFile = None) -> None:
    """Serve the HTTP API. Holds no private key; run as many as you like."""
    _become("api", config)


def worker(config: ConfigFile = None) -> None:
    """Sign and submit for every lane whose key this process has. Run two or more."""
    _become("worker", config)


def sweeper(config: ConfigFile = None) -> None:
    """Clean up after crashes: retire final records and delete abandoned claims. One is enough, two are safe."""
    _become("sweeper", config)


def webhooks(config: ConfigFile = None) -> None:
    """Deliver events to the configured URLs. Two or more share the work."""
    _become("webhooks", config)


def archiver(
    config: ConfigFile = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Stop waiting for the archive, and exit. Run this before you remove [archive]."),
    ] = False,
) -> None:
    """Copy ended intents to the archive, a SQL database. One is enough, two are safe."""
    if detach:
        from txmanager.wiring import detach_archive

        require("txmanager archiver", "server")
        asyncio.run(detach_archive(load(config)))
        typer.echo("no lane waits for an archive now")
        return
    _become("archiver", config)


def monitor(config: ConfigFile = None) -> None:
    """Compare lanes with their chain and raise alerts. Holds no key; one is enough, two are safe."""
    _become("monitor", config)


def gateway(config: ConfigFile = None) -> None:
    """Serve JSON-RPC to wallets, with a mempool in front of the node. Holds no key; run as many as you like."""
    _become("gateway", config)


def signer(
    config: ConfigFile = None,
    init: Annotated[bool, typer.Option("--init", help="Create the file of daily totals, once, and exit.")] = False,
) -> None:
    """Hold keys for workers, and sign only what each key's policy allows."""
    if init:
        from txmanager.wiring import init_signer

        typer.echo(init_signer(load(config)))
        return
    _become("signer", config)


def _become(program: str, config: Path | None) -> NoReturn:
    """The same process: its signals, its exit code and its output are the program's."""
    require(f"txmanager {program}", "server")
    load(config)
    if config is not None:
        os.environ[CONFIG_VARIABLE] = str(config)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", f"txmanager.programs.{program}"])
