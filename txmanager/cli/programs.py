"""`txmanager api|worker|sweeper|webhooks|monitor|gateway`: become one of the programs, with the configuration found."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from txmanager.cli.options import ConfigFile
from txmanager.settings import CONFIG_VARIABLE, load


def api(config: ConfigFile = None) -> None:
    """Serve the HTTP API. Holds no private key; run as many as you like."""
    _become("api", config)


def worker(config: ConfigFile = None) -> None:
    """Sign and submit for every lane whose key this process has. Run two or more."""
    _become("worker", config)


def sweeper(config: ConfigFile = None) -> None:
    """Retire what crashes left and forget claims that never became intents. One is enough, two are safe."""
    _become("sweeper", config)


def webhooks(config: ConfigFile = None) -> None:
    """Deliver events to the configured URLs. Two or more share the work."""
    _become("webhooks", config)


def monitor(config: ConfigFile = None) -> None:
    """Compare lanes with their chain and raise alerts. Holds no key; one is enough, two are safe."""
    _become("monitor", config)


def gateway(config: ConfigFile = None) -> None:
    """Serve JSON-RPC to wallets, with a mempool in front of the node. Holds no key; run as many as you like."""
    _become("gateway", config)


def _become(program: str, config: Path | None) -> NoReturn:
    """The same process: its signals, its exit code and its output are the program's."""
    load(config)
    if config is not None:
        os.environ[CONFIG_VARIABLE] = str(config)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", f"txmanager.programs.{program}"])
