"""Real clients, unmodified, through the gateway: a burst of 20, a replacement, a gap that fills, and what each client
makes of each error."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from web3 import AsyncWeb3, Web3
from web3.exceptions import Web3RPCError

from tests.evm.machines import Anvil, Hardhat
from tests.gateway import sdks
from tests.gateway.senders import GWEI, TO, Sender
from tests.gateway.stage import gateway
from tests.gateway.strict import Strict, check
from tests.gateway.strict_node import read_raw
from tests.waiting import until
from txmanager.core.admission import Admitted, Ended
from txmanager.core.chain import SendReply, Verdict
from txmanager.core.given import Given
from txmanager.core.upstream import Seen
from txmanager.gateway import words as surface
from txmanager.runtime.gateway import words


def key(sender: Sender) -> str:
    return "0x" + bytes(sender.account.key).hex()


def check_flow(told: dict[str, Any]) -> None:
    assert len(set(told["burst"])) == 20
    assert told["landed"] == [1] * 23
    assert (told["before"], told["after"]) == (20, 23), "pending is the contiguous run"
    assert told["replaced"]
    assert told["shown"] is None, "what waits is shown with null block fields"


@pytest.mark.parametrize("library", ["ethers", "viem"])
async def test_javascript_clients_burst_replace_and_fill_a_gap(library, anvil):
    sender = Sender(anvil)
    async with gateway(anvil) as gate:
        check_flow(await asyncio.to_thread(sdks.run, library, "flow", gate.url, key(sender)))


@asynccontextmanager
async def blocks(anvil: Anvil) -> AsyncIterator[None]:
    """A chain that goes on: ethers looks for a receipt at each new block, and only then."""

    async def mine() -> None:
        while True:
            await asyncio.to_thread(anvil.rpc, "evm_mine")
            await asyncio.sleep(0.3)

    mining = asyncio.create_task(mine())
    try:
        yield
    finally:
        mining.cancel()
        await asyncio.gather(mining, return_exceptions=True)


@pytest.mark.parametrize("library", ["ethers", "viem"])
async def test_javascript_clients_on_a_node_without_a_mempool(library, make_strict):
    strict: Strict = make_strict(lag=(0.2, 1.0))
    sender = Sender(strict.anvil)
    async with gateway(strict, lag_ms=1_500) as gate, blocks(strict.anvil):
        told = await asyncio.to_thread(sdks.run, library, "flow", gate.url, key(sender))
        check_flow(told)
        assert check(strict.log(), told["burst"]).taken[sender.address] == list(range(23))


async def test_a_javascript_client_on_hardhat():
    with Hardhat() as hardhat:
        hardhat.rpc("evm_setAutomine", True)
        sender = Sender(hardhat)
        async with gateway(hardhat) as gate:
            check_flow(await asyncio.to_thread(sdks.run, "ethers", "flow", gate.url, key(sender)))


async def test_web3_py_bursts_replaces_and_fills_a_gap(anvil):
    sender = Sender(anvil)
    async with gateway(anvil) as gate:
        web3 = AsyncWeb3(AsyncWeb3.AsyncHTTPProvider(gate.url))
        try:
            hashes = await asyncio.gather(*(web3.eth.send_raw_transaction(sender.sign(n)) for n in range(20)))
            receipts = [await web3.eth.wait_for_transaction_receipt(hash, 60, 0.1) for hash in hashes]
            await web3.eth.send_raw_transaction(sender.sign(21))
            dear = await web3.eth.send_raw_transaction(sender.sign(21, price=20 * GWEI))
            where = web3.to_checksum_address(sender.address)
            assert await web3.eth.get_transaction_count(where, "pending") == 20
            assert (await web3.eth.get_transaction(dear))["blockNumber"] is None
            await web3.eth.send_raw_transaction(sender.sign(20))
            receipts.append(await web3.eth.wait_for_transaction_receipt(dear, 60, 0.1))
        finally:
            await web3.provider.disconnect()
    assert [receipt["status"] for receipt in receipts] == [1] * 21


async def test_cast_sends_and_is_told_errors(anvil):
    sender = Sender(anvil)
    async with gateway(anvil) as gate:
        where = ["--rpc-url", gate.url]
        send = ["send", *where, "--private-key", key(sender), TO, "--value", "1"]
        for _ in range(2):
            done = await asyncio.to_thread(sdks.cast, *send, "--json")
            assert json.loads(done.stdout)["status"] == "0x1", done.stderr
        told = await asyncio.to_thread(sdks.cast, *send, "--nonce", "0", "--async")
        assert told.returncode == 1
        assert "nonce too low: next nonce 2, tx nonce 0" in told.stderr
        raw = sender.sign(2)
        told = await asyncio.to_thread(sdks.cast, "publish", *where, "--async", raw)
        assert told.stdout.strip().strip('"') == sender.hash(raw)
        await until(lambda: anvil.count(sender.address) == 3, 30)


# -- what clients make of each error

GIVEN = Given(b"", "0x", 3, "0x" + "0" * 40, 31337, None, 1, 21_000, 10, 1, 2)


def admitted(word: str) -> str:
    return words.not_admitted(GIVEN, Admitted(word, 7))  # type: ignore[arg-type]


NONE = "InvalidInputRpcError"
"""viem's class for any -32000 whose words it does not know."""

