"""Hints over sockets, without a server: what nobody could hear is found by reading."""

from __future__ import annotations

import asyncio
from unittest.mock import AsyncMock, patch

from txmanager.ledger.durable.address import Address
from txmanager.ledger.durable.hints import Hints


class Silent:
    """A socket on which nothing is ever said."""

    async def receive(self) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    def close(self) -> None:
        pass


async def test_a_lane_that_is_followed_from_now_on_is_told_once_it_is_listened_to():
    hints = Hints(Address.parse(f"do+http://:{'s' * 64}@127.0.0.1:9"), str, 1.0)
    with patch.object(hints, "_socket", AsyncMock(return_value=Silent())):
        assert await hints.news(["lane"], 20.0) == {"lane"}
        assert await hints.news(["lane"], 0.05) == set()
        await hints.close()
