"""The story: a stack of its own in a temporary folder, clients that all retry, a kill in the middle, then the audit."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from txmanager.core.errors import TxManagerError, Unavailable
from txmanager.core.ledger import Ledger
from txmanager.core.models import Record, intent_id
from txmanager.demo.audit import Node, nonces_used_twice, order_violations
from txmanager.demo.plan import Ask, make_plan
from txmanager.demo.report import Report, different_answers, percentile
from txmanager.settings import load
from txmanager.stack import NearOptions, Stack, StackOptions
from txmanager.stack.parts import free_port
from txmanager.wiring import open_ledger

_POOL = "default"
_KILL_AT = 0.35
"""The share of answers after which a worker is killed: everything is busy then."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    accounts: int = 500
    duplicates: int = 150
    keys: int = 8
    workers: int = 3
    clients: int = 4
    threads: int = 12
    block_ms: float = 150.0
    lease_s: float = 2.0
    seed: int = 1
    data: Path | None = None
    near: NearOptions | None = None
    """A node of the user's own instead of the devnet."""


async def tell(
    options: DemoOptions, say: Callable[[str], None], progress: Callable[[int, int], None] = lambda done, of: None
) -> Report:
    """Run the story once and report. The folder goes with it, unless something is wrong with what is in it."""
    folder = options.data or Path(tempfile.mkdtemp(prefix="txmanager-demo-"))
    stack = Stack(
        StackOptions(
            data=folder,
            port=free_port(),
            workers=options.workers,
            keys=options.keys,
            block_ms=options.block_ms,
            lease_s=options.lease_s,
            near=options.near,
        ),
        say,
    )
    watching: asyncio.Task[str] | None = None
    kept = True
    try:
        chain = "NEAR devnet" if options.near is None else f"NEAR {options.near.network}"
        lanes = f"{options.keys} keys" if options.near is None else f"the keys of {options.near.account}"
        say(f"starting: Valkey, {chain}, API, {options.workers} workers over {lanes} ...")
        await stack.start()
        watching = asyncio.create_task(stack.supervise())
        report = await _Story(options, stack, say, progress).run(watching)
        kept = any(report.broken())
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await stack.stop()
        if kept:
            say(f"data kept in {folder}")
        elif options.data is None:
            shutil.rmtree(folder, ignore_errors=True)
    return report


class _Story:
    def __init__(
        self, options: DemoOptions, stack: Stack, say: Callable[[str], None], progress: Callable[[int, int], None]
    ) -> None:
        self._options = options
        self._stack = stack
        self._say = say
        self._progress = progress
        self._answers: list[dict[str, Any]] = []
        self._killed = ("nobody", 0)

    async def run(self, watching: asyncio.Task[str]) -> Report:
        options = self._options
        began = time.monotonic()
        node = Node(self._stack.near_url, devnet=options.near is None)
        before = await asyncio.to_thread(node.transactions)
        mark = "" if options.near is None else f"{secrets.token_hex(4)}-"
        rng = random.Random(options.seed)
        plans = make_plan(options.accounts, options.duplicates, options.clients, self._stack.account, rng, mark)
        requests = sum(map(len, plans))
        self._say(f"{requests} requests for {options.accounts} accounts from {options.clients} processes ...")
        ledger = await open_ledger(load(self._stack.config, {}))
        try:
            killing = asyncio.create_task(self._kill_in_the_middle(ledger, requests))
            clients = asyncio.create_task(self._clients(plans, requests))
            waits: set[asyncio.Task[Any]] = {clients, watching}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                clients.cancel()
                raise Unavailable(watching.result())
            await clients
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)
            self._say("comparing the chain and the ledger ...")
            records = await self._records(ledger, plans)
        finally:
            await ledger.close()
        hashes = [attempt.hash for record in records for attempt in record.attempts]
        names = {ask.name for plan in plans for ask in plan}
        chain = await asyncio.to_thread(node.facts, names, hashes, self._stack.account)
        answered = [answer for answer in self._answers if answer["status"] != "unanswered"]
        seconds = [answer["seconds"] for answer in answered if not answer["replayed"]]
        return Report(
            requests=requests,
            answered=len(answered),
            replayed=sum(answer["replayed"] for answer in answered),
            unique=len(names),
            duplicates=requests - len(names),
            done=sum(record.status.value == "done" for record in records),
            created=len(chain.created),
            transactions=chain.transactions - before,
            invalid_nonce=nonces_used_twice(records),
            overtaken=len(set(hashes) - chain.landed),
            order_violations=order_violations(records),
            different_answers=different_answers(answered),
            killed=self._killed[0],
            in_flight_at_kill=self._killed[1],
            p50_s=percentile(seconds, 0.5),
            p99_s=percentile(seconds, 0.99),
            took_s=time.monotonic() - began,
        )

    async def _clients(self, plans: list[list[Ask]], requests: int) -> None:
        async with asyncio.TaskGroup() as group:
            for plan in plans:
                group.create_task(self._client(plan, requests))

    async def _client(self, plan: list[Ask], requests: int) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "txmanager.demo.client"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            job = {
                "url": self._stack.url,
                "token": self._stack.folder.token(),
                "threads": self._options.threads,
                "asks": [asdict(ask) for ask in plan],
            }
            process.stdin.write(json.dumps(job).encode() + b"\n")
            await process.stdin.drain()
            async for line in process.stdout:
                self._answers.append(json.loads(line))
                self._progress(len(self._answers), requests)
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _kill_in_the_middle(self, ledger: Ledger, requests: int) -> None:
        """Wait until enough is done, then kill -9 the worker that has the most in flight."""
        while True:
            await asyncio.sleep(0.02)
            if len(self._answers) < requests * _KILL_AT:
                continue
            busy: dict[str, int] = {}
            for lane in await ledger.lanes():
                if lane.lease_ms and lane.owner:
                    busy[lane.owner] = busy.get(lane.owner, 0) + lane.unfinished
            victim = max(busy, key=lambda name: busy[name], default="")
            pid = self._stack.pid(victim)
            if pid is not None and busy[victim]:
                os.kill(pid, signal.SIGKILL)
                self._killed = (victim, busy[victim])
                self._say(f"kill -9 {victim}, with {busy[victim]} intents in flight")
                return

    async def _records(self, ledger: Ledger, plans: list[list[Ask]]) -> list[Record]:
        keys = {f"create:{ask.name}:{ask.public_key}" for plan in plans for ask in plan}
        found = []
        for key in sorted(keys):
            record = await ledger.read(intent_id(key, _POOL))
            if record is None:
                raise _Lost(f"the ledger does not know {key}")
            found.append(record)
        return found


class _Lost(TxManagerError):
    """An accepted intent is gone: the worst that can happen, so the story ends there."""
