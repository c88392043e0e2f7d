"""The only module that builds concrete adapters: from settings to a ledger, chains and the lanes to serve."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from txmanager.chains.endpoints import endpoints
from txmanager.core.admission import Limits as MempoolLimits
from txmanager.core.admission import Mempool
from txmanager.core.archive import ArchiveReader, ArchiveWriter
from txmanager.core.chain import Chain
from txmanager.core.errors import BudgetExhausted, InvalidInput, InvalidSettings, PolicyRefused
from txmanager.core.funds import PurseName
from txmanager.core.health import Limits
from txmanager.core.kinds import Kind, Reading
from txmanager.core.ledger import Ledger, Route
from txmanager.core.models import Json, LaneSpec
from txmanager.core.purses import METER_MS, Marks
from txmanager.core.seal import Seals
from txmanager.core.signing_policy import KeyPolicy
from txmanager.core.trace import Tracer
from txmanager.core.upstream import Upstream
from txmanager.extras import require
from txmanager.ledger.durable import DurableObjectLedger
from txmanager.ledger.memory import MemoryLedger
from txmanager.ledger.memory.mempool import MemoryMempool
from txmanager.ledger.redis import RedisLedger
from txmanager.ledger.redis.mempool import RedisMempool
from txmanager.rpc.http import HttpRpc
from txmanager.rpc.post import Poster
from txmanager.runtime.accept.billing import build_billing
from txmanager.runtime.accept.nonces import KeylessPool, NonceDesk
from txmanager.runtime.accept.producer import Producer
from txmanager.runtime.care.monitor import Watched
from txmanager.runtime.care.purses import Cared
from txmanager.runtime.care.top_ups import TopUps
from txmanager.runtime.deliver.webhooks import Target
from txmanager.runtime.gateway.build import limits_of, options_of, rules_of, terms_of
from txmanager.runtime.gateway.lanes import OwnLanes
from txmanager.runtime.gateway.metrics import GatewayMetrics
from txmanager.runtime.gateway.node import GatewayNode
from txmanager.runtime.gateway.rates import Rates
from txmanager.runtime.lane.sealing import make_seals
from txmanager.runtime.lane.worker import Service, Timing
from txmanager.settings import KeylessPoolSettings, NetworkSettings, PoolSettings, Settings
from txmanager.settings.archive import ArchiveSettings
from txmanager.settings.family import AnyFamily, AnyHeld, Held, Numbers, OpenReader, ReadPayload, find
from txmanager.settings.gateway import GatewaySettings
from txmanager.settings.secrets import reveal
from txmanager.settings.signers import (
    GuardedKeySettings,
    KmsSettings,
    Pkcs11Settings,
    ProcessSettings,
    SignerSettings,
    TlsSettings,
    host_and_port,
    socket_path,
)
from txmanager.signing.guard import Guard
from txmanager.signing.limiter import Shares
from txmanager.signing.process import ProcessOptions, ProcessProvider
from txmanager.signing.remote import Provider, loads
from txmanager.signing.secret import Secret
from txmanager.signing.service import Client, SignerService
from txmanager.signing.sources import KEY_SOURCES, Asked, Curve, KeySources
from txmanager.signing.totals import Totals
from txmanager.signing.totals import create as create_totals

if TYPE_CHECKING:
    from txmanager.archive import Database

DURABLE = "do+"
"""How the URL of a ledger on Durable Objects begins."""
Close = Callable[[], Awaitable[None]]
Probe = Callable[[], Awaitable[None]]


async def open_ledger(settings: Settings) -> Ledger:
    """Connect and refuse a server that cannot keep the promises."""
    ledger = settings.ledger
    url = ledger.reveal_url()
    if url.startswith("memory:"):
        return MemoryLedger(retention_ms=ledger.retention_s * 1000)
    if url.startswith(DURABLE):
        durable = DurableObjectLedger(url, prefix=ledger.prefix, retention_ms=ledger.retention_s * 1000)
        await durable.start()
        return durable
    opened = RedisLedger(
        url,
        prefix=ledger.prefix,
        durability=ledger.durability,
        replicas=ledger.replicas,
        retention_ms=ledger.retention_s * 1000,
        may_be_open=ledger.open,
        archive_lag=settings.archive.max_lag if settings.archive is not None else None,
    )
    await opened.start()
    return opened


def open_seals(settings: Settings) -> Seals | None:
    """What seals intents and checks them, where the configuration names secrets for that."""
    secrets = settings.ledger.reveal_seal()
    return make_seals(secrets, settings.ledger.seal_mode) if secrets else None


def open_tracer(settings: Settings, process: str) -> Tracer | None:
    """Where spans go; None where the configuration asks for no traces."""
    tracing = settings.tracing
    if tracing is None:
        return None
    require("[tracing]", "otel")
    from txmanager.tracing import OtelTracer

    return OtelTracer(tracing.endpoint, tracing.service, process, tracing.sample)


def open_database(archive: ArchiveSettings) -> Database:
    require("[archive]", "archive")
    from txmanager.archive import Database

    return Database(archive.reveal_url())


async def open_archive_writer(archive: ArchiveSettings) -> ArchiveWriter:
    """The archive to store in; makes its tables, or changes those of an older release."""
    database = open_database(archive)
    from txmanager.archive import SqlWriter

    await database.prepare()
    return SqlWriter(database, archive.index_metadata)


async def open_archive_reader(settings: Settings) -> ArchiveReader | None:
    """The archive to read from; None where the configuration has none."""
    if settings.archive is None:
        return None
    database = open_database(settings.archive)
    from txmanager.archive import SqlReader

    await database.prepare()
    return SqlReader(database)


async def detach_archive(settings: Settings) -> None:
    """Let final records go at once again. An archiver that still runs does not attend its lanes a second time."""
    ledger = await open_ledger(settings)
    try:
        for route in (*await ledger.routes(), *await ledger.parked()):
            await ledger.archive(route.lane, None)
    finally:
        await ledger.close()


def open_shares() -> Shares:
    """For a worker: who its signers' limiters belong to."""
    return Shares()


