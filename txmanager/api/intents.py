"""Submitting, reading, cancelling and resolving intents.

A 2xx to a submit means durably accepted, whatever happens to this process afterwards. The same key with the same
payload gets the stored record; a wait that meets trouble answers what was accepted, never an error.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from txmanager.api import bodies
from txmanager.api.auth import Caller
from txmanager.api.call import Audit, Call, Header, Reply
from txmanager.api.dry_runs import Asked, DryRuns
from txmanager.api.metrics import ApiMetrics
from txmanager.api.problems import Forbidden, MissingKey
from txmanager.api.quotas import TokenQuotas
from txmanager.api.records import record_bytes
from txmanager.core.budgets import Bill
from txmanager.core.errors import (
    BudgetExhausted,
    InvalidInput,
    InvalidKey,
    NotFound,
    PolicyRefused,
    TxManagerError,
    Unavailable,
)
from txmanager.core.fingerprint import fingerprint
from txmanager.core.kinds import RESERVED_KEYS, Kind, Reading
from txmanager.core.models import Intent, IntentId, Json, Record, check_name, intent_id, new_intent
from txmanager.core.quotas import Share
from txmanager.core.spending import noted
from txmanager.runtime.accept.acceptor import Acceptor
from txmanager.runtime.accept.billing import Billed, Billing
from txmanager.runtime.accept.producer import Submitted
from txmanager.runtime.manager import TxManager
from txmanager.settings import ApiSettings

T = TypeVar("T")
_JSON: Header = (b"content-type", b"application/json")
_REPLAYED: Header = (b"idempotency-replayed", b"true")
_MAX_METADATA = 4096
_KEY = re.compile(rb"[\x21-\x7e]{1,255}\Z")
_YEAR_S = 366 * 24 * 3600


class Envelope(BaseModel):
    """What every submit may carry beside its payload."""

    model_config = ConfigDict(extra="forbid", strict=True)
    pool: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$",
        description="May be left out where the token or the configuration knows only one.",
    )
    partition_key: str | None = Field(
        default=None,
        pattern=r"^[\x21-\x7e]{1,255}$",
        description="Intents with the same one share a lane, and so keep their order.",
    )
    max_age_s: int | None = Field(
        default=None, ge=1, le=_YEAR_S, description="Fail instead of signing when it waited longer than this."
    )
    budget_key: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_.:@-]{1,128}$",
        description="Whose budget it is charged to beside the token's and the pool's: one of your users or apps.",
    )
    metadata: dict[str, Json] = Field(
        default_factory=dict, description=f"Yours; comes back in the record. At most {_MAX_METADATA} bytes of JSON."
    )


class IntentRequest(Envelope):
    """An intent of any kind."""

    kind: str = Field(examples=["near.transfer"])
    payload: dict[str, Json]


class ResolveRequest(BaseModel):
    """An operator's word on a held intent."""

    model_config = ConfigDict(extra="forbid", strict=True)
    verb: str = Field(pattern="^(track|kill|resign|fail)$", examples=["track"])


_ENVELOPE = tuple(Envelope.model_fields)


