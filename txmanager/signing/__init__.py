"""Private keys and what signs with them. Only lane workers import this; nothing here signs arbitrary messages.

A `Secret` never prints. A `Signer` gets unsigned bytes and their digests; every key source stands behind this protocol.
"""

from txmanager.signing.ed25519 import Ed25519Signer
from txmanager.signing.secret import Secret
from txmanager.signing.signer import Signer, SigningRequest

__all__ = ["Ed25519Signer", "Secret", "Signer", "SigningRequest"]