def build_services(settings: Settings, shares: Shares | None = None) -> tuple[dict[str, Service], list[Chain]]:
    """The lanes this worker holds keys for, and the chains to close at the end. `shares` gets the limiters of its
    signers, whose rates are divided among the workers."""
    services: dict[str, Service] = {}
    chains: list[Chain] = []
    sources = key_sources(settings, shares)  # once: a signer has one connection and one limiter, whatever the networks
    for name in _served_networks(settings):
        family, network = settings.family(name), settings.networks[name]
        held = _held(settings, name, sources)
        chain = family.open_chain(name, network, held)
        chains.append(chain)
        for lane, one in held.items():
            if lane in services:
                raise InvalidSettings(f"pools.{one.pool_name}.keys", "a key is used by two pools; one key is one lane")
            services[lane] = _service(settings, lane, one.pool_name, chain)
    return services, chains


def open_lane_chain(settings: Settings, lane: str, pool_name: str) -> Chain:
    """The chain of one lane without its key: it can look and send what is signed, and sign nothing."""
    pool = settings.pools.get(pool_name)
    if pool is None:
        raise InvalidSettings(f"pools.{pool_name}", f"is not in this configuration, but lane {lane} belongs to it")
    family, network = settings.family(pool.network), settings.networks[pool.network]
    return family.open_chain(pool.network, network, {lane: Held(pool_name, pool, None)})


def _served_networks(settings: Settings) -> list[str]:
    return [name for name in settings.networks if _served(settings, name)]


def _served(settings: Settings, network: str) -> dict[str, PoolSettings]:
    """The pools of a network that this worker serves."""
    wanted = settings.worker.pools
    pools = settings.pools.items()
    return {name: pool for name, pool in pools if pool.network == network and (wanted is None or name in wanted)}


def key_sources(settings: Settings, shares: Shares | None = None) -> KeySources:
    """The registry with the configuration's own signers. Their libraries are loaded where they are used."""
    sources = KEY_SOURCES
    for name, signer in settings.signers.items():
        make = _maker(name, signer, shares or Shares())
        sources = sources.with_signer(name, loads(name, make, list(Curve)))
    return sources


