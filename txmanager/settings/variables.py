"""Which environment variables hold secrets, and which program needs which: the others are started without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from txmanager.settings.models import Settings

Program = Literal["worker", "api", "sweeper", "webhooks", "monitor", "gateway", "archiver"]
PASSPHRASE_VARIABLE = "TXMANAGER_PASSPHRASE"
"""Of vaults and keystores."""
_NEEDS: Mapping[Program, tuple[str, ...]] = {
    "worker": ("ledger.", "networks.", "signers."),
    "api": ("ledger.", "networks.", "archive."),
    "monitor": ("ledger.", "networks."),
    "gateway": ("ledger.url", "ledger.password", "networks."),
    "sweeper": ("ledger.url", "ledger.password"),
    "archiver": ("ledger.url", "ledger.password", "archive."),
    "webhooks": ("ledger.url", "ledger.password", "pools."),
}
"""By program, the beginnings of the settings whose secrets it reads."""


def environment_of(program: Program, settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """What a program is started with: keys for workers alone, and of the other secrets those that it reads."""
    named = [(field, reference.env) for field, reference in settings.references() if reference.env is not None]
    hidden = {variable for field, variable in named if not field.startswith(_NEEDS[program])}
    hidden -= {variable for field, variable in named if field.startswith(_NEEDS[program])}
    if program != "worker":
        hidden |= key_variables(source for pool in settings.pools.values() for source in pool.keys)
    return {name: value for name, value in environment.items() if name not in hidden}


def key_variables(sources: Iterable[str]) -> set[str]:
    """The variables that key sources read: `env:NAME`, `mnemonic:NAME:COUNT`, and the passphrase of files."""
    found = {PASSPHRASE_VARIABLE}
    for source in sources:
        kind, _, rest = source.partition(":")
        if kind == "gas-key":  # followed by its lanes and the source itself
            kind, _, rest = rest.partition(":")[2].partition(":")
        if kind == "env":
            found.add(rest)
        elif kind == "mnemonic":
            found.add(rest.partition(":")[0])
    return found
