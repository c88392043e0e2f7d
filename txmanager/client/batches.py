"""Many intents: one request for up to a thousand, or pages of lines for any number of them.

A page is repeated until each of its intents has an answer. Keys are fixed before the first try, so that what was
accepted before a connection broke is answered as replayed.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal

import orjson

from txmanager.client import models
from txmanager.client.answers import read_json, read_problem
from txmanager.client.calls import AGAIN, DERIVED, Calls
from txmanager.client.effects import Call, Open, Pause, Read, Stream
from txmanager.client.errors import BadAnswer, Refused, Unreachable, refusal
from txmanager.client.http import Reply, Request, TransportFailed
from txmanager.client.models import BatchResult

_PAGE, _PAGE_BYTES = 256, 48 << 10
"""What the server takes in without being read: a client that writes first and reads then must not wait for itself."""
_SILENCE_S = 30.0
"""The rate of a token may hold a line back for 10 s."""


@dataclass(slots=True)
class Line:
    """One intent on its way."""

    index: int
    body: bytes
    refused: BatchResult | None = None
    """What it was last answered with, if that may change."""


class Pages:
    """From intents to pages of lines; keys that are missing are made up."""

    def __init__(self, pool: str | None) -> None:
        self._pool = pool
        self._count = 0
        self._page: list[Line] = []
        self._bytes = 0

    def add(self, intent: Mapping[str, Any]) -> list[Line]:
        """The page that is full without this one, or nothing."""
        body = orjson.dumps(keyed(intent, self._pool)) + b"\n"
        full: list[Line] = []
        if self._page and (len(self._page) >= _PAGE or self._bytes + len(body) > _PAGE_BYTES):
            full = self.rest()
        self._page.append(Line(self._count, body))
        self._count += 1
        self._bytes += len(body)
        return full

    def rest(self) -> list[Line]:
        page, self._page, self._bytes = self._page, [], 0
        return page


def pages(intents: Iterable[Mapping[str, Any]], pool: str | None) -> Iterator[list[Line]]:
    gathered = Pages(pool)
    for intent in intents:
        if page := gathered.add(intent):
            yield page
    if page := gathered.rest():
        yield page


async def apages(
    intents: Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]], pool: str | None
) -> AsyncIterator[list[Line]]:
    if not isinstance(intents, AsyncIterable):
        for page in pages(intents, pool):
            yield page
        return
    gathered = Pages(pool)
    async for intent in intents:
        if page := gathered.add(intent):
            yield page
    if page := gathered.rest():
        yield page


def keyed(intent: Mapping[str, Any], pool: str | None) -> dict[str, Any]:
    item = {"pool": pool, **intent} if pool is not None else dict(intent)
    if item.get("idempotency_key") is None and item.get("kind") not in DERIVED:
        item["idempotency_key"] = str(uuid.uuid4())
    return item


class BatchCalls(Calls):
    def submit_batch(
        self, intents: Sequence[Mapping[str, Any]], *, pool: str | None = None
    ) -> Call[Sequence[BatchResult]]:
        """Submit up to 1,000 intents in one request; one result each, in their order. An intent is `kind`, `payload`
        and what `submit` takes beside them, by the names of the API: `idempotency_key`, `partition_key`, ..."""
        body = {"intents": [keyed(intent, pool or self.pool) for intent in intents]}
        reply = yield from self._exchange("POST", "/v1/batches", body=body, wait_s=_SILENCE_S)
        answer = read_json(reply)
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list) or len(results) != len(intents):
            raise BadAnswer("what came back is no answer to a batch")
        return [_result(index, one) for index, one in enumerate(results)]

    def submit_page(self, page: Sequence[Line]) -> Stream:
        """Until each line has an answer. One that is refused for a while (429, 503) is sent again, after its
        successors, until the time for retries is over."""
        waiting, tries, until = list(page), 0, monotonic() + self._retry_for_s
        while waiting:
            trip, lost = _Trip(waiting), None
            try:
                yield from self._send_lines(trip, until)
            except TransportFailed as failed:
                lost = failed
            if trip.accepted:
                tries, until = 0, monotonic() + self._retry_for_s
            waiting, tries = trip.left, tries + 1
            pause_s = max(trip.pause_s, self._backoff(tries))
            if not waiting or monotonic() + pause_s <= until:
                yield Pause(pause_s if waiting else 0.0)
                continue
            if lost is not None:
                raise Unreachable(f"{len(waiting)} intents have no answer: {lost}; send them again")
            yield from (line.refused for line in waiting if line.refused is not None)
            return

    def _send_lines(self, trip: _Trip, until: float) -> Stream:
        headers = {"Accept": "application/x-ndjson", "Content-Type": "application/x-ndjson"}
        body = b"".join(line.body for line in trip.sent)
        reply: Reply = yield Open(Request("POST", "/v1/batches", headers, body, _SILENCE_S))
        if reply.status != 200:
            retry_after = reply.headers.get("retry-after", "")
            trip.pause_s = float(retry_after) if retry_after.isdigit() else 0.0
            if reply.status not in AGAIN or monotonic() + trip.pause_s > until:
                raise refusal(reply.status, read_problem(reply))
            raise TransportFailed(f"answered {reply.status}")
        buffer = b""
        while chunk := (yield Read(_SILENCE_S)):
            *lines, buffer = (buffer + chunk).split(b"\n")
            for text in lines:
                if (result := trip.read(text)) is not None:
                    yield result
        if trip.answered < len(trip.sent):
            raise TransportFailed("the answer ended too early")


class _Trip:
    """One request of a page, and what it was answered so far."""

    def __init__(self, sent: Sequence[Line]) -> None:
        self.sent = sent
        self.answered = 0
        self.accepted = False
        self.pause_s = 0.0
        self._again: list[Line] = []

    @property
    def left(self) -> list[Line]:
        return [*self._again, *self.sent[self.answered :]]

    def read(self, text: bytes) -> BatchResult | None:
        """The next line's answer; None for one that is to be sent again."""
        try:
            answer = orjson.loads(text)
            if answer["result"] == "ended":
                raise TransportFailed("the server ended the stream")
            line = self.sent[self.answered]
            if answer["line"] != self.answered + 1:
                raise BadAnswer(f"line {answer['line']} was answered, and line {self.answered + 1} is the next")
        except (orjson.JSONDecodeError, TypeError, KeyError, IndexError):
            raise BadAnswer("what came back is no answer to a line") from None
        self.answered += 1
        result = _result(line.index, answer)
        self.accepted = self.accepted or result.record is not None
        if result.error is None or result.error.status not in AGAIN:
            return result
        self.pause_s = max(self.pause_s, float(result.error.problem.get("retry_after_s", 1)))
        line.refused = result
        self._again.append(line)
        return None


def _result(index: int, answer: Any) -> BatchResult:
    try:
        word: Literal["accepted", "replayed", "refused"] = answer["result"]
        record = answer.get("record")
        read = models.record(record, word == "replayed") if record is not None else None
        error: Refused | None = refusal(int(answer["status"]), answer["problem"]) if read is None else None
    except (TypeError, KeyError, ValueError):
        raise BadAnswer("what came back is no answer to an intent") from None
    return BatchResult(index, word, read, error)
