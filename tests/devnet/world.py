"""A network under the test's own hands: virtual time, hand-built transactions, no process and no crypto."""

from __future__ import annotations

import random
from typing import Any

from txmanager.devnet import Config, Genesis, Network
from txmanager.devnet.model import AccessKey, Account, Action, FunctionCall, Outcome, Tx, TxRecord
from txmanager.devnet.status import top_status

TGAS = 10**12
NEAR = 10**24
GENESIS = Genesis.from_seed(7, accounts=3, keys=2)
ALICE, BOB, CAROL = (user.account_id for user in GENESIS.users)


class World:
    def __init__(self, *, seed: int = 0, genesis: Genesis = GENESIS, **config: Any) -> None:
        config.setdefault("delay_ms", (0.0, 0.0))
        self.genesis = genesis
        self.network = Network(genesis, Config(**config), random.Random(seed))
        self._nonces: dict[tuple[str, str, int | None], int] = {}

    def key(self, account_id: str, index: int = 0) -> str:
        return self.genesis.accounts[account_id].keys[index].public_key

    def nonce(self, account_id: str, public_key: str, finality: str = "optimistic") -> int:
        key, _ = self.network.access_key(account_id, public_key, finality=finality)
        assert key is not None
        return key.nonce

    def tx(self, signer_id: str, receiver_id: str, *actions: Action, **more: Any) -> Tx:
        """A transaction with the signer's next nonce, unless told another."""
        public_key = more.pop("public_key", None) or self.key(signer_id)
        lane = (signer_id, public_key, more.get("nonce_index"))
        nonce = more.pop("nonce", None)
        if nonce is None:
            nonce = self._nonces[lane] = max(self._nonces.get(lane, 0), self._chain_nonce(lane)) + 1
        base = more.pop("block_hash", None) or self.network.final().hash
        return Tx(signer_id, public_key, nonce, receiver_id, base, actions, **more)

    def _chain_nonce(self, lane: tuple[str, str, int | None]) -> int:
        account_id, public_key, index = lane
        if index is None:
            return self.nonce(account_id, public_key)
        nonces, _ = self.network.gas_key_nonces(account_id, public_key, finality="optimistic")
        return (nonces or [0])[index] if nonces and index < len(nonces) else 0

    def run(self, tx: Tx, blocks: int = 10) -> TxRecord:
        """Send it and let it finish."""
        self.network.send(tx)
        self.network.advance(blocks)
        return self.record(tx)

    def do(self, signer_id: str, receiver_id: str, *actions: Action, **more: Any) -> TxRecord:
        return self.run(self.tx(signer_id, receiver_id, *actions, **more))

    def record(self, tx: Tx) -> TxRecord:
        status = self.network.status(tx.hash)
        assert status is not None, "the transaction is not on the chain"
        return status.record

    def landed(self, tx: Tx) -> bool:
        return self.network.status(tx.hash) is not None

    def result(self, record: TxRecord) -> Any:
        return top_status(record, self.network.head().height)

    def account(self, account_id: str) -> Account | None:
        return self.network.account(account_id, finality="optimistic")

    def balance(self, account_id: str) -> int:
        account = self.account(account_id)
        assert account is not None
        return account.amount

    def access_key(self, account_id: str, public_key: str) -> AccessKey | None:
        return self.network.access_key(account_id, public_key, finality="optimistic")[0]

    def conserved(self) -> bool:
        chain = self.network.chain
        return chain.holdings() + chain.burnt == self.genesis.supply


def call(method: str, args: bytes = b"{}", gas: int = 30 * TGAS, deposit: int = 0) -> FunctionCall:
    return FunctionCall(method, args, gas, deposit)


def failure(outcome: Outcome) -> Any:
    return outcome.status["Failure"]["ActionError"]["kind"]


def failures(record: TxRecord) -> list[Any]:
    return [failure(outcome) for outcome in record.outcomes if outcome.failed]