class Intents:
    def __init__(
        self,
        manager: TxManager,
        acceptor: Acceptor,
        kinds: Mapping[str, Kind],
        pools: frozenset[str],
        settings: ApiSettings,
        metrics: ApiMetrics,
        quotas: TokenQuotas,
        audit: Audit,
        billing: Billing,
        dry_runs: DryRuns,
    ) -> None:
        self._manager = manager
        self._acceptor = acceptor
        self._kinds = kinds
        self._pools = pools
        self._settings = settings
        self._metrics = metrics
        self._quotas = quotas
        self._audit = audit
        self._billing = billing
        self._dry_runs = dry_runs
        self.stopping = asyncio.Event()
        """Set when the server stops: whoever waits gets the record as it stands."""

    # -- submitting

    async def submit(self, call: Call) -> Reply:
        body = call.read(IntentRequest)
        return await self._submit(call, body["kind"], body["payload"], body)

    def submit_as(self, kind: str, renamed: Mapping[str, str]) -> TypedSubmit:
        """A typed route: the payload's fields stand in the body itself, next to the envelope's."""
        return TypedSubmit(self, kind, renamed)

    async def submit_to(
        self, call: Call, kind: str, payload: Mapping[str, Json], envelope: Mapping[str, Json], lane: str
    ) -> Reply:
        """To one lane of the pool and to no other."""
        return await self._submit(call, kind, payload, envelope, lane)

    async def _submit(
        self, call: Call, kind_name: str, payload: Mapping[str, Json], envelope: Mapping[str, Json], lane: str = ""
    ) -> Reply:
        wait_s = call.seconds("wait", self._settings.max_wait_s)
        taken = await self.take(call, kind_name, payload, envelope, partial(self.given_key, call), lane, wait_s)
        if isinstance(taken, Reply):
            return taken
        record = taken.record
        if taken.replayed:
            return Reply(200, record_bytes(record), [_JSON, _REPLAYED])
        return Reply(200 if wait_s and record.status.final else 202, record_bytes(record))

    async def take(
        self,
        call: Call,
        kind_name: str,
        payload: Mapping[str, Json],
        envelope: Mapping[str, Json],
        given_key: Callable[[], str | None],
        lane: str = "",
        wait_s: float = 0,
    ) -> Submitted | Reply:
        """Accept one intent, and wait for its end where asked to. A dry run has its own reply."""
        kind = self.kind(kind_name)
        read = partial(self.read, call, kind, payload, envelope, given_key)
        if call.flag("dry_run"):
            return await self._dry_runs.answer(call, read, self.known, lane)
        asked = read()
        intent, refusal = asked.intent, asked.refusal
        if refusal is None:
            if asked.own_account:
                await self._audit.note(call, call.scope["path"], "operate")
            share = await self.share(call, intent.id)
            if asked.own_key is not None:
                await self.within(self._manager.alias(asked.own_key, intent.fingerprint, intent.id))
            submitted = await self._accept(intent, lane, share, asked.bill)
        else:
            known = await self.known(asked)
            if known is None:
                if asked.own_account:
                    await self._audit.note(call, call.scope["path"], "operate", refusal.code)
                raise refusal
            submitted = known
        self._metrics.submitted(kind_name, replayed=submitted.replayed)
        if wait_s and not submitted.record.status.final:
            return replace(submitted, record=await self._wait(call, submitted.record, wait_s))
        return submitted

    def kind(self, name: str) -> Kind:
        kind = self._kinds.get(name)
        if kind is None:
            raise InvalidInput("kind", f"{name[:100]!r} is not one of {', '.join(self._kinds)}")
        return kind

    async def share(self, call: Call, id: IntentId, size: int | None = None) -> Share | None:
        """Whose room the intent takes; a known key is answered whatever its caller has waiting."""

        async def known() -> bool:
            return await self._manager.read(id) is not None

        return await self._quotas.admit(call.caller, len(call.body) if size is None else size, known)

    async def _accept(self, intent: Intent, lane: str, share: Share | None, bill: Bill | None) -> Submitted:
        try:
            if not lane:
                return await self._acceptor.submit(intent, share, bill)
            submit = self._manager.submit_many([intent], lane=lane, shares=[share], bills=[bill])
            [result] = await self.within(submit)
        except BudgetExhausted as exhausted:
            raise self._billing.in_words(exhausted) from None
        if isinstance(result, BudgetExhausted):
            raise self._billing.in_words(result)
        if isinstance(result, TxManagerError):
            raise result
        return result

    async def known(self, asked: Asked) -> Submitted | None:
        """What was accepted before stays accepted, whatever the rules are now."""
        intent = asked.intent if asked.own_key is None else replace(asked.intent, id=asked.own_key)
        return await self.within(self._manager.replay(intent))

    def read(
        self,
        call: Call,
        kind: Kind,
        payload: Mapping[str, Json],
        envelope: Mapping[str, Json],
        given_key: Callable[[], str | None],
    ) -> Asked:
        caller = call.caller
        pool = self.pool_of(caller, envelope.get("pool"))
        tenant = caller.submits_for(call.query.get("tenant"))
        metadata = envelope.get("metadata") or {}
        if metadata and len(str(metadata)) > _MAX_METADATA:
            raise InvalidInput("metadata", f"must not exceed {_MAX_METADATA} bytes")
        try:
            reading = kind.read(pool, payload)
        except InvalidInput:
            caller.check_kind(kind.name)
            raise
        given = given_key()
        refusal = _refusal(caller, kind, reading, given)
        key = given or reading.derived_key
        if key is None:
            raise refusal or MissingKey(
                f"{kind.name} needs a key: nothing in it says which request is a retry of which"
            )
        billed, most = None, (caller.limits.max_cost, reading.max_cost)
        if refusal is None:
            try:
                billed = self._billing.bill(caller.name, tenant, pool, envelope.get("budget_key"), reading.worst, *most)
            except (PolicyRefused, BudgetExhausted) as error:
                refusal = error
        if billed is None:
            billed = Billed(noted(*most))
        exclusive = reading.identity is not None and reading.derived_key is not None
        intent = new_intent(
            key=reading.derived_key if exclusive and reading.derived_key else key,
            pool=pool,
            kind=kind.name,
            payload=reading.payload,
            tenant=tenant,
            partition_key=reading.partition_key or envelope.get("partition_key"),
            max_age_s=envelope.get("max_age_s"),
            metadata=metadata,
            limits=billed.limits,
            token=caller.name,
            trace=call.trace,
        )
        if not exclusive:
            return Asked(intent, None, bool(reading.own_account), refusal, billed.bill)
        intent = replace(intent, fingerprint=fingerprint(kind.name, reading.identity))
        own = intent_id(key, pool, tenant)
        own_key = own if own != intent.id else None
        return Asked(intent, own_key, bool(reading.own_account), refusal, billed.bill)

    @staticmethod
    def given_key(call: Call) -> str | None:
        given = call.headers.get(b"idempotency-key")
        if given is None:
            return None
        if [name for name, _ in call.scope["headers"]].count(b"idempotency-key") > 1:
            raise InvalidKey("Idempotency-Key", "is there more than once; send one")
        if not _KEY.match(given):
            raise InvalidKey("Idempotency-Key", "must be 1 to 255 visible ASCII characters without spaces (a UUID)")
        return given.decode()

    # -- pools

    def pool_of(self, caller: Caller, named: str | None) -> str:
        if named is None:
            usable = sorted(p for p in self._pools if caller.may_use_pool(p))
            if len(usable) != 1:
                raise InvalidInput("pool", f"is required; there are {', '.join(usable) or 'none for this token'}")
            return usable[0]
        check_name("pool", named)
        caller.check_pool(named)
        if self._pools and named not in self._pools:
            usable = sorted(p for p in self._pools if caller.may_use_pool(p))
            raise InvalidInput("pool", f"there is no pool {named!r}; there are {', '.join(usable)}")
        return named

    # -- reading

    async def get(self, call: Call) -> Reply:
        wait_s = call.seconds("wait", self._settings.max_wait_s)
        record = await self.find(call)
        if wait_s and not record.status.final:
            record = await self._wait(call, record, wait_s)
        return Reply(200, record_bytes(record))

    async def find(self, call: Call) -> Record:
        """By key, in the named pool or in the only one of the caller's pools that knows it."""
        key, caller, named = call.path("key"), call.caller, call.query.get("pool")
        if named is not None or not self._pools:
            pool = self.pool_of(caller, named)
            return await self.within(self._manager.get(pool, key, call.tenant))
        tenant = call.tenant
        ids = [intent_id(key, pool, tenant) for pool in sorted(self._pools) if caller.may_use_pool(pool)]
        if not ids:
            raise Forbidden(f"token {caller.name!r} may use none of the pools", field="pool")
        found = [r for r in await self.within(asyncio.gather(*map(self._manager.read, ids))) if r is not None]
        if not found:
            raise NotFound(f"no intent {key!r}; it was never accepted, or its retention time has passed")
        if len(found) > 1:
            pools = ", ".join(r.id.pool for r in found)
            raise InvalidInput("pool", f"several pools know this key ({pools}); add ?pool=")
        return found[0]

    async def _wait(self, call: Call, record: Record, wait_s: float) -> Record:
        """Until it is final, the time is over, the client is gone or we stop. Trouble leaves the last known record."""
        id = record.id
        waiting = asyncio.ensure_future(self._manager.wait(id.pool, id.key, wait_s, id.tenant))
        leaving = asyncio.ensure_future(call.disconnected())
        stopping = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({waiting, leaving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else record
        except TxManagerError:
            return record
        finally:
            for task in (waiting, leaving, stopping):
                task.cancel()

    # -- cancelling and resolving

    async def cancel(self, call: Call) -> Reply:
        record = await self.find(call)
        return Reply(200, record_bytes(await self.within(self._manager.cancel(record.id))))

    async def resolve(self, call: Call) -> Reply:
        body = call.read(ResolveRequest)
        record = await self.find(call)
        resolved = await self.within(self._manager.resolve(record.id, body["verb"], call.caller.shown))
        return Reply(200, record_bytes(resolved))

    async def within(self, work: Awaitable[T], calls: int = 1) -> T:
        """The ledger answers in time, or is away. `calls`: how many such answers the work stands for."""
        patience_s = self._settings.ledger_timeout_s * calls
        try:
            async with asyncio.timeout(patience_s):
                return await work
        except TimeoutError:
            raise Unavailable(f"the ledger did not answer within {patience_s:g} s") from None


def _refusal(caller: Caller, kind: Kind, reading: Reading, given: str | None) -> TxManagerError | None:
    """What the token's limits, the reserved keys or the pool's policy say against a new intent."""
    try:
        caller.check_kind(kind.name)
        caller.check_reading(reading)
    except Forbidden as refusal:
        return refusal
    if given is not None and given != reading.derived_key and given.startswith(RESERVED_KEYS):
        return InvalidKey("Idempotency-Key", f"must not begin with {', '.join(RESERVED_KEYS)}: those keys are derived")
    return reading.refusal


class TypedSubmit:
    def __init__(self, intents: Intents, kind: str, renamed: Mapping[str, str]) -> None:
        self._intents = intents
        self._kind = kind
        self._renamed = renamed

    async def __call__(self, call: Call) -> Reply:
        bodies.check_type(call.headers)
        payload = bodies.read_object(call.body)
        envelope = {name: payload.pop(name) for name in _ENVELOPE if name in payload}
        bodies.check_shape(Envelope, envelope)
        for theirs, ours in self._renamed.items():
            if theirs in payload and ours not in payload:
                payload[ours] = payload.pop(theirs)
        try:
            return await self._intents._submit(call, self._kind, payload, envelope)
        except InvalidInput as error:
            names = {ours: theirs for theirs, ours in self._renamed.items()}
            if error.field in names and not isinstance(error, InvalidKey):
                raise InvalidInput(names[error.field], error.problem) from None
            raise
