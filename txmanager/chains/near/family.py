"""NEAR as a `ChainFamily`: from settings to its adapter, and what each surface asks of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from txmanager.chains.endpoints import endpoints
from txmanager.chains.near.actions import CallPermission
from txmanager.chains.near.chain import NearChain
from txmanager.chains.near.intents import KINDS, PATHS
from txmanager.chains.near.policy import NETWORKS, HarmlessCall, NearNetwork, NearPolicy
from txmanager.chains.near.provision import provision
from txmanager.chains.near.reading import ELSEWHERE, PoolRules, read
from txmanager.chains.near.settings import NearNetworkSettings, NearPolicySettings, NearPoolSettings
from txmanager.core.chain import Chain
from txmanager.core.decide import Policy
from txmanager.core.findings import Finding
from txmanager.settings.family import CallLimits, ChainFamily, Held, NodeProbe, ReadPayload, Unit
from txmanager.signing.signer import Signer
from txmanager.signing.sources import Asked, Curve, KeySources


def lanes(name: str, network: NearNetworkSettings) -> str:
    return f"near:{name}"


def load_keys(
    sources: KeySources, name: str, network: NearNetworkSettings, pool: NearPoolSettings
) -> Iterator[tuple[str, Signer]]:
    for source in pool.keys:
        for found in sources.load(source, Asked(Curve.ED25519, pool.account)):
            yield f"near:{name}:{found.account}:{found.signer.public_key}", found.signer


def open_chain(name: str, network: NearNetworkSettings, held: Mapping[str, Held[NearPoolSettings]]) -> NearChain:
    facts = NETWORKS.get(name) or NearNetwork()
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
    given = {name: value for name, value in policy.model_dump().items() if value is not None}
    lists = {name: frozenset(value) for name, value in given.items() if isinstance(value, list | frozenset | set)}
    call = policy.harmless_call
    harmless = (
        HarmlessCall(call.receiver_id, call.method_name, call.args.encode(), call.gas) if call is not None else None
    )
    return NearPolicy(**{**given, **lists, "harmless_call": harmless})


def reading(pool: NearPoolSettings | None) -> ReadPayload:
    rules = ELSEWHERE if pool is None else PoolRules(pool.account, near_policy(pool.policy))
    return partial(read, rules=rules)


def lane_policy(network: NearNetworkSettings, pool: NearPoolSettings) -> Policy:
    return Policy(
        window=pool.window,
        max_inflight=pool.max_inflight,
        max_result_bytes=pool.max_result_bytes,
        reserve=pool.reserve,
        max_deposit=pool.policy.max_deposit,
    )


def describe(network: NearNetworkSettings, told: Any) -> Finding:
    sync = told.get("sync_info", {}) if isinstance(told, dict) else {}
    if sync.get("syncing"):
        return Finding("warn", "is still syncing", "wait, or use another node")
    height = sync.get("latest_block_height", "?")
    chain = told.get("chain_id", "?") if isinstance(told, dict) else "?"
    return Finding("ok", f"{chain}, block {height}")


def add_keys(
    chain: Chain, lane: str, public_keys: Sequence[str], limits: CallLimits | None, report: Callable[[str], None]
) -> Awaitable[object]:
    assert isinstance(chain, NearChain)
    permission = CallPermission(*limits) if limits is not None else None
    return provision(chain, lane, public_keys, permission, report=report)


FAMILY = ChainFamily(
    name="near",
    title="NEAR",
    unit=Unit("yoctoNEAR", "NEAR", 24, low=10**24),
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
    devnet="txmanager.devnet.command:near",
)
