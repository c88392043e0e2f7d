"""Seals: proof that an intent was accepted by a process that knows the secret, exactly as it stands in the ledger.

A seal is an HMAC over everything that decides what is signed, and where: tenant, pool, key, kind, version,
fingerprint, life, lane, limits, max age and payload. Whoever can write to the ledger and does not know the secret
cannot change any of it, nor carry it over to another lane or life.

The bytes under the HMAC begin with their own name and the length of every part, so no two intents share them.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Callable, Sequence
from enum import StrEnum

from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.core.models import Intent, Json

BAD_SEAL = "bad_seal"
"""The reason of a hold that another seal ends."""
SHORTEST_SECRET = 32
_DOMAIN = b"txmanager/seal/1\0"
_LENGTHS = struct.Struct(">9I")
Encode = Callable[[Json], bytes]
"""JSON in one form for one value, whatever the order of its keys: what is sealed is read back from JSON."""


class SealMode(StrEnum):
    ACCEPT = "accept"
    """What has no seal is signed as before; a wrong seal is not."""
    REQUIRE = "require"
    """Nothing is signed without a seal."""


class SealCheck(StrEnum):
    GOOD = "good"
    MISSING = "missing"
    UNKNOWN_SECRET = "unknown_secret"
    """Made with a secret that is not in the list: one that was removed too early, or somebody else's."""
    WRONG = "wrong"
    """Made with a known secret, for something else than what stands there."""


def message(intent: Intent, life: str, lane: str, encode: Encode) -> bytes:
    """What the HMAC is taken over."""
    limits, age = intent.limits, intent.max_age_s
    # tenant/pool/key is one part: neither tenant nor pool may contain a slash, and reading it back splits there.
    # `repr`: the text "60" in place of the number 60 is another max age.
    number, most = repr(intent.version), "" if age is None else repr(age)
    head = intent.id.text, intent.kind, number, intent.fingerprint, life, lane, most
    text = "".join(head).encode()
    bounds, payload = encode(limits) if limits else b"", encode(intent.payload)
    return _DOMAIN + _LENGTHS.pack(*map(len, head), len(bounds), len(payload)) + text + bounds + payload


class _Secret:
    """One secret, with the name its seals carry; the name says nothing about the secret. HMAC-SHA256, of which 128
    bits are kept, with the key's two blocks hashed once: a library's object would take longer than the hashing."""

    def __init__(self, secret: bytes) -> None:
        block = (hashlib.sha256(secret).digest() if len(secret) > 64 else secret).ljust(64, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))
        self.name = self.mac(b"txmanager/seal/name")[:8]

    def mac(self, data: bytes) -> str:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(data)
        outer.update(inner.digest())
        return outer.hexdigest()[:32]

    def seal(self, data: bytes) -> str:
        return f"1.{self.name}.{self.mac(data)}"


class Seals:
    """The first secret seals, all verify: so a secret is replaced without a moment in which something fails."""

    def __init__(self, secrets: Sequence[str], mode: SealMode, encode: Encode) -> None:
        for n, secret in enumerate(secrets):
            if len(secret) < SHORTEST_SECRET:
                raise InvalidSettings(
                    f"ledger.seal[{n}]", f"must have at least {SHORTEST_SECRET} characters; try `openssl rand -hex 32`"
                )
        if not secrets:
            raise InvalidSettings("ledger.seal", "must name at least one secret")
        self.mode = mode
        self._encode = encode
        self._known = {secret.name: secret for secret in (_Secret(text.encode()) for text in secrets)}
        self._first = next(iter(self._known.values()))

    def seal(self, intent: Intent, life: str, lane: str) -> str:
        try:
            return self._first.seal(message(intent, life, lane, self._encode))
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                "payload", f"cannot be sealed as JSON ({error}); write whole numbers beyond 64 bits as strings"
            ) from None

    def check(self, intent: Intent, life: str, lane: str, seal: str) -> SealCheck:
        """Never raises: whatever stands there was written by anybody."""
        if not seal:
            return SealCheck.MISSING
        secret = self._known.get(seal[2:10])
        if secret is None:
            return SealCheck.UNKNOWN_SECRET
        try:
            right = secret.seal(message(intent, life, lane, self._encode))
            same = hmac.compare_digest(right, seal)
        except (TypeError, ValueError, AttributeError, struct.error):
            return SealCheck.WRONG
        return SealCheck.GOOD if same else SealCheck.WRONG

    def passes(self, check: SealCheck) -> bool:
        return check is SealCheck.GOOD or (check is SealCheck.MISSING and self.mode is SealMode.ACCEPT)
