"""A typed client of the HTTP API, blocking and async, whose retries are safe by construction.

with Client("http://127.0.0.1:8080", token=token) as client:
    record = client.create_account("alice.relayer.near", public_key, wait_s=30)
"""

from txmanager.client.aio import AsyncClient
from txmanager.client.blocking import Client
from txmanager.client.errors import (
    BadAnswer,
    ClientError,
    IntentFailed,
    InvalidRequest,
    KeyReused,
    NonceConflict,
    NotFound,
    NotPermitted,
    NotPossible,
    Overloaded,
    Refused,
    StillWaiting,
    Unreachable,
)
from txmanager.client.models import Attempt, BatchResult, Event, Execution, Lane, Record
from txmanager.client.nonce_calls import Fees, NonceHealth, Number, Tracking
from txmanager.client.webhooks import verify_webhook

__all__ = [
    "AsyncClient",
    "Attempt",
    "BadAnswer",
    "BatchResult",
    "Client",
    "ClientError",
    "Event",
    "Execution",
    "Fees",
    "IntentFailed",
    "InvalidRequest",
    "KeyReused",
    "Lane",
    "NonceConflict",
    "NonceHealth",
    "NotFound",
    "NotPermitted",
    "NotPossible",
    "Number",
    "Overloaded",
    "Record",
    "Refused",
    "StillWaiting",
    "Tracking",
    "Unreachable",
    "verify_webhook",
]
