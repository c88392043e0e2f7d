"""`eth_sendRawTransaction`: check the bytes, admit them durably, wait for the node's word where the caller wants it.

The first await of a send is `admit`: bytes that no node takes cost no call to the store. Nothing is answered with a
hash before it is stored durably.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import structlog

from txmanager.core.admission import Admitted, Count, End, Mempool, Offer
from txmanager.core.after_send import Fate, after_send
from txmanager.core.chain import Verdict
from txmanager.core.given import Given
from txmanager.core.upstream import NotTaken, Seen, Upstream
from txmanager.runtime.gateway import words
from txmanager.runtime.gateway.dispatch import as_count
from txmanager.runtime.gateway.intake import Intake
from txmanager.runtime.gateway.metrics import GatewayMetrics
from txmanager.runtime.gateway.outcomes import Outcomes
from txmanager.runtime.gateway.sends import Sends

_AT_A_TIME = 16
"""Signatures recovered before others get a turn."""


class Denied(Exception):
    """What the caller is told; `kind` says which family of errors it belongs to."""

    def __init__(self, message: str, kind: Literal["transaction", "params", "rate", "lane"] = "transaction") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind


Answer = str | Denied
"""A hash, or why not."""


@dataclass(frozen=True, slots=True)
class Terms:
    waits: bool = True
    """`sync`: the caller gets the node's word."""
    answer_ms: int = 8_000
    price_floor: int = 0
    repeat_is_error: bool = True
    ordered: bool = True
    """False: the caller's bytes are sent on arrival."""
    gaps_wait: bool = True
    """False: a transaction above a gap is sent like any other, and its caller gets the node's word."""
    detail: bool = False
    """Each transaction that joins the queue is logged."""


class Submitter:
    def __init__(
        self,
        mempool: Mempool,
        upstream: Upstream,
        sends: Sends,
        intake: Intake,
        outcomes: Outcomes,
        terms: Terms,
        metrics: GatewayMetrics,
        lanes: Callable[[], Collection[str]],
        admits: Callable[[str], bool],
        sent_upto: Callable[[str], int] = lambda sender: 0,
    ) -> None:
        """`lanes`: addresses that lanes of this installation sign for. `admits`: the sender's rate. `sent_upto`: the
        first nonce of a sender that this process did not send yet, where the store cannot tell."""
        self._mempool = mempool
        self._upstream = upstream
        self._sends = sends
        self._intake = intake
        self._outcomes = outcomes
        self._terms = terms
        self._metrics = metrics
        self._lanes = lanes
        self._admits = admits
        self._sent_upto = sent_upto
        self._chain = str(upstream.chain_id)
        self._looking: dict[str, asyncio.Task[Seen]] = {}
        self._log = structlog.get_logger("gateway")

    async def read(self, texts: Sequence[object]) -> list[Given | Denied]:
        """What the bytes alone decide; no I/O."""
        read: list[Given | Denied] = []
        for n, text in enumerate(texts):
            if n and n % _AT_A_TIME == 0:
                await asyncio.sleep(0)
            read.append(self._read(text))
        return read

    def _read(self, text: object) -> Given | Denied:
        try:
            given = self._upstream.read(text)  # type: ignore[arg-type]
        except NotTaken as error:
            return Denied(error.words, "params" if error.malformed else "transaction")
        if given.max_fee < self._terms.price_floor:
            return Denied(words.below_floor(given, self._terms.price_floor))
        if given.sender in self._lanes():
            return Denied(given.sender, "lane")
        if not self._admits(given.sender):
            return Denied(given.sender, "rate")
        return given

    async def submit(self, given: Sequence[Given]) -> list[Answer]:
        """In array order, in one step of the store; raises `Unavailable` or `Unconfirmed` for all of them."""
        futures = {one.hash: self._outcomes.expect(one.hash) for one in given} if self._terms.waits else {}
        try:
            answers = await self._admit(given)
            return list(
                await asyncio.gather(
                    *(self._answer(one, answer, futures) for one, answer in zip(given, answers, strict=True))
                )
            )
        finally:
            for hash, future in futures.items():
                self._outcomes.forget(hash, future)

    async def _admit(self, given: Sequence[Given]) -> list[Admitted | Denied]:
        offers = [Offer(one.hash, one.sender, one.nonce, one.max_fee, one.raw) for one in given]
        answers: list[Admitted | Denied] = list(await self._intake.admit(offers))
        cold = [n for n, answer in enumerate(answers) if isinstance(answer, Admitted) and answer.word == "cold"]
        if not cold:
            return answers
        seen = await self._look({given[n].sender for n in cold})
        counts: dict[str, Count] = {sender: as_count(view, self._sent_upto(sender)) for sender, view in seen.items()}
        left: list[int] = []
        for n in cold:
            view = seen[given[n].sender]
            short = words.too_dear(given[n], view) if given[n].nonce >= view.count else None
            if short is not None:
                answers[n] = Denied(short)
            else:
                left.append(n)
        if left:
            again = await self._intake.admit([offers[n] for n in left], counts)
            for n, answer in zip(left, again, strict=True):
                answers[n] = answer
        return answers

    async def _look(self, senders: Collection[str]) -> Mapping[str, Seen]:
        """Each sender once, however many requests ask at the same time."""
        tasks = {}
        for sender in senders:
            task = self._looking.get(sender)
            if task is None:
                task = self._looking[sender] = asyncio.create_task(self._upstream.look(sender))
                task.add_done_callback(partial(self._looked, sender))
            tasks[sender] = task
        return {sender: await asyncio.shield(task) for sender, task in tasks.items()}

    def _looked(self, sender: str, task: asyncio.Task[Seen]) -> None:
        self._looking.pop(sender, None)
        if not task.cancelled():
            task.exception()  # whoever gave up waiting must not leave a warning

    async def _answer(
        self, given: Given, answer: Admitted | Denied, futures: Mapping[str, asyncio.Future[str | None]]
    ) -> Answer:
        if isinstance(answer, Denied):
            self._metrics.offers.labels(self._chain, "insufficient_funds").inc()
            return answer
        self._metrics.offers.labels(self._chain, answer.word).inc()
        if answer.word == "known" and not self._terms.repeat_is_error:
            return given.hash
        if answer.word == "cold":
            return Denied("the sender's count could not be read; try again")
        if answer.word != "admitted":
            return Denied(words.not_admitted(given, answer))
        if self._terms.detail:
            self._log.debug("joined", sender=given.sender, nonce=given.nonce, next=answer.base, gapped=answer.gapped)
        if not self._terms.ordered:
            return await self._send_now(given)
        if not self._terms.waits or (answer.gapped and self._terms.gaps_wait):
            return given.hash
        refusal = await self._outcomes.word(given.hash, futures[given.hash], self._terms.answer_ms / 1000)
        return given.hash if refusal is None else Denied(refusal)

    async def _send_now(self, given: Given) -> Answer:
        """Without an order the store has it as sent already; a refusal takes it out again."""
        reply = await self._upstream.send(given.sender, given.raw, given.hash, lambda: True)
        fate = after_send(reply)
        self._metrics.sends.labels(self._chain, fate).inc()
        if fate is not Fate.REFUSE and fate is not Fate.RETRY and reply.verdict is not Verdict.NONCE_TOO_LOW:
            return given.hash
        said = words.refused_by_node(reply)
        await self._mempool.end([End(given.hash, "refused", said, reply.verdict)])
        return Denied(said)
