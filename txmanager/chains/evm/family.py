"""EVM as a `ChainFamily`: from settings to its adapter, and what each surface asks of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from txmanager.chains.endpoints import endpoints
from txmanager.chains.evm.chain import EvmChain
from txmanager.chains.evm.given import EvmCounter
from txmanager.chains.evm.intents import KINDS, PATHS
from txmanager.chains.evm.names import RAW_KIND, LaneId
from txmanager.chains.evm.network import EvmNetwork, preset
from txmanager.chains.evm.openzeppelin import OPENZEPPELIN
from txmanager.chains.evm.reader import EvmReader
from txmanager.chains.evm.reading import read
from txmanager.chains.evm.settings import EvmNetworkSettings, EvmPoolSettings
from txmanager.chains.evm.unsigned import SIGNER_SIDE
from txmanager.chains.evm.upstream import EvmUpstream
from txmanager.chains.panel import origin
from txmanager.core.chain import Chain
from txmanager.core.decide import Policy
from txmanager.core.errors import InvalidSettings
from txmanager.core.findings import Finding
from txmanager.core.funds import PurseName
from txmanager.core.models import Json
from txmanager.settings.family import ChainFamily, Held, NodeProbe, Numbers, PurseSide, ReadPayload, Unit, Watching
from txmanager.settings.gateway import GatewaySettings
from txmanager.settings.pools import pinned_key
from txmanager.signing.signer import Signer
from txmanager.signing.sources import Asked, Curve, KeySources

KEYLESS_WINDOW = 100_000
"""No window: the bytes that everything waits for may come last."""
FILL_AFTER_S = Policy().fill_after_ms / 1000


def lanes(name: str, network: EvmNetworkSettings) -> str:
    return f"evm:{network.chain_id}"


def load_keys(
    sources: KeySources, name: str, network: EvmNetworkSettings, pool: EvmPoolSettings
) -> Iterator[tuple[str, Signer]]:
    for source in pool.keys:
        for found in sources.load(source, Asked(Curve.SECP256K1, pinned=pinned_key(source))):
            yield str(LaneId(network.chain_id, found.signer.public_key)), found.signer


def open_chain(name: str, network: EvmNetworkSettings, held: Mapping[str, Held[EvmPoolSettings]]) -> EvmChain:
    signers = {lane: one.signer for lane, one in held.items() if one.signer is not None}
    policies = {lane: held[lane].pool.policy for lane in signers}
    _check_agreement(name, network)
    return EvmChain(
        network.chain_id,
        endpoints(name, network),
        signers,
        settings=facts_of(network),
        max_values={lane: policy.max_deposit for lane, policy in policies.items()},
        max_costs={lane: policy.max_cost for lane, policy in policies.items()},
        bumps={lane: policy.bump_percent or 0 for lane, policy in policies.items()},
        keyless=held.keys() - signers.keys(),
        agreement=network.agreement,
        agreement_for_done=network.agreement_for_done,
    )


def facts_of(network: EvmNetworkSettings) -> EvmNetwork:
    """The preset with what the configuration overrides."""
    given = {name: value for name, value in network.fees.model_dump().items() if value is not None}
    if network.finality is not None:
        given["finality"] = network.finality
    return replace(preset(network.preset, network.chain_id), **given)


def _check_agreement(name: str, network: EvmNetworkSettings) -> None:
    """Endpoints of one host count as one: nodes tell no key of their own."""
    hosts = {origin(endpoint.name) for endpoint in endpoints(name, network)}
    if network.agreement is not None and network.agreement > len(hosts):
        raise InvalidSettings(
            f"networks.{name}.agreement", f"is {network.agreement}, but rpc has {len(hosts)} different hosts"
        )
    if network.agreement_for_done and len(hosts) < 2:
        raise InvalidSettings(f"networks.{name}.agreement_for_done", "needs endpoints of two different hosts")


def lane_policy(network: EvmNetworkSettings, pool: EvmPoolSettings) -> Policy:
    facts, policy = facts_of(network), pool.policy
    if pool.keyless:
        return Policy(
            window=KEYLESS_WINDOW,
            max_inflight=KEYLESS_WINDOW,
            include_within_ms=int(facts.resend_after_s * 1000),
            max_result_bytes=pool.max_result_bytes,
            keep_final_ms=int(pool.keep_final_bytes_s * 1000),
        )
    start, most = pool.windows if facts.window > 1 else (1, 1)
    return Policy(
        window=start,
        max_window=most,
        max_inflight=pool.inflight,
        include_within_ms=int(facts.resend_after_s * 1000),
        replace_after_ms=int((policy.bump_after_s or facts.replace_after_s) * 1000),
        cancel_after_ms=None if policy.cancel_after_s is None else int(policy.cancel_after_s * 1000),
        fill_after_ms=int((policy.fill_after_s or FILL_AFTER_S) * 1000),
        max_result_bytes=pool.max_result_bytes,
        keep_final_ms=int(pool.keep_final_bytes_s * 1000),
        reserve=pool.reserve,
        max_deposit=policy.max_deposit,
    )


def reading(network: EvmNetworkSettings | None, pool: EvmPoolSettings | None) -> ReadPayload:
    if pool is None:
        return read
    most = facts_of(network).max_fee if network is not None else None
    return partial(read, max_value=pool.policy.max_deposit, max_cost=pool.policy.max_cost, max_fee=most)


def describe(network: EvmNetworkSettings, answer: Any) -> Finding:
    if isinstance(answer, str) and int(answer, 16) != network.chain_id:
        return Finding("fail", f"serves chain {int(answer, 16)}, not {network.chain_id}", "use another node")
    return Finding("ok", f"chain {network.chain_id}")


def open_counter(name: str, network: EvmNetworkSettings) -> EvmCounter:
    return EvmCounter(EvmChain(network.chain_id, endpoints(name, network), settings=facts_of(network)))


def adopt(chain: Chain, lane: str) -> None:
    assert isinstance(chain, EvmChain)
    chain.add_keyless(lane)


def drop(chain: Chain, lane: str) -> None:
    assert isinstance(chain, EvmChain)
    chain.drop_keyless(lane)


def open_reader(name: str, network: EvmNetworkSettings) -> EvmReader:
    return EvmReader(network.chain_id, endpoints(name, network))


def purse_of(lane: str, name: PurseName) -> str:
    """An address is one lane and one purse."""
    return lane


def pay(purse: str, amount: int) -> tuple[str, Mapping[str, Json]]:
    return "evm.transfer", {"to": LaneId.parse(purse).address, "value": str(amount)}


def open_upstream(name: str, network: EvmNetworkSettings, gateway: GatewaySettings) -> EvmUpstream:
    """A chain that takes one transaction of an account at a time has no mempool."""
    facts = facts_of(network)
    strict = facts.window == 1 if gateway.backend is None else gateway.backend == "strict"
    nodes = [replace(node, max_body=gateway.max_answer_bytes) for node in endpoints(name, network)]
    return EvmUpstream(
        network.chain_id, nodes, strict=strict, network=facts, allow_unprotected=gateway.allow_unprotected
    )


FAMILY = ChainFamily(
    name="evm",
    title="EVM",
    unit=Unit("wei", scales={"gwei": 9, "ether": 18, "ETH": 18}, budget=10**9),
    network=EvmNetworkSettings,
    pool=EvmPoolSettings,
    kinds=KINDS,
    paths=PATHS,
    reading=reading,
    lanes=lanes,
    load_keys=load_keys,
    open_chain=open_chain,
    policy=lane_policy,
    probe=NodeProbe("eth_blockNumber", "eth_chainId", describe),
    numbers=Numbers(RAW_KIND, open_counter, adopt, drop),
    watching=Watching(open_reader),
    purses=PurseSide(frozenset({"account"}), purse_of, pay, f"evm:1:0x{1:040x}"),
    upstream=open_upstream,
    signer=SIGNER_SIDE,
    doors={"openzeppelin": OPENZEPPELIN},
)
