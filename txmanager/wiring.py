"""The only module that builds concrete adapters: from settings to a ledger, chains and the lanes to serve."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import BaseModel

from txmanager.chains.evm import KINDS as EVM_KINDS
from txmanager.chains.evm import EvmChain, EvmNetwork, LaneId, preset
from txmanager.chains.evm.given import EvmCounter
from txmanager.chains.evm.intents import PATHS as EVM_PATHS
from txmanager.chains.evm.names import check_address
from txmanager.chains.evm.reader import EvmReader
from txmanager.chains.evm.reading import read as read_evm
from txmanager.chains.near import KINDS, NETWORKS, HarmlessCall, NearChain, NearNetwork, NearPolicy
from txmanager.chains.near.intents import PATHS as NEAR_PATHS
from txmanager.chains.near.reading import ELSEWHERE, PoolRules
from txmanager.chains.near.reading import read as read_near
from txmanager.chains.panel import origin
from txmanager.core.chain import Chain
from txmanager.core.decide import Policy
from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.core.health import Limits
from txmanager.core.kinds import Kind, Reading
from txmanager.core.ledger import Ledger, Route
from txmanager.core.models import Json, LaneSpec
from txmanager.core.seal import Seals
from txmanager.ledger.memory import MemoryLedger
from txmanager.ledger.redis import RedisLedger
from txmanager.rpc.endpoint import Endpoint
from txmanager.rpc.http import HttpRpc
from txmanager.rpc.post import Poster
from txmanager.runtime.funding import TopUps
from txmanager.runtime.monitor import Watched
from txmanager.runtime.nonces import Desk, KeylessPool
from txmanager.runtime.producer import Producer
from txmanager.runtime.sealing import make_seals
from txmanager.runtime.webhooks import Target
from txmanager.runtime.worker import Service, Timing
from txmanager.settings import NetworkSettings, PolicySettings, PoolSettings, Settings
from txmanager.settings.models import PATIENCE
from txmanager.settings.secrets import reveal
from txmanager.signing.signer import Signer
from txmanager.signing.sources import KEY_SOURCES, Asked, Curve

Probe = Callable[[], Awaitable[None]]
KEYLESS_WINDOW = 100_000
FILL_AFTER_S = Policy().fill_after_ms / 1000


async def open_ledger(settings: Settings) -> Ledger:
    """Connect and refuse a server that cannot keep the promises."""
    ledger = settings.ledger
    url = ledger.reveal_url()
    if url.startswith("memory:"):
        return MemoryLedger(retention_ms=ledger.retention_s * 1000)
    opened = RedisLedger(
        url,
        prefix=ledger.prefix,
        durability=ledger.durability,
        replicas=ledger.replicas,
        retention_ms=ledger.retention_s * 1000,
        may_be_open=ledger.open,
    )
    await opened.start()
    return opened


def open_seals(settings: Settings) -> Seals | None:
    """What seals intents and checks them, where the configuration names secrets for that."""
    secrets = settings.ledger.reveal_seal()
    return make_seals(secrets, settings.ledger.seal_mode) if secrets else None


def build_services(settings: Settings) -> tuple[dict[str, Service], list[Chain]]:
    """The lanes this worker holds keys for, and the chains to close at the end."""
    services: dict[str, Service] = {}
    chains: list[Chain] = []
    wanted = settings.worker.pools
    for network_name, network in settings.networks.items():
        pools = {
            name: pool
            for name, pool in settings.pools.items()
            if pool.network == network_name and (wanted is None or name in wanted)
        }
        if not pools:
            continue
        build = _near if network.chain == "near" else _evm
        chain, lanes = build(network_name, network, pools)
        chains.append(chain)
        for lane, pool_name in lanes.items():
            if lane in services:
                raise InvalidSettings(f"pools.{pool_name}.keys", "a key serves two pools; one key is one lane")
            pool = pools[pool_name]
            services[lane] = _service(lane, pool_name, pool, chain)
    return services, chains


def _service(lane: str, pool_name: str, pool: PoolSettings, chain: Chain) -> Service:
    if pool.keyless:
        return Service(_keyless_pool(pool_name, pool).spec(lane), chain, _policy(pool, chain))
    return Service(LaneSpec(lane, pool_name, queue_limit=pool.queue_limit), chain, _policy(pool, chain))


def build_discovery(settings: Settings, chains: Sequence[Chain]) -> Callable[[Route], Service | None] | None:
    """Lanes that an API process registered for an address of its own choice: where a pool is keyless for any."""
    wanted = settings.worker.pools
    by_id = {chain.chain_id: chain for chain in chains if isinstance(chain, EvmChain)}
    open_pools = {
        name: (pool, by_id[chain_id])
        for name, pool in settings.pools.items()
        if pool.keyless == "any" and (wanted is None or name in wanted)
        if (chain_id := settings.networks[pool.network].chain_id) in by_id
    }

    def discover(route: Route) -> Service | None:
        if route.pool not in open_pools:
            return None
        pool, chain = open_pools[route.pool]
        chain.add_keyless(route.lane)
        return _service(route.lane, route.pool, pool, chain)

    return discover if open_pools else None


def build_desks(settings: Settings) -> tuple[dict[str, Desk], Callable[[], Awaitable[None]]]:
    """What the nonce service needs of every EVM network, and how to close it. No key."""
    desks: dict[str, Desk] = {}
    for name, network in settings.networks.items():
        if network.chain != "evm" or network.chain_id is None:
            continue
        chain = EvmChain(network.chain_id, endpoints(name, network), settings=evm_network(network))
        pools = tuple(
            _keyless_pool(pool_name, pool)
            for pool_name, pool in settings.pools.items()
            if pool.network == name and pool.keyless
        )
        signing = frozenset(n for n, pool in settings.pools.items() if pool.network == name and not pool.keyless)
        desks[name] = Desk(name, EvmCounter(chain), pools, signing)

    async def close() -> None:
        for desk in desks.values():
            await desk.chain.close()

    return desks, close


def _keyless_pool(name: str, pool: PoolSettings) -> KeylessPool:
    listed = () if pool.keyless == "any" else pool.keyless
    return KeylessPool(
        name,
        frozenset(check_address(f"pools.{name}.keyless", address) for address in listed),
        pool.keyless == "any",
        int(pool.reserve_for_s * 1000),
        pool.queue_limit,
        pool.policy.max_deposit,
    )


def build_kinds(settings: Settings) -> dict[str, Kind]:
    """The kinds of intents that can be asked for, each reading payloads by the rules of its pool. No key is touched."""
    rules = {
        name: PoolRules(pool.account, near_policy(pool.policy))
        for name, pool in settings.pools.items()
        if settings.networks[pool.network].chain == "near"
    }

    limits = {
        name: (pool.policy.max_deposit, pool.policy.max_cost)
        for name, pool in settings.pools.items()
        if settings.networks[pool.network].chain == "evm"
    }

    def read(kind: str, pool: str, payload: Mapping[str, Json]) -> Reading:
        chain, elsewhere = ("near", limits) if kind in KINDS else ("evm", rules)
        if pool in elsewhere:
            raise InvalidInput("pool", f"{pool!r} is of another chain; {kind} needs a pool on {chain.upper()}")
        if pool in settings.pools and settings.pools[pool].keyless:
            raise InvalidInput("pool", f"{pool!r} signs nothing: its callers do, see /evm/address/nonce")
        if chain == "evm":
            return read_evm(kind, payload, *limits.get(pool, ()))
        return read_near(kind, payload, rules.get(pool, ELSEWHERE))

    models: dict[str, type[BaseModel]] = {**KINDS, **EVM_KINDS}
    paths = {**NEAR_PATHS, **EVM_PATHS}
    return {name: Kind(name, model, partial(read, name), paths.get(name)) for name, model in models.items()}


def build_probes(settings: Settings) -> tuple[dict[str, Probe], Callable[[], Awaitable[None]]]:
    """One question per network that any live node answers, and how to close what asks them."""
    clients: dict[str, HttpRpc] = {}

    async def ask(client: HttpRpc, method: str) -> None:
        await client.call(method, [])

    async def close() -> None:
        for client in clients.values():
            await client.close()

    probes: dict[str, Probe] = {}
    for name, network in settings.networks.items():
        clients[name] = HttpRpc(endpoints(name, network))
        probes[name] = partial(ask, clients[name], "status" if network.chain == "near" else "eth_blockNumber")
    return probes, close


def build_targets(settings: Settings) -> tuple[list[Target], Callable[[], None]]:
    """Every webhook of every pool with its secret, and how to close their connections."""
    posters: list[Poster] = []
    targets: list[Target] = []
    for name, pool in settings.pools.items():
        for n, webhook in enumerate(pool.webhooks):
            where = f"pools.{name}.webhooks[{n}]"
            poster = Poster(reveal(f"{where}.url", webhook.url), webhook.timeout_s)
            secret = reveal(f"{where}.secret", webhook.secret).encode()
            posters.append(poster)
            told = (webhook.statuses, webhook.retry_for_s, webhook.tenants)
            targets.append(Target(name, webhook.name, poster, secret, *told))

    def close() -> None:
        for poster in posters:
            poster.close()

    return targets, close


def timing(settings: Settings) -> Timing:
    lease_ms = int(settings.worker.lease_s * 1000)
    return Timing(lease_ms=lease_ms, margin_ms=lease_ms // 5, grace_s=settings.worker.grace_s)


def endpoints(name: str, network: NetworkSettings) -> list[Endpoint]:
    return [
        Endpoint(reveal(f"networks.{name}.rpc[{n}].url", rpc.url), direct=rpc.direct)
        for n, rpc in enumerate(network.rpc)
    ]


def _near(name: str, network: NetworkSettings, pools: dict[str, PoolSettings]) -> tuple[Chain, dict[str, str]]:
    signers: dict[str, Signer] = {}
    policies: dict[str, NearPolicy] = {}
    lanes: dict[str, str] = {}
    for pool_name, pool in pools.items():
        for source in pool.keys:
            for found in KEY_SOURCES.load(source, Asked(Curve.ED25519, pool.account)):
                signer = found.signer
                lane = f"near:{name}:{found.account}:{signer.public_key}"
                if lane in lanes:
                    raise InvalidSettings(f"pools.{pool_name}.keys", f"key {signer.public_key} is listed twice")
                signers[lane], policies[lane], lanes[lane] = signer, near_policy(pool.policy), pool_name
    facts = NETWORKS.get(name) or NearNetwork()
    if network.finality is not None:
        facts = NearNetwork(facts.validity_blocks, facts.epoch_blocks, str(network.finality))
    chain = NearChain(
        name, endpoints(name, network), signers, policies=policies, settings=facts, **_agreement(name, network)
    )
    return chain, lanes


def _agreement(name: str, network: NetworkSettings) -> dict[str, Any]:
    """How many nodes must agree on what. Endpoints of one host count as one where nodes tell no key of their own."""
    hosts = {origin(endpoint.name) for endpoint in endpoints(name, network)}
    if network.chain == "evm" and network.agreement is not None and network.agreement > len(hosts):
        raise InvalidSettings(
            f"networks.{name}.agreement", f"is {network.agreement}, but rpc has {len(hosts)} different hosts"
        )
    if network.chain == "evm" and network.agreement_for_done and len(hosts) < 2:
        raise InvalidSettings(f"networks.{name}.agreement_for_done", "needs endpoints of two different hosts")
    return {"agreement": network.agreement, "agreement_for_done": network.agreement_for_done}


def _policy(pool: PoolSettings, chain: Chain) -> Policy:
    if not isinstance(chain, EvmChain):
        return Policy(
            window=pool.window,
            max_inflight=pool.max_inflight,
            max_result_bytes=pool.max_result_bytes,
            reserve=pool.reserve,
            max_deposit=pool.policy.max_deposit,
        )
    facts, policy = chain.settings, pool.policy
    if pool.keyless:
        # No window: the bytes that everything waits for may come last.
        return Policy(
            window=KEYLESS_WINDOW,
            max_inflight=KEYLESS_WINDOW,
            include_within_ms=int(facts.resend_after_s * 1000),
            max_result_bytes=pool.max_result_bytes,
        )
    return Policy(
        window=min(pool.window, facts.window),
        max_inflight=pool.max_inflight,
        include_within_ms=int(facts.resend_after_s * 1000),
        replace_after_ms=int((policy.bump_after_s or facts.replace_after_s) * 1000),
        cancel_after_ms=None if policy.cancel_after_s is None else int(policy.cancel_after_s * 1000),
        fill_after_ms=int((policy.fill_after_s or FILL_AFTER_S) * 1000),
        max_result_bytes=pool.max_result_bytes,
        reserve=pool.reserve,
        max_deposit=policy.max_deposit,
    )


def build_watched(settings: Settings, ledger: Ledger) -> tuple[dict[str, Watched], Callable[[], Awaitable[None]]]:
    """Every EVM network with what reads it, by the beginning of its lanes' ids, and how to close that. No key."""
    told, readers, watched = settings.monitor, list[EvmReader](), dict[str, Watched]()
    for name, network in settings.networks.items():
        if network.chain != "evm" or network.chain_id is None:
            continue
        wanted = told.networks.get(name)
        reader = EvmReader(network.chain_id, endpoints(name, network))
        limits = Limits(
            stuck_after_ms=int(told.stuck_after_s * 1000),
            overdue_after_ms=int(told.overdue_after_s * 1000),
            dropped_after_ms=int(told.dropped_after_s * 1000),
            drift=told.drift,
            low_balance=wanted.low_balance if wanted is not None else None,
        )
        top_ups = None
        if wanted is not None and wanted.top_up is not None and wanted.top_up_pool is not None:
            every_ms = int(wanted.top_up_every_s * 1000)
            producer = Producer(ledger, seals=open_seals(settings))
            top_ups = TopUps(ledger, producer, wanted.top_up_pool, wanted.top_up, every_ms)
        readers.append(reader)
        watched[f"evm:{network.chain_id}"] = Watched(name, reader, limits, top_ups)

    async def close() -> None:
        for reader in readers:
            await reader.close()

    return watched, close


