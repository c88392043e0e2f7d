"""Doors: the routes of another relayer, for clients that were written for it.

A door is a part of a chain family and touches nothing: each route says what a request asks for, in the operations that
every API has, and how the answer is worded. Whoever serves it admits, limits, charges and audits as everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

from txmanager.core.errors import InvalidInput
from txmanager.core.models import Json
from txmanager.core.values import value

DoorRight = Literal["submit", "read", "operate"]


@value(frozen=True, slots=True)
class DoorRequest:
    body: Json = None
    """The JSON of the body; bytes where a route takes them as they are."""
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    now_ms: int = 0


@value(frozen=True, slots=True)
class DoorAnswer:
    status: int
    body: Json
    """Text is answered as it is; everything else as JSON."""


@value(frozen=True, slots=True)
class StartAllowance:
    """What a key may spend for ever, unless somebody set that before."""

    budget_key: str
    amount: int
    """In the chain's smallest unit."""


@value(frozen=True, slots=True)
class Submit:
    """Accept an intent; its record is answered."""

    kind: str
    payload: Mapping[str, Json]
    pool: str | None = None
    """None: the one that the door is configured with."""
    key: str | None = None
    """The idempotency key that the request itself implies; otherwise the header's."""
    reused: str = ""
    """What to say when that key was used with another payload."""
    budget_key: str | None = None
    max_age_s: int | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    start: StartAllowance | None = None
    late: InvalidInput | None = None
    """Why only what was accepted before is answered."""


@value(frozen=True, slots=True)
class Read:
    """Answer a record."""

    key: str
    pool: str | None = None


@value(frozen=True, slots=True)
class ReadAllowance:
    """Answer what is left of what a key may spend for ever, in the chain's smallest unit."""

    budget_key: str


@value(frozen=True, slots=True)
class SetAllowance:
    """Let a key spend so much from now on; the new rest is answered."""

    budget_key: str
    amount: int


Wish = Submit | Read | ReadAllowance | SetAllowance


@value(frozen=True, slots=True)
class DoorRoute:
    method: Literal["GET", "POST"]
    path: str
    right: DoorRight
    wish: Callable[[DoorRequest], Wish]
    """`InvalidInput` names what is wrong."""
    answer: Callable[[DoorRequest, Any], DoorAnswer]
    """Of the record, or of the allowance."""
    waits: bool = False
    """Whether callers expect the outcome: the answer then waits for it, for a while."""
    makes_key: bool = False
    """Whether a request without an idempotency key gets a random one. A repetition is then another intent."""
    takes_bytes: bool = False
    """Whether the body may be `application/octet-stream`."""


@value(frozen=True, slots=True)
class Elsewhere:
    """A route of the other relayer that is not mapped: 501, with what to use instead."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    instead: str


@value(frozen=True, slots=True)
class RelayerDoor:
    title: str
    """The relayer whose routes these are."""
    routes: tuple[DoorRoute, ...]
    elsewhere: tuple[Elsewhere, ...]
    refuse: Callable[[int, Mapping[str, object]], DoorAnswer]
    """A problem, in the other relayer's form."""
