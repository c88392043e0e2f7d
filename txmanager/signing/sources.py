"""The one registry of key sources: a source is one string of the configuration, `scheme:rest`.

| scheme | ed25519 | secp256k1 |
| --- | --- | --- |
| `file:PATH` | NEAR credentials, one key or a list | a keystore (v3), or a list of them |
| `env:NAME` | the key itself | the key itself |
| `vault:PATH` | an encrypted file of keys | |
| `mnemonic:NAME:COUNT` | | COUNT addresses of the phrase in the variable NAME |

A file's passphrase is in an environment variable, `TXMANAGER_PASSPHRASE` by default. A signer that the configuration
names adds its name as a scheme.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum

from txmanager.core.errors import InvalidSettings
from txmanager.core.values import value
from txmanager.signing.signer import Signer

PASSPHRASE_VARIABLE = "TXMANAGER_PASSPHRASE"


class Curve(StrEnum):
    ED25519 = "ed25519"
    SECP256K1 = "secp256k1"


@value(frozen=True, slots=True)
class Asked:
    """For whom the keys are, and what opens them."""

    curve: Curve
    account: str | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    passphrase_variable: str = PASSPHRASE_VARIABLE
    pinned: str | None = None
    """The public key that the configuration says it is."""

    def variable(self, name: str) -> str:
        if not name or name not in self.environment:
            raise InvalidSettings("keys", f"environment variable {name!r} is not set")
        return self.environment[name]


@value(frozen=True, slots=True)
class FoundKey:
    signer: Signer
    account: str | None = None
    """Whose key it is, where the source says so."""


Load = Callable[[str, Asked], list[FoundKey]]
"""What follows `scheme:`, and for whom."""


class KeySources:
    def __init__(self, loads: Mapping[tuple[str, Curve], Load]) -> None:
        self._loads = dict(loads)

    def with_signer(self, name: str, curves: Mapping[Curve, Load]) -> KeySources:
        """One more scheme: a signer of the configuration."""
        if any(scheme == name for scheme, _ in self._loads):
            raise InvalidSettings(f"signers.{name}", "is the name of a key source; choose another name")
        return KeySources({**self._loads, **{(name, curve): load for curve, load in curves.items()}})

    def load(self, source: str, asked: Asked) -> list[FoundKey]:
        """Every key of the source, in its order."""
        scheme, _, rest = source.partition(":")
        load = self._loads.get((scheme, asked.curve))
        if load is None:
            names = [f"'{name}:'" for name, curve in self._loads if curve is asked.curve]
            known = f"{', '.join(names[:-1])} or {names[-1]}"
            raise InvalidSettings("keys", f"a key source starts with {known} (never the key itself)")
        return load(rest, asked)


# Imported when used: a worker of one chain needs no libraries of another.


def _near(name: str) -> Load:
    def load(rest: str, asked: Asked) -> list[FoundKey]:
        from txmanager.signing import near_sources

        loads: dict[str, Load] = {
            "file": near_sources.from_file,
            "env": near_sources.from_environment,
            "vault": near_sources.from_vault,
        }
        return loads[name](rest, asked)

    return load


def _evm(name: str) -> Load:
    def load(rest: str, asked: Asked) -> list[FoundKey]:
        from txmanager.signing import evm_sources

        loads: dict[str, Load] = {
            "env": evm_sources.from_environment,
            "file": evm_sources.from_file,
            "mnemonic": evm_sources.from_mnemonic,
        }
        return loads[name](rest, asked)

    return load


KEY_SOURCES = KeySources(
    {(name, Curve.ED25519): _near(name) for name in ("file", "env", "vault")}
    | {(name, Curve.SECP256K1): _evm(name) for name in ("env", "file", "mnemonic")}
)
