"""Who spent what: sums of all that ended, from the archive's daily books."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import Field

from txmanager.api.call import Call, Reply, json_reply
from txmanager.api.intents import Intents
from txmanager.api.operation import Parameter
from txmanager.api.records import View
from txmanager.core.archive import Group, Spending, UsageLine, UsageQuery
from txmanager.core.errors import InvalidInput
from txmanager.core.models import Json
from txmanager.runtime.history import History

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_GROUPS = ", ".join(Group)
USAGE_PARAMETERS = (
    Parameter(
        "by",
        "query",
        {"type": "string", "pattern": "^[a-z,]+$", "examples": ["tenant,day"]},
        f"What each line stands for: one or more of {_GROUPS}, with commas. Default: tenant.",
    ),
    Parameter("since", "query", {"type": "string", "format": "date"}, "The first day, in UTC."),
    Parameter("until", "query", {"type": "string", "format": "date"}, "The last day, in UTC."),
    Parameter("pool", "query", {"type": "string", "minLength": 1, "maxLength": 63}, "Of this pool."),
)


class UsageView(View):
    """Sums of one group on one network. Amounts are exact, in the chain's smallest unit."""

    network: str = Field(examples=["near:mainnet"], description="Amounts of two networks are never added.")
    spending: Spending = Field(description="What the money went for.")
    tenant: str | None = None
    token: str | None = None
    pool: str | None = None
    kind: str | None = None
    day: str | None = Field(default=None, json_schema_extra={"format": "date"})
    count: int
    done: int
    failed: int
    cancelled: int
    cost: str = Field(description="Everything that left the lanes: fees and deposits.")
    deposits: str = Field(description="What intents that are done paid to others, as their payloads say.")
    unknown: int = Field(description="Intents whose cost the chain did not tell; no sum has them.")


class UsageList(View):
    usage: list[UsageView]


class UsageRoutes:
    def __init__(self, history: History, intents: Intents) -> None:
        self._history = history
        self._intents = intents

    async def list(self, call: Call) -> Reply:
        query, caller = call.query, call.caller
        pools = caller.limits.pools
        if "pool" in query:
            pools = frozenset({self._intents.pool_of(caller, query["pool"])})
        named = query.get("tenant")
        wanted = UsageQuery(
            by=_by(query.get("by", Group.TENANT)),
            tenant=None if caller.whole and named is None else caller.tenant_for(named),
            pools=pools,
            since=_day(query, "since", ""),
            until=_day(query, "until", "9999-12-31"),
        )
        lines = await self._intents.within(self._history.usage(wanted))
        return json_reply({"usage": [_line_json(line) for line in lines]})


def _line_json(line: UsageLine) -> dict[str, Json]:
    return {
        "network": line.network,
        "spending": line.spending.value,
        **line.group,
        "count": line.count,
        "done": line.done,
        "failed": line.failed,
        "cancelled": line.cancelled,
        "cost": str(line.cost),
        "deposits": str(line.deposits),
        "unknown": line.unknown,
    }


def _by(text: str) -> tuple[Group, ...]:
    names = list(dict.fromkeys(text.split(",")))
    if not all(name in list(Group) for name in names):
        raise InvalidInput("by", f"must be one or more of {_GROUPS}, with commas")
    return tuple(Group(name) for name in names)


def _day(query: Mapping[str, str], name: str, default: str) -> str:
    text = query.get(name, default)
    if text != default and not _DAY.fullmatch(text):
        raise InvalidInput(name, "must be a day such as 2026-01-31")
    return text
