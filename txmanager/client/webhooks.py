"""For the receiving end of webhooks: is this call really from txmanager, and fresh?"""

from __future__ import annotations

import hashlib
import hmac
import time


def verify_webhook(
    secret: str, signature: str, body: bytes, *, tolerance_s: int = 300, now: float | None = None
) -> bool:
    """Check the header `Txmanager-Signature` (`t=seconds,v1=hex`) against the raw body. An old call is a replay."""
    parts = dict(part.partition("=")[::2] for part in signature.split(","))
    at, digest = parts.get("t", ""), parts.get("v1", "")
    if not (at.isascii() and at.isdigit() and len(at) <= 12 and digest.isascii()):
        return False
    if abs((time.time() if now is None else now) - int(at)) > tolerance_s:
        return False
    wanted = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(wanted, digest)
