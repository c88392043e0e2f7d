"""The nonce service's calls: numbers for those who sign themselves.

Every token is chosen before the first try, so a repeated call gets the same number, turn or transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txmanager.client.answers import read_json
from txmanager.client.batches import BatchCalls
from txmanager.client.effects import Call
from txmanager.client.errors import BadAnswer
from txmanager.client.http import Reply


@dataclass(frozen=True, slots=True)
class Number:
    """A reserved number; `reservation` is what sends with it or gives it back."""

    address: str
    network_id: str
    nonce: int
    reservation: str
    expires_at: datetime | None
    fence: int = 0
    """Of a turn: grows with each grant."""


@dataclass(frozen=True, slots=True)
class Tracking:
    """A transaction that was accepted. Its record is `get(idempotency_key)`."""

    tx_hash: str
    sender: str
    network_id: str
    nonce: int
    gas_price: int
    submitted_at: datetime
    status: str
    last_checked_at: datetime | None
    idempotency_key: str = ""
    record_status: str = ""


@dataclass(frozen=True, slots=True)
class Fees:
    """Wei per unit of gas."""

    gas_price: int
    base_fee: int
    max_fee: int
    tip: int


@dataclass(frozen=True, slots=True)
class NonceHealth:
    address: str
    network_id: str
    tracked_nonce: int | None
    chain_nonce: int | None
    pending: tuple[Tracking, ...]
    oldest_pending_age: str
    gaps: tuple[int, ...]
    reserved: int
    keyless: bool
    state: str


class NonceCalls(BatchCalls):
    def reserve_nonce(
        self, address: str, network_id: str | int, *, reservation: str | None = None, ttl_s: int | None = None
    ) -> Call[Number]:
        """The next number of an address whose key is yours. `reserve` gives it back by itself."""
        fields = {"reservation": reservation or secrets.token_urlsafe(24), **_ttl(ttl_s)}
        reply = yield from self._evm("address/nonce", address, network_id, fields)
        return _number(reply, "reservation")

    def recycle_nonce(self, address: str, network_id: str | int, reservation: str) -> Call[int]:
        """Give back what was not sent; answers the number. `NotPossible` when it is not yours any more."""
        reply = yield from self._evm("address/nonce/recycle", address, network_id, {"reservation": reservation})
        return int(read_json(reply)["nonce"])

    def lock_nonce(
        self,
        address: str,
        network_id: str | int,
        *,
        lock_id: str | None = None,
        ttl_s: int | None = None,
        wait_s: float = 10.0,
    ) -> Call[Number]:
        """Wait in line for a turn with the address; asked again from the same place until `retry_for_s` is over."""
        fields = {"lockId": lock_id or secrets.token_urlsafe(24), "waitSeconds": wait_s, **_ttl(ttl_s)}
        reply = yield from self._evm("address/nonce/lock", address, network_id, fields, wait_s=wait_s)
        return _number(reply, "lockId")

    def unlock_nonce(self, address: str, network_id: str | int, lock_id: str) -> Call[bool]:
        """End a turn; answers whether its number went back unsent."""
        reply = yield from self._evm("address/nonce/unlock", address, network_id, {"lockId": lock_id})
        return bool(read_json(reply)["recycled"])

    def send_raw(
        self,
        signed: str | bytes,
        network_id: str | int,
        reservation: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> Call[Tracking]:
        """Send signed bytes at a reserved number. The same bytes again are answered, not sent twice."""
        text = signed if isinstance(signed, str) else "0x" + bytes(signed).hex()
        body: dict[str, Any] = {"signedTransaction": text, "networkId": network_id}
        if reservation is not None:
            body["reservation"] = reservation
        if metadata:
            body["metadata"] = metadata
        reply = yield from self._exchange("POST", "/evm/transaction/sendRaw", body=body)
        return _tracking(read_json(reply))

    def current_fee(self, network_id: str | int) -> Call[Fees]:
        reply = yield from self._exchange("POST", "/evm/getCurrentFee", body={"networkId": network_id})
        names = ("gasPrice", "baseFeePerGas", "maxFeePerGas", "maxPriorityFeePerGas")
        return Fees(*(int(read_json(reply)[name]) for name in names))

    def nonce_health(self, address: str, network_id: str | int) -> Call[NonceHealth]:
        query = {"address": address, "networkId": network_id}
        reply = yield from self._exchange("GET", "/evm/nonce/health", query=query)
        answer = read_json(reply)
        return NonceHealth(
            address=answer["address"],
            network_id=answer["networkId"],
            tracked_nonce=answer["trackedNonce"],
            chain_nonce=answer["chainNonce"],
            pending=tuple(_tracking(one) for one in answer["pending"]),
            oldest_pending_age=answer["oldestPendingAge"],
            gaps=tuple(answer["gaps"]),
            reserved=answer["reservedCount"],
            keyless=answer["keyless"],
            state=answer["state"],
        )

    def _evm(
        self, path: str, address: str, network_id: str | int, more: Mapping[str, Any], wait_s: float = 0.0
    ) -> Call[Reply]:
        body = {"address": address, "networkId": network_id, **more}
        return self._exchange("POST", f"/evm/{path}", body=body, wait_s=wait_s)


def _ttl(seconds: int | None) -> dict[str, int]:
    return {} if seconds is None else {"ttlSeconds": seconds}


def _when(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _number(reply: Reply, token: str) -> Number:
    answer = read_json(reply)
    try:
        until = _when(answer["expiresAt"])
        return Number(
            answer["address"], answer["networkId"], answer["nonce"], answer[token], until, answer.get("fence", 0)
        )
    except (TypeError, KeyError, ValueError) as error:
        raise BadAnswer(f"what came back is no number: {error}") from None


def _tracking(fields: Any) -> Tracking:
    try:
        return Tracking(
            tx_hash=fields["txHash"],
            sender=fields["from"],
            network_id=fields["networkId"],
            nonce=fields["nonce"],
            gas_price=int(fields["gasPrice"]),
            submitted_at=datetime.fromisoformat(fields["submittedAt"]),
            status=fields["status"],
            last_checked_at=_when(fields["lastCheckedAt"]),
            idempotency_key=fields.get("idempotencyKey", ""),
            record_status=fields.get("recordStatus", ""),
        )
    except (TypeError, KeyError, ValueError) as error:
        raise BadAnswer(f"what came back is no transaction: {error}") from None
