"""Final records as a ledger gives them out, many of them and all different."""

from __future__ import annotations

import random
from typing import Any

from txmanager.core.archive import Ended
from txmanager.core.models import Attempt, Outcome, Purpose, Record, failure, new_intent
from txmanager.core.states import Status

BASE_MS = 1_700_000_000_000
NONCE = 183_000_000_000_123
TENANTS, POOLS = ("default", "acme", "beta"), ("main", "odd")
KINDS = ("near.transfer", "near.create_account", "evm.transaction")
ERRORS = ("reverted", "expired")
DEEP: Any = {"a": [{"b": "\u0000 and \U0001f600"}], "yocto": str(10**30)}


def ended(n: int, *, seed: int = 7, cost: int | None = None, **more: Any) -> Ended:
    """The n-th record of a world; several share a millisecond, in lives of no order."""
    chance = random.Random(seed * 1_000_003 + n)
    status = chance.choice([Status.DONE] * 4 + [Status.FAILED, Status.CANCELLED])
    intent = new_intent(
        key=f"{chance.choice(['order', 'refund'])}-{n:07d}",
        pool=chance.choice(POOLS),
        kind=chance.choice(KINDS),
        payload={"to": f"r{n % 11}.near", "n": n, "deep": DEEP},
        tenant=more.get("tenant") or chance.choice(TENANTS),
        metadata={"order": n % 13, "deep": DEEP},
        token=f"token{n % 2}",
    )
    signed = status is not Status.CANCELLED
    attempt = Attempt(NONCE + n, f"hash{n}", b"", Purpose.FIRST, BASE_MS, 10**15 + n, 10**18, {"gas": "3" * 15})
    spent = (10**24 + n * 7 if cost is None else cost) if signed else 0
    error = failure(chance.choice(ERRORS), "no", new_key_helps=True) if status is Status.FAILED else None
    at = BASE_MS + n // 5
    record = Record(
        intent=intent,
        lane=f"near:net:relayer:ed25519.{n % 3}",
        life=f"{chance.getrandbits(64):016x}",
        status=status,
        position=f"{at}-{n % 5}",
        created_at=at,
        updated_at=at + chance.randrange(10_000),
        attempts=(attempt,) if signed else (),
        outcome=Outcome(
            status, attempt.hash if signed else None, NONCE + n if signed else None, {"logs": [DEEP]}, error, spent
        ),
        hold={"reason": "lost_proof", "evidence": {}} if n % 17 == 0 else None,
        resigns=n % 3,
    )
    return Ended(record, (f"r{n % 11}.near",), n if status is Status.DONE else 0)
