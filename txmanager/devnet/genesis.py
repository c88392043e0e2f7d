"""The first block's accounts and keys, the same for the same seed, for ever.

Building a genesis makes keys and costs a little; a network copies its finished state and costs next to
nothing, so a simulator builds one genesis and starts as many networks as it likes.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import base58
import nacl.signing

from . import fees
from .contracts import CODE, FT_SUPPLY
from .model import NO_CODE, AccessKey, Account, Permission
from .state import Key

DEFAULT_BALANCE = 1_000_000 * fees.NEAR
GENESIS_HEIGHT = 100_000_000  # as large as a real one, so that nonces pass 2**53 / 100 as real ones do


class KeyPair(NamedTuple):
    public_key: str
    private_key: str


class GenesisAccount(NamedTuple):
    account_id: str
    keys: tuple[KeyPair, ...]
    balance: int = DEFAULT_BALANCE
    contract: str | None = None
    permission: Permission | None = None  # of every key, when set

    def credentials(self) -> dict[str, str]:
        """The account in the JSON form of NEAR's credentials folder."""
        first = self.keys[0]
        return {"account_id": self.account_id, "public_key": first.public_key, "private_key": first.private_key}

    def describe(self) -> dict[str, Any]:
        return {**self.credentials(), "keys": [key._asdict() for key in self.keys]}


def key_pair(seed: int, account_id: str, index: int = 0) -> KeyPair:
    secret = hashlib.sha256(f"txmanager-devnet:{seed}:{account_id}:{index}".encode()).digest()
    public = nacl.signing.SigningKey(secret).verify_key.encode()
    return KeyPair(
        "ed25519:" + base58.b58encode(public).decode(), "ed25519:" + base58.b58encode(secret + public).decode()
    )


class Genesis:
    """Finished state of the first block. `users` are the plain accounts, in order."""

    __slots__ = ("accounts", "hash", "height", "state", "supply", "users")

    def __init__(self, accounts: list[GenesisAccount], height: int = GENESIS_HEIGHT, tag: str = "") -> None:
        self.accounts = {account.account_id: account for account in accounts}
        self.users = [account for account in accounts if account.contract is None]
        self.height = height
        self.hash = hashlib.sha256(f"genesis:{height}:{tag}".encode()).digest()
        self.supply = sum(account.balance for account in accounts)
        self.state: dict[Key, Any] = {}
        for account in accounts:
            self._add(account, (height - 1) * fees.NONCE_RANGE)

    def _add(self, account: GenesisAccount, nonce: int) -> None:
        usage = 100 + len(account.keys) * fees.key_storage(account.permission)
        code_hash = NO_CODE
        if account.contract is not None:
            code = CODE[account.contract]
            usage, code_hash = usage + len(code), hashlib.sha256(code).digest()
            self.state[(account.account_id, None, "#code")] = code
        keys = tuple(key.public_key for key in account.keys)
        self.state[(account.account_id,)] = Account(account.balance, 0, code_hash, usage, keys)
        for public_key in keys:
            self.state[(account.account_id, public_key)] = AccessKey(nonce, account.permission)
        if account.contract == "ft":
            for user in self.users or ():
                self.state[(account.account_id, None, f"b:{user.account_id}")] = FT_SUPPLY // len(self.users)

    @classmethod
    def from_seed(
        cls, seed: int = 0, accounts: int = 5, keys: int = 1, root: str = "near", height: int = GENESIS_HEIGHT
    ) -> Genesis:
        """`dev0.near` … with `keys` full-access keys each, and the three contracts."""

        def account(account_id: str, count: int, contract: str | None = None) -> GenesisAccount:
            pairs = tuple(key_pair(seed, account_id, index) for index in range(count))
            return GenesisAccount(account_id, pairs, contract=contract)

        users = [account(f"dev{index}.{root}", keys) for index in range(accounts)]
        contracts = [
            account(root, 1, "root"),
            account(f"ft.{root}", 1, "ft"),
            account(f"counter.{root}", 1, "counter"),
        ]
        return cls([*users, *contracts], height, tag=str(seed))
