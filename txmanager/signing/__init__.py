"""Private keys and what signs with them. Only lane workers import this; nothing here signs arbitrary messages.

A `Secret` never prints. A `Signer` signs 32-byte digests; NEAR and EVM signers stand behind the same protocol.
"""

from txmanager.signing.ed25519 import Ed25519Signer
from txmanager.signing.secret import Secret
from txmanager.signing.signer import Signer

__all__ = ["Ed25519Signer", "Secret", "Signer"]
