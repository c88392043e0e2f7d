"""An append and its alarm start the loop together, again and again: one of them sends."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
from collections import Counter
from typing import Any

import base58
import httpx

from tests.resident.conftest import Make
from tests.resident.node_door import NodeDoor
from tests.resident.test_resident import new_key, transfer

_FIRST = 1_000
STARTS = int(os.environ.get("TXMANAGER_RESIDENT_STARTS", "160"))
"""1,000 take a minute."""


class QuickNode:
    """What a node says whose blocks are final at once: there is time for a thousand intents."""

    def __init__(self) -> None:
        self.nonces: dict[str, int] = {}

    def answer(self, method: str, params: Any) -> Any:
        if method == "send_tx":
            self._land(base64.b64decode(params["signed_tx_base64"]))
            return {"result": {"final_execution_status": "FINAL"}}
        if method == "EXPERIMENTAL_tx_status":
            done = {"logs": [], "receipt_ids": [], "gas_burnt": 1, "tokens_burnt": "1", "executor_id": "a.near"}
            sent = {"id": "t", "block_hash": "b", "outcome": {**done, "status": {"SuccessReceiptId": "r"}}}
            ran = {"id": "r", "block_hash": "b", "outcome": {**done, "status": {"SuccessValue": ""}}}
            told = {"transaction_outcome": sent, "receipts_outcome": [ran], "receipts": []}
            return {"result": {"final_execution_status": "FINAL", **told}}
        if params["request_type"] == "view_account":
            return {"result": {"amount": str(10**30)}}
        nonce = self.nonces.get(params["public_key"], _FIRST)
        view = {"nonce": nonce, "permission": "FullAccess", "block_height": 10**6, "block_hash": "1" * 32}
        return {"result": view}

    def _land(self, raw: bytes) -> None:
        [length] = struct.unpack_from("<I", raw)
        key = f"ed25519:{base58.b58encode(raw[5 + length : 37 + length]).decode()}"
        [nonce] = struct.unpack_from("<Q", raw, 37 + length)
        assert nonce > self.nonces.get(key, _FIRST) or nonce == self.nonces[key], "a nonce went down"
        self.nonces[key] = nonce


async def test_alarm_and_append_start_together_and_one_sends(make_resident: Make):
    node = QuickNode()
    async with NodeDoor("", None) as door:
        door.answer = node.answer
        resident = await asyncio.to_thread(make_resident, door.url, lanes=4)
        headers = {"Authorization": "Bearer token-all"}
        async with httpx.AsyncClient(base_url=resident.url, headers=headers, timeout=60) as http:

            async def caller(n: int) -> None:
                for turn in range(STARTS // 8):
                    body = transfer(1 + n * 1_000 + turn)
                    told = await http.post("/v1/intents?wait=30", json=body, headers={"Idempotency-Key": new_key()})
                    assert (told.status_code, told.json()["status"]) == (200, "done"), told.text

            await asyncio.gather(*(caller(n) for n in range(8)))
        sends = Counter(one["hash"] for one in door.sent)
        assert (len(sends), max(sends.values())) == (STARTS, 1)
        ledger = resident.ledger()
        try:
            lanes = [await ledger.lane(lane) for lane in resident.lanes]
        finally:
            await ledger.close()
        assert sum(lane.cursor - _FIRST - 1 for lane in lanes if lane is not None and lane.cursor is not None) == STARTS
