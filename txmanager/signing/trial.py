"""A signature that is good for nothing: it shows that a signer answers, and that its key is the one we think it is."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from txmanager.signing.signer import SigningRequest

PREFIX = b"txmanager trial signature\n"
"""No transaction of any chain begins like this: read as NEAR's borsh it has a name of a gigabyte, read as an EVM
transaction it has the unassigned type 0x74."""


_HEX_DIGITS = 32


def is_trial(unsigned: bytes, public_key: str) -> bool:
    """Whether the bytes are a trial of this key, exactly."""
    head, digits = PREFIX + public_key.encode() + b"\n", unsigned[-_HEX_DIGITS:]
    return unsigned[:-_HEX_DIGITS] == head and not digits.strip(b"0123456789abcdef")


def trial_request(public_key: str, digest: Callable[[bytes], bytes]) -> SigningRequest:
    """Other bytes each time, so that no cached answer passes."""
    unsigned = PREFIX + f"{public_key}\n{secrets.token_hex(_HEX_DIGITS // 2)}".encode()
    return SigningRequest(unsigned, digest(unsigned))
