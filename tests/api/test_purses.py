"""`GET /v1/purses`: the chains are asked once for everybody, and a slow one keeps nobody waiting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from txmanager.api import purses as module
from txmanager.api.auth import Caller
from txmanager.api.call import Call
from txmanager.api.purses import PurseRoutes
from txmanager.core.errors import Unavailable
from txmanager.core.models import Lane, LaneSpec
from txmanager.core.purses import Marks
from txmanager.runtime.care.purses import PurseSeen
from txmanager.settings.models import TokenLimits


def lane(account: str, pool: str) -> Lane:
    return cast(Lane, SimpleNamespace(id=f"near:net:{account}:k", spec=LaneSpec(f"near:net:{account}:k", pool)))


SEEN = [
    PurseSeen("near:net:b", "account", 10**24, frozenset({"two"}), "", network="net", payers=[lane("b", "two")]),
    PurseSeen(
        "near:net:a", "account", 5, frozenset({"one", "two"}), "", Marks(6),
        network="net", payers=[lane("a", "one"), lane("a", "two")],
    ),
]  # fmt: skip


async def asked(routes: PurseRoutes, caller: Caller | None = None) -> dict[str, Any]:
    reply = await routes.list(cast(Call, SimpleNamespace(caller=caller or Caller())))
    told: dict[str, Any] = json.loads(reply.body)
    return told


async def test_the_chains_are_asked_once_however_many_ask_here():
    looks = 0

    async def look() -> Sequence[PurseSeen]:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0)
        return SEEN

    routes = PurseRoutes(look)
    answers = await asyncio.gather(*(asked(routes) for _ in range(20)))
    answers.append(await asked(routes))
    assert looks == 1
    assert all(answer == answers[0] for answer in answers)
    low, other = answers[0]["purses"]
    assert (low["purse"], low["balance"], low["low"], low["is_low"]) == ("near:net:a", "5", "6", True)
    assert (other["balance"], other["low"], other["is_low"]) == (str(10**24), None, False)


async def test_a_token_of_one_pool_sees_no_lane_of_another():
    async def look() -> Sequence[PurseSeen]:
        return SEEN

    narrow = Caller(limits=TokenLimits(pools=frozenset({"one"})))
    [purse] = (await asked(PurseRoutes(look), narrow))["purses"]
    assert purse["lanes"] == ["near:net:a:k"]


async def test_a_slow_chain_keeps_nobody_waiting_and_is_not_asked_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
    answers, looks = asyncio.Event(), 0

    async def look() -> Sequence[PurseSeen]:
        nonlocal looks
        looks += 1
        await answers.wait()
        return SEEN

    routes = PurseRoutes(look)
    assert await asked(routes) == {"purses": [], "read_at": None}
    monkeypatch.setattr(module, "monotonic", lambda: 1e9)  # long after it began
    assert await asked(routes) == {"purses": [], "read_at": None}
    monkeypatch.setattr(module, "_PATIENCE_S", 5.0)
    answers.set()
    assert len((await asked(routes))["purses"]) == 2
    assert looks == 1


async def test_what_was_read_stays_while_a_chain_is_away(monkeypatch: pytest.MonkeyPatch):
    away = False

    async def look() -> Sequence[PurseSeen]:
        if away:
            raise Unavailable("no node answers")
        return SEEN

    routes = PurseRoutes(look)
    before = await asked(routes)
    away = True
    monkeypatch.setattr(module, "monotonic", lambda: 1e9)
    assert await asked(routes) == before


async def test_without_a_reader_there_is_nothing_to_tell():
    assert await asked(PurseRoutes(None)) == {"purses": [], "read_at": None}
