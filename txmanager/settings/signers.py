"""Signers that hold keys elsewhere: `[signers.NAME]`, each with its `provider`. A pool's `NAME:key` means them.
`[signer]` is the other side: the settings of `txmanager signer` itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainSerializer

from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.settings.family import find
from txmanager.settings.parts import Money, Name, Names, Part
from txmanager.settings.secrets import SecretWord

_UNIX = "unix:"


def _address(value: str) -> str:
    if not re.fullmatch(r"unix:/.+|[^/\s]+:\d{1,5}", value):
        raise ValueError("must look like unix:/run/txmanager/signer.sock or host:7443")
    return value


Address = Annotated[str, AfterValidator(_address)]


def socket_path(address: str) -> str | None:
    """The path of a Unix socket; None of an address in a network."""
    return address.removeprefix(_UNIX) if address.startswith(_UNIX) else None


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def tls_agrees(where: str, address: str, tls: object) -> Iterator[InvalidSettings]:
    if tls is None and socket_path(address) is None:
        yield InvalidSettings(
            where, f"is required: {address} is reached over a network, where both sides show themselves"
        )
    if tls is not None and socket_path(address) is not None:
        yield InvalidSettings(where, "has no meaning on a Unix socket; remove it")


class Pkcs11Settings(Part):
    """Keys in an HSM, by their labels. One child process holds the module."""

    provider: Literal["pkcs11"]
    module: str
    """The path of the vendor's library."""
    token: str
    pin: SecretWord
    timeout_s: float = Field(default=5.0, gt=0, le=60)


class KmsSettings(Part):
    """Keys in AWS KMS, by id, ARN or `alias/...`."""

    provider: Literal["aws-kms"]
    region: str
    endpoint: str | None = None
    profile: str | None = None
    timeout_s: float = Field(default=5.0, gt=0, le=60)
    max_concurrent: int = Field(default=32, ge=1, le=1_000)
    per_second: float | None = Field(default=None, gt=0)
    """The account's quota for signatures; the workers that live divide it among themselves."""


class TlsSettings(Part):
    """Files in PEM form. Both sides show a certificate."""

    ca: str
    """Who signs the other side's certificates."""
    certificate: str
    key: str


class ProcessSettings(Part):
    """Keys of a `txmanager signer`, by the names that they have in its configuration."""

    provider: Literal["txmanager"]
    address: Address
    tls: TlsSettings | None = None
    timeout_s: float = Field(default=10.0, gt=0, le=60)

    def contradictions(self, where: str) -> Iterator[InvalidSettings]:
        yield from tls_agrees(f"{where}.tls", self.address, self.tls)


SignerSettings = Annotated[Pkcs11Settings | KmsSettings | ProcessSettings, Field(discriminator="provider")]
PROVIDERS: dict[str, type[Part]] = {"pkcs11": Pkcs11Settings, "aws-kms": KmsSettings, "txmanager": ProcessSettings}


class ClientSettings(Part):
    """Who may ask a signer, and for which keys."""

    uid: int | None = Field(default=None, ge=0)
    """The user id of its process, on a Unix socket."""
    certificate: str | None = None
    """The DNS name of its certificate (the common name where it has none), over TLS."""
    keys: Annotated[frozenset[str], PlainSerializer(sorted)] = Field(min_length=1)


class KeyPolicySettings(Part):
    """What a signer lets a key sign. The three amounts are required: nothing is unlimited by omission."""

    max_value: Money
    max_fee: Money
    max_per_day: Money
    """Values and fees together, each at its worst; a day begins at 00:00 UTC."""
    actions: Names | None = None
    receivers: Names | None = None
    methods: Names | None = None
    own_account: Names = frozenset()


class GuardedKeySettings(Part):
    chain: str
    source: str
    public_key: str | None = None
    """Which key, where the source holds several."""
    account: str | None = None
    chain_id: int | None = Field(default=None, ge=1)
    policy: KeyPolicySettings


class SignerProgramSettings(Part):
    """`txmanager signer`: where it listens, who may ask, and what each key signs."""

    listen: Address
    group: str | None = None
    """Whose members may open the Unix socket, besides its owner."""
    tls: TlsSettings | None = None
    state: str
    """The file that holds what was signed for today."""
    clients: dict[Name, ClientSettings] = Field(min_length=1)
    keys: dict[Name, GuardedKeySettings] = Field(min_length=1)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=1, le=65535)

    def contradictions(self) -> Iterator[InvalidSettings]:
        yield from tls_agrees("signer.tls", self.listen, self.tls)
        known, other = ("uid", "certificate") if socket_path(self.listen) else ("certificate", "uid")
        seen: dict[object, str] = {}
        for name, client in self.clients.items():
            where = f"signer.clients.{name}"
            who = getattr(client, known)
            if who is not None and (first := seen.setdefault(who, name)) != name:
                yield InvalidSettings(where, f"has the same {known} as {first}; the two cannot be told apart")
            if getattr(client, known) is None or getattr(client, other) is not None:
                yield InvalidSettings(where, f"needs {known}, and no {other}, to be known at {self.listen}")
            for key in sorted(client.keys - set(self.keys)):
                yield InvalidSettings(f"{where}.keys", f"names no [signer.keys.{key}]; add it or remove it")
        for name, key_settings in self.keys.items():
            yield from _wrong_in(f"signer.keys.{name}", key_settings)


def _wrong_in(where: str, key: GuardedKeySettings) -> Iterator[InvalidSettings]:
    try:
        side = find(key.chain).signer
    except InvalidSettings as error:
        yield InvalidSettings(f"{where}.chain", error.problem)
        return
    if side is None:
        yield InvalidSettings(f"{where}.chain", f"{key.chain} cannot be read by a signer")
        return
    for field in ("account", "chain_id"):
        if (getattr(key, field) is None) == (side.names == field):
            words = "is required" if side.names == field else "has no meaning"
            yield InvalidSettings(f"{where}.{field}", f"{words} with chain {key.chain!r}")
    policy = key.policy
    for field, names, known in (
        ("actions", policy.actions or (), side.actions),
        ("own_account", policy.own_account, side.own_account),
    ):
        for name in sorted(set(names) - known):
            words = f"{name!r} is not one of: {', '.join(sorted(known))}"
            yield InvalidSettings(f"{where}.policy.{field}", words)
    for field, entries, read in (
        ("receivers", policy.receivers or (), side.receiver),
        ("methods", policy.methods or (), side.method),
    ):
        for entry in sorted(entries):
            try:
                read(entry)
            except InvalidInput as error:
                # One that matches nothing would refuse every intent for ever.
                yield InvalidSettings(f"{where}.policy.{field}", error.problem)
