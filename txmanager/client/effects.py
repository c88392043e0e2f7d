"""What a call asks of the client that carries it out."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from txmanager.client.http import Request
from txmanager.client.models import BatchResult, Event

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Send:
    """Carry out the request; answer a `Reply`, or throw `TransportFailed`."""

    request: Request


@dataclass(frozen=True, slots=True)
class Open:
    """Begin a stream; answer its `Reply`, whose body is empty while the status is 200."""

    request: Request


@dataclass(frozen=True, slots=True)
class Read:
    """Answer the stream's next bytes, b"" at its end."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Effect = Send | Pause
StreamEffect = Open | Read | Pause | Event | BatchResult
Call = Generator[Effect, Any, T]
Stream = Generator[StreamEffect, Any, None]
