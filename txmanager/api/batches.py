"""`POST /v1/batches`: many intents in one request, each with its own key and its own result.

Up to a thousand in a JSON array, or any number as lines of JSON, answered line by line while they arrive. Items stand
alone: one that is refused stops none of the others. Within a lane, what is accepted keeps the order of the request. The
same request again replays what was accepted, and tries the rest; so does a client that lost its connection halfway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from txmanager.api import bodies
from txmanager.api.call import Answering, Audit, Call, Header, Reply, Send
from txmanager.api.dry_runs import Asked
from txmanager.api.intents import IntentRequest, Intents
from txmanager.api.metrics import ApiMetrics
from txmanager.api.ndjson import NDJSON, Lines, check_plain, is_ndjson
from txmanager.api.problems import TooLarge, TooSlow, problem, retry_after
from txmanager.api.quotas import TokenQuotas
from txmanager.api.records import RecordView, View, record_json
from txmanager.api.streams import Streams
from txmanager.core.errors import BudgetExhausted, InvalidInput, TxManagerError, Unavailable
from txmanager.core.models import Json, check_key
from txmanager.core.quotas import Share
from txmanager.runtime.accept.billing import Billing
from txmanager.runtime.accept.producer import Submitted
from txmanager.runtime.manager import TxManager
from txmanager.settings import ApiSettings

MOST = 1_000
_AT_ONCE = 256
"""What travels to the ledger in one call."""
_PATIENCE = 10
"""Keys that are known are read one by one: a page of them takes as long as several single requests."""
_HEADERS: list[Header] = [(b"content-type", NDJSON), (b"x-accel-buffering", b"no")]


class BatchItem(IntentRequest):
    """One intent, as `POST /v1/intents` takes it, with its key."""

    idempotency_key: str | None = Field(
        default=None, pattern=r"^[\x21-\x7e]{1,255}$", description="May be left out where the payload implies it."
    )


class BatchRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    intents: list[dict[str, Json]] = Field(min_length=1, max_length=MOST, description="Each as `BatchItem`.")


class BatchResult(View):
    """`accepted` and `replayed` have a record, `refused` has a problem."""

    result: Literal["accepted", "replayed", "refused"]
    status: int = Field(description="What a request of its own would have been answered with.")
    record: RecordView | None = None
    problem: dict[str, Any] | None = None


class BatchView(View):
    results: list[BatchResult] = Field(description="In the order of the request.")


class BatchLine(View):
    """The answer to one line, as `BatchResult`. `ended` is the last one: its line and those after it were not read."""

    line: int = Field(description="Its number in the request, from 1.")
    result: Literal["accepted", "replayed", "refused", "ended"]
    status: int
    record: RecordView | None = None
    problem: dict[str, Any] | None = None


@dataclass(slots=True)
class _Item:
    kind: str = ""
    asked: Asked | None = None
    share: Share | None = None
    result: Submitted | TxManagerError | None = None


class Batches:
    def __init__(
        self,
        manager: TxManager,
        intents: Intents,
        quotas: TokenQuotas,
        billing: Billing,
        metrics: ApiMetrics,
        audit: Audit,
        streams: Streams,
        settings: ApiSettings,
    ) -> None:
        self._manager = manager
        self._intents = intents
        self._quotas = quotas
        self._billing = billing
        self._metrics = metrics
        self._audit = audit
        self._streams = streams
        self._settings = settings

    async def submit(self, call: Call) -> Answering:
        if call.flag("dry_run"):
            raise InvalidInput("dry_run", "is not possible for a batch; ask for one intent at a time")
        call.caller.submits_for(call.query.get("tenant"))  # wrong for one is wrong for all
        if is_ndjson(call.headers):
            check_plain(call.headers)
            self._streams.check_place(call.caller)
            return _LineReply(self)
        intents: Sequence[dict[str, Json]] = call.read(BatchRequest)["intents"]
        await self._quotas.charge_more(call.caller, len(intents) - 1)
        results: list[dict[str, Json]] = []
        for start in range(0, len(intents), _AT_ONCE):
            page = [await self._read(call, one) for one in intents[start : start + _AT_ONCE]]
            await self._accept(page)
            results += map(self._shown, page)
        return Reply(200, orjson.dumps({"results": results}))

    # -- lines

    async def answer_lines(self, call: Call, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Page by page: what arrived is accepted and answered, and only then is more of it read."""
        settings, stopping = self._settings, self._intents.stopping
        lines = Lines(call.receive, stopping, settings.max_body_bytes, settings.body_timeout_s, _AT_ONCE)
        credit = 1  # the request itself was counted
        try:
            async for page in lines.pages():
                waiting = page
                while waiting:
                    if stopping.is_set():
                        await send(_ended(waiting[0][0], Unavailable("the server stops; send the rest again")))
                        return
                    credit, refusal = await self._pay(call, len(waiting), credit)
                    most = credit or len(waiting)
                    now, waiting = waiting[:most], waiting[most:]
                    if credit:
                        items = [await self._read_line(call, line) for _, line in now]
                        await self._accept(items)
                        credit -= len(now)
                    else:
                        items = [_Item(result=refusal) for _ in now]
                    shown = ({"line": n, **self._shown(item)} for (n, _), item in zip(now, items, strict=True))
                    await send(b"".join([orjson.dumps(one) + b"\n" for one in shown]))
        except (TooSlow, Unavailable) as error:
            await send(_ended(lines.next, error))

    async def _pay(self, call: Call, count: int, credit: int) -> tuple[int, TxManagerError | None]:
        """How many of `count` lines the token's rate lets go on now, and why no more where that is none."""
        if credit >= count:
            return credit, None
        try:
            return credit + await self._quotas.pace(call.caller, count - credit), None
        except TxManagerError as error:
            return credit, error

    async def _read_line(self, call: Call, line: bytes | TooLarge) -> _Item:
        if isinstance(line, TooLarge):
            return _Item(result=line)
        try:
            return await self._read(call, bodies.read_object(line), len(line))
        except TxManagerError as error:
            return _Item(result=error)

    # -- items

    async def _read(self, call: Call, envelope: dict[str, Json], size: int | None = None) -> _Item:
        """Everything that a single request checks before it is accepted; what is wrong is this item's alone."""
        item = _Item()
        try:
            bodies.check_shape(BatchItem, envelope)
            key = envelope.get("idempotency_key")
            item.kind = envelope["kind"]
            given = partial(check_key, key) if key is not None else _no_key
            asked = self._intents.read(call, self._intents.kind(item.kind), envelope["payload"], envelope, given)
            if asked.refusal is not None:
                item.result = await self._intents.known(asked) or asked.refusal
                return item
            if asked.own_account:
                await self._audit.note(call, call.scope["path"], "operate")
            item.share = await self._intents.share(call, asked.intent.id, size or len(orjson.dumps(envelope)))
            if asked.own_key is not None:
                alias = self._manager.alias(asked.own_key, asked.intent.fingerprint, asked.intent.id)
                await self._intents.within(alias)
            item.asked = asked
        except TxManagerError as error:
            item.result = error
        return item

    async def _accept(self, page: Sequence[_Item]) -> None:
        wanted = [(item, item.asked) for item in page if item.asked is not None]
        if not wanted:
            return
        try:
            results: Sequence[Submitted | TxManagerError] = await self._intents.within(
                self._manager.submit_many(
                    [asked.intent for _, asked in wanted],
                    shares=[item.share for item, _ in wanted],
                    bills=[asked.bill for _, asked in wanted],
                    one_caller=True,
                ),
                calls=_PATIENCE,
            )
        except InvalidInput as error:  # what is wrong with one must not refuse its neighbours
            if len(wanted) > 1:
                for item, _ in wanted:
                    await self._accept([item])
                return
            results = [error]
        except TxManagerError as error:  # perhaps accepted: the same batch again finds out
            results = [error] * len(wanted)
        for (item, _), result in zip(wanted, results, strict=True):
            item.result = result

    def _shown(self, item: _Item) -> dict[str, Json]:
        result = item.result
        assert result is not None
        if isinstance(result, Submitted):
            self._metrics.submitted(item.kind, replayed=result.replayed)
            word, status = ("replayed", 200) if result.replayed else ("accepted", 202)
            return {"result": word, "status": status, "record": record_json(result.record)}
        error = self._billing.in_words(result) if isinstance(result, BudgetExhausted) else result
        status, body = problem(error)
        if (seconds := retry_after(error)) is not None:
            body["retry_after_s"] = seconds
        return {"result": "refused", "status": status, "problem": body}


@dataclass(slots=True)
class _LineReply:
    """Answers while it reads. It begins with the first answer, so that a request that never begins gets an error."""

    _batches: Batches
    _began: bool = False
    status: int = 200

    async def send(self, call: Call | None, send: Send) -> None:
        assert call is not None

        async def lines(body: bytes, *, more: bool = True) -> None:
            if not self._began:
                self._began = True
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": body, "more_body": more})

        with self._batches._streams.place(call.caller):
            await self._batches.answer_lines(call, lines)
            await lines(b"", more=False)


def _ended(line: int, error: TxManagerError) -> bytes:
    status, body = problem(error)
    return orjson.dumps({"line": line, "result": "ended", "status": status, "problem": body}) + b"\n"


def _no_key() -> None:
    return None