def evm_network(network: NetworkSettings) -> EvmNetwork:
    """The preset with what the configuration overrides."""
    assert network.chain_id is not None
    facts = preset(network.preset, network.chain_id)
    given = {name: value for name, value in network.fees.model_dump().items() if value is not None}
    if network.finality is not None:
        given["finality"] = network.finality
    return replace(facts, **given)


def _evm(name: str, network: NetworkSettings, pools: dict[str, PoolSettings]) -> tuple[Chain, dict[str, str]]:
    assert network.chain_id is not None
    signers: dict[str, Signer] = {}
    max_values: dict[str, int | None] = {}
    bumps: dict[str, int] = {}
    max_costs: dict[str, int | None] = {}
    lanes: dict[str, str] = {}
    for pool_name, pool in pools.items():
        for source in pool.keys:
            for found in KEY_SOURCES.load(source, Asked(Curve.SECP256K1)):
                signer = found.signer
                lane = str(LaneId(network.chain_id, signer.public_key))
                if lane in lanes:
                    raise InvalidSettings(f"pools.{pool_name}.keys", f"the key of {signer.public_key} is listed twice")
                signers[lane], max_values[lane], lanes[lane] = signer, pool.policy.max_deposit, pool_name
                bumps[lane], max_costs[lane] = pool.policy.bump_percent or 0, pool.policy.max_cost
    keyless = {
        str(LaneId(network.chain_id, address)): name
        for name, pool in pools.items()
        for address in sorted(_keyless_pool(name, pool).addresses)
    }
    for lane in sorted(keyless.keys() & signers.keys()):
        where, address = f"pools.{keyless[lane]}.keyless", lane.rpartition(":")[2]
        raise InvalidSettings(where, f"pool {lanes[lane]} has the key of {address}; an address cannot be both")
    lanes |= keyless
    facts = evm_network(network)
    chain = EvmChain(
        network.chain_id,
        endpoints(name, network),
        signers,
        settings=facts,
        max_values=max_values,
        max_costs=max_costs,
        bumps=bumps,
        keyless=keyless,
        **_agreement(name, network),
    )
    return chain, lanes


def near_policy(policy: PolicySettings) -> NearPolicy:
    given = {
        name: value
        for name, value in policy.model_dump().items()
        if value is not None and name not in ("harmless_call", *PATIENCE)
    }
    lists = {name: frozenset(value) for name, value in given.items() if isinstance(value, list | frozenset | set)}
    call = policy.harmless_call
    harmless = (
        HarmlessCall(call.receiver_id, call.method_name, call.args.encode(), call.gas) if call is not None else None
    )
    return NearPolicy(**{**given, **lists}, harmless_call=harmless)
