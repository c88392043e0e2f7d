"""Secrets in the configuration: named by reference, read when they are used, never printed.

A `Url` may carry a password or an API key, so its text form is the redacted one; only `reveal` gives the real one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import PlainSerializer, PlainValidator, SecretStr

from txmanager.core.errors import InvalidSettings

HIDDEN = "***"
HOW_TO_REFER = 'write { env = "NAME" } or { file = "path" }'


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a secret is: an environment variable or a file (its content without the last line break)."""

    env: str | None = None
    file: str | None = None

    def read(self, field: str, environment: Mapping[str, str] | None = None) -> str:
        environment = os.environ if environment is None else environment
        if self.env is not None:
            value = environment.get(self.env, "")
            if not value:
                raise InvalidSettings(field, f"environment variable {self.env} is not set; export it")
            return value
        assert self.file is not None
        try:
            value = Path(self.file).read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not a text file"
            raise InvalidSettings(field, f"cannot read {self.file}: {why}") from None
        if not value:
            raise InvalidSettings(field, f"{self.file} is empty; put the secret into it")
        return value


@dataclass(frozen=True, slots=True, repr=False)
class Url:
    """An address that may carry a secret."""

    _text: str

    def reveal(self) -> str:
        return self._text

    @property
    def scheme(self) -> str:
        return urlsplit(self._text).scheme

    @property
    def has_password(self) -> bool:
        userinfo = urlsplit(self._text).netloc.rpartition("@")[0]
        return ":" in userinfo

    def with_credentials(self, username: str | None, password: str | None) -> Url:
        """The same address with what is given put in; what is already there stays where nothing is given."""
        parts = urlsplit(self._text)
        userinfo, _, hosts = parts.netloc.rpartition("@")
        old_name, _, old_password = userinfo.partition(":")
        name = quote(username, safe="") if username else old_name
        word = quote(password, safe="") if password else old_password
        login = f"{name}:{word}@" if word else f"{name}@" if name else ""
        return Url(urlunsplit(parts._replace(netloc=login + hosts)))

    def __str__(self) -> str:
        """Of a ledger all but the password. Of any other all but scheme and host: providers put the API key into the
        user, the path or the query, and it may be short."""
        parts = urlsplit(self._text)
        userinfo, at, hosts = parts.netloc.rpartition("@")
        if parts.scheme.partition("+")[0] in ("redis", "rediss", "do"):
            name, colon, _ = userinfo.partition(":")
            login = f"{name}{colon}{HIDDEN if colon else ''}{at}"
            query = re.sub(r"[^&]+", HIDDEN, parts.query)
            return urlunsplit((parts.scheme, login + hosts, parts.path, query, ""))
        login = f"{HIDDEN}{at}" if at else ""
        path = f"/{HIDDEN}" if parts.path.strip("/") else parts.path
        return urlunsplit((parts.scheme, login + hosts, path, HIDDEN if parts.query else "", ""))

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"


def _reference(value: Mapping[str, Any]) -> Reference:
    unknown = set(value) - {"env", "file"}
    if unknown or len(value) != 1 or not all(isinstance(item, str) and item for item in value.values()):
        raise ValueError(f"is not a reference; {HOW_TO_REFER}")
    return Reference(**value)


def _parse_url(value: object) -> Url | Reference:
    if isinstance(value, (Url, Reference)):
        return value
    if isinstance(value, Mapping):
        return _reference(value)
    if not isinstance(value, str):
        raise ValueError("must be a URL in quotes, or a reference to one")
    try:
        parts = urlsplit(value)
    except ValueError:
        raise ValueError("is not a URL") from None
    if not parts.scheme or "://" not in value:
        raise ValueError("is not a URL: it needs a scheme, such as https:// or redis://")
    return Url(value)


def _parse_secret(value: object) -> SecretStr | Reference:
    if isinstance(value, (SecretStr, Reference)):
        return value
    if isinstance(value, Mapping):
        return _reference(value)
    if not isinstance(value, str) or not value:
        raise ValueError(f"must refer to a secret; {HOW_TO_REFER}")
    return SecretStr(value)


def _show(value: object) -> object:
    if isinstance(value, Reference):
        return {"env": value.env} if value.env is not None else {"file": value.file}
    return HIDDEN if isinstance(value, SecretStr) else str(value)


SecretUrl = Annotated[Url | Reference, PlainValidator(_parse_url), PlainSerializer(_show)]
SecretWord = Annotated[SecretStr | Reference, PlainValidator(_parse_secret), PlainSerializer(_show)]


def reveal(field: str, value: Url | SecretStr | Reference, environment: Mapping[str, str] | None = None) -> str:
    """The secret itself, at the moment it is used."""
    if isinstance(value, Reference):
        return value.read(field, environment)
    return value.reveal() if isinstance(value, Url) else value.get_secret_value()
