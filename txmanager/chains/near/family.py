"""NEAR as a `ChainFamily`: from settings to its adapter, and what each surface asks of it."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from txmanager.chains.endpoints import endpoints
from txmanager.chains.near.actions import CallPermission
from txmanager.chains.near.chain import NearChain
from txmanager.chains.near.intents import KINDS, PATHS
from txmanager.chains.near.limits import most_over_http
from txmanager.chains.near.pagoda import PAGODA
from txmanager.chains.near.policy import NETWORKS, HarmlessCall, NearNetwork, NearPolicy, other_chain
from txmanager.chains.near.provision import key_limits as read_limits
from txmanager.chains.near.provision import provision
from txmanager.chains.near.purses import PURSES
from txmanager.chains.near.reading import ELSEWHERE, PoolRules, read
from txmanager.chains.near.settings import NearNetworkSettings, NearPolicySettings, NearPoolSettings, lanes_of
from txmanager.chains.near.unsigned import SIGNER_SIDE
from txmanager.core.chain import Chain
from txmanager.core.decide import Policy
from txmanager.core.findings import Finding
from txmanager.settings.family import CallLimits, ChainFamily, Clerk, GasKeys, Held, NodeProbe, ReadPayload, Unit
from txmanager.settings.pools import pinned_key
from txmanager.signing.signer import Signer
from txmanager.signing.sources import Asked, Curve, KeySources


def lanes(name: str, network: NearNetworkSettings) -> str:
    return f"near:{name}"


def load_keys(
    sources: KeySources, name: str, network: NearNetworkSettings, pool: NearPoolSettings
) -> Iterator[tuple[str, Signer]]:
    for entry in pool.keys:
        indexes, source = lanes_of(entry)
        for found in sources.load(source, Asked(Curve.ED25519, pool.account, pinned=pinned_key(entry))):
            lane = f"near:{name}:{found.account}:{found.signer.public_key}"
            if indexes is None:
                yield lane, found.signer
            for index in range(indexes or 0):
                yield f"{lane}:{index}", found.signer


def open_chain(name: str, network: NearNetworkSettings, held: Mapping[str, Held[NearPoolSettings]]) -> NearChain:
    facts = replace(
        NETWORKS.get(name) or NearNetwork(),
        max_transaction_bytes=_max_bytes(network),
        chain_id=network.chain_id,
        genesis_hash=network.genesis_hash,
    )
    if network.finality is not None:
        facts = replace(facts, finality=network.finality)
    return NearChain(
        name,
        endpoints(name, network),
        {lane: one.signer for lane, one in held.items() if one.signer is not None},
        policies={lane: near_policy(one.pool.policy) for lane, one in held.items()},
        settings=facts,
        agreement=network.agreement,
        agreement_for_done=network.agreement_for_done,
    )


def near_policy(policy: NearPolicySettings) -> NearPolicy:
    settings = policy.model_dump(exclude={"budget", "budget_per_key", "required_prefixes"})
    given = {name: value for name, value in settings.items() if value is not None}
    lists = {name: frozenset(value) for name, value in given.items() if isinstance(value, list | frozenset | set)}
    call = policy.harmless_call
    harmless = (
        HarmlessCall(call.receiver_id, call.method_name, call.args.encode(), call.gas) if call is not None else None
    )
    return NearPolicy(**{**given, **lists, "harmless_call": harmless})


def reading(network: NearNetworkSettings | None, pool: NearPoolSettings | None) -> ReadPayload:
    if network is None or pool is None:
        return partial(read, rules=ELSEWHERE)
    return partial(read, rules=PoolRules(pool.account, near_policy(pool.policy), _max_bytes(network)))


def _max_bytes(network: NearNetworkSettings) -> int:
    """What every endpoint takes: a lane may send to any of them."""
    return most_over_http(min(rpc.max_request_bytes for rpc in network.rpc))


def lane_policy(network: NearNetworkSettings, pool: NearPoolSettings) -> Policy:
    return Policy(
        window=pool.window,
        max_inflight=pool.max_inflight,
        max_result_bytes=pool.max_result_bytes,
        reserve=pool.reserve,
        max_deposit=pool.policy.max_deposit,
    )


def describe(network: NearNetworkSettings, answer: Any) -> Finding:
    pinned = NearNetwork(chain_id=network.chain_id, genesis_hash=network.genesis_hash)
    if isinstance(answer, dict) and (other := other_chain(pinned, answer)) is not None:
        return Finding("fail", other, "correct rpc, chain_id or genesis_hash of the network")
    sync = answer.get("sync_info", {}) if isinstance(answer, dict) else {}
    if sync.get("syncing"):
        return Finding("warn", "is still syncing", "wait, or use another node")
    height = sync.get("latest_block_height", "?")
    chain = answer.get("chain_id", "?") if isinstance(answer, dict) else "?"
    if network.chain_id is None and network.genesis_hash is None and not _local(str(chain)):
        fix = f'chain_id = "{str(chain)[:64]}" in [networks], once you know that it is the right one'
        return Finding("warn", f"{chain}, block {height}; no chain_id says that this is the right chain", fix)
    return Finding("ok", f"{chain}, block {height}")


def _local(chain_id: str) -> bool:
    """How local nodes name their chains: neard's localnet and tests, the sandbox, our devnet."""
    return chain_id in ("localnet", "sandbox") or chain_id.startswith("test-chain")


def add_keys(
    chain: Chain, lane: str, public_keys: Sequence[str], limits: CallLimits | None, clerk: Clerk
) -> Awaitable[object]:
    assert isinstance(chain, NearChain)
    permission = CallPermission(*limits) if limits is not None else None
    return provision(chain, lane, public_keys, permission, clerk=clerk)


def key_limits(chain: Chain, lane: str) -> Awaitable[CallLimits | None]:
    assert isinstance(chain, NearChain)
    return read_limits(chain, lane)


def add_gas_keys(
    chain: Chain,
    lane: str,
    public_keys: Sequence[str],
    gas_key: GasKeys,
    limits: CallLimits | None,
    clerk: Clerk,
) -> Awaitable[object]:
    assert isinstance(chain, NearChain)
    permission = CallPermission(*limits) if limits is not None else None
    return provision(chain, lane, public_keys, permission, gas_keys=gas_key, clerk=clerk)


FAMILY = ChainFamily(
    name="near",
    title="NEAR",
    unit=Unit("yoctoNEAR", "NEAR", 24, low=10**24, scales={"nanoNEAR": 15}, budget=10**15),
    network=NearNetworkSettings,
    pool=NearPoolSettings,
    kinds=KINDS,
    paths=PATHS,
    reading=reading,
    lanes=lanes,
    load_keys=load_keys,
    open_chain=open_chain,
    policy=lane_policy,
    probe=NodeProbe("status", "status", describe),
    add_keys=add_keys,
    key_limits=key_limits,
    add_gas_keys=add_gas_keys,
    purses=PURSES,
    signer=SIGNER_SIDE,
    doors={"pagoda": PAGODA},
)