def _maker(name: str, signer: SignerSettings, shares: Shares) -> Callable[[], Provider]:
    match signer:
        case Pkcs11Settings():
            return pkcs11_maker(name, signer)
        case KmsSettings():
            return kms_maker(name, signer, shares)
        case ProcessSettings():
            return process_maker(name, signer)


def pkcs11_maker(name: str, signer: Pkcs11Settings) -> Callable[[], Provider]:
    from txmanager.signing.pkcs11 import Pkcs11Options, Pkcs11Provider

    def pin() -> Secret:
        return Secret(reveal(f"signers.{name}.pin", signer.pin))

    options = Pkcs11Options(signer.module, signer.token, pin, name, signer.timeout_s)
    return lambda: Pkcs11Provider(options)


def kms_maker(name: str, signer: KmsSettings, shares: Shares) -> Callable[[], Provider]:
    if find_spec("botocore") is None:
        raise InvalidSettings(f"signers.{name}", "needs botocore; install txmanager[aws]")
    from txmanager.signing.aws_kms import KmsOptions, KmsProvider

    fields = signer.model_dump(exclude={"provider"})
    options = KmsOptions(name=name, **fields)

    def make() -> KmsProvider:
        provider = KmsProvider(options)
        shares.add(provider.limiter)
        return provider

    return make


def process_maker(name: str, signer: ProcessSettings) -> Callable[[], Provider]:
    path = socket_path(signer.address)
    host, port = ("", 0) if path is not None else host_and_port(signer.address)
    tls = partial(_tls, f"signers.{name}.tls", signer.tls, ssl.Purpose.SERVER_AUTH) if signer.tls is not None else None
    options = ProcessOptions(name, path, host, port, tls, signer.timeout_s)
    return lambda: ProcessProvider(options)


