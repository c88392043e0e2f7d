"""`MemoryMempool`: a mempool in one process, for one gateway alone. It ends with the process."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from txmanager.core.admission import (
    Admitted,
    Alive,
    Base,
    Count,
    Done,
    End,
    Ended,
    Entry,
    Expired,
    Followed,
    Grant,
    Limits,
    Observed,
    Offer,
    State,
    Taken,
    Totals,
    Verdict,
    check_counts,
    check_offers,
    check_owner,
)
from txmanager.core.mempool import Machine
from txmanager.core.mempool_book import Sender, Tx

T = TypeVar("T")
Hop = Callable[[str, str], Awaitable[None]]
"""`hop(operation, "request" | "reply")`, awaited on the way to and from the store."""
_SHOWN = (State.WAITING, State.PROCESSING, State.UNSURE)
_STAYS = tuple(state for state in State if state is not State.WAITING)


async def _yield(_operation: str, _side: str) -> None:
    await asyncio.sleep(0)


class MemoryMempool:
    def __init__(
        self,
        limits: Limits,
        *,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        hop: Hop = _yield,
        machine: Machine | None = None,
        token: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self.limits = limits.check()
        self._clock = clock
        self._hop = hop
        self._token = token
        self.machine = machine or Machine(limits, clock())
        self._bells: set[asyncio.Event] = set()
        self._rung = False
        self._words: dict[str, set[asyncio.Future[None]]] = {}

    async def _step(self, operation: str, step: Callable[[Machine, int], T]) -> T:
        await self._hop(operation, "request")
        result = step(self.machine, self._clock())
        self._tell()
        await self._hop(operation, "reply")
        return result

    # -- steps

    async def admit(
        self, offers: Sequence[Offer], counts: Mapping[str, Count] | None = None, *, owner: str = ""
    ) -> list[Admitted]:
        check_offers(offers, counts or {})
        if owner:
            check_owner(owner)
        call = self._token()

        def step(machine: Machine, now: int) -> list[Admitted]:
            answers = machine.admit(offers, counts or {}, owner, call, now)
            self._forget_idle()
            return answers

        return await self._step("admit", step)

    async def take(self, owner: str, most: int = 1) -> Taken:
        check_owner(owner)
        call = self._token()
        return await self._step("take", lambda machine, now: machine.take(owner, most, call, now))

    async def done(
        self,
        grant: Grant,
        verdict: Verdict,
        *,
        owner: str,
        message: str = "",
        code: str = "",
        wait_ms: int = 0,
        more: bool = True,
    ) -> Done:
        check_owner(owner)
        call = self._token()
        return await self._step(
            "done",
            lambda machine, now: machine.done(
                grant.sender,
                grant.fence,
                verdict,
                owner,
                call,
                now,
                message=message,
                code=code,
                wait_ms=wait_ms,
                more=more,
            ),
        )

    async def observe(self, counts: Mapping[str, Count]) -> dict[str, Observed]:
        check_counts(counts)
        return await self._step("observe", lambda machine, now: machine.observe(counts, now))

    async def reopen(self, hashes: Sequence[str]) -> list[str]:
        return await self._step("reopen", lambda machine, now: machine.reopen(hashes, now))

    async def end(self, ends: Sequence[End]) -> list[str]:
        return await self._step("end", lambda machine, now: machine.end(ends, now))

    async def drop(self, *, hash: str = "", sender: str = "", all: bool = False) -> list[str]:
        def step(machine: Machine, now: int) -> list[str]:
            txs = sorted(machine.book.txs.values(), key=_place)
            wanted = [tx.hash for tx in txs if all or tx.hash == hash or tx.sender == sender]
            return machine.end([End(h, "dropped") for h in wanted], now, unless=_STAYS)

        return await self._step("drop", step)

    async def expire(self) -> Expired:
        return await self._step("expire", Machine.expire)

    async def heartbeat(self, owner: str) -> Alive:
        check_owner(owner)
        return await self._step("heartbeat", lambda machine, now: machine.heartbeat(owner, now))

    async def leave(self, owner: str) -> None:
        await self._step("leave", lambda machine, _: machine.leave(owner))

    def _forget_idle(self) -> None:
        """Only senders without transactions are forgotten for want of room, the longest idle first."""
        book = self.machine.book
        idle = [name for name in book.aging if name in book.senders]
        for name in idle[: max(0, len(idle) - self.limits.memory_senders)]:
            del book.aging[name]
            del book.senders[name]

    # -- reading

    async def base(self, sender: str) -> Base | None:
        def step(machine: Machine, now: int) -> Base | None:
            s = machine.book.senders.get(sender)
            return None if s is None else machine.book.base(s, now)

        return await self._step("base", step)

    async def find(self, hash: str) -> Entry | Ended | None:
        def step(machine: Machine, _: int) -> Entry | Ended | None:
            tx = machine.book.txs.get(hash)
            return machine.book.ended.get(hash) if tx is None else _entry(tx)

        return await self._step("find", step)

    async def content(self, sender: str = "", after: tuple[str, int] | None = None, most: int = 1_000) -> list[Entry]:
        def step(machine: Machine, _: int) -> list[Entry]:
            book = machine.book
            found: list[Entry] = []
            for address in [sender] if sender else sorted(a for a in book.senders if after is None or a >= after[0]):
                s = book.senders.get(address)
                for nonce in s.nonces if s is not None else ():
                    tx = book.txs[s.slots[nonce][0]] if s is not None else None
                    if tx is not None and tx.state in _SHOWN and (after is None or (address, nonce) > after):
                        found.append(_entry(tx))
                if len(found) >= most:
                    break
            return found[:most]

        return await self._step("content", step)

    async def followed(self, after: str = "", most: int = 1_000) -> list[Followed]:
        def step(machine: Machine, now: int) -> list[Followed]:
            live = sorted((s for s in machine.book.senders.values() if s.slots), key=lambda s: s.address)
            return [self._followed(s, now) for s in live if s.address > after][:most]

        return await self._step("followed", step)

    def _followed(self, s: Sender, now: int) -> Followed:
        book = self.machine.book
        txs = [book.txs[hash] for nonce in s.nonces for hash in s.slots[nonce]]
        out = tuple((tx.nonce, tx.hash, tx.state) for tx in txs if tx.state is not State.WAITING)
        return Followed(s.address, book.base(s, now), any(tx.gapped for tx in txs), out)

    async def totals(self) -> Totals:
        return await self._step("totals", Machine.totals)

    # -- hints

    def _tell(self) -> None:
        machine = self.machine
        rung, machine.rung = machine.rung, False
        words, machine.book.words = machine.book.words, []
        self.tell(rung, words)

    def tell(self, rung: bool, words: Sequence[str]) -> None:
        """Wake those who wait here: for something to take, and for these hashes."""
        if rung:
            self._rung = True
            for bell in self._bells:
                bell.set()
        for hash in words:
            for future in self._words.get(hash, ()):
                if not future.done():
                    future.set_result(None)

    async def wait_ready(self, timeout_s: float) -> bool:
        if not self._rung:
            bell = asyncio.Event()
            self._bells.add(bell)
            try:
                async with asyncio.timeout(timeout_s):
                    await bell.wait()
            except TimeoutError:
                pass
            finally:
                self._bells.discard(bell)
        rung, self._rung = self._rung, False
        return rung

    async def wait_word(self, hash: str, timeout_s: float) -> None:
        if hash not in self.machine.book.txs:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._words.setdefault(hash, set()).add(future)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            pass
        finally:
            waiting = self._words[hash]
            waiting.discard(future)
            if not waiting:
                del self._words[hash]

    async def close(self) -> None:
        """Nothing to close: the state ends with the process."""


def _place(tx: Tx) -> tuple[str, int, int]:
    return (tx.sender, tx.nonce, -tx.seq)


def _entry(tx: Tx) -> Entry:
    return Entry(tx.hash, tx.sender, tx.nonce, tx.price, tx.raw, tx.state, tx.gapped, tx.at, tx.moved_at, tx.tries)
