"""What a real geth says to bytes it does not take: its exact words, and the class we read from them.

The words that are asserted here stand in `more_errors.tsv` too, so that a machine without geth keeps them.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from eth_account import Account

from tests.evm.geth import CHAIN_ID, Geth
from tests.waiting import until_sync
from txmanager.chains.evm.transaction import Body, Fees, sign_any
from txmanager.chains.evm.verdicts import Refusal, read_message
from txmanager.signing.evm import EvmSigner
from txmanager.signing.secret import Secret

GWEI = 10**9
FEES = Fees(20 * GWEI, 2 * GWEI)
NEVER = Fees(2, 1)
"""Below the lowest base fee there is (7 wei): it stays in the pool."""
BODY = Body(b"\x22" * 20, 1, b"", 21_000)
NO_LOCALS = "--txpool.nolocals"
"""Otherwise geth answers a hash to its own callers even where its pool refused for now, and tries again by itself."""
SMALL_POOL = ("--txpool.globalslots", "4", "--txpool.globalqueue", "2", "--txpool.accountslots", "1")


@pytest.fixture(scope="module")
def geth() -> Iterator[Geth]:
    with Geth("--dev.period", "1", NO_LOCALS) as running:
        yield running


@dataclass
class Caller:
    node: Geth
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def __post_init__(self) -> None:
        self.signer = EvmSigner(Secret(self.key))

    def raw(self, nonce: int, fees: Fees = FEES, body: Body = BODY, chain_id: int = CHAIN_ID) -> str:
        return "0x" + sign_any(chain_id, nonce, fees, body, self.signer).raw.hex()

    def send(self, raw: str) -> str:
        """The hash, or what the node says instead."""
        try:
            return str(self.node.rpc("eth_sendRawTransaction", raw))
        except RuntimeError as refusal:
            return str(refusal)

    def mined(self, nonce: int) -> None:
        assert self.send(self.raw(nonce)).startswith("0x")
        until_sync(lambda: self.node.count(self.signer.address) == nonce + 1, 30.0)


@pytest.fixture
def caller(geth: Geth) -> Caller:
    caller = Caller(geth)
    geth.fund(caller.signer.address, 10**19)
    return caller


def known(caller: Caller) -> str:
    raw = caller.raw(5)
    caller.send(raw)
    return caller.send(raw)


def too_low(caller: Caller) -> str:
    caller.mined(0)
    return caller.send(caller.raw(0, Fees(30 * GWEI, 3 * GWEI)))


def replaced_too_cheaply(caller: Caller) -> str:
    caller.send(caller.raw(5))
    return caller.send(caller.raw(5, Fees(FEES.max_fee * 109 // 100, FEES.tip * 109 // 100)))


def without_funds(caller: Caller) -> str:
    return caller.send(caller.raw(0, body=replace(BODY, value=10**30)))


def tip_above_fee(caller: Caller) -> str:
    return caller.send(caller.raw(0, Fees(GWEI, 2 * GWEI)))


def no_tip(caller: Caller) -> str:
    return caller.send(caller.raw(0, Fees(20 * GWEI, 0)))


def dear(caller: Caller) -> str:
    return caller.send(caller.raw(0, Fees(10**14, 10**14)))


def little_gas(caller: Caller) -> str:
    return caller.send(caller.raw(0, body=replace(BODY, gas=20_000)))


def much_gas(caller: Caller) -> str:
    return caller.send(caller.raw(0, Fees(2, 1), body=replace(BODY, gas=2**40)))


def over_a_transactions_gas(caller: Caller) -> str:
    return caller.send(caller.raw(0, body=replace(BODY, gas=17_000_000)))


def large(caller: Caller) -> str:
    return caller.send(caller.raw(0, body=replace(BODY, data=b"\x00" * 200_000, gas=10_000_000)))


def of_another_chain(caller: Caller) -> str:
    return caller.send(caller.raw(0, chain_id=5))


def unprotected(caller: Caller) -> str:
    account = Account.from_key(b"\x11" * 32)
    signed = account.sign_transaction({"to": "0x" + "22" * 20, "value": 1, "gas": 21000, "gasPrice": GWEI, "nonce": 0})
    return caller.send("0x" + signed.raw_transaction.hex().removeprefix("0x"))


def cut(caller: Caller) -> str:
    return caller.send(caller.raw(0)[:60])


def empty(caller: Caller) -> str:
    return caller.send("0x")


def of_no_type(caller: Caller) -> str:
    return caller.send("0x7f" + caller.raw(0)[4:])


def long_code(caller: Caller) -> str:
    return caller.send(caller.raw(0, body=Body(b"", 0, b"\x00" * 50_000, 5_000_000)))


def at_the_last_nonce(caller: Caller) -> str:
    return caller.send(caller.raw(2**64 - 1))


def delegated(caller: Caller) -> str:
    """The sender gave its account a code (EIP-7702): one transaction at a time, and no gaps."""
    authority = Account.from_key(caller.key)
    signed = authority.sign_authorization({"chainId": CHAIN_ID, "address": "0x" + "33" * 20, "nonce": 1})
    told = {
        "type": 4,
        "chainId": CHAIN_ID,
        "nonce": 0,
        "to": "0x" + "22" * 20,
        "value": 0,
        "gas": 100_000,
        "maxFeePerGas": FEES.max_fee,
        "maxPriorityFeePerGas": FEES.tip,
        "authorizationList": [signed],
    }
    caller.send("0x" + authority.sign_transaction(told).raw_transaction.hex().removeprefix("0x"))
    until_sync(lambda: caller.node.count(caller.signer.address) == 2, 30.0)
    return caller.send(caller.raw(7))


N = r"\d+"
CASES: list[tuple[Callable[[Caller], str], Refusal, str]] = [
    (known, Refusal.ALREADY_KNOWN, "already known"),
    (too_low, Refusal.NONCE_TOO_LOW, rf"nonce too low: next nonce {N}, tx nonce {N}"),
    (replaced_too_cheaply, Refusal.REPLACEMENT_UNDERPRICED, "replacement transaction underpriced"),
    (
        without_funds,
        Refusal.INSUFFICIENT_FUNDS,
        rf"insufficient funds for gas \* price \+ value: balance {N}, tx cost {N}, overshot {N}",
    ),
    (tip_above_fee, Refusal.INVALID_FEE, "max priority fee per gas higher than max fee per gas"),
    (no_tip, Refusal.UNDERPRICED, rf"transaction gas price below minimum: gas tip cap {N}, minimum needed {N}"),
    (dear, Refusal.FEE_CAP_EXCEEDED, r"tx fee \(\d\.\d\d ether\) exceeds the configured cap \(1\.00 ether\)"),
    (little_gas, Refusal.PERMANENT, rf"intrinsic gas too low: gas {N}, minimum needed 21000"),
    (much_gas, Refusal.PERMANENT, rf"transaction gas limit too high \(cap: {N}, tx: {N}\)"),
    (over_a_transactions_gas, Refusal.PERMANENT, rf"transaction gas limit too high \(cap: {N}, tx: {N}\)"),
    (large, Refusal.PERMANENT, rf"oversized data: transaction size {N}, limit {N}"),
    (of_another_chain, Refusal.PERMANENT, rf"invalid sender: invalid chain id for signer: have {N} want {N}"),
    (unprotected, Refusal.PERMANENT, r"only replay-protected \(EIP-155\) transactions allowed over RPC"),
    (cut, Refusal.PERMANENT, "rlp: value size exceeds available input length"),
    (empty, Refusal.PERMANENT, "typed transaction too short"),
    (of_no_type, Refusal.PERMANENT, "transaction type not supported"),
    (long_code, Refusal.PERMANENT, rf"max initcode size exceeded: code size {N}, limit {N}"),
    (at_the_last_nonce, Refusal.PERMANENT, "nonce has max value"),
    (delegated, Refusal.DELEGATED_LIMIT, "gapped-nonce tx from delegated accounts"),
]


@pytest.mark.parametrize(("story", "refusal", "words"), CASES, ids=[story.__name__ for story, *_ in CASES])
def test_each_refusal_has_the_words_and_the_class_we_know(caller, story, refusal, words):
    said = story(caller)
    assert re.fullmatch(words, said), said
    assert read_message(said) is refusal


def test_a_full_pool_takes_only_what_is_dearer(make_geth):
    """All that it holds stays below the base fee; the next one at that price is refused in these words."""
    node = make_geth("--dev.period", "1", NO_LOCALS, *SMALL_POOL)
    callers = [Caller(node) for _ in range(7)]
    for one in callers:
        node.fund(one.signer.address, 10**19)
    for one in callers[:-1]:
        assert one.send(one.raw(0, NEVER)).startswith("0x")
    said = callers[-1].send(callers[-1].raw(0, NEVER))
    assert re.fullmatch(r"transaction underpriced|txpool is full", said), said
    assert read_message(said) in (Refusal.UNDERPRICED, Refusal.POOL_FULL)


def test_the_words_are_kept_for_machines_without_geth():
    """Numbers apart, each pattern above matches a line of the table."""
    kept = [line.split("\t")[1] for line in (Path(__file__).parent / "more_errors.tsv").read_text().splitlines()]
    kept += [line.split("\t")[1] for line in (Path(__file__).parent / "errors.tsv").read_text().splitlines()]
    for story, _, words in CASES:
        assert any(re.fullmatch(words, line) for line in kept), f"{story.__name__}: {words} is not in more_errors.tsv"
