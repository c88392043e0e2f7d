"""What an API must know of a kind of intent without knowing its chain: its model, and how to read a payload.

A chain adapter provides the kinds; `Reading` is what it says of one payload, checked against the rules of its pool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from txmanager.core.models import Json


@dataclass(frozen=True, slots=True)
class Reading:
    """One valid payload. `receivers` and `deposit` are what allow-lists and limits are held against."""

    payload: Mapping[str, Json]
    """What is stored and signed from."""
    receivers: frozenset[str]
    deposit: int
    """What the relayer spends beside fees, in the chain's smallest unit."""
    derived_key: str | None = None
    """The idempotency key that the payload itself names."""
    identity: Mapping[str, Json] | None = None
    """Set where the payload is claimed under its derived key whatever key the caller brings, which becomes an alias:
    what the fingerprint is taken of, equal for every form of the same request."""


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    model: type[BaseModel]
    read: Callable[[str, Mapping[str, Json]], Reading]
    """`read(pool, payload)`; raises `InvalidInput` naming the field."""
