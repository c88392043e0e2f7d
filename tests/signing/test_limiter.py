"""How fast a signer is asked: the account's quota is divided among the workers, and halved when it throttles."""

from __future__ import annotations

import asyncio

import pytest

from txmanager.signing.limiter import Limiter, Shares


async def test_the_rate_is_divided_among_the_workers_that_live() -> None:
    shares, limiter = Shares(), Limiter(100, 200.0)
    shares.add(limiter)
    assert limiter.rate == 200.0
    shares.among(4)
    assert limiter.rate == 50.0
    late = Limiter(100, 80.0)
    shares.add(late)
    assert late.rate == 20.0
    shares.among(1)
    assert (limiter.rate, late.rate) == (200.0, 80.0)
    shares.among(0)  # nobody was seen: at least this one lives
    assert limiter.rate == 200.0


async def test_throttling_halves_the_own_share_once_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txmanager.signing.limiter._now", lambda: 100.0)  # no second passes, however busy the machine
    limiter = Limiter(10, 100.0)
    limiter.share(2)
    limiter.throttled()
    assert limiter.rate == 25.0
    limiter.throttled()  # an answer to what was asked before
    assert limiter.rate == 25.0
    limiter.share(1)  # the other one died: its half is ours, and the brake stays
    assert limiter.rate == 50.0


async def test_what_unblocks_a_lane_goes_first() -> None:
    limiter, order = Limiter(1, 100.0), list[str]()

    async def ask(name: str, urgent: bool) -> None:
        async with limiter.turn(urgent=urgent):
            order.append(name)

    plain = [asyncio.create_task(ask(f"plain {n}", False)) for n in range(5)]
    await asyncio.sleep(0)
    urgent = [asyncio.create_task(ask(f"urgent {n}", True)) for n in range(3)]
    await asyncio.gather(*plain, *urgent)
    assert order[0] == "plain 0", "it was alone when it came"
    assert order[1:4] == ["urgent 0", "urgent 1", "urgent 2"]
