"""Which API a command talks to, and with which token."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from txmanager.settings import load

TOKEN_VARIABLE = "TXMANAGER_TOKEN"

ApiUrl = Annotated[str | None, typer.Option("--url", help="The API.", show_default="that of the configuration")]
ApiToken = Annotated[
    str | None,
    typer.Option("--token", envvar=TOKEN_VARIABLE, help="Its token.", show_default="that of `txmanager up`"),
]


def find_api(url: str | None, token: str | None, config: Path | None) -> tuple[str, str | None]:
    """What is given, else what the configuration and the token file of `txmanager up` beside it say."""
    if url is not None:
        return url.rstrip("/"), token
    settings = load(config)
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.api.host, settings.api.host)
    if token is None and config is not None and (beside := config.parent / "token").exists():
        token = beside.read_text().strip()
    return f"http://{host}:{settings.api.port}", token
