"""Options that several commands share, so that they are called and explained the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from txmanager.settings import CONFIG_VARIABLE

BESIDE = Path("data") / "txmanager.toml"
"""Where `txmanager up` writes its configuration, seen from the folder it was started in."""


def _find(given: Path | None) -> Path | None:
    """Commands typed next to a running `txmanager up` mean that one."""
    if given is None and not Path("txmanager.toml").exists() and BESIDE.exists():
        return BESIDE
    return given


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar=CONFIG_VARIABLE,
        callback=_find,
        show_default="./txmanager.toml, else ./data/txmanager.toml of `txmanager up`",
        help="The configuration file (TOML).",
    ),
]

Key = Annotated[str, typer.Argument(help="The intent's idempotency key.")]
Pool = Annotated[str | None, typer.Option(help="Its pool; needed if several pools have this key.")]
Tenant = Annotated[str, typer.Option(help="The tenant that owns the key.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
