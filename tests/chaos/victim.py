"""A worker process that kills itself: `python -m tests.chaos.victim '{...}'`.

It is wired like the real program, with one thing more: at the n-th pass of a named point it sends itself SIGKILL, so
that nothing of Python, no `finally` and no buffer, gets a last word.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.chaos import detours
from tests.chaos.scribe import DurableScribe, Journal, ScribeLedger
from tests.runtime.stage import lane_of, make_chain
from txmanager.chains.near import NearChain
from txmanager.core.chain import SendReply
from txmanager.core.decide import Policy
from txmanager.core.ledger import WriteAhead
from txmanager.core.models import Attempt, Fence, LaneSpec
from txmanager.ledger.durable import DurableObjectLedger
from txmanager.ledger.redis import RedisLedger
from txmanager.programs.process import configure_logs, on_stop
from txmanager.runtime.lane.worker import Service, Timing, Worker
from txmanager.signing.remote import RemoteKey
from txmanager.signing.signer import Signer
from txmanager.signing.sources import Curve

POINTS = (
    "after_take",
    "after_sign",
    "after_write_ahead",
    "between_broadcasts",
    "after_broadcast",
    "before_settle",
    "after_settle",
)


class Trigger:
    """Counts passes of one point and pulls at the n-th."""

    def __init__(self, point: str | None, nth: int) -> None:
        self.point, self.left = point, nth

    def __call__(self, name: str) -> None:
        if name == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


TRIGGER = Trigger(None, 0)


class Halting(NearChain):
    """Sends a batch in two halves, with a point in the middle; what leaves is on paper first."""

    journal: Journal | None = None

    async def broadcast(self, lane: str, attempts: Sequence[Attempt]) -> list[SendReply]:
        if self.journal is not None:
            self.journal.sent(lane, attempts)
        if TRIGGER.point != "between_broadcasts" or len(attempts) < 2:
            return await super().broadcast(lane, attempts)
        half = len(attempts) // 2
        first = await super().broadcast(lane, attempts[:half])
        TRIGGER("between_broadcasts")
        if len(first) < half or not first[-1].verdict.sent:
            return first
        return first + await super().broadcast(lane, attempts[half:])


class HastyLedger(ScribeLedger):
    """A seeded bug: sends first and writes ahead afterwards. Whoever judges a scene has to notice."""

    chain: Halting

    async def record_attempts(self, fence: Fence, cursor: int, batch: Sequence[WriteAhead]) -> int:
        await self.chain.broadcast(fence.lane, [write.attempt for write in batch])
        return await super().record_attempts(fence, cursor, batch)


def open_ledger(told: dict[str, Any], chain: Halting) -> RedisLedger | DurableObjectLedger:
    if told["redis"].startswith("do+"):
        durable = DurableScribe(told["redis"], prefix=told["prefix"])
        durable.journal = chain.journal = Journal(told["journal"])
        return durable
    more = {"prefix": told["prefix"], "durability": told.get("durability", "fsync")}
    if "journal" not in told:
        return RedisLedger(told["redis"], **more)
    ledger: ScribeLedger
    if told.get("bug") == "hasty":
        ledger = HastyLedger(told["redis"], **more)
        ledger.chain = chain
    else:
        ledger = ScribeLedger(told["redis"], **more)
    ledger.journal = chain.journal = Journal(told["journal"])
    return ledger


def _halting(
    accounts: Sequence[dict[str, Any]], network: str, endpoints: Any, signers: dict[str, Signer], **more: Any
) -> Halting:
    """Keys that are elsewhere are asked there."""
    for account in accounts:
        if "signer" in account:
            from tests.signing.boxes import NEAR, key_of, provider_of

            where, name = account["signer"], key_of(account["signer"], NEAR)
            signers[lane_of(account)] = RemoteKey(provider_of(where), name, Curve.ED25519, account["public_key"])
    return Halting(network, endpoints, signers, **more)


async def serve(told: dict[str, Any]) -> None:
    TRIGGER.point, TRIGGER.left = told.get("point"), told.get("nth", 1)
    chain = make_chain(told["devnet"], told["accounts"], kind=partial(_halting, told["accounts"]))  # type: ignore[arg-type]
    assert isinstance(chain, Halting)
    policy = Policy(window=told.get("window", 8), include_within_ms=500)
    services = {lane_of(a): Service(LaneSpec(lane_of(a), told["pool"]), chain, policy) for a in told["accounts"]}
    ledger = open_ledger(told, chain)
    lease_ms = told.get("lease_ms", 1000)
    timing = Timing(lease_ms=lease_ms, margin_ms=lease_ms // 5, poll_s=0.05, grace_s=5.0)
    worker = Worker(ledger, services, name=told["name"], timing=timing, point=TRIGGER)
    on_stop(worker.stop)
    try:
        await worker.run()
    finally:
        await chain.close()
        await ledger.close()
    verdicts = {
        sample.labels["verdict"]: sample.value
        for family in worker.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "txmanager_sends_total"
    }
    print(json.dumps({"event": "ended", "sends": verdicts}), file=sys.stderr, flush=True)


if __name__ == "__main__":
    configure_logs("info")
    asked = json.loads(sys.argv[1])
    detours.run(serve(asked), asked.get("detours", {}))
    sys.exit(0)
