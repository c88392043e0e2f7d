"""Entries are read ahead of a small window, and nothing rests on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from txmanager.core.ledger import Taken
from txmanager.core.models import new_intent
from txmanager.runtime.lane import entries
from txmanager.runtime.lane.entries import Entries


def taken(number: int) -> Taken:
    intent = new_intent(key=f"k{number}", pool="p", kind="near.transfer", payload={"n": number})
    return Taken(intent, "life", f"{number}-0", number)


@dataclass
class Lane:
    """A queue, and an owner who signs what it is told to."""

    queue: list[Taken]
    page: int = 4
    asked: list[int] = field(default_factory=list)
    upto: str = "0-0"
    instant: bool = True
    id: str = "lane"

    def __post_init__(self) -> None:
        self.fence = None
        self.context = SimpleNamespace(ledger=self, read_ahead=lambda: self.page)
        self.chain = SimpleNamespace(instant=lambda _: self.instant)

    @property
    def plan(self) -> Any:
        return SimpleNamespace(head=SimpleNamespace(signed_upto=self.upto))

    async def retry_while_leased(self, call: Any) -> Any:
        return await call()

    async def take(self, fence: None, count: int) -> list[Taken]:
        self.asked.append(count)
        return [t for t in self.queue if int(t.position[:-2]) > int(self.upto[:-2])][:count]


def made(count: int, **more: Any) -> tuple[Lane, Entries]:
    lane = Lane([taken(n) for n in range(1, count + 1)], **more)
    return lane, Entries(lane)  # type: ignore[arg-type]


async def sign(lane: Lane, reader: Entries, room: int = 1) -> list[int]:
    given = await reader.take(room)
    if given:
        lane.upto = given[-1].position
    return [int(t.position[:-2]) for t in given]


async def test_a_window_of_one_reads_a_page_at_a_time():
    lane, reader = made(9)
    assert [await sign(lane, reader) for _ in range(10)] == [[n] for n in range(1, 10)] + [[]]
    assert lane.asked == [4, 4, 4, 4]


async def test_a_large_window_reads_what_it_has_room_for():
    lane, reader = made(9)
    assert await sign(lane, reader, 8) == list(range(1, 9))
    assert await sign(lane, reader, 8) == [9]
    assert lane.asked == [8, 8]


async def test_what_was_handed_out_and_not_signed_is_read_again():
    lane, reader = made(9)
    assert await sign(lane, reader) == [1]
    given = await reader.take(2)
    assert [t.position for t in given] == ["2-0", "3-0"]
    lane.upto = "2-0"  # the third was refused
    assert await sign(lane, reader) == [3]
    assert lane.asked == [4, 4]


async def test_what_ended_before_it_was_signed_is_handed_out_once():
    lane, reader = made(9)
    await reader.take(1)
    lane.queue.pop(0)  # it was cancelled, so nothing of it was signed
    assert await sign(lane, reader) == [2]


async def test_what_was_read_long_ago_is_read_again(monkeypatch):
    lane, reader = made(9)
    assert await sign(lane, reader) == [1]
    lane.queue.remove(lane.queue[1])
    monkeypatch.setattr(entries, "_GOOD_FOR_S", 0.0)
    assert await sign(lane, reader) == [3]


async def test_what_a_slow_signer_is_asked_for_was_not_read_ahead():
    """A cancelled entry would cost a signature that somebody pays for."""
    lane, reader = made(9, instant=False)
    assert [await sign(lane, reader) for _ in range(3)] == [[1], [2], [3]]
    assert lane.asked == [1, 1, 1]


async def test_room_for_a_few_is_worth_a_take():
    lane, reader = made(9, page=64)
    assert await sign(lane, reader, 4) == [1, 2, 3, 4]
    assert lane.asked == [4]
