"""What a server must be like before money depends on it, in words an operator can act on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from txmanager.core.errors import Misconfigured, TxManagerError
from txmanager.core.findings import Finding
from txmanager.ledger.redis.access import open_servers
from txmanager.ledger.redis.links import Dial, Link, SingleLink, connect
from txmanager.ledger.redis.wire import Address, ReplyError

Durability = Literal["fsync", "replicas", "none"]


def _info(text: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in text.decode(errors="replace").splitlines() if ":" in line)
    return {name: value for name, _, value in lines}


async def inspect_link(
    link: Link, durability: Durability, replicas: int = 1, *, may_be_open: bool = False
) -> list[Finding]:
    findings = []
    commands: list[tuple[str | bytes | int, ...]] = [
        ("INFO",),
        ("CONFIG", "GET", "appendfsync"),
        ("CONFIG", "GET", "no-appendfsync-on-rewrite"),
    ]
    for replies in await link.everywhere(commands):
        if isinstance(replies[0], ReplyError):
            raise Misconfigured(f"Redis refuses us: {replies[0]}. Check the user and password in ledger.url.")
        info = _info(replies[0])
        findings += _judge(info)
        findings.append(_durability(durability, replicas, replies[1:], info, isinstance(link, SingleLink)))
    for address in await open_servers(link):
        findings.append(_open(address, may_be_open))
    return findings


def _open(address: Address, allowed: bool) -> Finding:
    if allowed:
        return Finding("warn", f"{address!r} answers without credentials (ledger.open)", "set a password")
    return Finding(
        "fail",
        f"{address!r} answers without credentials: whoever reaches it can spend",
        "set requirepass on the server and ledger.password here, or ledger.open = true where nobody else reaches it",
    )


def _judge(info: dict[str, str]) -> list[Finding]:
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version") or info.get("redis_version", "0")
    findings = [Finding("ok", f"{name} {version}")]
    if tuple(map(int, info.get("redis_version", "0.0").split(".")[:2])) < (6, 2):
        findings = [Finding("fail", f"{name} {version} is too old", "use Redis 6.2 or later, or Valkey")]
    if info.get("role") == "slave":
        findings.append(
            Finding(
                "fail", "the server is a replica and takes no writes", "let ledger.url name the primary or Sentinel"
            )
        )
    findings.append(_allocator(info))
    findings.append(_eviction(info.get("maxmemory_policy", "noeviction")))
    findings.append(
        Finding("ok", "append-only file is on")
        if info.get("aof_enabled") == "1"
        else Finding("warn", "persistence is off: a restart forgets every intent", "set appendonly yes")
    )
    return findings


def _allocator(info: dict[str, str]) -> Finding:
    """A library that was preloaded does not show in INFO, only in the process, if that runs on this machine."""
    built_with = info.get("mem_allocator", "unknown")
    if built_with.startswith("jemalloc"):
        return Finding("ok", f"allocator {built_with}")
    process = Path("/proc") / info.get("process_id", "0")
    try:
        here = (process / "comm").read_text().strip() in ("valkey-server", "redis-server")
        if here and "libjemalloc" in (process / "maps").read_text():
            return Finding("ok", "allocator jemalloc (preloaded)")
    except OSError:
        pass
    return Finding("ok", f"allocator {built_with}; with jemalloc the server needs less processor time")


def _eviction(policy: str) -> Finding:
    if policy == "noeviction":
        return Finding("ok", "maxmemory-policy noeviction")
    return Finding(
        "fail",
        f"maxmemory-policy is {policy}: the server would delete accepted intents when memory is short",
        "set maxmemory-policy noeviction",
    )


def _durability(
    durability: Durability, replicas: int, config: list[Any], info: dict[str, str], single: bool
) -> Finding:
    if durability == "none":
        return Finding(
            "warn",
            "durability none: a crash of the server may lose acknowledged intents and pay twice",
            'set ledger.durability to "fsync" or "replicas"',
        )
    if durability == "replicas":
        return _replicated(replicas, int(info.get("connected_slaves", "0")))
    if not single:
        return Finding(
            "fail",
            "durability fsync does not survive a failover",
            'set ledger.durability to "replicas" with Sentinel and Cluster',
        )
    fsync, paused = (c[1].decode() if isinstance(c, list) and len(c) > 1 else "unknown" for c in config)
    persisted = info.get("aof_enabled") == "1"
    if not persisted or fsync != "always":
        shown = fsync if persisted else "off"
        return Finding(
            "fail",
            f"durability fsync needs appendonly yes and appendfsync always; appendfsync is {shown}",
            'set appendonly yes and appendfsync always, or choose ledger.durability = "none" and its risk',
        )
    if paused == "yes":
        return Finding(
            "fail",
            "no-appendfsync-on-rewrite is yes: while the file is rewritten nothing is synced",
            "set no-appendfsync-on-rewrite no",
        )
    return Finding("ok", "durability fsync (appendfsync always)")


def _replicated(wanted: int, connected: int) -> Finding:
    if connected == 0:
        return Finding("fail", "durability replicas, but no replica is connected", "attach a replica")
    if connected < wanted:
        return Finding(
            "fail",
            f"durability replicas waits for {wanted} replicas, but {connected} is connected",
            "attach the missing replicas, or lower ledger.replicas",
        )
    if connected > wanted:
        return Finding(
            "warn",
            f"durability replicas waits for {wanted} of {connected} replicas: "
            "a failover to another one loses acknowledged intents",
            f"set ledger.replicas to {connected}",
        )
    return Finding("ok", f"durability replicas, {connected} connected")


async def check_server(
    link: Link, durability: Durability, replicas: int = 1, *, may_be_open: bool = False
) -> list[str]:
    """Raise on the first thing that breaks a promise; answer what is merely unwise."""
    warnings = []
    for finding in await inspect_link(link, durability, replicas, may_be_open=may_be_open):
        if finding.level == "fail":
            raise Misconfigured(f"{finding.what}. Fix: {finding.fix}.")
        if finding.level == "warn":
            warnings.append(f"{finding.what} (fix: {finding.fix})")
    return warnings


async def inspect(
    url: str,
    durability: Durability = "fsync",
    timeout_s: float = 2.0,
    replicas: int = 1,
    *,
    may_be_open: bool = False,
) -> list[Finding]:
    """For `doctor`: every finding, a server that is away included."""
    link = connect(url, Dial(timeout_s))
    try:
        return await inspect_link(link, durability, replicas, may_be_open=may_be_open)
    except TxManagerError as error:
        return [Finding("fail", str(error), "check ledger.url and that the server runs")]
    finally:
        await link.close()
