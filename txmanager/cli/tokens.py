"""`txmanager tokens new|hash`: bearer tokens for the API. The configuration holds their hashes, nobody the tokens."""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
from enum import StrEnum
from typing import Annotated

import typer

from txmanager.core.errors import InvalidInput
from txmanager.core.models import check_name

app = typer.Typer(help="Tokens for the API.", no_args_is_help=True)


class Scope(StrEnum):
    SUBMIT = "submit"
    READ = "read"
    OPERATE = "operate"


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Who will use it; shown in logs.")],
    scope: Annotated[list[Scope] | None, typer.Option(help="What it may do (repeat the option).")] = None,
) -> None:
    """Make a token: shown once on stdout's first line, its hash as lines for the configuration."""
    check_name("NAME", name)
    token = f"txm_{secrets.token_urlsafe(32)}"
    scopes = [member.value for member in scope or [Scope.SUBMIT, Scope.READ]]
    typer.echo(token)
    typer.echo("\n# Keep the token above; it is shown only now. For the configuration of the API:", err=True)
    typer.echo(f'[[api.tokens]]\nname = {json.dumps(name)}\nsha256 = "{_digest(token)}"\nscopes = {json.dumps(scopes)}')


@app.command("hash")
def hash_token() -> None:
    """Hash a token of yours, read from stdin, for `sha256` in the configuration."""
    token = (typer.prompt("Token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()).strip()
    if len(token) < 20:
        raise InvalidInput("token", "must have at least 20 characters; `txmanager tokens new` makes one")
    typer.echo(_digest(token))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
