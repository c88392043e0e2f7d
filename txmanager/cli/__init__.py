"""The command line `txmanager`. An error that people can fix is one sentence on stderr and exit code 2."""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from txmanager.core.errors import InvalidInput, Misconfigured, TxManagerError, Unavailable
from txmanager.extras import how_to_install

WRONG_SETUP = 2
"""Wrong configuration, a server that is away or refuses us: starting again changes nothing, somebody has to act."""

_COMMANDS = {
    "up": "stack.command",
    "demo": "demo.command",
    "api": "cli.programs",
    "worker": "cli.programs",
    "sweeper": "cli.programs",
    "archiver": "cli.programs",
    "webhooks": "cli.programs",
    "monitor": "cli.programs",
    "gateway": "cli.programs",
    "signer": "cli.programs",
    "submit": "cli.intents",
    "show": "cli.intents",
    "list": "cli.listing",
    "cancel": "cli.intents",
    "resolve": "cli.intents",
    "reseal": "cli.intents",
    "audit": "cli.audit",
    "treasury": "cli.treasury",
    "watch": "cli.watch",
    "console": "cli.console",
    "doctor": "cli.doctor",
    "bench": "cli.bench",
}
"""Each command and the module that has it, in the order of `--help`."""
_GROUPS = ("lanes", "budgets", "mempool", "keys", "tokens", "ledger", "config", "devnet")

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
        try:
            app.command(name)(getattr(importlib.import_module(f"txmanager.{module}"), name))
        except ModuleNotFoundError as error:
            _mount_missing(name, error)
    for name in _GROUPS:
        try:
            app.add_typer(importlib.import_module(f"{__name__}.{name}").app, name=name)
        except ModuleNotFoundError as error:
            _mount_missing(name, error)


def _mount_missing(name: str, error: ModuleNotFoundError) -> None:
    """A command whose libraries are not installed is listed, and says what to install when it is called."""
    advice = how_to_install(error.name or "")
    if advice is None:
        raise error

    def missing() -> None:
        raise Misconfigured(f"`txmanager {name}` cannot run: {advice}")

    any_words = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    words = advice.replace("[", r"\[")  # a bracket would be read as a style
    app.command(name, help=f"Not available: {words}", context_settings=any_words)(missing)


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
    except ModuleNotFoundError as error:
        advice = how_to_install(error.name or "")
        if advice is None:
            raise
        typer.echo(f"txmanager: {advice}", err=True)
        sys.exit(WRONG_SETUP)
    except BrokenPipeError:
        # `txmanager config show | head`: the reader has seen enough.
        sys.stderr.close()
        sys.exit(0)


def _say(error: TxManagerError) -> None:
    typer.echo(f"txmanager: {' '.join(str(error).split())}", err=True)
