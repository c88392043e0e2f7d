"""Finding many hashes with few questions: one reading of the key tells which nonces can have landed at all.

A nonce above the key's own is not on that node's chain, so its hash is not asked for; a hash seen on the way is asked
for again only after new blocks. What is not seen in time is `unknown`, which proves nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Literal

from txmanager.chains.near.effects import deposit_at_risk
from txmanager.chains.near.judge import judge
from txmanager.chains.near.names import LaneId
from txmanager.chains.near.policy import SETTLED, STATUSES, KeyView
from txmanager.chains.near.transaction import actions_of
from txmanager.chains.near.views import OPTIMISTIC, view_lane
from txmanager.core.budgets import CHARGE
from txmanager.core.chain import UNSEEN, Sighting
from txmanager.core.kinds import UNLIMITED
from txmanager.core.models import Attempt, Intent, Purpose
from txmanager.rpc.batch import Call
from txmanager.rpc.errors import BadAnswer, RpcError, RpcFailure, TimedOut, read_answer
from txmanager.rpc.protocol import JsonRpc
from txmanager.rpc.reading import from_any

_REMEMBERED = 20_000
_STATUS = "EXPERIMENTAL_tx_status"


class Tracker:
    def __init__(self, rpc: JsonRpc, finality: str, patience_s: float) -> None:
        self._rpc = rpc
        self._settled = SETTLED[finality]
        self._patience_s = patience_s
        self._seen: OrderedDict[str, tuple[int, Sighting]] = OrderedDict()
        """Hash to the height from which it is worth asking again, and what was seen; never a final one."""
        self._ahead: dict[str, KeyView] = {}

    def read_ahead(self, lane_id: str, key: KeyView) -> None:
        """A reading of the lane's key that came with its sends: the next look needs none of its own."""
        self._ahead[lane_id] = key

    async def look_up(self, lane_id: str, lane: LaneId, attempts: Sequence[tuple[Intent, Attempt]]) -> list[Sighting]:
        group = f"{lane_id}/track"

        key = self._ahead.pop(lane_id, None)
        if key is None:
            key = await from_any(self._rpc, lambda ask: view_lane(ask, lane, OPTIMISTIC), group=group)
        height = 0 if key is None else key.height
        sightings: list[Sighting] = [UNSEEN] * len(attempts)
        asked: list[int] = []
        for position, (_, attempt) in enumerate(attempts):
            if key is not None and attempt.nonce > key.nonce:
                continue
            before = self._seen.get(attempt.hash)
            if before is not None and key is not None and height < before[0]:
                sightings[position] = before[1]
                continue
            asked.append(position)
        failures: list[RpcFailure] = []
        for position, answer in zip(asked, await self._tell(group, lane, [attempts[n][1] for n in asked]), strict=True):
            intent, attempt = attempts[position]

            def read(answer: Any, intent: Intent = intent, attempt: Attempt = attempt) -> Sighting:
                return self._read(intent, attempt, answer, height)

            try:
                sightings[position] = read_answer(read, answer)
            except BadAnswer as bad:
                seen = await self._ask_others(group, lane, attempt, read)
                sightings[position] = seen or UNSEEN
                failures += [bad] if seen is None else []
            except RpcFailure as failure:
                failures.append(failure)
        if failures and len(failures) == len(asked):
            raise failures[0]
        return sightings

    async def _tell(self, group: str, lane: LaneId, attempts: Sequence[Attempt]) -> list[Any]:
        """A node may think for long about a hash it does not know, so those that were asked for and not seen go apart:
        in one pipeline they would hold up all that follow."""
        calls = [(_STATUS, _question(lane.account_id, attempt.hash)) for attempt in attempts]
        missed = [n for n, attempt in enumerate(attempts) if self._missed(attempt)]
        if not missed:
            return await self._ask(calls, group)
        alone = set(missed)
        parts = [[n for n in range(len(calls)) if n not in alone], *([n] for n in missed)]
        answers: list[Any] = [None] * len(calls)
        by_part = await asyncio.gather(*(self._ask([calls[n] for n in part], group) for part in parts))
        for part, some in zip(parts, by_part, strict=True):
            for n, answer in zip(part, some, strict=True):
                answers[n] = answer
        return answers

    async def _ask_others(
        self, group: str, lane: LaneId, attempt: Attempt, read: Callable[[Any], Sighting]
    ) -> Sighting | None:
        """One answer that cannot be read is its node's fault: each node is asked alone."""
        for node in self._rpc.nodes if len(self._rpc.nodes) > 1 else ():
            try:
                question = _question(lane.account_id, attempt.hash)
                return read_answer(read, await node.call(_STATUS, question, group=group, timeout=self._patience_s))
            except RpcFailure:
                continue
        return None

    async def _ask(self, calls: Sequence[Call], group: str) -> list[Any]:
        return await self._rpc.call_each(calls, group=group, timeout=self._patience_s) if calls else []

    def _missed(self, attempt: Attempt) -> bool:
        before = self._seen.get(attempt.hash)
        return before is not None and before[1].where == "unknown"

    def _read(self, intent: Intent, attempt: Attempt, answer: Any, height: int) -> Sighting:
        if isinstance(answer, RpcFailure):
            if isinstance(answer, RpcError) and answer.cause in ("UNKNOWN_TRANSACTION", "TIMEOUT_ERROR"):
                return self._remember(attempt.hash, UNSEEN, height + 1)
            if isinstance(answer, TimedOut):  # it proves nothing, and is no reason to stop looking at the others
                return self._remember(attempt.hash, UNSEEN, height)
            raise answer
        status = answer.get("final_execution_status") if isinstance(answer, dict) else None
        if not isinstance(status, str) or status not in STATUSES:
            raise BadAnswer("a transaction's final_execution_status is not known here")
        if status in self._settled:
            self._seen.pop(attempt.hash, None)
            # A no-op's result is its own, never that of the intent it kills.
            kind = "near.transaction" if attempt.purpose is Purpose.NOOP else intent.kind
            deposit = _deposit(intent, attempt)
            outcome = judge(kind, intent.payload, answer, attempt.hash, attempt.nonce, deposit)
            return Sighting("final", outcome, height or None)
        # Nothing is final within two blocks of its inclusion, so the first sighting buys a pause of two.
        first = self._seen.get(attempt.hash, (0, UNSEEN))[1].where == "unknown"
        pause = 2 if first and "EXECUTED_OPTIMISTIC" not in self._settled else 1
        where: Literal["pending", "included"] = "pending" if status == "NONE" else "included"
        return self._remember(attempt.hash, Sighting(where, height=height or None), height + pause)

    def _remember(self, name: str, sighting: Sighting, again: int) -> Sighting:
        self._seen[name] = (again, sighting)
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return sighting


def _deposit(intent: Intent, attempt: Attempt) -> int | None:
    """What the bytes attach, as it was noted when they were signed; None where an account is deleted, whose balance
    nobody here knows. A budget is then charged for more than any limit."""
    noted = attempt.terms.get("deposit")
    if isinstance(noted, str) and noted.isascii() and noted.isdigit() and CHARGE not in intent.limits:
        return int(noted)
    deposit = deposit_at_risk(actions_of(attempt.raw))
    return None if deposit >= UNLIMITED and CHARGE not in intent.limits else deposit


def _question(account: str, name: str) -> dict[str, str]:
    return {"tx_hash": name, "sender_account_id": account, "wait_until": "NONE"}
