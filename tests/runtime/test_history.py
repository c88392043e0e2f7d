"""The list of live intents: one order over all lanes, bounded work, pages that lose and repeat nothing."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from txmanager.core import listing
from txmanager.core.ledger import Claim, Entry
from txmanager.core.listing import Filter, Mark, Page, mark_of
from txmanager.core.models import IntentId, LaneSpec, Record, new_intent
from txmanager.core.states import Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime import history as history_module
from txmanager.runtime.history import History

LANES = [f"near:net:relayer:{n}" for n in range(5)]


class World:
    """A ledger whose clock a test moves, and the list over it."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        self.ledger = MemoryLedger(clock=lambda: self.now)
        self.history = History(self.ledger, _receivers)
        self.accepted: list[tuple[int, str]] = []

    async def open(self) -> None:
        for n, lane in enumerate(LANES):
            await self.ledger.register(LaneSpec(lane, "even" if n % 2 == 0 else "odd"))

    async def accept(self, key: str, lane: int = 0, *, tenant: str = "default", **metadata: str) -> IntentId:
        pool = "even" if lane % 2 == 0 else "odd"
        payload = {"to": f"{key}.near"}
        intent = new_intent(key=key, pool=pool, kind="near.transfer", payload=payload, tenant=tenant, metadata=metadata)
        life = f"life-{len(self.accepted) * 7919 % 1000:03d}"
        [claimed] = await self.ledger.claim([Claim(intent.id, intent.fingerprint, LANES[lane], life)])
        [answer] = await self.ledger.append(LANES[lane], [Entry(intent, claimed.life, claimed.born)])
        assert answer.word == "appended"
        self.accepted.append((self.now, life))
        return intent.id

    async def pages(self, wanted: Filter, limit: int) -> list[Page]:
        found: list[Page] = []
        before: Mark | None = None
        while not found or before is not None:
            found.append(await self.history.page(wanted, before, limit))
            before = found[-1].next
        return found

    async def keys(self, wanted: Filter, limit: int = 50) -> list[str]:
        return [r.id.key for page in await self.pages(wanted, limit) for r in page.records]


def _receivers(record: Record) -> Collection[str]:
    return {str(record.intent.payload["to"])} if record.intent.payload else ()


@pytest.fixture
async def world() -> World:
    world = World()
    await world.open()
    return world


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
async def test_all_lanes_are_one_list_in_the_order_of_acceptance(world: World, limit: int):
    for n in range(60):
        await world.accept(f"k{n:02d}", n * n % 5)
        world.now += n % 3  # several within one millisecond
    pages = await world.pages(Filter(), limit)
    marks = [mark_of(r) for page in pages for r in page.records]
    assert marks == sorted(world.accepted, reverse=True)
    assert all(len(page.records) <= limit and not page.partial for page in pages)
    assert len(pages) == -(-60 // limit)


async def test_an_empty_ledger_has_one_empty_page(world: World):
    assert await world.pages(Filter(), 10) == [Page(())]


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        (Filter(tenant="acme"), ["acme"]),
        (Filter(pool="odd"), ["odd"]),
        (Filter(pools=frozenset({"odd"})), ["odd"]),
        (Filter(pool="even", pools=frozenset({"odd"})), []),
        (Filter(lane=LANES[1]), ["odd"]),
        (Filter(status=Status.CANCELLED), ["over"]),
        (Filter(key_prefix="o"), ["odd", "over"]),
        (Filter(receiver="tagged.near"), ["tagged"]),
        (Filter(metadata={"order": "7"}), ["tagged"]),
        (Filter(metadata={"order": "8"}), []),
        (Filter(kind="near.create_account"), []),
        (Filter(hash="none"), []),
        (Filter(error="none"), []),
        (Filter(since=1_700_000_000_002), ["tagged", "odd"]),
        (Filter(until=1_700_000_000_002), ["over", "acme"]),
        (Filter(since=1_700_000_000_001, until=1_700_000_000_003), ["odd", "over"]),
    ],
    ids=str,
)
async def test_a_filter_shows_what_it_names_and_nothing_else(world: World, wanted: Filter, keys: list[str]):
    await world.accept("acme", 2, tenant="acme")
    world.now += 1
    await world.ledger.cancel(await world.accept("over"))
    world.now += 1
    await world.accept("odd", 1)
    world.now += 1
    await world.accept("tagged", 4, order="7")
    assert await world.keys(wanted, 50) == keys
    assert await world.keys(wanted, 1) == keys


async def test_a_rare_filter_looks_at_so_many_and_says_that_it_stopped(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(history_module, "SCAN_LIMIT", 20)
    for n in range(95):
        await world.accept("rare" if n == 3 else f"k{n}", n % 5)
        world.now += 1
    pages = await world.pages(Filter(key_prefix="rare"), 10)
    assert [page.partial for page in pages] == [True] * 4 + [False]
    assert [r.id.key for page in pages for r in page.records] == ["rare"]


async def test_a_list_goes_on_where_it_ended_whatever_came_and_went(world: World):
    ids = []
    for n in range(20):
        ids.append(await world.accept(f"k{n:02d}", n % 5))
        world.now += 1
    first = await world.history.page(Filter(), None, 5)
    await world.accept("newer")
    await world.ledger.cancel(ids[10])
    rest = await world.history.page(Filter(), first.next, 50)
    assert [r.id.key for r in rest.records] == [f"k{n:02d}" for n in reversed(range(15))]
    assert rest.records[4].status is Status.CANCELLED


def test_the_limit_is_the_one_that_is_documented():
    assert listing.SCAN_LIMIT == 10_000
