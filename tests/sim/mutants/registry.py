"""The list of seeded bugs, and what several of them are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from txmanager.core import decide as deciding
from txmanager.core.decide import Observation, Step
from txmanager.core.models import Record
from txmanager.runtime.lane import tracker as runtime_tracker

Patch = AbstractContextManager[Any]


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    mistake: str
    make: Callable[[], Sequence[Patch]]

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as patches:
            for one in self.make():
                patches.enter_context(one)
            yield


MUTANTS: dict[str, Mutant] = {}


def mutant(mistake: str) -> Callable[[Callable[[], Sequence[Patch]]], None]:
    def add(make: Callable[[], Sequence[Patch]]) -> None:
        name = make.__name__
        MUTANTS[name] = Mutant(name, mistake, make)

    return add


def deciding_instead(instead: Callable[[Record, Observation], Step | None]) -> Patch:
    def decide(record: Record, seen: Observation, *args: Any) -> Step:
        return instead(record, seen) or deciding.decide(record, seen, *args)

    return patch.object(runtime_tracker, "decide", decide)


def all_dead(record: Record, why: str) -> dict[str, dict[str, str]]:
    return {a.name: {"cause": why} for a in record.live}
