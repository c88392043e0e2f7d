"""The devnet answers like a real node: every recorded question, asked again in the same order on one chain."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Coroutine
from typing import Any

import base58
import httpx
import near_jsonrpc_models as models
import pytest
from pydantic import BaseModel, ValidationError

from tests.devnet.recorded import ANY_KEY, Case, cases, differences, with_our_keys
from tests.devnet.resign import Chain, our_public_key, resigned
from txmanager.devnet import Config, Genesis, GenesisAccount, KeyPair, Network, key_pair
from txmanager.devnet.model import AccessKey
from txmanager.devnet.server import Server

FOUNDER, FOUNDERS_KEY = "test.near", "ed25519:E8fmXBYoSKNwQERMY8MdDcaLJxzyMirSUXduntnaSGuW"
Answer = tuple[int, Any]

RAW = {
    "malformed json": b"{nope",
    "empty batch": b"[]",
    "batch of one": b'[{"jsonrpc":"2.0","id":"x","method":"status","params":[]}]',
    "no id": b'{"jsonrpc":"2.0","method":"status","params":[]}',
}
NOT_ASKED = {
    "burst of 200 on one key": "a measurement, not an answer",
}
EXCEPT = {
    "view_account": (".result.locked", "the devnet has no stake"),
    "malformed json": ("._raw", "the parser's own words; what stands before them is compared by test_http"),
    "delegate sender's balance": (".result.amount", "it paid for a transaction that is not among the recorded"),
    "poor balance": (".result.amount", "it paid for a transaction that is not among the recorded"),
}
"""Where one field of one answer cannot agree, and why."""
MANY_KEYS = "many.near"


class Asker:
    """Asks the devnet what the real node was asked."""

    def __init__(self, network: Network, now: list[float], http: httpx.AsyncClient) -> None:
        self.network, self.now, self.http = network, now, http
        self.chain = Chain(self._first_nonce)
        self.sent: dict[str, str] = {}
        self.copies: dict[str, str] = {}

    def _first_nonce(self, account_id: str, key: str) -> int | None:
        state = self.network.chain.state
        found: AccessKey | None = state.get((account_id, key))
        if found is None:
            return None
        nonce = found.nonce if found.gas_balance is None else int(state.get((account_id, key, 0)))
        return nonce - nonce % 1_000_000

    def _resigned(self, case: Case, text: str) -> str:
        if text in self.copies:
            return self.copies[text]
        raw = base64.b64decode(text)
        self.chain.height = self.network.head().height
        self.chain.block_hash = self.network.final().hash
        if case.name == "base block unknown":
            self.chain.block_hash = hashlib.sha256(b"nobody's").digest()
        if case.name.startswith("expired base"):
            self.chain.block_hash = self.network.chain.genesis.hash
            self.network.advance(self.network.config.validity + 1)
            self.network.resume(self.now[0])
        ours = resigned(raw, self.chain)
        signature = {0: 65, 1: 66, 2: 3310}
        curve = 2 if len(raw) > 3400 and raw[-3310] == 2 else 0
        theirs = hashlib.sha256(raw[: -signature[curve]]).digest()
        self.sent[base58.b58encode(theirs).decode()] = base58.b58encode(
            hashlib.sha256(ours[: -signature[curve]]).digest()
        ).decode()
        self.copies[text] = base64.b64encode(ours).decode()
        return self.copies[text]

    def _params(self, case: Case) -> Any:
        params = with_our_keys(case.request["params"])
        if case.name.startswith("access key list"):
            return {**params, "account_id": MANY_KEYS}
        if case.name in ("not a transaction", "not base64", "receiver invalid", "oversized"):
            return {"signed_tx_base64": "A" * 2_200_000} if case.name == "oversized" else params
        if isinstance(params, list) and case.request["method"].startswith("broadcast"):
            return [self._resigned(case, case.request["params"][0])]
        if isinstance(params, dict):
            if "signed_tx_base64" in params:
                params["signed_tx_base64"] = self._resigned(case, case.request["params"]["signed_tx_base64"])
            if params.get("tx_hash") in self.sent:
                params["tx_hash"] = self.sent[params["tx_hash"]]
            if case.name in ("block by height", "chunk by height"):
                params["block_id"] = self.network.final().height
            if case.name == "block unknown height":
                params["block_id"] = self.network.head().height + 1_000_000
            if case.name == "chunk by id":
                params["chunk_id"] = base58.b58encode(self.network.final().chunk_hash).decode()
        return params

    async def ask(self, case: Case) -> Answer:
        if case.name.startswith("GET "):
            answer = await self.http.get(case.name[4:])
            return answer.status_code, {"body": answer.text} if case.name == "GET /health" else answer.json()
        if case.name in RAW:
            body = RAW[case.name]
        else:
            params = self._params(case)
            body = json.dumps(
                {"jsonrpc": "2.0", "id": "x", "method": case.request["method"], "params": params}
            ).encode()
        answer = await self.http.post("/", content=body, headers={"content-type": "application/json"})
        try:
            return answer.status_code, answer.json()
        except json.JSONDecodeError:
            return answer.status_code, {"_raw": answer.text}


def _waits(case: Case) -> bool:
    """Whether the node thinks about the question until blocks have come."""
    asked = case.request or {}
    method, params = asked.get("method", ""), asked.get("params")
    if method in ("send_tx", "broadcast_tx_commit"):
        return True
    return isinstance(params, dict) and params.get("wait_until", "NONE") != "NONE"


async def _while_blocks_come(
    question: Coroutine[Any, Any, Answer], network: Network, now: list[float], waits: bool
) -> Answer:
    """Time passes only while a question waits, one block at a time: how busy the machine is changes no answer."""
    asking = asyncio.create_task(question)
    while True:
        done, _ = await asyncio.wait({asking}, timeout=0.02 if waits else 30.0)
        if done:
            return asking.result()
        now[0] = max(now[0], network.next_block_at)


def _expected(case: Case) -> Any:
    answer = with_our_keys(case.answer)
    if case.name.startswith("access key list"):
        answer = json.loads(json.dumps(answer).replace(FOUNDER, MANY_KEYS))
        for listed in answer.get("result", {}).get("keys", ()):
            listed["public_key"] = ANY_KEY
        if "result" in answer:
            answer["result"]["last_key"] = ANY_KEY
    return answer


async def asked() -> list[tuple[Case, int, Any]]:
    """Every case, with the HTTP status and the answer of the devnet."""
    key = our_public_key(FOUNDERS_KEY)
    many = tuple(key_pair(0, MANY_KEYS, index) for index in range(130))
    accounts = [GenesisAccount(FOUNDER, (KeyPair(key, ""),), balance=10**33), GenesisAccount(MANY_KEYS, many)]
    genesis = Genesis(accounts, height=100_000)
    network = Network(genesis, Config(block_ms=15, nodes=1, validity=1_000, delay_ms=(0, 0)))
    network.advance(5)
    now = [0.0]
    server = Server(network, timeout_ms=400, clock=lambda: now[0])
    await server.start()
    found: list[tuple[Case, int, Any]] = []
    try:
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            asker = Asker(network, now, http)
            for case in cases():
                if case.name in NOT_ASKED:
                    continue
                status, answer = await _while_blocks_come(asker.ask(case), network, now, _waits(case))
                found.append((case, status, answer))
    finally:
        await server.stop()
    return found


@pytest.mark.asyncio
async def test_every_recorded_question_gets_the_recorded_answer():
    found: dict[str, list[str]] = {}
    for case, status, answer in await asked():
        lines = [] if status == case.http else [f"HTTP {case.http} became {status}"]
        lines += differences(_expected(case), answer)
        field, _ = EXCEPT.get(case.name, (None, ""))
        if lines := [line for line in lines if line.partition(":")[0] != field]:
            found[case.name] = lines
    assert found == {}


_OF_TRANSACTIONS = models.JsonRpcResponseForRpcTransactionResponseAndRpcTransactionError
MODELS: dict[str, type[BaseModel]] = {
    "send_tx": _OF_TRANSACTIONS,
    "tx": _OF_TRANSACTIONS,
    "broadcast_tx_commit": _OF_TRANSACTIONS,
    "EXPERIMENTAL_tx_status": _OF_TRANSACTIONS,
    "broadcast_tx_async": models.JsonRpcResponseForCryptoHashAndRpcTransactionError,
    "block": models.JsonRpcResponseForRpcBlockResponseAndRpcBlockError,
    "chunk": models.JsonRpcResponseForRpcChunkResponseAndRpcChunkError,
    "gas_price": models.JsonRpcResponseForRpcGasPriceResponseAndRpcGasPriceError,
    "query": models.JsonRpcResponseForRpcQueryResponseAndRpcQueryError,
    "status": models.JsonRpcResponseForRpcStatusResponseAndRpcStatusError,
    "EXPERIMENTAL_protocol_config": models.JsonRpcResponseForRpcProtocolConfigResponseAndRpcProtocolConfigError,
}
"""How near-jsonrpc-client reads answers."""


def _parses(method: str, answer: Any) -> bool:
    try:
        MODELS[method].model_validate(answer)
    except ValidationError:
        return False
    return True


@pytest.mark.asyncio
async def test_near_jsonrpc_client_parses_of_the_devnet_whatever_it_parses_of_the_recording():
    parsed = rejected = 0
    worse: list[str] = []
    for case, _, answer in await asked():
        method = (case.request or {}).get("method")
        if method not in MODELS or "jsonrpc" not in case.answer:
            continue
        real = _parses(method, case.answer)
        parsed, rejected = parsed + real, rejected + (not real)
        if real and not _parses(method, answer):
            worse.append(case.name)
    assert worse == []
    assert parsed > 90
    assert rejected > 0, "the client has learned the node's newest answers: say so in docs/devnet.md"
