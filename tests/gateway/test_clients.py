"""What real clients, unmodified, make of each error's words: their own error class, or none."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from web3 import Web3
from web3.exceptions import Web3RPCError

from tests.gateway import sdks
from tests.gateway.senders import Sender
from tests.gateway.strict_node import read_raw
from txmanager.core.admission import Admitted, Ended
from txmanager.core.chain import SendReply, Verdict
from txmanager.core.given import Given
from txmanager.core.upstream import Seen
from txmanager.gateway import words as surface
from txmanager.runtime.gateway import words


def key(sender: Sender) -> str:
    return "0x" + bytes(sender.account.key).hex()


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


# -- the words that wallets look for, from their own sources

VIEM_WORDS = {
    "ExecutionRevertedError": r"execution reverted|gas required exceeds allowance",
    "FeeCapTooHighError": r"max fee per gas higher than 2\^256-1|fee cap higher than 2\^256-1",
    "FeeCapTooLowError": (
        r"max fee per gas less than block base fee|fee cap less than block base fee|transaction is outdated"
    ),
    "NonceTooHighError": r"nonce too high",
    "NonceTooLowError": r"nonce too low|transaction already imported|already known",
    "NonceMaxValueError": r"nonce has max value",
    "InsufficientFundsError": r"insufficient funds|exceeds transaction sender account balance",
    "IntrinsicGasTooHighError": r"intrinsic gas too high|gas limit reached",
    "IntrinsicGasTooLowError": r"intrinsic gas too low",
    "TransactionTypeNotSupportedError": r"transaction type not valid",
    "TipAboveFeeCapError": r"max priority fee per gas higher than max fee per gas|tip higher than fee cap",
}
"""`nodeMessage` of each error class in viem's `errors/node`."""

METAMASK_WORDS = {
    # @metamask/transaction-controller 69.5.2, TransactionController: a speed-up or cancel came too late
    "too late": ("nonce too low",),
    # 38.3.0, PendingTransactionTracker: its own re-send met a transaction that is there already; not an error
    "known": (
        "replacement transaction underpriced",
        "known transaction",
        "gas price too low to replace",
        "transaction with the same hash was already imported",
        "gateway timeout",
        "nonce too low",
    ),
}

METAMASK: dict[str, set[str]] = {
    "already known": set(),
    "nonce too low": {"too late", "known"},
    "overtaken": {"too late", "known"},
    "replacement": {"known"},
}
"""What MetaMask makes of our messages; of all others: nothing. `already known` is geth's word and in no list of its:
`duplicates = "hash"` answers such a re-send with its hash instead."""


def test_viems_words_are_those_of_its_source():
    assert sdks.run("viem", "words", "http://127.0.0.1:1", key(Sender())) == VIEM_WORDS


@pytest.mark.parametrize("name", TABLE)
def test_viems_class_follows_from_its_words(name):
    message, _, expected = TABLE[name]
    found = [one for one, words_of in VIEM_WORDS.items() if re.search(words_of, message.lower())]
    assert found[:1] == ([] if expected in (NONE, "InternalRpcError") else [expected])


@pytest.mark.parametrize("name", TABLE)
def test_what_metamask_finds_in_our_words(name):
    message = TABLE[name][0]
    assert message[0].islower()
    found = {what for what, listed in METAMASK_WORDS.items() if any(one in message for one in listed)}
    assert found == METAMASK.get(name, set())
