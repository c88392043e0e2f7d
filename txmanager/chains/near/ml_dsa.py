"""ML-DSA-65 (FIPS 204), the post-quantum signatures of NEAR: checked before a delegate is paid for, never made here."""

from __future__ import annotations

from txmanager.core.errors import Misconfigured


def ml_dsa_65_holds(public_key: bytes, signature: bytes, digest: bytes) -> bool:
    """Whether the signature is the key's over the digest, with an empty context as NEAR has it."""
    # Imported late: a relayer that never meets such a key does not load OpenSSL.
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey

    try:
        MLDSA65PublicKey.from_public_bytes(public_key).verify(signature, digest)
    except UnsupportedAlgorithm:
        raise Misconfigured(
            "this build of the cryptography package cannot verify ML-DSA-65; use its own wheel"
        ) from None
    except (InvalidSignature, ValueError):
        return False
    return True