TABLE: dict[str, tuple[str, str, str]] = {
    # name: (message, class of ethers 6, class of viem 2)
    "already known": (admitted("known"), "UNKNOWN_ERROR", "NonceTooLowError"),
    "nonce too low": (admitted("low"), "NONCE_EXPIRED", "NonceTooLowError"),
    "nonce too high": (admitted("gap"), "UNKNOWN_ERROR", "NonceTooHighError"),
    "replacement": (admitted("replace_underpriced"), "REPLACEMENT_UNDERPRICED", NONE),
    "underpriced": (admitted("underpriced"), "UNKNOWN_ERROR", NONE),
    "account limit": (admitted("sender_full"), "UNKNOWN_ERROR", NONE),
    "full": (admitted("full"), "UNKNOWN_ERROR", NONE),
    "floor": (words.below_floor(GIVEN, 20), "UNKNOWN_ERROR", NONE),
    "funds": (words.too_dear(GIVEN, Seen("", 0, 0, 5)) or "", "INSUFFICIENT_FUNDS", "InsufficientFundsError"),
    "funds by the node": (
        words.refused_by_node(SendReply(Verdict.INSUFFICIENT_FUNDS, "Insufficient funds for transfer")),
        "INSUFFICIENT_FUNDS",
        "InsufficientFundsError",
    ),
    "intrinsic": ("intrinsic gas too low: gas 20000, minimum needed 21000", "UNKNOWN_ERROR", "IntrinsicGasTooLowError"),
    "tip": (
        "max priority fee per gas higher than max fee per gas: maxPriorityFeePerGas: 2, maxFeePerGas: 1",
        "UNKNOWN_ERROR",
        "TipAboveFeeCapError",
    ),
    "block gas": ("exceeds block gas limit", "UNKNOWN_ERROR", NONE),
    "size": ("oversized data: transaction size 131073, limit 131072", "UNKNOWN_ERROR", NONE),
    "type": ("transaction type not supported", "UNKNOWN_ERROR", NONE),
    "max nonce": ("nonce has max value", "UNKNOWN_ERROR", "NonceMaxValueError"),
    "chain id": (
        "invalid sender: invalid chain id for signer: have 1 want 31337",
        "UNKNOWN_ERROR",
        NONE,
    ),
    "overtaken": (
        words.ended(Ended("0x", "0x", 3, "overtaken", "", "", 0)),
        "NONCE_EXPIRED",
        "NonceTooLowError",
    ),
    "store": (surface.store_unavailable().message, "UNKNOWN_ERROR", "InternalRpcError"),
    "unknown": (surface.outcome_unknown().message, "UNKNOWN_ERROR", "InternalRpcError"),
}


@contextmanager
def node_that_refuses() -> Iterator[str]:
    """Refuses nonce n with the message n of the table, as the gateway does."""
    messages = [message for message, _, _ in TABLE.values()]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            told = [answer(one) for one in asked] if isinstance(asked, list) else answer(asked)
            body = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    def answer(call: dict[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = {"jsonrpc": "2.0", "id": call["id"]}
        if call["method"] == "eth_sendRawTransaction":
            message = messages[nonce_of(call["params"][0])]
            code = -32603 if message.startswith(("store unavailable", "unknown, ")) else -32000
            return {**told, "error": {"code": code, "message": message}}
        return {**told, "result": {"eth_chainId": "0x7a69", "eth_blockNumber": "0x1"}.get(call["method"])}

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def nonce_of(raw: str) -> int:
    return read_raw(raw)[1]


@pytest.mark.parametrize(("library", "column"), [("ethers", 1), ("viem", 2)])
def test_what_a_javascript_client_makes_of_each_error(library, column):
    with node_that_refuses() as url:
        told = sdks.run(library, "errors", url, key(Sender()), len(TABLE))
    found = {name: one["class"] for name, one in zip(TABLE, told, strict=True)}
    assert found == {name: row[column] for name, row in TABLE.items()}
    for (message, _, _), one in zip(TABLE.values(), told, strict=True):
        assert message in one["words"]


def test_web3_py_has_one_class_for_all_of_them_and_keeps_the_words():
    sender = Sender()
    with node_that_refuses() as url:
        web3 = Web3(Web3.HTTPProvider(url))
        for nonce, (message, _, _) in enumerate(TABLE.values()):
            with pytest.raises(Web3RPCError) as found:
                web3.eth.send_raw_transaction(sender.sign(nonce))
            assert message in str(found.value)


METAMASK = ("nonce too low", "already known", "replacement transaction underpriced", "transaction underpriced")
"""Words that MetaMask looks for (case-insensitive) in an error of eth_sendRawTransaction."""


@pytest.mark.parametrize("wanted", METAMASK)
def test_metamasks_words_are_there(wanted):
    assert any(wanted in message.lower() for message, _, _ in TABLE.values())
    assert all(message[0].islower() for message, _, _ in TABLE.values())
