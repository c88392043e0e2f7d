"""Serves the doors that the configuration opens: other relayers' routes, over the same operations as our own.

A caller needs a token here as everywhere. Where a door names one, callers on this machine that send none get that one:
its scopes, limits and budgets are then what they have. What a door says of an error is the other relayer's form.
"""

from __future__ import annotations

import ipaddress
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import orjson

from txmanager.api import bodies
from txmanager.api.audit import Auditor
from txmanager.api.auth import Caller, Gate
from txmanager.api.bodies import Receive
from txmanager.api.call import Call, Reply, json_reply, problem_reply
from txmanager.api.hosts import Hosts
from txmanager.api.intents import Intents
from txmanager.api.operation import Operation
from txmanager.api.problems import Forbidden, Malformed, MissingKey, NotJson, TooLarge, problem
from txmanager.api.rest import LEDGER, Door, Rest, row
from txmanager.core.budgets import EVER, MOST_UNITS, Usage
from txmanager.core.doors import (
    DoorAnswer,
    DoorRequest,
    DoorRoute,
    Elsewhere,
    Read,
    ReadAllowance,
    RelayerDoor,
    SetAllowance,
    StartAllowance,
    Submit,
)
from txmanager.core.errors import (
    BudgetExhausted,
    InvalidInput,
    InvalidKey,
    KeyReused,
    NoLane,
    NoRoom,
    NotAllowed,
    NotFound,
    OwnAccountRefused,
    PolicyRefused,
    QueueFull,
    StaleClaim,
    TxManagerError,
)
from txmanager.core.models import Json
from txmanager.core.states import Status
from txmanager.runtime.accept.billing import Billing, Named
from txmanager.runtime.accept.producer import Submitted
from txmanager.runtime.manager import TxManager
from txmanager.settings import ApiSettings, DoorSettings

