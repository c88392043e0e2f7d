"""`GatewayNode`: one chain as wallets see it. Everything the JSON-RPC surface asks for goes through here.

When the store is away (`degraded`), `refuse` accepts nothing and says so. `forward` keeps each sender's order within
this process, in memory only; what still waits there moves into the store when it is back.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Literal

import structlog

from txmanager.core.admission import Base, Ended, Entry, Mempool, Offer, State
from txmanager.core.after_send import Fate, after_send
from txmanager.core.errors import Busy, Misconfigured, TxManagerError, Unavailable
from txmanager.core.given import Given
from txmanager.core.models import Json
from txmanager.core.upstream import Upstream
from txmanager.runtime.gateway import words
from txmanager.runtime.gateway.dispatch import Rules, as_count
from txmanager.runtime.gateway.engine import Engine, Seam, kept_up
from txmanager.runtime.gateway.metrics import GatewayMetrics
from txmanager.runtime.gateway.sends import Sends
from txmanager.runtime.gateway.submit import Answer, Denied, Terms

_PAGE = 1_000
_MOVED_AT_ONCE = 100
_MOVE_AGAIN_S = 1.0
_NO_ROOM = frozenset({"cold", "processing", "sender_full", "gap", "underpriced", "full"})
"""What the store says of what it may take later."""
_WATCH_EVERY_S = 0.5
_MISTRUST_S = 30.0
"""How long after an outage this process's own memory still counts."""
_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True)
class Options:
    txpool: bool = True
    """`pending` and `txpool_*` are answered from the mempool."""
    mempool: bool = True
    """False: bytes are checked and passed on, nothing is recorded."""
    on_store_failure: Literal["refuse", "forward"] = "refuse"
    store_timeout_ms: int = 2_000


class Away(TxManagerError):
    """The store did not answer. `unknown`: it may have stored the bytes all the same."""

    code = "store_away"

    def __init__(self, unknown: bool) -> None:
        super().__init__("unknown, send the same bytes again" if unknown else "store unavailable, nothing accepted")
        self.unknown = unknown


