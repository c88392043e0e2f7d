"""Real processes around one devnet and one Redis that keeps what it acknowledges; the chain is the judge."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.devnet.process import Devnet
from tests.runtime.stage import Account, Stage, Transfer, lane_of
from tests.servers import DURABLE, Server, end, spawn
from tests.waiting import until
from txmanager.core.errors import TxManagerError
from txmanager.core.models import Intent, IntentId, Record, new_intent
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.manager import TxManager

ROOT = Path(__file__).parent.parent.parent
POOL = "p"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


@dataclass
class Victim:
    name: str
    process: subprocess.Popen[bytes]
    log: Path
    point: str | None = None

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def told(self) -> list[dict[str, Any]]:
        """Its log, line by line."""
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, timeout: float = 20) -> int:
        return self.process.wait(timeout)


@dataclass
class Arena:
    """`lanes` signing keys, a ledger on `server` (or one of its own), a devnet; everything ends with the arena."""

    folder: Path
    lanes: int = 1
    window: int = 8
    lease_ms: int = 1000
    prefix: str = "chaos"
    devnet: Devnet = field(init=False)
    server: Server = field(init=False)
    ledger: RedisLedger = field(init=False)
    manager: TxManager = field(init=False)
    victims: list[Victim] = field(default_factory=list)
    accepted: list[IntentId] = field(default_factory=list)
    _running: ExitStack = field(default_factory=ExitStack)

    async def __aenter__(self) -> Self:
        self.devnet = self._running.enter_context(Devnet(accounts=self.lanes + 1, block_ms=50, keys=2))
        self.server = self._running.enter_context(Server(config=DURABLE))
        self.ledger = RedisLedger(self.server.url, prefix=self.prefix)
        self.manager = TxManager(self.ledger)
        await until(lambda: self.devnet.head("final")["height"] > 100_000_000, what="blocks are final")
        # The stage only reads the chain here: the transfers of an account, in order.
        self._chain = Stage(self.devnet, self.ledger, iter(self.devnet.told["accounts"]))
        self.receiver: Account = self.devnet.account(self.lanes)
        return self

    async def __aexit__(self, *_: object) -> None:
        for victim in self.victims:
            if victim.alive:
                victim.signal(signal.SIGCONT)
            end(victim.process, signal.SIGKILL)
        await self.ledger.close()
        self._running.close()

    @property
    def accounts(self) -> list[Account]:
        return [self.devnet.account(n) for n in range(self.lanes)]

    # -- processes

    def start(self, point: str | None = None, nth: int = 1) -> Victim:
        name = f"w{len(self.victims)}"
        told = {
            "name": name,
            "redis": self.server.url,
            "prefix": self.prefix,
            "devnet": self.devnet.url,
            "accounts": self.accounts,
            "pool": POOL,
            "lease_ms": self.lease_ms,
            "window": self.window,
            "point": point,
            "nth": nth,
        }
        log = self.folder / f"{name}.log"
        command = [sys.executable, "-m", "tests.chaos.victim", json.dumps(told)]
        victim = Victim(name, spawn(command, log, cwd=ROOT, env=ENVIRONMENT), log, point)
        self.victims.append(victim)
        return victim

    def call(self, intents: Sequence[Intent]) -> subprocess.Popen[str]:
        """A producer process; read its answers with `answers`."""
        told = {
            "redis": self.server.url,
            "prefix": self.prefix,
            "pool": POOL,
            "intents": [{"idempotency_key": i.id.key, "kind": i.kind, "payload": i.payload} for i in intents],
        }
        command = [sys.executable, "-m", "tests.chaos.caller"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRONMENT
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(told))
        process.stdin.close()
        process.stdin = None
        return process

    @staticmethod
    async def answers(process: subprocess.Popen[str], timeout: float = 90) -> dict[str, Any]:
        out, _ = await asyncio.to_thread(process.communicate, None, timeout)
        told = [json.loads(line) for line in out.splitlines()]
        assert process.returncode == 0, out
        lost = [t for t in told if "outcome" not in t]
        assert not lost, lost
        return {t["key"]: t["outcome"] for t in told}

    async def owner(self, lane: str) -> str:
        view = await self.ledger.lane(lane)
        return view.owner if view is not None and view.lease_ms > 0 else ""

    async def until_owned(self) -> None:
        async def owned() -> bool:
            return all([await self.owner(lane_of(a)) for a in self.accounts])

        await until(owned, 20, what="every lane has an owner")

    # -- intents

    def transfer(self, amount: int, key: str | None = None) -> Intent:
        """Every amount once: the chain tells the intents apart by it."""
        payload = {"receiver_id": self.receiver["account_id"], "amount": str(amount)}
        return new_intent(key=key or f"k{amount}", pool=POOL, kind="near.transfer", payload=payload)

    async def submit(self, intents: Sequence[Intent]) -> None:
        """As a caller does it: the same keys again until all are accepted."""
        waiting = list(intents)

        async def all_in() -> bool:
            nonlocal waiting
            try:
                answers = await self.manager.submit_many(waiting)
            except TxManagerError:
                return False
            waiting = [i for i, a in zip(waiting, answers, strict=True) if isinstance(a, TxManagerError)]
            return not waiting

        await until(all_in, 30, what="the intents are accepted")
        self.accepted += [i.id for i in intents]

    async def read(self, id: IntentId) -> Record:
        record = await self.ledger.read(id)
        assert record is not None
        return record

    async def unfinished(self) -> int:
        return sum(lane.depth for lane in await self.ledger.lanes())

    # -- the verdict

    def landed(self) -> list[Transfer]:
        return [t for account in self.accounts for t in self._chain.landed(account)]

    async def verdict(self, timeout: float = 60) -> Verdict:
        """Wait until all is settled, then hold every promise against the chain."""

        async def settled() -> bool:
            return await self.unfinished() == 0

        await until(settled, timeout, every=0.1, what="everything is settled")
        records = [await self.read(id) for id in self.accepted]
        problems = [f"{r.id.key} is {r.status}: {r.outcome}" for r in records if r.status.value != "done"]
        paid = Counter(t.amount for t in self.landed() if t.amount > 0)
        wanted = Counter(int(id.key[1:]) for id in self.accepted)
        problems += [
            f"{amount} was paid {times} times, not {wanted[amount]}"
            for amount, times in paid.items()
            if times != wanted[amount]
        ]
        problems += [f"{amount} was never paid" for amount in wanted - paid]
        by_lane: dict[str, list[int]] = {}
        for record in records:
            by_lane.setdefault(record.lane, []).append(record.attempts[0].nonce)
            living = [a for a in record.attempts[:-1] if not a.dead]
            problems += [f"{record.id.key} was signed again although {a.name} was not proven dead" for a in living]
        for lane, nonces in by_lane.items():
            if nonces != sorted(nonces):
                problems.append(f"first attempts of {lane} are out of the order of acceptance")
        for account in self.accounts:
            used = [t.nonce for t in self._chain.landed(account)]
            if len(set(used)) != len(used):
                problems.append(f"a nonce of {account['account_id']} was used twice")
        problems += await self._replays(records)
        return Verdict(len(records), sum(len(r.attempts) - 1 for r in records), problems)

    async def _replays(self, records: Sequence[Record]) -> list[str]:
        """Every key again: the same outcome, and nothing new on chain."""
        before = len(self.landed())
        again = await self.manager.submit_many([self.transfer(int(r.id.key[1:])) for r in records])
        wrong = [
            f"{r.id.key} is answered {a} on retry"
            for r, a in zip(records, again, strict=True)
            if isinstance(a, TxManagerError) or not a.replayed or a.record.outcome != r.outcome
        ]
        return wrong + (["a retry reached the chain"] if len(self.landed()) != before else [])


@dataclass(frozen=True)
class Verdict:
    intents: int
    resigned: int
    problems: list[str]