def _tls(where: str, tls: TlsSettings, purpose: ssl.Purpose) -> ssl.SSLContext:
    """Both sides show a certificate, and each checks the other's."""
    try:
        context = ssl.create_default_context(purpose, cafile=tls.ca)
        context.load_cert_chain(tls.certificate, tls.key)
    except (OSError, ssl.SSLError) as error:
        words = error.strerror if isinstance(error, FileNotFoundError) else type(error).__name__
        raise InvalidSettings(where, f"ca, certificate or key cannot be used: {words}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def open_signer(settings: Settings) -> SignerService:
    """`txmanager signer`, listening: every key behind its policy."""
    signer = settings.signer
    if signer is None:
        raise InvalidSettings("signer", "is missing; see config/signer.toml for an example")
    totals, sources = Totals(Path(signer.state)), key_sources(settings)
    guards = {name: _guard(name, key, sources, totals) for name, key in signer.keys.items()}
    clients = [Client(name, one.keys, one.uid, one.certificate) for name, one in signer.clients.items()]
    service = SignerService(guards, clients)
    path = socket_path(signer.listen)
    if path is not None:
        await service.listen_unix(Path(path), signer.group)
    else:
        assert signer.tls is not None
        await service.listen_tls(*host_and_port(signer.listen), _tls("signer.tls", signer.tls, ssl.Purpose.CLIENT_AUTH))
    return service


def _guard(name: str, key: GuardedKeySettings, sources: KeySources, totals: Totals) -> Guard:
    side, where = find(key.chain).signer, f"signer.keys.{name}"
    assert side is not None
    curve = Curve(side.curve)
    try:
        found = [one.signer for one in sources.load(key.source, Asked(curve, key.account))]
    except InvalidSettings as error:
        raise InvalidSettings(f"{where}.source", str(error)) from None
    wanted = [one for one in found if key.public_key in (None, one.public_key)]
    if len(wanted) != 1:
        held = f"holds {len(found)} keys" if key.public_key is None else f"does not hold {key.public_key}"
        raise InvalidSettings(f"{where}.source", f"{held}; name one of them with public_key")
    policy = key.policy
    rules = KeyPolicy(
        actions=policy.actions if policy.actions is not None else side.usual,
        max_value=policy.max_value,
        max_fee=policy.max_fee,
        max_per_day=policy.max_per_day,
        receivers=None if policy.receivers is None else frozenset(map(side.receiver, policy.receivers)),
        methods=None if policy.methods is None else frozenset(map(side.method, policy.methods)),
        own_account=policy.own_account,
        account=key.account,
        chain_id=key.chain_id,
    )
    return Guard(name, curve, wanted[0], rules, totals, side.digest, side.read)


def init_signer(settings: Settings) -> str:
    """Make the file of the day's totals, once."""
    if settings.signer is None:
        raise InvalidSettings("signer", "is missing; see config/signer.toml for an example")
    path = Path(settings.signer.state)
    return f"made {path}" if create_totals(path) else f"{path} exists and was not changed"


def _held(settings: Settings, name: str, sources: KeySources) -> dict[str, AnyHeld]:
    """Every lane to serve on a network, with its pool and its key. One key is one lane, and so is one address."""
    family, network, pools = settings.family(name), settings.networks[name], _served(settings, name)
    held: dict[str, AnyHeld] = {}
    for pool_name, pool in pools.items():
        for lane, signer in family.load_keys(sources, name, network, pool):
            if lane in held:
                raise InvalidSettings(f"pools.{pool_name}.keys", f"the key {signer.public_key} is listed twice")
            held[lane] = Held(pool_name, pool, signer)
    for pool_name, pool in pools.items():
        for address in () if pool.callers_sign == "any" else sorted(pool.callers_sign):
            lane = f"{family.lanes(name, network)}:{address}"
            if lane in held:
                has_key = f"pool {held[lane].pool_name} has the key of {address}"
                raise InvalidSettings(f"pools.{pool_name}.keyless", f"{has_key}; an address cannot be both")
            held[lane] = Held(pool_name, pool, None)
    return held


def _service(settings: Settings, lane: str, pool_name: str, chain: Chain) -> Service:
    pool = settings.pools[pool_name]
    policy = settings.family(pool.network).policy(settings.networks[pool.network], pool)
    if isinstance(pool, KeylessPoolSettings) and pool.keyless:
        return Service(_keyless_pool(pool_name, pool).spec(lane), chain, policy)
    return Service(LaneSpec(lane, pool_name, queue_limit=pool.queue_limit), chain, policy)


def build_discovery(settings: Settings, chains: Sequence[Chain]) -> Callable[[Route], Service | None] | None:
    """Lanes that an API process registered for an address of its own choice: where a pool is keyless for any.
    `chains` are those of `build_services`."""
    open_pools: dict[str, tuple[Numbers[NetworkSettings], Chain]] = {}
    for name, chain in zip(_served_networks(settings), chains, strict=True):
        numbers = settings.family(name).numbers
        if numbers is not None:
            pools = _served(settings, name).items()
            open_pools |= {n: (numbers, chain) for n, pool in pools if pool.callers_sign == "any"}

    def discover(route: Route) -> Service | None:
        if route.pool not in open_pools:
            return None
        numbers, chain = open_pools[route.pool]
        numbers.adopt(chain, route.lane)
        pool = settings.pools[route.pool]
        park_after_s = pool.park_after_s if isinstance(pool, KeylessPoolSettings) else 0.0
        service = _service(settings, route.lane, route.pool, chain)
        return replace(service, park_after_ms=int(park_after_s * 1000), drop=partial(numbers.drop, chain))

    return discover if open_pools else None


def build_desks(settings: Settings) -> tuple[dict[str, NonceDesk], Close]:
    """What the nonce service needs of every network that counts for callers, and how to close it. No key."""
    desks: dict[str, NonceDesk] = {}
    for name, network in settings.networks.items():
        numbers = settings.family(name).numbers
        if numbers is None:
            continue
        pools = {n: pool for n, pool in settings.pools.items() if pool.network == name}
        keyless = {n: pool for n, pool in pools.items() if isinstance(pool, KeylessPoolSettings) and pool.keyless}
        served = tuple(_keyless_pool(n, pool) for n, pool in keyless.items())
        desks[name] = NonceDesk(name, numbers.open(name, network), served, frozenset(pools.keys() - keyless.keys()))

    async def close() -> None:
        for desk in desks.values():
            await desk.chain.close()

    return desks, close


def _keyless_pool(name: str, pool: KeylessPoolSettings) -> KeylessPool:
    return KeylessPool(
        name,
        frozenset(() if pool.keyless == "any" else pool.keyless),
        pool.keyless == "any",
        int(pool.reserve_for_s * 1000),
        pool.queue_limit,
        pool.policy.max_deposit,
    )


def build_kinds(settings: Settings) -> dict[str, Kind]:
    """The kinds of intents that can be asked for, each reading payloads by the rules of its pool. No key is touched."""
    kinds: dict[str, Kind] = {}
    for family in settings.families().values():
        read = partial(_read, settings, family, _rules(settings, family), family.reading(None, None))
        kinds |= {
            name: Kind(name, model, partial(read, name), family.paths.get(name)) for name, model in family.kinds.items()
        }
    return kinds


def _rules(settings: Settings, family: AnyFamily) -> dict[str, ReadPayload]:
    pools = settings.pools.items()
    return {
        name: family.reading(settings.networks[pool.network], pool)
        for name, pool in pools
        if settings.family(pool.network) is family
    }


def _read(
    settings: Settings,
    family: AnyFamily,
    rules: Mapping[str, ReadPayload],
    elsewhere: ReadPayload,
    kind: str,
    pool: str,
    payload: Mapping[str, Json],
) -> Reading:
    known = settings.pools.get(pool)
    if known is not None and pool not in rules:
        raise InvalidInput("pool", f"{pool!r} is of another chain; {kind} needs a pool on {family.title}")
    if known is not None and known.callers_sign:
        raise InvalidInput("pool", f"{pool!r} does not sign; its callers do. See /{family.name}/address/nonce")
    return rules.get(pool, elsewhere)(kind, payload)


def build_probes(settings: Settings) -> tuple[dict[str, Probe], Close]:
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
        probes[name] = partial(ask, clients[name], settings.family(name).probe.alive)
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
            terms = (webhook.statuses, webhook.retry_for_s, webhook.tenants)
            targets.append(Target(name, webhook.name, poster, secret, *terms))

    def close() -> None:
        for poster in posters:
            poster.close()

    return targets, close


def timing(settings: Settings) -> Timing:
    lease_ms = int(settings.worker.lease_s * 1000)
    return Timing(lease_ms=lease_ms, margin_ms=lease_ms // 5, grace_s=settings.worker.grace_s)


def build_watched(settings: Settings) -> tuple[dict[str, Watched], Close]:
    """Every network whose nonces are monitored, by the beginning of its lanes' ids, and how to close what reads it."""
    monitor, readers, watched = settings.monitor, list[OpenReader](), dict[str, Watched]()
    limits = Limits(
        stuck_after_ms=int(monitor.stuck_after_s * 1000),
        overdue_after_ms=int(monitor.overdue_after_s * 1000),
        dropped_after_ms=int(monitor.dropped_after_s * 1000),
        drift=monitor.drift,
    )
    for name, network in settings.networks.items():
        family = settings.family(name)
        if family.watching is not None:
            readers.append(family.watching.open(name, network))
            watched[family.lanes(name, network)] = Watched(name, readers[-1], limits)

    async def close() -> None:
        for reader in readers:
            await reader.close()

    return watched, close


def build_purses(settings: Settings, ledger: Ledger, *, pays: bool = True) -> tuple[dict[str, Cared], Close]:
    """Every network whose purses are kept, by the beginning of its lanes' ids, and how to close what reads it. No key
    is touched. `InvalidSettings` where a treasury could not pay; one that only looks has none."""
    kinds, billing, cared = build_kinds(settings), build_billing(settings), dict[str, Cared]()
    producer = Producer(ledger, seals=open_seals(settings))

    def read(kind: str, pool: str, payload: Mapping[str, Json]) -> Reading:
        return kinds[kind].read(pool, payload)

    for name, network in settings.networks.items():
        family, wanted = settings.family(name), settings.monitor.networks.get(name)
        if family.purses is None:
            continue
        marks = wanted.marks(family.unit) if wanted is not None else {}
        top_ups = None
        if pays and wanted is not None and wanted.treasury is not None:
            every_ms, meter_ms = int(wanted.every_s * 1000), min(METER_MS, settings.ledger.retention_s * 1000)
            pay, pool = family.purses.pay, wanted.treasury
            top_ups = TopUps(ledger, producer, billing, pool, pay, read, every_ms, meter_ms)
            _check_treasury(f"monitor.networks.{name}", family, top_ups, marks)
        chain = family.open_chain(name, network, {})
        cared[family.lanes(name, network)] = Cared(name, chain, family.purses, marks, top_ups)

    async def close() -> None:
        for one in cared.values():
            await one.chain.close()

    return cared, close


def _check_treasury(where: str, family: AnyFamily, top_ups: TopUps, marks: Mapping[PurseName, Marks]) -> None:
    """What the treasury could never pay is said at the start, not when a purse is empty."""
    assert family.purses is not None
    most = max((mark.high for mark in marks.values() if mark.high is not None), default=0)
    try:
        billed = top_ups.bill(family.purses.example, *family.purses.pay(family.purses.example, most))
    except (PolicyRefused, BudgetExhausted) as error:
        raise InvalidSettings(f"{where}.treasury", f"pool {top_ups.pool!r} could not pay: {error}") from None
    own = [named.budget for named in top_ups.billing.configured() if named.kind == "pool"]
    small = [one.name for one in own if billed.bill and one in billed.bill.budgets and one.limit < billed.bill.units]
    if small:
        raise InvalidSettings(f"{where}.high", f"one top-up may cost more than the whole budget {small[0]}")


def open_mempool(settings: Settings, chain_id: int, limits: MempoolLimits) -> RedisMempool:
    """One chain's mempool beside the ledger, on the same server and with the same durability."""
    ledger = settings.ledger
    return RedisMempool(
        ledger.reveal_url(),
        chain_id,
        limits,
        prefix=ledger.prefix,
        durability=ledger.durability,
        replicas=ledger.replicas,
        may_be_open=ledger.open,
    )


def open_gateway_ledger(settings: Settings) -> RedisLedger:
    """The ledger, not yet started: a gateway may run while it is away."""
    ledger = settings.ledger
    return RedisLedger(
        ledger.reveal_url(),
        prefix=ledger.prefix,
        durability=ledger.durability,
        replicas=ledger.replicas,
        may_be_open=ledger.open,
    )


def build_gateway(
    settings: Settings, gateway: GatewaySettings, metrics: GatewayMetrics, lanes: OwnLanes | None
) -> tuple[dict[str, GatewayNode], Close]:
    """Every network that the gateway serves, and how to close what it opened. No key."""
    nodes: dict[str, GatewayNode] = {}
    opened: list[Upstream | Mempool] = []
    for name in settings.with_gateway() if gateway.networks is None else gateway.networks:
        family, network = settings.family(name), settings.networks[name]
        assert family.upstream is not None
        upstream = family.upstream(name, network, gateway)
        limits = limits_of(gateway, upstream.strict, upstream.resend_after_s)
        spare = limits_of(gateway, upstream.strict, upstream.resend_after_s, local=True)
        mempool: Mempool
        start = None
        if gateway.store == "memory":
            mempool = MemoryMempool(limits)
        else:
            shared = open_mempool(settings, upstream.chain_id, limits)
            mempool, start = shared, shared.start
        beginning = family.lanes(name, network)
        nodes[name] = GatewayNode(
            name,
            upstream,
            mempool,
            options_of(gateway),
            rules_of(gateway, upstream.strict),
            terms_of(gateway),
            metrics,
            lanes=partial(lanes.addresses, beginning) if lanes is not None else frozenset,
            admits=Rates(gateway.per_second.sender).admits,
            local=partial(MemoryMempool, spare),
            start_store=start,
        )
        opened += [upstream, mempool]

    async def close() -> None:
        for part in opened:
            await part.close()

    return nodes, close
