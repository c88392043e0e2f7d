"""`txmanager console`: the page at `/console`, opened and logged in."""

from __future__ import annotations

from typing import Annotated

import typer

from txmanager.cli.api import ApiToken, ApiUrl, find_api
from txmanager.cli.options import ConfigFile
from txmanager.console.login import login_url, open_browser


def console(
    url: ApiUrl = None,
    token: ApiToken = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page, or only print its URL.")
    ] = True,
    config: ConfigFile = None,
) -> None:
    """Open the console in a browser, logged in. The printed URL works once, for a minute."""
    address = login_url(*find_api(url, token, config))
    typer.echo(address)
    if browser and not open_browser(address):
        typer.echo("no browser found: open this URL within a minute", err=True)
