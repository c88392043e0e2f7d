"""What a pool allows and what a network is like: the settings of the adapter, all with safe defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txmanager.chains.near.limits import TGAS, most_over_http
from txmanager.core.errors import InvalidSettings
from txmanager.core.values import value
from txmanager.rpc.endpoint import MAX_REQUEST_BYTES

STATUSES = ("NONE", "INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL")
SETTLED: Mapping[str, frozenset[str]] = {
    "EXECUTED_OPTIMISTIC": frozenset({"EXECUTED_OPTIMISTIC", "EXECUTED", "FINAL"}),
    "EXECUTED": frozenset({"EXECUTED", "FINAL"}),
    "FINAL": frozenset({"FINAL"}),
}
"""Which statuses satisfy a finality. Not a ladder: INCLUDED_FINAL says nothing of the receipts."""


@value(frozen=True, slots=True)
class HarmlessCall:
    """What a function-call key calls to use up a nonce: it must be cheap, payable by gas alone, and change nothing."""

    receiver_id: str
    method_name: str
    args: bytes = b"{}"
    gas: int = 5 * TGAS


@value(frozen=True, slots=True)
class NearPolicy:
    """One pool's limits. An allow-list of None allows all; its entries are account ids or `*.suffix`."""

    delegate_senders: frozenset[str] | None = None
    delegate_receivers: frozenset[str] | None = None
    delegate_methods: frozenset[str] | None = None
    delegate_actions: frozenset[str] | None = None
    """Which actions a delegate may hold. Not given: function calls, and transfers unless `delegate_methods` is."""
    delegate_max_deposit: int = 1_000
    """yoctoNEAR of *ours* that a user's delegate may attach: enough for one-yocto assertions, no more."""
    delegate_max_gas: int = 300 * TGAS
    delegate_max_bytes: int = 16_384
    delegate_min_blocks_left: int = 10
    max_deposit: int | None = None
    """yoctoNEAR that any one intent may spend beside gas."""
    max_cost: int | None = None
    """yoctoNEAR that any one intent may cost at worst, gas included."""
    harmless_call: HarmlessCall | None = None
    own_account: frozenset[str] = frozenset()
    """Effects on the pool's own account that are allowed, by the names of `effects.OWN_ACCOUNT_EFFECTS`."""

    @property
    def relayed_actions(self) -> frozenset[str]:
        if self.delegate_actions is not None:
            return self.delegate_actions
        return frozenset({"function_call"} if self.delegate_methods is not None else {"function_call", "transfer"})


@value(frozen=True, slots=True)
class NearNetwork:
    """Facts of a network. None means: ask the node once (`EXPERIMENTAL_protocol_config`)."""

    validity_blocks: int | None = None
    epoch_blocks: int | None = None
    finality: str = "FINAL"
    head_fresh_s: float = 1.0
    """A final block younger than this is signed against as it is; an older one is refreshed behind the scenes."""
    head_max_age_s: float = 10.0
    """An older one is never signed against."""
    scan_blocks: int = 2_000
    """How far back a proof behind a balancer may walk."""
    purchase_price: int | None = None
    """yoctoNEAR that a unit of gas is bought for, where no node says."""
    max_transaction_bytes: int = most_over_http(MAX_REQUEST_BYTES)
    """What every endpoint takes over HTTP; less than the protocol does."""
    chain_id: str | None = None
    genesis_hash: str | None = None
    """Which chain it is. A node that says another one is refused before anything is signed."""

    def __post_init__(self) -> None:
        if self.finality not in SETTLED:
            raise InvalidSettings("finality", f"must be one of {', '.join(SETTLED)}, not {self.finality!r}")


NETWORKS: Mapping[str, NearNetwork] = {
    "mainnet": NearNetwork(validity_blocks=86_400, epoch_blocks=43_200, purchase_price=10**9),
    "testnet": NearNetwork(validity_blocks=86_400, epoch_blocks=43_200, purchase_price=10**9),
    "localnet": NearNetwork(validity_blocks=86_400, epoch_blocks=20_000),
}


def other_chain(pinned: NearNetwork, status: Mapping[str, Any]) -> str | None:
    """What a node's `status` says against the chain of our settings; None where it agrees."""
    for name in ("chain_id", "genesis_hash"):
        wanted, served = getattr(pinned, name), status.get(name)
        if wanted is not None and served != wanted:
            return f"serves {name} {str(served)[:64]}, not {wanted}"
    return None


@value(frozen=True, slots=True)
class KeyView:
    """A final reading of an access key."""

    nonce: int
    height: int
    block_hash: str
    permission: Mapping[str, Any] | None = None
    """The body of a FunctionCall permission; None is full access."""
    allowance: int | None = None
    gas_balance: int | None = None
    gas_key: bool = False
