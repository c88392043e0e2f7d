"""`txmanager bench relayer`: transfers through the whole stack, on an EVM chain with a block each second.

    python -m bench.relayer [--transfers 400] [--keys 4] [--callers 64] [--kills 0]

One client sends all transfers over HTTP as fast as it can, each with an idempotency key and a timeout, after which it
sends the same request again. The stack is `txmanager up --evm`: embedded server with fsync, two workers, an API.
Measured: from the first request and from the last acceptance until all are mined, by the chain's own nonces; how many
blocks that took; what arrived, by the receiver's balance. With `--kills`, workers and API are killed (kill -9)
meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import tempfile
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx

from txmanager.core.errors import Misconfigured
from txmanager.stack import Stack, StackOptions
from txmanager.stack.anvil import VARIABLE, find_anvil
from txmanager.stack.parts import free_port

_TIMEOUT_S = 2.0
_AMOUNT = 3


class Chain:
    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self._url, self._client = url, client

    async def ask(self, method: str, *params: Any) -> int:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return int((await self._client.post(self._url, json=body)).json()["result"], 16)

    async def mined(self, senders: list[str]) -> int:
        return sum(await asyncio.gather(*(self.ask("eth_getTransactionCount", one, "latest") for one in senders)))


def with_anvil() -> None:
    """The one on the path, else the one that the tests install."""
    try:
        find_anvil()
    except Misconfigured:
        from tests.evm.machines import installed

        os.environ[VARIABLE] = str(installed() / "node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil")


async def measure(transfers: int, keys: int, callers: int, kills: int) -> dict[str, Any]:
    with_anvil()
    receiver = "0x" + os.urandom(20).hex()
    with tempfile.TemporaryDirectory() as folder:
        options = StackOptions(Path(folder), free_port(), workers=2, keys=keys, block_ms=1000.0, evm=True)
        stack = Stack(options, lambda _: None)
        await stack.start()
        watching = asyncio.create_task(stack.supervise())
        try:
            return await _run(stack, receiver, transfers, callers, kills)
        finally:
            watching.cancel()
            await stack.stop()


async def _run(stack: Stack, receiver: str, transfers: int, callers: int, kills: int) -> dict[str, Any]:
    limits = httpx.Limits(max_connections=callers + 8)
    async with httpx.AsyncClient(timeout=_TIMEOUT_S, limits=limits) as client:
        chain = Chain(stack.evm_url, client)
        token = stack.folder.token()
        lanes = await _lanes(client, stack.url, token)
        senders = [lane.rpartition(":")[2] for lane in lanes]
        before = await chain.mined(senders)
        numbers = iter(range(transfers))
        again = 0
        accepted_at: list[float] = []

        async def caller() -> None:
            nonlocal again
            for n in numbers:
                while not await _submit(client, stack.url, token, f"bench-{n}", receiver):
                    again += 1
                    await asyncio.sleep(0.1)
                accepted_at.append(time.monotonic())

        started = time.monotonic()
        killing = asyncio.create_task(_kill(stack, kills))
        try:
            await asyncio.gather(*(caller() for _ in range(callers)))
            last, block = max(accepted_at), await chain.ask("eth_blockNumber")
            mined_by_then = mined = await chain.mined(senders) - before
            while mined < transfers:
                await asyncio.sleep(0.02)
                mined = await chain.mined(senders) - before
            done, end = time.monotonic(), await chain.ask("eth_blockNumber")
        finally:
            killing.cancel()
        await asyncio.sleep(2.5)  # whatever would be paid twice has its chance
        paid = await chain.ask("eth_getBalance", receiver, "latest")
        return {
            "transfers": transfers,
            "seconds": round(done - started, 2),
            "accepted_in_s": round(last - started, 2),
            "mined_by_then": mined_by_then,
            "after_last_acceptance_s": round(done - last, 2),
            "blocks_after_last_acceptance": end - block,
            "paid_twice": paid // _AMOUNT - transfers,
            "asked_again": again,
        }


async def _lanes(client: httpx.AsyncClient, url: str, token: str) -> list[str]:
    told = (await client.get(f"{url}/v1/lanes", headers={"Authorization": f"Bearer {token}"})).json()
    return [lane["lane"] for lane in told["lanes"] if lane["lane"].startswith("evm:")]


async def _submit(client: httpx.AsyncClient, url: str, token: str, key: str, receiver: str) -> bool:
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key}
    body = {"pool": "evm", "to": receiver, "value": str(_AMOUNT)}
    try:
        answer = await client.post(f"{url}/v1/evm/transactions", json=body, headers=headers)
    except httpx.TransportError:
        return False
    return answer.status_code in (200, 202)


async def _kill(stack: Stack, kills: int) -> None:
    for name in [name for _, name in zip(range(kills), cycle(("worker-1", "api", "worker-2")), strict=False)]:
        await asyncio.sleep(1.0)
        if (pid := stack.pid(name)) is not None:
            os.kill(pid, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.relayer", description=__doc__)
    parser.add_argument("--transfers", type=int, default=400)
    parser.add_argument("--keys", type=int, default=4)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--kills", type=int, default=0)
    told = parser.parse_args()
    print(json.dumps(asyncio.run(measure(told.transfers, told.keys, told.callers, told.kills))))


if __name__ == "__main__":
    main()
