"""The nonce service over HTTP, for callers who sign themselves (docs/nonce-service.md).

Every number, turn and transaction belongs to a token; whoever lacks it is body that it is over, not whose it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txmanager.api.auth import Caller
from txmanager.api.call import Call, Reply, json_reply
from txmanager.api.intents import Intents
from txmanager.api.metrics import ApiMetrics
from txmanager.api.nonce_shapes import (
    FeeRequest,
    LockRequest,
    RecycleRequest,
    ReserveRequest,
    SendRawRequest,
    SendRequest,
    UnlockRequest,
)
from txmanager.api.problems import Forbidden
from txmanager.core.errors import InvalidInput, NotFound, TxManagerError, Unavailable
from txmanager.core.given import RAW_KEY, Given
from txmanager.core.kinds import CREATE, Reading
from txmanager.core.models import Json, Record, intent_id
from txmanager.core.reservations import Cap
from txmanager.runtime.accept.addresses import TrackingRecord, tracking_record
from txmanager.runtime.accept.nonces import Nonces, Place
from txmanager.runtime.deliver.events import instant
from txmanager.runtime.manager import TxManager

_MAX_METADATA = 4096
_NO_RESERVATION = "is required: reserving a number gives one (POST .../address/nonce)"


class NonceRoutes:
    def __init__(
        self, manager: TxManager, nonces: Nonces, intents: Intents, metrics: ApiMetrics, max_wait_s: float
    ) -> None:
        self._manager = manager
        self._nonces = nonces
        self._intents = intents
        self._metrics = metrics
        self._max_wait_s = max_wait_s
        self._addresses = manager.addresses(nonces)

    # -- numbers

    async def reserve(self, call: Call) -> Reply:
        body = call.read(ReserveRequest)
        place = self._place(call, body)
        token, got = await self._nonces.reserve(place, body.get("reservation"), _ttl(body))
        return json_reply(
            {
                **_where(place),
                "nonce": got.nonce,
                "reservation": token,
                "expiresAt": instant(got.until) if got.until else None,
            }
        )

    async def recycle(self, call: Call) -> Reply:
        body = call.read(RecycleRequest)
        answer = await self._nonces.recycle(self._place(call, body), body["reservation"])
        return json_reply({"nonce": answer.nonce, "recycled": True, "gap": answer.gap})

    async def lock(self, call: Call) -> Reply:
        body = call.read(LockRequest)
        place, wait_s = self._place(call, body), float(body.get("waitSeconds", 10.0))
        locking = asyncio.ensure_future(
            self._nonces.lock(place, body.get("lockId"), _ttl(body), min(wait_s, self._max_wait_s))
        )
        leaving = asyncio.ensure_future(call.disconnected())
        stopping = asyncio.ensure_future(self._intents.stopping.wait())
        try:
            await asyncio.wait({locking, leaving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not locking.done():
                raise Unavailable("the server stops, or nobody waits any more; ask again with the same lockId")
            token, turn = locking.result()
        finally:
            for task in (locking, leaving, stopping):
                task.cancel()
        until = instant(turn.until) if turn.until else None
        return json_reply(
            {**_where(place), "nonce": turn.nonce, "lockId": token, "fence": turn.fence, "expiresAt": until}
        )

    async def unlock(self, call: Call) -> Reply:
        body = call.read(UnlockRequest)
        answer = await self._nonces.unlock(self._place(call, body), body["lockId"])
        recycled = answer.word == "recycled" and answer.nonce is not None
        return json_reply({"unlocked": True, "recycled": recycled, "nonce": answer.nonce})

    # -- transactions

    async def send_raw(self, call: Call) -> Reply:
        if call.flag("dry_run"):
            raise InvalidInput("dry_run", "is not possible for bytes that you signed; send them, or ask a node")
        body = call.read(SendRawRequest)
        caller, metadata = call.caller, body.get("metadata") or {}
        if len(str(metadata)) > _MAX_METADATA:
            raise InvalidInput("metadata", f"must not exceed {_MAX_METADATA} bytes")
        place, given = self._nonces.read(body["networkId"], body["signedTransaction"], body.get("address"))
        caller.check_pool(place.pool.name)
        token = body.get("reservation") or body.get("lockId")
        refusal = self._refusal(caller, place, given)
        if refusal is not None or token is None:
            refusal = refusal or InvalidInput("reservation", _NO_RESERVATION)
            return self._sent(place, await self._known(place, given, call.tenant, refusal), replayed=True)
        tenant = caller.submits_for(call.query.get("tenant"))
        share = await self._intents.share(call, intent_id(f"{RAW_KEY}{given.hash}", place.pool.name, tenant))
        submitted = await self._nonces.send(place, given, token, tenant, metadata, share)
        self._metrics.submitted(submitted.record.intent.kind, replayed=submitted.replayed)
        return self._sent(place, submitted.record, replayed=submitted.replayed)

    @staticmethod
    def _refusal(caller: Caller, place: Place, given: Given) -> TxManagerError | None:
        try:
            caller.check_kind(place.desk.chain.raw_kind)
            caller.check_reading(Reading({}, frozenset({given.to or CREATE}), given.value))
        except Forbidden as refusal:
            return refusal
        return Nonces.refusal(place, given)

    async def _known(self, place: Place, given: Given, tenant: str, refusal: TxManagerError) -> Record:
        """Bytes that were accepted before need no reservation to be asked about, whatever the rules are now."""
        id = intent_id(f"{RAW_KEY}{given.hash}", place.pool.name, tenant)
        record = await self._nonces.within(self._manager.read(id))
        if record is None or record.intent.kind != place.desk.chain.raw_kind:
            raise refusal
        return record

    @staticmethod
    def _sent(place: Place, record: Record, *, replayed: bool) -> Reply:
        shown = _tracking(tracking_record(record, place.desk))
        shown |= {"idempotencyKey": record.id.key, "recordStatus": record.status.value}
        reply = json_reply(shown, 200 if replayed else 202)
        if replayed:
            reply.headers.append((b"idempotency-replayed", b"true"))
        return reply

    async def send(self, call: Call) -> Reply:
        """Relayer-signed: an ordinary intent, to the lane of `from` when it is given."""
        body = call.read(SendRequest)
        desk = self._nonces.desk(body["networkId"])
        names = {"to": "to", "value": "value", "data": "data", "gasLimit": "gas", "maxFeePerGas": "max_fee_per_gas"}
        payload = {ours: body[theirs] for theirs, ours in names.items() if body.get(theirs) is not None}
        envelope: dict[str, Json] = {name: body[name] for name in ("pool", "metadata") if body.get(name) is not None}
        lane = ""
        if body.get("from") is not None:
            address = desk.chain.address("from", body["from"])
            lane = desk.chain.lane(address)
            view = await self._nonces.within(self._manager.lane(lane))
            if view is None or view.keyless or not call.caller.may_use_pool(view.spec.pool):
                raise InvalidInput("from", f"no lane signs for {address} on {desk.network}; see GET /v1/lanes")
            if envelope.setdefault("pool", view.spec.pool) != view.spec.pool:
                raise InvalidInput("pool", f"{address} is a lane of another pool")
        else:
            pools = sorted(pool for pool in desk.signing if call.caller.may_use_pool(pool))
            if "pool" not in envelope and len(pools) == 1:
                envelope["pool"] = pools[0]
            if envelope.get("pool") not in pools:
                raise InvalidInput("pool", f"must be one of this network's: {', '.join(pools) or 'there is none'}")
        return await self._intents.submit_to(call, desk.chain.signed_kind, payload, envelope, lane)

    # -- reading

    async def fees(self, call: Call) -> Reply:
        desk = self._nonces.desk(call.read(FeeRequest)["networkId"])
        quote = await desk.chain.quote()
        return json_reply(
            {
                "networkId": desk.network,
                "gasPrice": str(quote.gas_price),
                "baseFeePerGas": str(quote.base_fee),
                "maxFeePerGas": str(quote.max_fee),
                "maxPriorityFeePerGas": str(quote.tip),
            }
        )

    async def health(self, call: Call) -> Reply:
        for name in ("networkId", "address"):
            if name not in call.query:
                raise InvalidInput(name, "is required: ?networkId=...&address=0x...")
        network, address = call.query["networkId"], call.query["address"]
        desk = self._nonces.desk(network)
        lane = await self._nonces.within(self._manager.lane(desk.chain.lane(desk.chain.address("address", address))))
        # a lane of a pool this token may not see is as good as none
        if lane is not None and not call.caller.may_use_pool(lane.spec.pool):
            raise NotFound(f"{address} has no lane on {desk.network}")
        seen = await self._addresses.health(network, address, call.caller.sees)
        return json_reply(
            {
                "address": seen.address,
                "networkId": desk.network,
                "trackedNonce": seen.tracked_nonce,
                "chainNonce": seen.chain_nonce,
                "pendingCount": len(seen.pending),
                "oldestPendingAge": f"{seen.oldest_pending_ms // 1000}s",
                "gapCount": len(seen.gaps),
                "gaps": list(seen.gaps),
                "reservedCount": seen.reserved,
                "keyless": seen.keyless,
                "state": seen.lane_state,
                "pending": [_tracking(one) for one in seen.pending],
            }
        )

    # -- who

    def _place(self, call: Call, body: Mapping[str, Any]) -> Place:
        caller, limits = call.caller, call.caller.limits
        place = self._nonces.place(body["networkId"], body["address"])
        self._admit(caller, place)
        tenant = caller.submits_for(call.query.get("tenant"))
        return replace(place, tenant=tenant, cap=Cap(caller.name, limits.max_reservations), max_lanes=limits.max_lanes)

    @staticmethod
    def _admit(caller: Caller, place: Place) -> None:
        caller.check_kind(place.desk.chain.raw_kind)
        caller.check_pool(place.pool.name)


def _ttl(body: Mapping[str, Any]) -> int | None:
    seconds = body.get("ttlSeconds")
    return None if seconds is None else int(seconds) * 1000


def _where(place: Place) -> dict[str, Json]:
    return {"address": place.address, "networkId": place.desk.network}


def _tracking(one: TrackingRecord) -> dict[str, Json]:
    return {
        "txHash": one.hash,
        "from": one.sender,
        "networkId": one.network,
        "nonce": one.nonce,
        "gasPrice": str(one.gas_price),
        "submittedAt": instant(one.submitted_at),
        "status": one.status,
        "lastCheckedAt": instant(one.checked_at) if one.checked_at else None,
    }
