"""Who else can write to the ledger: whoever can, can spend. A server that others reach must ask for credentials."""

from __future__ import annotations

import asyncio
import ipaddress
from dataclasses import replace

from txmanager.core.errors import TxManagerError
from txmanager.ledger.redis.links import Link
from txmanager.ledger.redis.wire import Address, Wire


async def open_servers(link: Link, timeout_s: float = 2.0) -> list[Address]:
    """The primaries beyond loopback that answer PING without credentials."""
    beyond = [address for address in await link.primaries() if not on_loopback(address.host)]
    answers = await asyncio.gather(*(_answers_strangers(address, timeout_s) for address in beyond))
    return [address for address, answered in zip(beyond, answers, strict=True) if answered]


def on_loopback(host: str) -> bool:
    """A name other than localhost counts as one that others can reach."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


async def _answers_strangers(address: Address, timeout_s: float) -> bool:
    stranger = replace(address, username=None, password=None, db=0)
    try:
        wire = await Wire.open(stranger, timeout_s)
    except TxManagerError:
        return False
    try:
        [reply] = await wire.call([("PING",)])
    except TxManagerError:
        return False
    finally:
        wire.abort()
    return reply in (b"PONG", "PONG")
