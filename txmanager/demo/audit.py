"""What really happened, asked of the chain and of the ledger: the clients' word is not taken for it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.request import Request, urlopen

from txmanager.core.models import Purpose, Record
from txmanager.core.positions import place


@dataclass(frozen=True, slots=True)
class ChainFacts:
    created: frozenset[str]
    """Names that are accounts on chain."""
    landed: frozenset[str]
    """Hashes, of those asked about, that are on chain."""
    transactions: int
    """Everything on the devnet, ours or not; on another chain, those of our hashes that are there."""


class Node:
    """A NEAR node: the devnet, which counts every transaction, or one of the user's own, which does not."""

    def __init__(self, url: str, *, devnet: bool = True) -> None:
        self._url = url
        self._devnet = devnet

    def transactions(self) -> int:
        if not self._devnet:
            return 0
        with urlopen(f"{self._url}/admin", timeout=10) as reply:
            count: int = json.load(reply)["transactions"]
            return count

    def facts(self, names: Iterable[str], hashes: Iterable[str], signer: str) -> ChainFacts:
        names, hashes = list(names), list(hashes)
        with ThreadPoolExecutor(8) as pool:
            accounts = list(pool.map(self._is_account, names))
            landed = list(pool.map(lambda tx_hash: self._is_on_chain(tx_hash, signer), hashes))
        ours = frozenset(tx_hash for tx_hash, there in zip(hashes, landed, strict=True) if there)
        return ChainFacts(
            frozenset(name for name, there in zip(names, accounts, strict=True) if there),
            ours,
            self.transactions() if self._devnet else len(ours),
        )

    def _is_account(self, name: str) -> bool:
        asked = {"request_type": "view_account", "finality": "final", "account_id": name}
        return "result" in self._call("query", asked)

    def _is_on_chain(self, tx_hash: str, signer: str) -> bool:
        asked = {"tx_hash": tx_hash, "sender_account_id": signer, "wait_until": "NONE"}
        answer = self._call("tx", asked)
        return "result" in answer and answer["result"].get("final_execution_status") not in (None, "NONE")

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        with urlopen(Request(self._url, body, {"Content-Type": "application/json"}), timeout=10) as reply:
            answer: dict[str, Any] = json.load(reply)
            return answer


def order_violations(records: Iterable[Record]) -> int:
    """Per lane: first attempts whose nonces are not in the order in which their intents were accepted."""
    lanes: dict[str, list[tuple[tuple[int, ...], int]]] = defaultdict(list)
    for record in records:
        for attempt in record.attempts:
            if attempt.purpose is Purpose.FIRST:
                accepted = place(record.position)
                lanes[record.lane].append((accepted, attempt.nonce))
    wrong = 0
    for firsts in lanes.values():
        nonces = [nonce for _, nonce in sorted(firsts)]
        wrong += sum(later <= earlier for earlier, later in pairwise(nonces))
    return wrong


def nonces_used_twice(records: Iterable[Record]) -> int:
    """Per lane: signed transactions whose nonce another one has as well, which is what ends in InvalidNonce."""
    seen: set[tuple[str, int]] = set()
    twice = 0
    for record in records:
        for attempt in record.attempts:
            twice += (record.lane, attempt.nonce) in seen
            seen.add((record.lane, attempt.nonce))
    return twice
