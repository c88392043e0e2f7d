"""People with a key and money, who sign transactions as a wallet would."""

from __future__ import annotations

import secrets
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from tests.evm.machines import Machine

GWEI = 10**9
CHAIN_ID = 31337
TO = "0x" + "11" * 20


class Sender:
    def __init__(self, machine: Machine | None = None, wei: int = 10**21) -> None:
        self.account: LocalAccount = Account.from_key(secrets.token_bytes(32))
        self.address = self.account.address.lower()
        if machine is not None:
            machine.fund(self.address, wei)

    def sign(self, nonce: int, **fields: Any) -> str:
        """0x hex of a transfer of 1 wei."""
        price = fields.pop("price", 10 * GWEI)
        told: dict[str, Any] = {
            "chainId": CHAIN_ID,
            "nonce": nonce,
            "gas": 21_000,
            "to": TO,
            "value": 1,
            **fields,
        }
        if "gasPrice" not in told:
            told = {"maxFeePerGas": price, "maxPriorityFeePerGas": min(price, GWEI), "type": 2, **told}
        return self.account.sign_transaction(told).raw_transaction.to_0x_hex()

    @staticmethod
    def hash(raw: str) -> str:
        return "0x" + keccak(bytes.fromhex(raw[2:])).hex()
