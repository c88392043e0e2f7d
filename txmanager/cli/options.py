"""Options that several commands share, so that they are called and explained the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from txmanager.settings import CONFIG_VARIABLE

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar=CONFIG_VARIABLE,
        show_default="./txmanager.toml if there is one",
        help="The configuration file (TOML).",
    ),
]
