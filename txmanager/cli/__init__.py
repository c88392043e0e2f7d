"""The command line `txmanager`. An error that people can fix is one sentence on stderr and exit code 2."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from txmanager.core.errors import InvalidInput, Misconfigured, TxManagerError, Unavailable

WRONG_SETUP = 2
"""Wrong configuration, a server that is away or refuses us: starting again changes nothing, somebody has to act."""

_COMMANDS = {
    "up": "stack.command",
    "demo": "demo.command",
    "api": "cli.programs",
    "worker": "cli.programs",
    "sweeper": "cli.programs",
    "webhooks": "cli.programs",
    "monitor": "cli.programs",
    "gateway": "cli.programs",
    "submit": "cli.intents",
    "show": "cli.intents",
    "cancel": "cli.intents",
    "resolve": "cli.intents",
    "reseal": "cli.intents",
    "audit": "cli.audit",
    "watch": "cli.watch",
    "doctor": "cli.doctor",
    "bench": "cli.bench",
}
"""Each command and the module that has it, in the order of `--help`."""
_GROUPS = ("lanes", "mempool", "keys", "tokens", "config", "devnet")

app = typer.Typer(
    name="txmanager",
    help="A transaction manager for relayers: one effect per idempotency key, strict order per signing key.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"txmanager {version('txmanager')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def _mount() -> None:
    for name, module in _COMMANDS.items():
        app.command(name)(getattr(importlib.import_module(f"txmanager.{module}"), name))
    for name in _GROUPS:
        # A group whose parts are not installed is left out; one that fails to import is not.
        if importlib.util.find_spec(f"{__name__}.{name}"):
            app.add_typer(importlib.import_module(f"{__name__}.{name}").app, name=name)


_mount()


def main() -> None:
    try:
        app()
    except (InvalidInput, Misconfigured, Unavailable) as error:
        _say(error)
        sys.exit(WRONG_SETUP)
    except TxManagerError as error:
        _say(error)
        sys.exit(1)
    except BrokenPipeError:
        # `txmanager config show | head`: the reader has seen enough.
        sys.stderr.close()
        sys.exit(0)


def _say(error: TxManagerError) -> None:
    typer.echo(f"txmanager: {' '.join(str(error).split())}", err=True)
