"""Seeded bugs by name, each put in by patching for as long as a block lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

Patch = AbstractContextManager[Any]


class Bugs(dict[str, Callable[[], Sequence[Patch]]]):
    def mutant(self, make: Callable[[], Sequence[Patch]]) -> None:
        self[make.__name__] = make

    @contextmanager
    def planted(self, name: str) -> Iterator[None]:
        with ExitStack() as patches:
            for one in self[name]():
                patches.enter_context(one)
            yield
