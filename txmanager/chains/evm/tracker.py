"""Where hashes are, and which nonces are over: receipts and counts of one node, read together.

Included is a receipt; final is a receipt in or below the final block. A receipt that is not there proves nothing: the
old hash of a replaced transaction looks the same as one that a pool dropped. Death is proven by the count of the final
block alone, read before the receipts.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txmanager.chains.evm.fees import number
from txmanager.chains.evm.names import LaneId
from txmanager.chains.evm.network import Finality
from txmanager.chains.evm.nodes import Call, ask_many, expect
from txmanager.chains.evm.transaction import read_raw
from txmanager.core.chain import UNSEEN, Proof, Sighting
from txmanager.core.models import Attempt, Intent, Outcome, failure
from txmanager.core.states import Status
from txmanager.rpc.errors import BadAnswer, RpcError, RpcFailure, read_answer, shown
from txmanager.rpc.protocol import JsonRpc
from txmanager.rpc.reading import on_one

_REMEMBERED = 20_000
_LONGEST_HASH = len("0x") + 64


@dataclass(frozen=True, slots=True)
class Head:
    """The newest block a node has, and the height up to which blocks are final."""

    number: int
    hash: str
    final: int
    """-1 when no block is final yet."""


class Tracker:
    def __init__(self, rpc: JsonRpc, finality: Finality) -> None:
        self._rpc = rpc
        self._finality = finality
        self._seen: OrderedDict[str, tuple[str, int, Sighting]] = OrderedDict()
        """Hash to the head (hash, final height) it was asked for at, and what was seen; never a final one."""

    async def head_and_count(self, lane: LaneId, group: str) -> tuple[Head, int, int]:
        """(head, transaction count of the newest block, balance)."""
        calls = [*self._head_calls(), _count(lane, "latest"), ("eth_getBalance", [lane.address, "latest"])]

        async def ask(rpc: JsonRpc) -> tuple[Head, int, int]:
            answers = await ask_many(rpc, calls, group)
            balance = number(expect(answers[3]), "a balance")
            return self._head(answers), number(expect(answers[2]), "a count"), balance

        return await on_one(self._rpc, ask)

    async def look_up(self, lane_id: str, lane: LaneId, attempts: Sequence[tuple[Intent, Attempt]]) -> list[Sighting]:
        return await on_one(self._rpc, lambda rpc: self._look_up(rpc, f"{lane_id}/track", lane, attempts))

    async def _look_up(
        self, rpc: JsonRpc, group: str, lane: LaneId, attempts: Sequence[tuple[Intent, Attempt]]
    ) -> list[Sighting]:
        answers = await ask_many(rpc, [*self._head_calls(), _count(lane, "latest")], group)
        head, count = self._head(answers), number(expect(answers[2]), "a count")
        sightings: list[Sighting] = [UNSEEN] * len(attempts)
        asked: list[int] = []
        for position, (_, attempt) in enumerate(attempts):
            before = self._seen.get(attempt.hash)
            if attempt.nonce >= count:
                self._seen.pop(attempt.hash, None)
            elif before is not None and before[:2] == (head.hash, head.final):
                sightings[position] = before[2]
            else:
                asked.append(position)
        if asked:
            calls: list[Call] = [_receipt(attempts[position][1]) for position in asked]
            judged = self._judge_all([attempts[n][1] for n in asked], await ask_many(rpc, calls, group), head)
            for position, seen in zip(asked, judged, strict=True):
                sightings[position] = seen
        return sightings

    def _judge_all(self, attempts: Sequence[Attempt], answers: Sequence[Any], head: Head) -> list[Sighting]:
        """One answer that cannot be read says nothing about its own hash, and nothing about the others."""
        sightings: list[Sighting] = []
        unread: RpcFailure | None = None
        for attempt, answer in zip(attempts, answers, strict=True):
            try:
                sightings.append(read_answer(lambda receipt, a=attempt: self._judge(a, expect(receipt), head), answer))  # type: ignore[misc]
            except RpcFailure as failure:
                unread = failure
                sightings.append(UNSEEN)
        if unread is not None and all(sighting is UNSEEN for sighting in sightings):
            raise unread
        return sightings

    async def prove_dead(self, lane_id: str, lane: LaneId, attempts: Sequence[Attempt]) -> list[Proof | None]:
        """Dead is what has no receipt although its nonce is used in a final block. A rival of ours with a receipt is
        named; without one, `final_nonce` says that somebody used the nonce, and the caller knows whether it was us."""
        return await on_one(self._rpc, lambda rpc: self._prove(rpc, f"{lane_id}/track", lane, attempts))

    async def _prove(self, rpc: JsonRpc, group: str, lane: LaneId, attempts: Sequence[Attempt]) -> list[Proof | None]:
        head = self._head(await ask_many(rpc, self._head_calls(), group))
        if head.final < 0:
            return [None] * len(attempts)
        try:
            [answer] = await ask_many(rpc, [_count(lane, hex(head.final))], group)
            count = number(expect(answer), "a count")
        except RpcError:
            return [None] * len(attempts)  # the node has forgotten that state: no proof, no harm
        receipts = await ask_many(rpc, [_receipt(attempt) for attempt in attempts], group) if attempts else []
        landed = {a.nonce: a for a, receipt in zip(attempts, receipts, strict=True) if expect(receipt) is not None}
        proofs: list[Proof | None] = []
        for attempt, receipt in zip(attempts, receipts, strict=True):
            if attempt.nonce >= count or receipt is not None:
                proofs.append(None)
                continue
            evidence: dict[str, Any] = {"nonce": str(attempt.nonce), "final_height": str(head.final)}
            rival = landed.get(attempt.nonce)
            if rival is not None:
                evidence["landed"] = rival.hash
            else:
                evidence["final_nonce"] = str(attempt.nonce)
            proofs.append(Proof("overtaken", evidence))
        return proofs

    def _head_calls(self) -> list[Call]:
        tag = "latest" if isinstance(self._finality, int) else self._finality
        return [("eth_getBlockByNumber", ["latest", False]), ("eth_getBlockByNumber", [tag, False])]

    def _head(self, answers: Sequence[Any]) -> Head:
        newest = expect(answers[0])
        if not isinstance(newest, dict) or not isinstance(newest.get("hash"), str):
            raise BadAnswer("the newest block is not a block")
        height = number(newest.get("number"), "a block's number")
        if isinstance(self._finality, int):
            return Head(height, newest["hash"], height - self._finality + 1)
        try:
            final = expect(answers[1])
        except RpcError:
            final = None  # right after a chain's start nothing is final, and some nodes call that an error
        return Head(height, newest["hash"], number(final["number"], "a height") if isinstance(final, dict) else -1)

    def _judge(self, attempt: Attempt, receipt: Any, head: Head) -> Sighting:
        if receipt is None:
            sighting = UNSEEN
        else:
            if not isinstance(receipt, dict) or _hash(receipt.get("transactionHash", "")) != attempt.hash:
                raise BadAnswer(f"the receipt of {attempt.hash} is of something else")
            height = number(receipt.get("blockNumber"), "a receipt's block")
            if height <= head.final:
                self._seen.pop(attempt.hash, None)
                return Sighting("final", judge(attempt, receipt), height)
            sighting = Sighting("included", height=height)
        self._seen[attempt.hash] = (head.hash, head.final, sighting)
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return sighting


def judge(attempt: Attempt, receipt: dict[str, Any]) -> Outcome:
    """The end of an intent, from its receipt alone, so that every observer builds the same."""
    used = number(receipt.get("gasUsed"), "gasUsed")
    price = number(receipt.get("effectiveGasPrice", "0x0"), "effectiveGasPrice")
    block = number(receipt.get("blockNumber"), "blockNumber")
    result = {
        "block_number": str(block),
        "block_hash": _hash(receipt.get("blockHash", "")),
        "gas_used": str(used),
        "effective_gas_price": str(price),
    }
    fees = used * price + _rollup_fee(receipt)
    status = number(receipt.get("status"), "status")
    if status not in (0, 1):
        raise BadAnswer(f"a receipt's status is {status}")
    if status == 1:
        if isinstance(receipt.get("contractAddress"), str):
            result["contract_address"] = _hash(receipt["contractAddress"])
        return Outcome(Status.DONE, attempt.hash, attempt.nonce, result, cost=fees + _value(attempt, receipt))
    gas = number(hex(int(attempt.terms.get("gas", "0"))), "gas")
    message = "the transaction was included and reverted" + (" (it used all of its gas)" if gas == used else "")
    error = failure("reverted", message, new_key_helps=True, spent=str(fees), tx_hash=attempt.hash)
    return Outcome(Status.FAILED, attempt.hash, attempt.nonce, result, error, cost=fees)


def height_of(outcome: Outcome) -> int | None:
    block_number = (outcome.result or {}).get("block_number")
    return int(block_number) if isinstance(block_number, str) and block_number.isdecimal() else None


def _value(attempt: Attempt, receipt: Mapping[str, Any]) -> int:
    """What left the sender beside fees: what it pays to itself does not."""
    body, sender = read_raw(attempt.raw).body, receipt.get("from")
    own = isinstance(sender, str) and sender.lower() == f"0x{body.to.hex()}"
    return 0 if own else body.value


def _rollup_fee(receipt: Mapping[str, Any]) -> int:
    """What a rollup takes for its data beside gas; chains without one say nothing."""
    fee = receipt.get("l1Fee")
    return int(fee, 16) if isinstance(fee, str) and re.fullmatch(r"0x[0-9a-fA-F]{1,32}", fee) else 0


def _hash(value: Any) -> str:
    """A hash or an address as nodes write it; what a receipt is judged by is never a text of another shape."""
    if not isinstance(value, str) or len(value) > _LONGEST_HASH:
        raise BadAnswer(f"a receipt holds {shown(value, 80)} where a hash should be")
    return value.lower()


def _count(lane: LaneId, block: str) -> Call:
    return "eth_getTransactionCount", [lane.address, block]


def _receipt(attempt: Attempt) -> Call:
    return "eth_getTransactionReceipt", [attempt.hash]
