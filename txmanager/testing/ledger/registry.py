"""Every promise by its name: the conformance suite runs them all, the guard mutants break them one by one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from txmanager.testing.ledger.stage import Stage

Promise: TypeAlias = Callable[[Stage], Awaitable[None]]
PROMISES: dict[str, Promise] = {}


def promise(check: Promise) -> Promise:
    name = check.__name__
    assert name not in PROMISES, f"two promises are called {name}"
    PROMISES[name] = check
    return check
