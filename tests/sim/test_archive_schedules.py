"""Archivers under faults: every end is a row, once, with its outcome; and seeded bugs are caught."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import pytest

from tests.sim.archives import ArchivedWorld, SimArchive
from tests.sim.plan import draw
from tests.sim.world import Result, run
from txmanager.core.archive import Ended
from txmanager.core.errors import TxManagerError
from txmanager.core.models import IntentId, Record
from txmanager.ledger.memory.lanes import LaneStore
from txmanager.runtime.deliver.archiver import Archiver
from txmanager.runtime.lane.retirer import retire_each

SCHEDULES = int(os.environ.get("ARCHIVE_SCHEDULES", "60"))
HUNTED = range(40)


class Seen(ArchivedWorld):
    last: ArchivedWorld

    def __init__(self, *told: Any) -> None:
        super().__init__(*told)
        Seen.last = self


def wrong(result: Result) -> list[str]:
    return [said for said in result.violations if "archive" in said]


def test_every_end_is_archived_once_in_every_schedule() -> None:
    rows = whole = gaps = 0
    for seed in range(SCHEDULES):
        result = run(draw(seed), kind=Seen)
        assert not result.violations, (seed, result.violations[:3])
        stored = Seen.last.archive.rows.values()
        rows, whole, gaps = rows + len(stored), whole + sum(one.whole for one in stored), gaps + Seen.last.gaps
    assert whole > rows / 2, "most are acknowledged where they wait"
    assert gaps > SCHEDULES / 4, "and some went on without the archive"


def test_a_schedule_with_an_archive_replays_step_by_step() -> None:
    assert run(draw(5), kind=ArchivedWorld).digest == run(draw(5), kind=ArchivedWorld).digest


# -- seeded bugs


@contextmanager
def acknowledged_before_the_commit() -> Iterator[None]:
    async def finals(self: Archiver, lane: str) -> int:
        records = await self._ledger.unarchived(lane, 128)
        await self._ledger.acknowledge(lane, [(record.id, record.life) for record in records])
        await self._store_each([self._ended(record) for record in records]) if records else []
        await retire_each(self._ledger, records)
        return len(records)

    with patch.object(Archiver, "_finals", finals):
        yield


@contextmanager
def gap_acknowledged_before_it_is_filled() -> Iterator[None]:
    async def backlog(self: Archiver, lane: str) -> int:
        gone = (await self._ledger.backlog(lane, 128)).gone
        await self._ledger.acknowledge(lane, [(one.id, one.life) for one in gone])
        found = [await self._from_home(one) for one in gone]
        ended = [Ended(record, whole=False) for record in found if record is not None]
        await self._store(ended)
        return len(ended)

    with patch.object(Archiver, "_backlog", backlog):
        yield


@contextmanager
def gap_is_forgotten() -> Iterator[None]:
    sound = LaneStore.bury

    def bury(self: LaneStore, record: Record, now: int) -> bool:
        before = dict(self.gone)
        answer = sound(self, record, now)
        self.gone = before
        return answer

    with patch.object(LaneStore, "bury", bury):
        yield


@contextmanager
def nothing_waits_for_the_archive() -> Iterator[None]:
    with patch.object(LaneStore, "_waits", lambda self, record: False):
        yield


@contextmanager
def lane_that_came_later_is_not_attended() -> Iterator[None]:
    sound = Archiver.archive_once

    async def archive_once(self: Archiver) -> int:
        count = await sound(self)
        self._attended = _Everything()
        return count

    with patch.object(Archiver, "archive_once", archive_once):
        yield


class _Everything(set[str]):
    def __contains__(self, lane: object) -> bool:
        return True


@contextmanager
def database_that_is_away_counts_as_stored() -> Iterator[None]:
    async def store_each(self: Archiver, ended: Sequence[Ended]) -> list[Record]:
        with suppress(TxManagerError):
            await self._store(ended)
        return [one.record for one in ended]

    with patch.object(Archiver, "_store_each", store_each):
        yield


@contextmanager
def row_from_a_home_is_called_whole() -> Iterator[None]:
    sound = Archiver._store

    async def store(self: Archiver, ended: Sequence[Ended]) -> None:
        await sound(self, [Ended(one.record, one.receivers, one.deposit, one.own_account) for one in ended])

    with patch.object(Archiver, "_store", store):
        yield


@contextmanager
def repeat_is_counted_again() -> Iterator[None]:
    sound = SimArchive.commit

    def commit(self: SimArchive, ended: Sequence[Ended]) -> list[IntentId]:
        before, known = self.counted, sum((one.record.id, one.record.life) in self.rows for one in ended)
        answer = sound(self, ended)
        self.counted = self.counted + known if before else self.counted
        return answer

    with patch.object(SimArchive, "commit", commit):
        yield


@contextmanager
def one_error_ends_the_archiver() -> Iterator[None]:
    async def archive_for_ever(self: Archiver) -> None:
        while not self._stopping.is_set():
            await self.archive_once()

    with patch.object(Archiver, "run", archive_for_ever):
        yield


BUGS = [
    acknowledged_before_the_commit,
    gap_acknowledged_before_it_is_filled,
    gap_is_forgotten,
    nothing_waits_for_the_archive,
    lane_that_came_later_is_not_attended,
    database_that_is_away_counts_as_stored,
    row_from_a_home_is_called_whole,
    repeat_is_counted_again,
    one_error_ends_the_archiver,
]


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_of_the_archive_is_caught(bug: Any) -> None:
    with bug():
        assert any(wrong(run(draw(seed), kind=ArchivedWorld)) for seed in HUNTED), f"{bug.__name__} went unseen"
