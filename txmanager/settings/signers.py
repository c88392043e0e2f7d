"""Signers that hold keys elsewhere: `[signers.NAME]`, each with its `provider`. A pool's `NAME:key` means them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from txmanager.settings.parts import Part
from txmanager.settings.secrets import SecretWord


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
    """The account's quota for signatures."""


SignerSettings = Annotated[Pkcs11Settings | KmsSettings, Field(discriminator="provider")]