_BYTES = b"application/octet-stream"
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_PROXIED = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip"})
_TRIES = 5
_ERRORS = LEDGER | {
    BudgetExhausted, Forbidden, InvalidInput, InvalidKey, KeyReused, Malformed, MissingKey, NoLane, NoRoom, NotAllowed,
    NotFound, NotJson, OwnAccountRefused, PolicyRefused, QueueFull, StaleClaim, TooLarge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tokenless:
    """Who a caller on this machine is that sends no token. Everybody else is asked for one."""

    door: Door
    caller: Caller
    hosts: Hosts

    async def admit(self, headers: Mapping[bytes, bytes], address: str) -> Caller:
        if b"authorization" in headers or not _is_loopback(address) or not _PROXIED.isdisjoint(headers):
            return await self.door.admit(headers, address)
        self.hosts.check(headers.items())  # a page in the user's browser is on this machine, too
        return self.caller


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class DoorSurface(Rest):
    """HTTP's own surface, but for the words of errors and bodies that come with GET."""

    words: RelayerDoor

    async def _body(self, operation: Operation, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        if operation.right is None:
            return b""
        return await bodies.read_body(headers, receive, self.settings.max_body_bytes, self.settings.body_timeout_s)

    def refuse(self, error: TxManagerError) -> Reply:
        status, body = problem(error)
        reply = _reply(self.words.refuse(status, body))
        kept = (b"retry-after", b"www-authenticate")
        reply.headers += [header for header in problem_reply(error).headers if header[0] in kept]
        return reply


def _reply(answer: DoorAnswer) -> Reply:
    if isinstance(answer.body, str):
        return Reply(answer.status, answer.body.encode(), [_TEXT])
    return json_reply(answer.body, answer.status)


@dataclass(frozen=True, slots=True)
class Doors:
    """What all doors are served with."""

    manager: TxManager
    intents: Intents
    billing: Billing
    audit: Auditor
    settings: ApiSettings

    def rows(self, settings: DoorSettings, words: RelayerDoor) -> Iterator[Operation]:
        for route in words.routes:
            served = ServedRoute(self, settings, words, route)
            yield row(route.method, route.path, "", words.title, route.right, served, errors=_ERRORS)
        for other in words.elsewhere:
            yield row(other.method, other.path, "", words.title, None, partial(_elsewhere, words, other))


def door_surface(rest: Rest, settings: DoorSettings, words: RelayerDoor, gate: Gate) -> DoorSurface:
    caller = next((one for one in gate.issuers if one.name == settings.token), None)
    door = rest.door
    if caller is not None:
        door = Tokenless(door, caller, Hosts(rest.settings.allowed_hosts))
    return DoorSurface(rest.settings, door, rest.metrics, rest.audit, rest.quotas, words)


async def _elsewhere(words: RelayerDoor, other: Elsewhere, call: Call) -> Reply:
    detail = f"{words.title}'s {other.method} {other.path} is not mapped; use {other.instead}"
    return _reply(words.refuse(501, {"detail": detail, "code": "not_mapped"}))


@dataclass(frozen=True, slots=True)
class ServedRoute:
    doors: Doors
    settings: DoorSettings
    words: RelayerDoor
    route: DoorRoute

    async def __call__(self, call: Call) -> Reply:
        path = {name: call.path(name) for name in call.scope["path_params"]}
        request = DoorRequest(self._body(call), path, call.query, time.time_ns() // 1_000_000)
        wish = self.route.wish(request)
        match wish:
            case Submit():
                return await self._submit(call, request, wish)
            case Read():
                pool = self.doors.intents.pool_of(call.caller, wish.pool or self.settings.pool)
                found = self.doors.manager.get(pool, wish.key, call.tenant)
                return _reply(self.route.answer(request, await self.doors.intents.within(found)))
            case ReadAllowance() | SetAllowance():
                return await self._allowance(call, request, wish)

    def _body(self, call: Call) -> Json:
        if not call.body:
            return None
        if self.route.takes_bytes and call.headers.get(b"content-type", b"") == _BYTES:
            return call.body
        bodies.check_type(call.headers)
        if call.body.lstrip()[:1] != b"[":
            return bodies.read_object(call.body)
        try:
            return orjson.loads(call.body)
        except orjson.JSONDecodeError as error:
            raise Malformed(f"the body is not JSON: {error}") from None

    async def _submit(self, call: Call, request: DoorRequest, wish: Submit) -> Reply:
        pool = self.doors.intents.pool_of(call.caller, wish.pool or self.settings.pool)
        undo: Callable[[], Awaitable[bool]] | None = None
        if wish.start is not None and not call.flag("dry_run"):
            named = self._ever(call, pool, wish.start.budget_key)
            if named is None:
                return self._no_allowances(pool)
            undo = await self._start(call, named, wish.start)
        envelope = {
            "pool": pool,
            "budget_key": wish.budget_key,
            "max_age_s": wish.max_age_s,
            "metadata": dict(wish.metadata),
        }
        wait_s = self.doors.settings.max_wait_s if self.route.waits else 0.0
        for key in self._keys(call, wish):
            try:
                taken = (
                    await self.doors.intents.take(
                        call, wish.kind, wish.payload, envelope, partial(_one, key), wait_s=wait_s
                    )
                    if wish.late is None
                    else await self._accepted_before(call, wish, envelope, key, wish.late)
                )
            except KeyReused:
                if not wish.reused:
                    raise
                if key is None or not await self._came_to_nothing(call, pool, key):
                    break
                continue
            if isinstance(taken, Reply):
                return taken
            reply = _reply(self.route.answer(request, taken.record))
            reply.headers.append((b"idempotency-key", (key or taken.record.id.key).encode()))
            if taken.replayed:
                reply.headers.append((b"idempotency-replayed", b"true"))
            return reply
        if undo is not None:  # what is refused gives nobody an allowance
            await self.doors.intents.within(undo())
        raise Malformed(wish.reused)

    async def _accepted_before(
        self, call: Call, wish: Submit, envelope: Mapping[str, Json], key: str | None, late: InvalidInput
    ) -> Submitted:
        """A retry gets its answer however late it comes; whatever else is late is not accepted."""
        intents = self.doors.intents
        asked = intents.read(call, intents.kind(wish.kind), wish.payload, envelope, partial(_one, key))
        known = None if call.flag("dry_run") else await intents.known(asked)
        if known is None:
            raise late
        return known

    def _keys(self, call: Call, wish: Submit) -> Iterator[str | None]:
        """One, or where the request implies it further ones for when its intent came to nothing."""
        if wish.key is not None:
            yield from (wish.key if n == 0 else f"{wish.key}:{n}" for n in range(_TRIES))
            return
        given = self.doors.intents.given_key(call)
        yield str(uuid.uuid4()) if given is None and self.route.makes_key else given

    async def _came_to_nothing(self, call: Call, pool: str, key: str) -> bool:
        """Whether what holds the key ended without an effect."""
        try:
            found = await self.doors.intents.within(self.doors.manager.get(pool, key, call.tenant))
        except NotFound:
            return False  # it is on its way
        return found.status in (Status.FAILED, Status.CANCELLED)

    # -- allowances

    def _ever(self, call: Call, pool: str, key: str) -> Named | None:
        """The budget that stands for an account's allowance."""
        named = self.doors.billing.of_key(call.caller.submits_for(call.query.get("tenant")), pool, key)
        return next((one for one in named if one.budget.per_ms == EVER), None)

    async def _allowance(self, call: Call, request: DoorRequest, wish: ReadAllowance | SetAllowance) -> Reply:
        pool = self.doors.intents.pool_of(call.caller, self.settings.pool)
        named = self._ever(call, pool, wish.budget_key)
        if named is None:
            return self._no_allowances(pool)
        if isinstance(wish, SetAllowance):
            if call.flag("dry_run"):
                raise InvalidInput("dry_run", "is not possible for an allowance; read it, or send this without")
            await self._set(named, wish.amount)
        used = await self._used(named)
        return _reply(self.route.answer(request, used.left(named.budget) * named.unit.budget))

    async def _used(self, named: Named) -> Usage:
        [used] = await self.doors.intents.within(self.doors.manager.budgets.usage([named.budget.name]))
        return used

    async def _start(self, call: Call, named: Named, start: StartAllowance) -> Callable[[], Awaitable[bool]] | None:
        """A repetition, or a later call for the same account, changes nothing. Answers how to take it back."""
        used = await self._used(named)
        if used.override is not None or start.amount // named.unit.budget == used.limit(named.budget):
            return None
        call.caller.need("operate")
        await self.doors.audit.note(call, self.route.path, "operate")
        limit = await self._set(named, start.amount)
        return lambda: self.doors.manager.budgets.override(named.budget.name, None, limit)

    async def _set(self, named: Named, amount: int) -> int:
        """So much is left from now on, whatever was spent before."""
        for _ in range(_TRIES):
            used = await self._used(named)
            limit = min(amount // named.unit.budget + used.open + used.costs(named.budget), MOST_UNITS)
            change = self.doors.manager.budgets.override(named.budget.name, limit, used.override)
            if await self.doors.intents.within(change):
                return limit
        raise NotAllowed("others changed this allowance at the same time; send it again")

    def _no_allowances(self, pool: str) -> Reply:
        detail = f'pool {pool!r} keeps no allowances; add budget_per_key with per = "ever" to its policy'
        return _reply(self.words.refuse(501, {"detail": detail, "code": "not_mapped"}))


def _one(key: str | None) -> str | None:
    return key
