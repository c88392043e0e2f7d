"""A signature that is good for nothing: it shows that a signer answers, and that its key is the one we think it is."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from txmanager.signing.signer import SigningRequest

PREFIX = b"txmanager trial signature\n"
"""No transaction of any chain begins like this: read as NEAR's borsh it has a name of a gigabyte, read as an EVM
transaction it has the unassigned type 0x74."""


def trial_request(public_key: str, digest: Callable[[bytes], bytes]) -> SigningRequest:
    """Other bytes each time, so that no cached answer passes."""
    unsigned = PREFIX + f"{public_key}\n{secrets.token_hex(16)}".encode()
    return SigningRequest(unsigned, digest(unsigned))
