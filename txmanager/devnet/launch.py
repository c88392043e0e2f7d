"""Starting a devnet process: settings in, a running server, the words that tell others how to reach it.

Shared by `python -m txmanager.devnet` and the command line, so both mean the same network.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from .genesis import Genesis
from .journal import Journal
from .network import Config, Network
from .server import REQUEST_TIMEOUT_MS, Server, wall_clock_ms

ROOT = "near"


@dataclass(frozen=True, slots=True)
class Settings:
    port: int = 3030
    block_ms: float = 600.0
    seed: int = 0
    producers: int = 3
    nodes: int = 2
    accounts: int = 5
    keys: int = 1
    validity: int = 86_400
    delay_ms: float = 20.0
    timeout_ms: float = REQUEST_TIMEOUT_MS
    data_dir: Path | None = None

    def config(self) -> Config:
        return Config(
            block_ms=self.block_ms,
            producers=self.producers,
            nodes=self.nodes,
            validity=self.validity,
            delay_ms=(0.0, self.delay_ms),
        )


def build(settings: Settings) -> Server:
    """A server that is not listening yet. Raises `JournalError` when its folder cannot be used."""
    genesis = Genesis.from_seed(settings.seed, settings.accounts, settings.keys, ROOT)
    network = Network(genesis, settings.config(), random.Random(settings.seed), wall_clock_ms())
    journal = None
    if settings.data_dir is not None:
        journal = Journal(settings.data_dir, genesis)
        journal.open(network)
        # Drawing the same numbers again after a restart would repeat the same luck for ever.
        network.rng.seed(f"{settings.seed}:{network.chain.next_height}")
    return Server(network, timeout_ms=settings.timeout_ms, journal=journal)


def describe(server: Server) -> dict[str, Any]:
    """What a test suite or a wallet needs to use this network."""
    genesis = server.network.chain.genesis
    return {
        "url": server.url,
        "nodes": server.node_urls,
        "chain_id": server.network.config.chain_id,
        "accounts": [account.describe() for account in genesis.users],
        "root": genesis.accounts[ROOT].describe(),
        "contracts": {"root": ROOT, "ft": f"ft.{ROOT}", "counter": f"counter.{ROOT}"},
    }


def write_credentials(server: Server, folder: Path) -> list[Path]:
    """One file per account in the layout of NEAR's credentials folder; answers the files."""
    target = folder / server.network.config.chain_id
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for account in server.network.chain.genesis.accounts.values():
        path = target / f"{account.account_id}.json"
        path.write_text(json.dumps(account.credentials()) + "\n")
        path.chmod(0o600)
        written.append(path)
    return written


def calm_collector() -> None:
    """A chain is millions of small objects without cycles: looking through them again and again finds nothing."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def run(settings: Settings, ready: Callable[[Server], None]) -> None:
    """Serve until SIGINT or SIGTERM."""
    server = build(settings)
    calm_collector()

    async def serve() -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stopped.set)
        await server.start(settings.port)
        ready(server)
        try:
            await server.until(stopped)
        finally:
            await server.stop()

    uvloop.run(serve())
