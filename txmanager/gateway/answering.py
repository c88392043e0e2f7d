"""From the bytes of a request to the bytes of its answer: what is ours is answered here, the rest by the node.

A single call that the node answers goes there as it came, and its answer comes back as it is. Of a batch, all raw
transactions are one step of the store, in array order; the others go to the node in batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import orjson
import structlog
from prometheus_client import Counter

from txmanager.core.errors import Unavailable
from txmanager.core.upstream import AnswerTooLong
from txmanager.gateway.calls import NULL, Call, Read, Wrong, read_body
from txmanager.gateway.methods import FILTERS, PASSED_ON, ROWS, SEND, PassOn, send_raw
from txmanager.gateway.slices import elements, members
from txmanager.gateway.words import (
    INTERNAL,
    Refused,
    answer_bytes,
    error_bytes,
    no_method,
    node_unavailable,
    result_bytes,
    store_unavailable,
    too_large,
)
from txmanager.runtime.gateway.node import Away, GatewayNode

PER_BATCH = 100
"""Calls in one batch to a node; providers refuse larger ones."""


class Answering:
    def __init__(self, node: GatewayNode, allow: frozenset[str], max_answer_bytes: int) -> None:
        self.node = node
        self._passed_on = PASSED_ON | allow
        self._max_answer_bytes = max_answer_bytes
        self._counters: dict[tuple[str, bool], Counter] = {}
        self._log = structlog.get_logger("gateway")

    async def answer(self, body: bytes, charge: Callable[[int], None] = lambda calls: None) -> bytes:
        """Empty when nobody is to be answered. `charge` learns how many calls there are beyond the first."""
        try:
            batch, calls = read_body(body)
        except Refused as error:
            return error_bytes(NULL, error)
        charge(len(calls) - 1)
        if not batch:
            return await self._one(calls[0])
        return await self._batch(calls)

    # -- one call

    async def _one(self, call: Read) -> bytes:
        if isinstance(call, Wrong):
            return error_bytes(call.number, call.error)
        if call.method == SEND:
            [answer] = await send_raw(self.node, [_listed(call)])
            self._count(call.method, isinstance(answer, Refused))
            return b"" if call.notifies else answer_bytes(call.number, answer)
        text = await self._here(call)
        if text is None:
            return await self._there(call)
        return b"" if call.notifies else text

    async def _here(self, call: Call) -> bytes | None:
        """The answer; None when the node has to give it."""
        row = ROWS.get(call.method)
        if row is None:
            if call.method in self._passed_on:
                return None
            self._count("other", True)
            return error_bytes(call.number or NULL, no_method(call.method))
        try:
            result = await row(self.node, _listed(call))
        except PassOn:
            return None
        except Refused as error:
            self._count(call.method, True)
            return error_bytes(call.number or NULL, error)
        except (Away, Unavailable) as error:
            rpc = isinstance(error, Unavailable) and error.code.startswith("rpc_")
            self._count(call.method, True)
            return error_bytes(call.number or NULL, node_unavailable() if rpc else store_unavailable())
        except Exception:
            self._log.exception("a call broke", method=call.method)
            self._count(call.method, True)
            return error_bytes(call.number or NULL, Refused("internal error", INTERNAL))
        self._count(call.method, False)
        text = result_bytes(call.number or NULL, result)
        return text if len(text) <= self._max_answer_bytes else error_bytes(call.number or NULL, self._too_large())

    async def _there(self, call: Call) -> bytes:
        try:
            text = await self.node.forward(call.raw, pinned=call.method in FILTERS)
        except AnswerTooLong:
            text = error_bytes(call.number or NULL, self._too_large())
        except Unavailable:
            self._count(call.method, True)
            text = error_bytes(call.number or NULL, node_unavailable())
        else:
            self._count(call.method, False)
        return b"" if call.notifies else text

    def _too_large(self) -> Refused:
        return too_large(self._max_answer_bytes)

    def _count(self, method: str, refused: bool) -> None:
        counter = self._counters.get((method, refused))
        if counter is None:  # finding it by its labels is dear
            labels = (str(self.node.chain_id), method, "error" if refused else "result")
            counter = self._counters[method, refused] = self.node.metrics.calls.labels(*labels)
        counter.inc()

    # -- batches

    async def _batch(self, calls: Sequence[Read]) -> bytes:
        answers: list[bytes] = [b""] * len(calls)
        sends = [n for n, call in enumerate(calls) if isinstance(call, Call) and call.method == SEND]
        others = [n for n, call in enumerate(calls) if isinstance(call, Call) and call.method != SEND]
        for n, call in enumerate(calls):
            if isinstance(call, Wrong):
                answers[n] = error_bytes(call.number, call.error)
        await asyncio.gather(self._sends(calls, sends, answers), self._others(calls, others, answers))
        return self._joined(calls, answers)

    async def _sends(self, calls: Sequence[Read], places: Sequence[int], answers: list[bytes]) -> None:
        mine = [call for n in places if isinstance(call := calls[n], Call)]
        if not mine:
            return
        for n, call, answer in zip(places, mine, await send_raw(self.node, [_listed(c) for c in mine]), strict=True):
            self._count(call.method, isinstance(answer, Refused))
            answers[n] = answer_bytes(call.number or NULL, answer)

    async def _others(self, calls: Sequence[Read], places: Sequence[int], answers: list[bytes]) -> None:
        there: list[tuple[int, Call]] = []
        for n in places:
            call = calls[n]
            assert isinstance(call, Call)
            text = await self._here(call)
            if text is None:
                there.append((n, call))
            else:
                answers[n] = text
        for pinned in (False, True):
            some = [(n, call) for n, call in there if (call.method in FILTERS) is pinned]
            for start in range(0, len(some), PER_BATCH):
                part = some[start : start + PER_BATCH]
                for (n, _), text in zip(part, await self._ask([call for _, call in part], pinned), strict=True):
                    answers[n] = text

    async def _ask(self, calls: Sequence[Call], pinned: bool) -> list[bytes]:
        """The node's answer to each, under the caller's own id."""
        if len(calls) == 1:
            return [await self._there(calls[0])]
        body = b"[" + b",".join(call.with_id(n) for n, call in enumerate(calls)) + b"]"
        try:
            text = await self.node.forward(body, pinned=pinned)
        except AnswerTooLong:
            return [error_bytes(call.number or NULL, self._too_large()) for call in calls]
        except Unavailable:
            return [error_bytes(call.number or NULL, node_unavailable()) for call in calls]
        found = _by_number(text)
        if found is None:  # it knows no batches
            return list(await asyncio.gather(*(self._there(call) for call in calls)))
        for call in calls:
            self._count(call.method, False)
        return [
            _with_number(found[n], call.number or NULL)
            if n in found
            else error_bytes(call.number or NULL, node_unavailable())
            for n, call in enumerate(calls)
        ]

    def _joined(self, calls: Sequence[Read], answers: Sequence[bytes]) -> bytes:
        parts: list[bytes] = []
        size = 0
        for call, answer in zip(calls, answers, strict=True):
            if isinstance(call, Call) and call.notifies:
                continue
            size += len(answer)
            over = size > self._max_answer_bytes
            parts.append(error_bytes(call.number or NULL, self._too_large()) if over else answer)
        return b"[" + b",".join(parts) + b"]" if parts else b""


def _listed(call: Call) -> list[object]:
    """Named parameters are none of the methods here: what they name is missing."""
    return call.params if isinstance(call.params, list) else []


def _by_number(body: bytes) -> dict[int, bytes] | None:
    """The text of each answer of a batch, by the id we gave; None when it is no batch."""
    try:
        answers = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(answers, list):
        return None
    parts = zip(answers, elements(body), strict=True)
    return {one["id"]: text for one, text in parts if isinstance(one, dict) and type(one.get("id")) is int}


def _with_number(text: bytes, number: bytes) -> bytes:
    for name, begin, end in members(text):
        if name == b'"id"':
            return text[:begin] + number + text[end:]
    return text
