"""`POST /v1/batches`: up to a thousand intents in one request, each with its own key and its own result.

Items stand alone: one that is refused stops none of the others. Within a lane, what is accepted keeps the order of the
array. The same batch again replays what was accepted, and tries the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from txmanager.api import bodies
from txmanager.api.call import Audit, Call, Reply
from txmanager.api.dry_runs import Asked
from txmanager.api.intents import IntentRequest, Intents
from txmanager.api.metrics import ApiMetrics
from txmanager.api.problems import problem, retry_after
from txmanager.api.quotas import TokenQuotas
from txmanager.api.records import RecordView, View, record_json
from txmanager.core.errors import BudgetExhausted, InvalidInput, TxManagerError
from txmanager.core.models import Json, check_key
from txmanager.core.quotas import Share
from txmanager.runtime.accept.billing import Billing
from txmanager.runtime.accept.producer import Submitted
from txmanager.runtime.manager import TxManager

MOST = 1_000
_AT_ONCE = 256
"""What travels to the ledger in one call."""
_PATIENCE = 10
"""Keys that are known are read one by one: a page of them takes as long as several single requests."""


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
    ) -> None:
        self._manager = manager
        self._intents = intents
        self._quotas = quotas
        self._billing = billing
        self._metrics = metrics
        self._audit = audit

    async def submit(self, call: Call) -> Reply:
        told: Sequence[dict[str, Json]] = call.read(BatchRequest)["intents"]
        call.caller.submits_for(call.query.get("tenant"))  # wrong for one is wrong for all
        await self._quotas.charge_more(call.caller, len(told) - 1)
        items = []
        for start in range(0, len(told), _AT_ONCE):
            page = [await self._read(call, one) for one in told[start : start + _AT_ONCE]]
            await self._accept(page)
            items += page
        return Reply(200, orjson.dumps({"results": [self._shown(item) for item in items]}))

    async def _read(self, call: Call, told: dict[str, Json]) -> _Item:
        """Everything that a single request checks before it is accepted; what is wrong is this item's alone."""
        item = _Item()
        try:
            bodies.check_shape(BatchItem, told)
            key = told.get("idempotency_key")
            item.kind = told["kind"]
            given = partial(check_key, key) if key is not None else _no_key
            asked = self._intents.read(call, self._intents.kind(item.kind), told["payload"], told, given)
            if asked.refusal is not None:
                item.result = await self._intents.known(asked) or asked.refusal
                return item
            if asked.own_account:
                await self._audit.note(call, call.scope["path"], "operate")
            item.share = await self._intents.share(call, asked.intent.id, len(orjson.dumps(told)))
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
            count = self._metrics.replayed if result.replayed else self._metrics.accepted
            count.labels(item.kind).inc()
            word, status = ("replayed", 200) if result.replayed else ("accepted", 202)
            return {"result": word, "status": status, "record": record_json(result.record)}
        error = self._billing.in_words(result) if isinstance(result, BudgetExhausted) else result
        status, body = problem(error)
        if (seconds := retry_after(error)) is not None:
            body["retry_after_s"] = seconds
        return {"result": "refused", "status": status, "problem": body}


def _no_key() -> None:
    return None
