"""Seeded bugs by name, each put in by patching for as long as a block lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from txmanager.core import alive
from txmanager.core.alive import Arm

Patch = AbstractContextManager[Any]


def arm_instead(sound: Arm, other: Arm) -> Patch:
    """Another arm of `decide` in the place of a sound one."""
    assert sound in alive.ARMS
    return patch.object(alive, "ARMS", tuple(other if arm is sound else arm for arm in alive.ARMS))


class Bugs(dict[str, Callable[[], Sequence[Patch]]]):
    def mutant(self, make: Callable[[], Sequence[Patch]]) -> None:
        self[make.__name__] = make

    @contextmanager
    def planted(self, name: str) -> Iterator[None]:
        with ExitStack() as patches:
            for one in self[name]():
                patches.enter_context(one)
            yield
