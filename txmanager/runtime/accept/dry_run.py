"""What acceptance would say, and what it cannot know: asked of the ledger and the chain, without writing a word.

The answer holds for the moment it is given: another caller may take the last of a budget before the real call comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from txmanager.core.budgets import Bill, Charged, refusal
from txmanager.core.chain import Chain, Impossible, Prepared, Unpriced
from txmanager.core.errors import KeyReused, NoLane, QueueFull, TxManagerError
from txmanager.core.ledger import Ledger
from txmanager.core.models import Intent, IntentId, Json, Record
from txmanager.core.states import LaneState
from txmanager.runtime.accept.producer import Producer

_WITHIN_S = 5.0

OpenChain = Callable[[str, str], Chain]
"""The chain of a lane of a pool, without its key."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    lane: str = ""
    """Where a new intent would go."""
    known: Record | None = None
    """What the key stands for already."""


class DryRun:
    def __init__(self, ledger: Ledger, producer: Producer, open_chain: OpenChain | None = None) -> None:
        self._ledger = ledger
        self._producer = producer
        self._open_chain = open_chain
        self._chains: dict[str, Chain] = {}

    async def known(self, intent: Intent, own_key: IntentId | None) -> Foreseen | None:
        """What the key stands for already. Raises what acceptance would raise."""
        for id in (own_key, intent.id):
            found = await self._ledger.read(id) if id is not None else None
            if found is None:
                continue
            if found.id != intent.id or found.intent.fingerprint != intent.fingerprint:
                raise KeyReused(id.key if id is not None else intent.id.key)
            return Foreseen(found.lane, found)
        return None

    async def foresee(self, intent: Intent, bill: Bill | None, lane: str = "") -> Foreseen:
        """Where an intent with a new key would go. Raises what acceptance would raise."""
        chosen = await self._producer.lane_for(intent, lane)
        view = await self._ledger.lane(chosen) if chosen is not None else None
        if chosen is None or view is None or view.state is LaneState.CLOSED:
            raise NoLane(intent.id.pool)
        await self._check(bill)
        if view.depth >= view.spec.queue_limit:
            raise QueueFull(chosen, view.depth)
        return Foreseen(chosen)

    async def _check(self, bill: Bill | None) -> None:
        if bill is None:
            return
        usages = await self._ledger.usage([budget.name for budget in bill.budgets])
        for budget, usage in zip(bill.budgets, usages, strict=True):
            if usage.moved:
                raise refusal(Charged("moved", budget=budget, usage=usage), bill.units)
            if usage.open + usage.costs(budget) + bill.units > usage.limit(budget):
                raise refusal(Charged("exhausted", budget=budget, usage=usage), bill.units)

    async def forecast(self, intent: Intent, lane: str) -> dict[str, Json]:
        """What a worker would find before it signs: simulated, priced, and held against the lane's key. A chain that
        does not answer in time says nothing, and is no reason to refuse."""
        if self._open_chain is None:
            return {"known": False, "why": "this process asks no chain"}
        try:
            async with asyncio.timeout(_WITHIN_S):
                if lane not in self._chains:
                    self._chains[lane] = self._open_chain(lane, intent.id.pool)
                [found] = await self._chains[lane].prepare(lane, [intent])
        except TimeoutError:
            return {"known": False, "why": f"the chain did not answer within {_WITHIN_S:g} s"}
        except TxManagerError as error:
            return {"known": False, "why": str(error)}
        match found:
            case Impossible():
                return {"known": True, "possible": False, "error": found.error}
            case Prepared() if found.cost is not None:
                most = found.cost.fee + found.cost.deposit
                return {
                    "known": True,
                    "possible": True,
                    "cost": {"deposit": str(found.cost.deposit), "most": str(most)},
                }
            case Unpriced():
                poor = {"code": "insufficient_funds", "message": found.message}
                return {"known": True, "possible": False, "error": poor}
            case _:
                return {"known": True, "possible": True}

    async def close(self) -> None:
        for chain in self._chains.values():
            await chain.close()
