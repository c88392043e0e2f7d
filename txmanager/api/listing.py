"""The list of intents: filters, pages, and nothing of anybody else's tenant or pools."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime

import orjson
from pydantic import Field

from txmanager.api.auth import Caller
from txmanager.api.call import Call, Reply
from txmanager.api.intents import Intents
from txmanager.api.operation import Parameter
from txmanager.api.records import RecordView, View, record_bytes
from txmanager.core.errors import InvalidInput
from txmanager.core.listing import PAGE_LIMIT, Filter, Mark
from txmanager.core.models import intent_id
from txmanager.core.states import Status
from txmanager.runtime.history import History

_SHOWN = 50
_LONGEST = 255
_METADATA = "metadata."
_CURSOR = re.compile(r"(\d{1,15}) ([!-~]{0,64})")
_TEXT = {"type": "string", "minLength": 1, "maxLength": _LONGEST}
_TIME = "RFC 3339 with an offset (2026-01-31T12:00:00Z), or milliseconds since 1970."

FILTERS: Mapping[str, tuple[Mapping[str, object], str]] = {
    "pool": (_TEXT, "Of this pool."),
    "status": ({"enum": [status.value for status in Status]}, "In this state."),
    "kind": (_TEXT, "Of this kind."),
    "lane": (_TEXT, "In this lane."),
    "key_prefix": (_TEXT, "With an idempotency key that starts like this."),
    "hash": (_TEXT, "With a transaction of this hash, whether it landed or not."),
    "receiver": (_TEXT, "That act on this account or address."),
    "error": (_TEXT, "With this error code, or held for this reason."),
    "since": (_TEXT, f"Accepted at this time or later. {_TIME}"),
    "until": (_TEXT, f"Accepted before this time. {_TIME}"),
}
LIST_PARAMETERS = (
    *(Parameter(name, "query", schema, words) for name, (schema, words) in FILTERS.items()),
    Parameter(
        "metadata.NAME", "query", _TEXT, "Whose metadata has this text under NAME, one of `archive.index_metadata`."
    ),
    Parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": PAGE_LIMIT}, f"How many; {_SHOWN}."),
    Parameter("cursor", "query", _TEXT, "Where to go on: `cursor` of the page before, with the same filters."),
)
_KNOWN = {*FILTERS, "limit", "cursor", "tenant"}


class IntentList(View):
    """Newest first by the time of acceptance."""

    intents: list[RecordView]
    cursor: str | None = Field(description="Where the next page begins; null at the end.")
    partial: bool = Field(description="It looked at enough and stopped: there may be more behind `cursor`.")
    archived: bool = Field(description="Whether ended intents are listed. Without an archive only live ones are.")


class Listing:
    def __init__(self, history: History, intents: Intents, indexed: Collection[str] = ()) -> None:
        self._history = history
        self._intents = intents
        self._indexed = frozenset(indexed)

    async def get(self, call: Call) -> Reply:
        """By key, as `Intents.get` does it; with `?life=` one use of the key, however long ago, with its payload."""
        life = call.query.get("life")
        if life is None:
            return await self._intents.get(call)
        pool = self._intents.pool_of(call.caller, call.query.get("pool"))
        id = intent_id(call.path("key"), pool, call.tenant)
        record = await self._intents.within(self._history.read(id, life))
        return Reply(200, record_bytes(record, whole=True))

    async def list(self, call: Call) -> Reply:
        wanted, limit, before = self._filter(call), _limit(call.query), _cursor(call.query)
        page = await self._intents.within(self._history.page(wanted, before, limit))
        fields = {
            "cursor": None if page.next is None else _pack(page.next),
            "partial": page.partial,
            "archived": self._history.archived,
        }
        intents = b",".join(record_bytes(record, whole=True) for record in page.records)
        return Reply(200, b'{"intents":[' + intents + b"]," + orjson.dumps(fields)[1:])

    def _filter(self, call: Call) -> Filter:
        query, caller = call.query, call.caller
        for name in query:
            if name not in _KNOWN and not name.startswith(_METADATA):
                raise InvalidInput(name[:_LONGEST], f"is no filter; there are {', '.join(sorted(_KNOWN))}")
        filters = {name: _text(query, name) for name in FILTERS if name in query}
        since, until = (_time(name, filters.pop(name, None)) for name in ("since", "until"))
        status = filters.pop("status", None)
        if status is not None and status not in list(Status):
            raise InvalidInput("status", f"must be one of {', '.join(Status)}")
        if "pool" in filters:
            self._intents.pool_of(caller, filters["pool"])
        return Filter(
            tenant=_tenant(caller, query.get("tenant")),
            pools=caller.limits.pools,
            status=None if status is None else Status(status),
            metadata=dict(self._metadata(query)),
            since=since,
            until=until,
            **filters,
        )

    def _metadata(self, query: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for field in query:
            name = field.removeprefix(_METADATA)
            if name == field:
                continue
            if name not in self._indexed:
                known = ", ".join(sorted(self._indexed)) or "none"
                raise InvalidInput(field[:_LONGEST], f"is not indexed; archive.index_metadata has {known}")
            yield name, _text(query, field)


def _tenant(caller: Caller, named: str | None) -> str | None:
    """None: everybody's, for those from whom nothing is hidden."""
    return None if caller.whole and named is None else caller.tenant_for(named)


def _text(query: Mapping[str, str], name: str) -> str:
    if not 1 <= len(query[name]) <= _LONGEST:
        raise InvalidInput(name, f"must be 1 to {_LONGEST} characters; leave it out to list all")
    return query[name]


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(_SHOWN))
    if not text.isdecimal() or not 1 <= int(text[:9]) <= PAGE_LIMIT:
        raise InvalidInput("limit", f"must be a whole number from 1 to {PAGE_LIMIT}")
    return int(text)


def _time(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if text.isdecimal() and len(text) <= 15:
        return int(text)
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            raise ValueError
        return int((at - datetime.fromtimestamp(0, UTC)).total_seconds() * 1000)
    except ValueError:
        raise InvalidInput(name, "must be a time with an offset (2026-01-31T12:00:00Z) or milliseconds") from None


def _pack(mark: Mark) -> str:
    return base64.urlsafe_b64encode(f"{mark[0]} {mark[1]}".encode()).decode().rstrip("=")


def _cursor(query: Mapping[str, str]) -> Mark | None:
    text = query.get("cursor")
    if text is None:
        return None
    try:
        found = _CURSOR.fullmatch(base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)).decode())
    except ValueError:
        found = None
    if found is None:
        raise InvalidInput("cursor", "is none of ours; send back the `cursor` of the page before, or leave it out")
    return int(found[1]), found[2]
