"""`txmanager bench stack`: how fast a whole stack is on this machine, as its HTTP callers see it.

It needs no source checkout and no other queue: a stack of its own in a temporary folder, one caller, then many.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from txmanager.client import AsyncClient
from txmanager.core.errors import Unavailable
from txmanager.demo.report import percentile
from txmanager.stack import Stack, StackOptions
from txmanager.stack.parts import free_port

_LONE = 20
"""Requests of a caller who waits for each before the next."""
_CALLERS = 64


@dataclass(frozen=True, slots=True)
class Speed:
    transfers: int
    accepted_s: float
    """From the first request to the last 202."""
    done_s: float
    """From the first request until the last transfer is final."""
    lone_s: list[float]
    """Request to final result, one at a time on an idle stack."""
    block_ms: float

    def rows(self) -> list[tuple[str, str]]:
        lone = (percentile(self.lone_s, share) for share in (0.5, 0.99))
        return [
            ("accepted per second", f"{self.transfers / self.accepted_s:.0f}"),
            ("final per second", f"{self.transfers / self.done_s:.0f}"),
            ("one request to its final result, p50 / p99", " / ".join(f"{seconds:.2f} s" for seconds in lone)),
            ("the devnet makes a block every", f"{self.block_ms:.0f} ms"),
        ]


async def measure(transfers: int, say: Callable[[str], None]) -> Speed:
    folder = Path(tempfile.mkdtemp(prefix="txmanager-bench-"))
    options = StackOptions(data=folder, port=free_port(), workers=1, keys=8, block_ms=100.0)
    stack = Stack(options, say)
    watching: asyncio.Task[str] | None = None
    try:
        say("starting: Valkey, NEAR devnet, API, 1 worker over 8 keys ...")
        await stack.start()
        watching = asyncio.create_task(stack.supervise())
        work = asyncio.create_task(_measure(stack, transfers, say))
        await asyncio.wait({work, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
            raise Unavailable(watching.result())
        return await work
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await stack.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def _measure(stack: Stack, transfers: int, say: Callable[[str], None]) -> Speed:
    payload = {"receiver_id": stack.account, "amount": "1"}
    async with AsyncClient(stack.url, token=stack.folder.token()) as client:
        say(f"{_LONE} transfers, one at a time ...")
        lone = []
        for number in range(_LONE):
            began = time.monotonic()
            await client.execute("near.transfer", payload, key=f"lone-{number}")
            lone.append(time.monotonic() - began)
        say(f"{transfers} transfers from {_CALLERS} callers ...")
        keys = [f"many-{number}" for number in range(transfers)]
        places = asyncio.Semaphore(_CALLERS)
        began = time.monotonic()

        async def accept(key: str) -> None:
            async with places:
                await client.submit("near.transfer", payload, key=key)

        async def end(key: str) -> None:
            async with places:
                await client.wait(key)

        await asyncio.gather(*map(accept, keys))
        accepted_s = time.monotonic() - began
        await asyncio.gather(*map(end, keys))
        return Speed(transfers, accepted_s, time.monotonic() - began, lone, stack.options.block_ms)
