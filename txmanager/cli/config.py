"""`txmanager config check|show|schema`: what is wrong with the configuration, and what it comes to, without secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

import typer

from txmanager.cli.options import ConfigFile
from txmanager.settings import find_file, load, problems
from txmanager.settings.schema import build_schema

app = typer.Typer(help="Check and show the configuration.", no_args_is_help=True)


@app.command()
def check(config: ConfigFile = None) -> None:
    """Validate the configuration, including secrets that cannot be read. Exits with 2 if anything is wrong."""
    wrong = problems(config)
    for problem in wrong:
        typer.echo(f"txmanager: {problem}", err=True)
    if wrong:
        raise typer.Exit(2)
    settings = load(config)
    pools = ", ".join(sorted(settings.pools)) or "none"
    typer.echo(f"ok: {find_file(config, os.environ) or 'defaults'} (ledger {settings.ledger.url}, pools: {pools})")


@app.command()
def show(config: ConfigFile = None) -> None:
    """Print all settings as TOML, with environment and defaults; secrets are hidden."""
    typer.echo("\n".join(toml_lines(load(config).shown())))


@app.command()
def schema() -> None:
    """Print a JSON schema of the configuration, for editors that complete and check TOML files."""
    typer.echo(json.dumps(build_schema(), indent=2))


def toml_lines(table: Mapping[str, object], path: tuple[str, ...] = ()) -> Iterator[str]:
    """A table's own values first, then its tables; a list of tables is written entry by entry."""
    values = {key: value for key, value in table.items() if not _has_header(value, path)}
    if path and values:
        yield f"[{'.'.join(map(_key, path))}]"
    for key, value in values.items():
        yield f"{_key(key)} = {_inline(value)}"
    if values:
        yield ""
    for key, value in table.items():
        if key in values:
            continue
        if isinstance(value, Mapping):
            yield from toml_lines(value, (*path, key))
        elif isinstance(value, list):
            for entry in value:
                yield f"[[{'.'.join(map(_key, (*path, key)))}]]"
                yield from (f"{_key(name)} = {_inline(item)}" for name, item in entry.items())
                yield ""


def _has_header(value: object, path: tuple[str, ...]) -> bool:
    """Tables of the first two levels get a header of their own; what is smaller, or empty, stays on one line."""
    if isinstance(value, Mapping):
        return bool(value) and len(path) < 2 and set(value) not in ({"env"}, {"file"})
    return (
        isinstance(value, list) and len(path) == 1 and all(isinstance(item, Mapping) for item in value) and value != []
    )


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)


def _inline(value: object) -> str:
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{_key(key)} = {_inline(item)}" for key, item in value.items()) + " }" if value else "{}"
        )
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    # Strings, numbers and booleans are written alike in JSON and TOML; only DEL must be escaped as well.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
