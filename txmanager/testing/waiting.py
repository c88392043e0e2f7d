"""Waiting for a condition instead of a time: a test that waits says what it waits for, and goes on at once."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")


@overload
async def until(
    predicate: Callable[[], Awaitable[T]], timeout: float = ..., *, every: float = ..., what: str = ...
) -> T: ...


@overload
async def until(predicate: Callable[[], T], timeout: float = ..., *, every: float = ..., what: str = ...) -> T: ...


async def until(
    predicate: Callable[[], object], timeout: float = 10.0, *, every: float = 0.02, what: str = ""
) -> object:
    """Ask again until the answer is truthy, and give it back. Exceptions of the predicate are not swallowed."""
    stop = time.monotonic() + timeout
    while True:
        answer = predicate()
        value = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if time.monotonic() >= stop:
            raise AssertionError(f"{what or _named(predicate)} did not come true within {timeout} s (last: {value!r})")
        await asyncio.sleep(every)


def until_sync(predicate: Callable[[], T], timeout: float = 10.0, *, every: float = 0.02, what: str = "") -> T:
    """The same for code without a loop: launchers and session fixtures."""
    stop = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= stop:
            raise AssertionError(f"{what or _named(predicate)} did not come true within {timeout} s (last: {value!r})")
        time.sleep(every)


def _named(predicate: Callable[[], object]) -> str:
    return getattr(predicate, "__qualname__", repr(predicate))
