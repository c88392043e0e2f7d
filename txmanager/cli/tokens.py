"""`txmanager tokens new|hash`: bearer tokens for the API. The configuration holds their hashes, nobody the tokens.

The lines for the configuration go to stdout, so that `>>` makes a file that loads; the token itself goes to stderr.
A new token can do what was named and no more: a limit that is lifted was lifted by a word.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated

import typer

from txmanager.core.errors import InvalidInput
from txmanager.core.kinds import CREATE, UNLIMITED
from txmanager.core.models import check_name
from txmanager.settings.family import find, installed

Limits = dict[str, list[str] | str | None]
NEEDED = ("pools", "kinds", "receivers", "max_deposit")
"""The limits of a token that may submit; one that may not needs the first."""
ANY = "any"
"""Instead of a value: this limit is lifted."""
COINS_ONLY = """\
# max_deposit counts the chain's own coin. A call that moves tokens (ERC-20, NEP-141) attaches next to none of it:
# what a caller may do with tokens is decided by `receivers`, which names the contracts that may be called."""
_RECEIVER = re.compile(r"(\*\.)?[0-9A-Za-z][0-9A-Za-z._-]{0,63}")

app = typer.Typer(help="Create tokens for the API.", no_args_is_help=True)


class Scope(StrEnum):
    SUBMIT = "submit"
    READ = "read"
    OPERATE = "operate"


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The caller's name; shown in logs.")],
    scope: Annotated[
        list[Scope] | None, typer.Option(help="What it may do (repeat the option).", show_default="submit and read")
    ] = None,
    pool: Annotated[list[str] | None, typer.Option(help=f"A pool it may use (repeat), or {ANY}.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help=f"A kind of intent it may submit, such as chain.transfer (repeat), or {ANY}."),
    ] = None,
    receiver: Annotated[
        list[str] | None,
        typer.Option(
            help="An account, *.suffix or address it may pay and call (repeat; "
            f'"{CREATE}" allows creating contracts), or {ANY}.'
        ),
    ] = None,
    max_deposit: Annotated[
        str | None,
        typer.Option(
            help=f"The most that one intent may spend, in the chain's smallest unit, without fees and tokens; or {ANY}."
        ),
    ] = None,
    max_cost: Annotated[
        str | None, typer.Option(help="The most that one intent may cost, including fees.", show_default="no limit")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Its tenant.")] = None,
    per_second: Annotated[float | None, typer.Option(min=0.001, help="Requests per second.")] = None,
) -> None:
    """Create a token. Prints its configuration to stdout, and the token itself, once, to stderr.

    A token that may submit needs --pool, --kind, --receiver and --max-deposit. The deposit counts only the chain's
    own coin. A call that moves tokens (ERC-20, NEP-141) passes any deposit limit, so limit contracts with --receiver.
    """
    check_name("NAME", name)
    scopes = scope or [Scope.SUBMIT, Scope.READ]
    given: Limits = {"pools": pool, "kinds": kind, "receivers": receiver}
    given |= {"max_deposit": max_deposit, "max_cost": max_cost}
    _check_limits(given, scopes)
    token = f"txm_{secrets.token_urlsafe(32)}"
    lines = ["[[api.tokens]]", f"name = {json.dumps(name)}", f'sha256 = "{_digest(token)}"']
    lines.append(f"scopes = {json.dumps([member.value for member in scopes])}")
    if tenant is not None:
        lines.append(f"tenant = {json.dumps(tenant if tenant == '*' else check_name('--tenant', tenant))}")
    limited = {limit: value for limit, value in given.items() if value and value not in (ANY, [ANY])}
    if limited or per_second is not None:
        lines.append("[api.tokens.limits]")
    lines += [f"per_second = {per_second:g}"] if per_second is not None else []
    for limit, value in limited.items():
        lines += [COINS_ONLY] if limit == "max_deposit" else []
        lines.append(f"{limit} = {json.dumps(value)}")
    # A file that ends without a line break must not swallow the first line.
    typer.echo("\n" + "\n".join(lines))
    open_ended = [limit for limit, value in given.items() if value in (ANY, [ANY])]
    if open_ended:
        typer.echo(f"Warning: {', '.join(open_ended)} of this token are not limited.", err=True)
    typer.echo(f"The token of {name}, shown only once; the configuration holds its hash:\n{token}", err=True)


def _check_limits(given: Limits, scopes: list[Scope]) -> None:
    needed = NEEDED if Scope.SUBMIT in scopes else NEEDED[:1]
    missing = [_OPTIONS[limit][0] for limit in needed if not given[limit]]
    if missing:
        raise InvalidInput(", ".join(missing), f"is required, so that the token is limited; use {ANY} for no limit")
    for limit, value in given.items():
        option, check = _OPTIONS[limit]
        for one in [value] if isinstance(value, str) else value or ():
            if one == ANY and value not in (ANY, [ANY]):
                raise InvalidInput(option, f"{ANY} cannot be combined with other values")
            if one != ANY:
                check(option, one)


def _check_kind(option: str, kind: str) -> None:
    chain = kind.partition(".")[0]
    if chain not in installed():
        raise InvalidInput(option, f"{kind!r} does not start with an installed chain: {', '.join(installed())}")
    known = find(chain).all_kinds
    if kind not in known:
        raise InvalidInput(option, f"{kind!r} is not one of {', '.join(known)}")


def _check_receiver(option: str, receiver: str) -> None:
    if not _RECEIVER.fullmatch(receiver):
        raise InvalidInput(option, f"{receiver!r} is not an account, *.suffix or address")


def _check_deposit(option: str, deposit: str) -> None:
    if not (deposit.isascii() and deposit.isdigit() and int(deposit) < UNLIMITED):
        raise InvalidInput(option, f"must be a whole number of the chain's smallest unit, or {ANY}")


_OPTIONS: Mapping[str, tuple[str, Callable[[str, str], object]]] = {
    "pools": ("--pool", check_name),
    "kinds": ("--kind", _check_kind),
    "receivers": ("--receiver", _check_receiver),
    "max_deposit": ("--max-deposit", _check_deposit),
    "max_cost": ("--max-cost", _check_deposit),
}


@app.command("hash")
def hash_token() -> None:
    """Hash your own token, read from stdin, for `sha256` in the configuration."""
    token = (typer.prompt("Token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()).strip()
    if len(token) < 20:
        raise InvalidInput("token", "must have at least 20 characters; `txmanager tokens new` creates one")
    typer.echo(_digest(token))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
