"""What a worker was answered, line by line, in a file that outlives any kill -9: the history of the real thing.

A line is written before a call leaves (`try`) and after its answer arrived (`did`), by a wrapper outside the code
under test, with the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from txmanager.core.ledger import Lease, Settled, Settlement, WriteAhead
from txmanager.core.models import Attempt, Fence, IntentId, Json, Record
from txmanager.ledger.durable import DurableObjectLedger
from txmanager.ledger.redis import RedisLedger


class Journal:
    def __init__(self, path: str | Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.known: set[str] = set()
        """Hashes that the ledger was seen to hold."""

    def note(self, what: str, lane: str, **more: Any) -> None:
        """One write, so that a line is there as a whole or not at all."""
        # Not orjson, which refuses integers above 64 bits: outcomes name their cost.
        line = json.dumps({"at": time.monotonic(), "what": what, "lane": lane, **more})
        os.write(self._file, line.encode() + b"\n")

    def sent(self, lane: str, attempts: Sequence[Attempt]) -> None:
        self.note("sent", lane, hashes=[[a.hash, a.hash in self.known] for a in attempts])


class Scribe:
    """A ledger of a worker whose every fenced step is on paper; the ledger itself stands behind it."""

    journal: Journal

    async def lease(self, lane: str, owner: str, token: str, lease_ms: int) -> Lease:
        answer = await super().lease(lane, owner, token, lease_ms)
        if answer.fence is not None:
            self.journal.note("leased", lane, epoch=answer.fence.epoch, token=token, owner=owner)
        return answer

    async def release(self, fence: Fence) -> bool:
        self.journal.note("released", fence.lane, token=fence.token)
        return await super().release(fence)

    async def unfinished(self, fence: Fence) -> list[Record]:
        records = await super().unfinished(fence)
        self.journal.known |= {attempt.hash for record in records for attempt in record.attempts}
        return records

    async def record_attempts(self, fence: Fence, cursor: int, batch: Sequence[WriteAhead]) -> int:
        lines = [
            {
                "id": str(w.id),
                "life": w.life,
                "position": w.position,
                "nonce": w.attempt.nonce,
                "hash": w.attempt.hash,
                "purpose": w.attempt.purpose.value,
                "deaths": list(w.deaths),
            }
            for w in batch
        ]
        began = time.monotonic()
        self.journal.note("try_record", fence.lane, batch=lines)
        moved = await super().record_attempts(fence, cursor, batch)
        self.journal.known |= {w.attempt.hash for w in batch}
        self._did("record", fence, began, hashes=[w.attempt.hash for w in batch], cursor=moved)
        return moved

    async def settle(self, fence: Fence, batch: Sequence[Settlement], landed: int | None = None) -> list[Settled]:
        lines = [
            {"id": str(s.id), "life": s.life, "outcome": asdict(s.outcome), "deaths": list(s.deaths)} for s in batch
        ]
        began = time.monotonic()
        self.journal.note("try_settle", fence.lane, batch=lines)
        answers = await super().settle(fence, batch, landed)
        ended = [line for line, answer in zip(lines, answers, strict=True) if answer.word == "settled"]
        self._did("settle", fence, began, batch=ended)
        return answers

    async def hold(self, fence: Fence, id: IntentId, life: str, reason: str, evidence: Mapping[str, Json]) -> bool:
        began = time.monotonic()
        held = await super().hold(fence, id, life, reason, evidence)
        self._did("hold", fence, began, id=str(id))
        return held

    def _did(self, what: str, fence: Fence, began: float, **more: Any) -> None:
        self.journal.note(f"did_{what}", fence.lane, began=began, epoch=fence.epoch, token=fence.token, **more)


class ScribeLedger(Scribe, RedisLedger):
    """On Redis."""


class DurableScribe(Scribe, DurableObjectLedger):
    """On Durable Objects."""
