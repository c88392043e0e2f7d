"""The nonce service's requests and answers, in the words of those who call it (camelCase, unversioned)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

_ALICE = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
TOKEN = r"^[\x21-\x7e]{1,128}$"
MOST_SECONDS = 86_400

NetworkId = Annotated[
    str | int,
    Field(description="A configured network: its name, or its chain id.", examples=["ethereum", 1]),
]
Address = Annotated[str, Field(pattern="^0x[0-9a-fA-F]{40}$", examples=[_ALICE])]
Seconds = Annotated[int, Field(ge=1, le=MOST_SECONDS)]
Wei = Annotated[str | int, Field(description="Wei, as a decimal or 0x string.", examples=["1000000000000000"])]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ReserveRequest(Shape):
    """Reserve the next number of an address whose key is yours."""

    address: Address
    networkId: NetworkId
    reservation: str | None = Field(
        default=None,
        pattern=TOKEN,
        description="Your own random token: a retry with it gets the same number. Without one, one is made up.",
    )
    ttlSeconds: Seconds | None = Field(
        default=None, description="How long the number is kept for you unsent; by default the pool's reserve_for_s."
    )


class ReservedView(Shape):
    address: str
    networkId: str
    nonce: int
    reservation: str = Field(description="The owner's token: it sends with this number, or gives it back.")
    expiresAt: str | None = Field(json_schema_extra={"format": "date-time"}, description="null once it was sent.")


class RecycleRequest(Shape):
    """Give back a number that was not sent."""

    address: Address
    networkId: NetworkId
    reservation: str = Field(pattern=TOKEN)


class RecycledView(Shape):
    nonce: int
    recycled: bool
    gap: bool = Field(description="Higher numbers are out; this one is handed out first.")


class LockRequest(Shape):
    """Wait for your turn with an address; the number comes with it."""

    address: Address
    networkId: NetworkId
    lockId: str | None = Field(
        default=None, pattern=TOKEN, description="Your own random token: it keeps your place in line over retries."
    )
    ttlSeconds: Seconds | None = None
    waitSeconds: float = Field(default=10.0, ge=0, le=600, description="How long to wait in line before 429.")


class LockedView(Shape):
    address: str
    networkId: str
    nonce: int
    lockId: str
    fence: int = Field(description="Grows with each turn.")
    expiresAt: str | None = Field(json_schema_extra={"format": "date-time"})


class UnlockRequest(Shape):
    """End a turn, or leave the line. A number that was not sent goes back."""

    address: Address
    networkId: NetworkId
    lockId: str = Field(pattern=TOKEN)


class UnlockedView(Shape):
    unlocked: bool
    recycled: bool
    nonce: int | None


class SendRawRequest(Shape):
    """Send bytes that you signed, at a number that you reserved. The same bytes again are the same transaction."""

    signedTransaction: str = Field(pattern="^0x([0-9a-fA-F]{2})+$", description="The signed transaction, as hex.")
    networkId: NetworkId
    address: Address | None = Field(default=None, description="Checked against the signature, when it is given.")
    reservation: str | None = Field(default=None, pattern=TOKEN)
    lockId: str | None = Field(default=None, pattern=TOKEN)
    metadata: dict[str, Any] = Field(default_factory=dict, description="Yours; comes back in the record.")


class TrackingView(Shape):
    """One transaction that was given to us. Its record is GET /v1/intents/{idempotencyKey}."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    txHash: str
    from_: str = Field(alias="from")
    networkId: str
    nonce: int
    gasPrice: str
    submittedAt: str = Field(json_schema_extra={"format": "date-time"})
    status: str = Field(pattern="^(pending|confirmed|dropped)$")
    lastCheckedAt: str | None = Field(json_schema_extra={"format": "date-time"})


class SentView(TrackingView):
    idempotencyKey: str
    recordStatus: str = Field(description="The record's own status: queued, inflight, held, done, failed, cancelled.")


class SendRequest(Shape):
    """A transaction that a lane of ours signs: an intent. Needs an Idempotency-Key."""

    networkId: NetworkId
    from_: Address | None = Field(default=None, alias="from", description="The lane's address; any of the pool if not.")
    to: Address | None = None
    value: Wei = "0"
    data: str = Field(default="0x", pattern="^0x([0-9a-fA-F]{2})*$")
    gasLimit: Wei | None = None
    maxFeePerGas: Wei | None = None
    pool: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
    metadata: dict[str, Any] = Field(default_factory=dict)


class FeeRequest(Shape):
    """What transactions cost now."""

    networkId: NetworkId


class FeeView(Shape):
    """Decimal strings, wei per unit of gas."""

    networkId: str
    gasPrice: str
    baseFeePerGas: str
    maxFeePerGas: str
    maxPriorityFeePerGas: str


class HealthView(Shape):
    """How an address stands. `gapCount` above 0 means that nothing higher lands before the gap is filled."""

    address: str
    networkId: str
    trackedNonce: int | None
    chainNonce: int | None
    pendingCount: int
    oldestPendingAge: str = Field(examples=["45s"])
    gapCount: int
    gaps: list[int]
    reservedCount: int
    keyless: bool
    state: str
    pending: list[TrackingView]
