"""What every mempool promises, one function each, whatever it is stored in."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import ModuleType

from tests.mempool.promises import boundary, chain, edges, holding, leaving, order, reading, rules, states
from tests.mempool.stage import Stage

Promise = Callable[[Stage], Awaitable[None]]


def of(module: ModuleType) -> dict[str, Promise]:
    return {
        name: made
        for name, made in vars(module).items()
        if inspect.iscoroutinefunction(made) and made.__module__ == module.__name__ and not name.startswith("_")
    }


MODULES = (rules, order, holding, chain, leaving, reading, edges)
PROMISES: dict[str, Promise] = {
    **{name: made for module in MODULES for name, made in of(module).items()},
    **boundary.PROMISES,
    **states.PROMISES,
}