class GatewayNode:
    def __init__(
        self,
        name: str,
        upstream: Upstream,
        mempool: Mempool,
        options: Options,
        rules: Rules,
        terms: Terms,
        metrics: GatewayMetrics,
        *,
        lanes: Callable[[], Collection[str]] = frozenset,
        admits: Callable[[str], bool] = lambda sender: True,
        local: Callable[[], Mempool] | None = None,
        start_store: Callable[[], Awaitable[object]] | None = None,
        follow_every_s: float = 1.0,
    ) -> None:
        """`local` makes a mempool in memory, for when the store is away. `start_store` checks the store, when it first
        answers."""
        self.name = name
        self.upstream = upstream
        self._sends = Sends(upstream)
        self.options = options
        self.metrics = metrics
        self.chain_id = upstream.chain_id
        self._chain = str(upstream.chain_id)
        self._runs: OrderedDict[str, int] = OrderedDict()
        """The highest `pending` that this process told of a sender."""
        self._local = local
        self._start_store = start_store
        self._seam = Seam(
            upstream,
            self._sends,
            rules,
            terms,
            metrics,
            lanes,
            admits,
            self._sent_upto,
            follow_every_s=follow_every_s,
        )
        self._main = Engine(mempool, self._seam)
        self._spare: Engine | None = None
        self._moving = asyncio.Lock()
        self._moves: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self.degraded = False
        self._degraded_at = float("-inf")
        self._log = structlog.get_logger("gateway")

    @property
    def mempool(self) -> Mempool:
        spare = self._spare
        return spare.mempool if self.degraded and spare is not None else self._main.mempool

    # -- life

    async def start(self) -> None:
        """With `forward` also while the store is away; with `refuse` it must be there."""
        if not self.options.mempool:
            return
        try:
            await self._open_store()
        except Unavailable as error:
            if not self._forwards:
                raise
            await self._failed(error)
        await self._main.start()
        self._watch = asyncio.create_task(kept_up(self._keep_watch))

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            await self._main.stop()
        for move in self._moves:
            move.cancel()
        await asyncio.gather(*self._moves, return_exceptions=True)
        if self._spare is not None:
            await self._spare.stop()

    async def _open_store(self) -> None:
        if self._start_store is not None:
            await self._start_store()
            self._start_store = None

    async def _keep_watch(self) -> None:
        """Notice an outage that nobody's request met, and its end."""
        while True:
            await asyncio.sleep(_WATCH_EVERY_S)
            try:
                async with asyncio.timeout(self.options.store_timeout_ms / 1000):
                    await self._open_store()
                    await self._main.mempool.totals()
                    if self.degraded:
                        await self._main.heart.beat()
            except (TxManagerError, TimeoutError) as error:
                await self._failed(error)
            else:
                await self._recovered()

    async def _failed(self, error: Exception) -> None:
        self.metrics.store_failures.labels(self._chain).inc()
        self._degraded_at = monotonic()
        if self.degraded:
            return
        self.degraded = True
        self.metrics.degraded.labels(self._chain).set(1)
        self._log.error(
            "the store is away",
            chain=self._chain,
            mode=self.options.on_store_failure,
            error=f"{type(error).__name__}: {error}"[:200],
        )
        async with self._moving:
            if self._forwards and self._spare is None and self._local is not None:
                spare = Engine(self._local(), self._seam)
                await spare.start()
                self._spare = spare

    async def _recovered(self) -> None:
        if not self.degraded:
            return
        async with self._moving:
            self.degraded = False
            spare, self._spare = self._spare, None
            self.metrics.degraded.labels(self._chain).set(0)
            self._log.info("the store is back", chain=self._chain)
            if spare is not None:
                move = asyncio.create_task(self._move(spare))
                self._moves.add(move)
                move.add_done_callback(self._moves.discard)

    async def _move(self, spare: Engine) -> None:
        """What waits in memory goes into the store, and what was sent is on the chain. What may have been sent to a
        strict node is looked up first, when the node must show it; its sender's later nonces wait for it."""
        await spare.stop()
        entries = [entry async for entry in _content(spare.mempool)]
        doubtful = {one.sender for one in entries if one.state is not State.WAITING} if self.upstream.strict else set()
        await self._bring([one for one in entries if one.sender not in doubtful])
        if doubtful:
            await asyncio.sleep(self._seam.rules.lag_ms / 1000)
            await self._bring([one for one in entries if one.sender in doubtful])
        await spare.mempool.close()

    async def _bring(self, entries: Sequence[Entry]) -> None:
        """Some at a time, until the store has them, however long that takes."""
        left = list(entries)
        while left:
            again: list[Entry] = []
            for start in range(0, len(left), _MOVED_AT_ONCE):
                some = left[start : start + _MOVED_AT_ONCE]
                try:
                    again += await self._bring_some(some)
                except TxManagerError as error:
                    self._log.debug("not moved into the store yet", error=str(error)[:200])
                    again += some
            left = again
            if left:
                await asyncio.sleep(_MOVE_AGAIN_S)

    async def _bring_some(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those that the store has no room for now: their callers were told that they were taken."""
        doubtful = [one.hash for one in entries if one.state is not State.WAITING] if self.upstream.strict else []
        found = dict(zip(doubtful, await self.upstream.find(doubtful), strict=True))
        if None in found.values():
            raise Unavailable("the node did not answer")
        taken = {hash for hash, tx in found.items() if tx is not None and tx.known}
        left = [one for one in entries if one.hash not in taken]
        if not left:
            return []
        seen = await self.upstream.look_many(sorted({one.sender for one in left}))
        counts = {sender: as_count(one, self._sends.sent_upto(sender)) for sender, one in seen.items()}
        offers = [Offer(one.hash, one.sender, one.nonce, one.price, one.raw) for one in left]
        again = []
        for entry, answer in zip(left, await self._main.intake.admit(offers, counts), strict=True):
            if answer.word in _NO_ROOM:
                again.append(entry)
            elif answer.word not in ("admitted", "known", "low"):
                self._log.warning("the store does not take what waited in memory", hash=entry.hash, word=answer.word)
        return again

    @property
    def _doubts(self) -> bool:
        """The store is away, or was a moment ago."""
        return self.degraded or monotonic() - self._degraded_at < _MISTRUST_S

    def _sent_upto(self, sender: str) -> int:
        return self._sends.sent_upto(sender) if self._doubts else 0

    @property
    def _forwards(self) -> bool:
        return self.options.on_store_failure == "forward"

    # -- sends

    async def send(self, texts: Sequence[object]) -> list[Answer]:
        """One answer for each; raises `Away` when the store is, and nothing was forwarded."""
        read = await self._main.submitter.read(texts)
        given = [one for one in read if isinstance(one, Given)]
        if not given:
            return [one for one in read if isinstance(one, Denied)]
        answers = iter(await (self._submit(given) if self.options.mempool else self._pass_on(given)))
        return [one if isinstance(one, Denied) else next(answers) for one in read]

    async def _submit(self, given: Sequence[Given]) -> list[Answer]:
        if not self.degraded:
            try:
                return await self._store(given)
            except Away:
                if not self._forwards:
                    raise
        if not self._forwards:
            raise Away(unknown=False)
        async with self._moving:
            spare = self._spare
        if spare is None:  # the store came back in between
            return await self._store(given)
        self.metrics.forwarded.labels(self._chain).inc(len(given))
        return await spare.submitter.submit(given)

    async def _store(self, given: Sequence[Given]) -> list[Answer]:
        """A store that failed while it was asked may have stored the bytes all the same."""
        try:
            return await self._main.submitter.submit(given)
        except Busy:
            raise Away(unknown=False) from None
        except (Unavailable, Misconfigured) as error:
            if error.code.startswith("rpc_"):
                raise
            await self._failed(error)
            raise Away(unknown=True) from None

    async def _pass_on(self, given: Sequence[Given]) -> list[Answer]:
        """Neither pool nor order: each goes to the node on arrival, and its caller gets the node's word."""
        return list(await asyncio.gather(*(self._pass_one_on(one) for one in given)))

    async def _pass_one_on(self, given: Given) -> Answer:
        reply = await self._sends.send(given.sender, given.nonce, given.raw, given.hash, lambda: True, again=True)
        fate = after_send(reply)
        self.metrics.sends.labels(self._chain, fate).inc()
        return given.hash if fate is Fate.SENT else Denied(words.refused_by_node(reply))

    # -- questions

    async def pending(self, sender: str) -> int:
        """The first nonce that is neither on chain nor here: what a wallet should use next."""
        seen = await self.upstream.look(sender)
        base: Base | None = None
        try:
            observed = await self.mempool.observe({sender: as_count(seen)})
            base = observed[sender].base
        except (Unavailable, TimeoutError) as error:
            await self._failed(error)
        run = max(seen.count, seen.pending or 0, base.run if base is not None else 0)
        if self._doubts:
            run = max(run, self._runs.get(sender, 0), self._sends.sent_upto(sender))
        self._runs[sender] = run
        self._runs.move_to_end(sender)
        if len(self._runs) > _REMEMBERED:
            self._runs.popitem(last=False)
        return run

    async def transaction(self, hash: str) -> dict[str, Json] | None:
        """A transaction that waits here, with null block fields; None: ask the node."""
        found = await self.mempool.find(hash)
        if isinstance(found, Entry) and found.state in (State.WAITING, State.PROCESSING, State.UNSURE):
            return self.upstream.show(found.raw, found.sender)
        return None

    async def status(self, hash: str) -> Entry | Ended | None:
        return await self.mempool.find(hash)

    def content(self, sender: str = "") -> AsyncIterator[Entry]:
        return _content(self.mempool, sender)

    async def forward(self, body: bytes, *, pinned: bool = False) -> bytes:
        return await self.upstream.forward(body, pinned=pinned)


async def _content(mempool: Mempool, sender: str = "") -> AsyncIterator[Entry]:
    after: tuple[str, int] | None = None
    while True:
        page = await mempool.content(sender, after, _PAGE)
        for entry in page:
            yield entry
        if len(page) < _PAGE:
            return
        after = (page[-1].sender, page[-1].nonce)
