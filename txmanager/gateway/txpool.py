"""`txpool_*` in geth's shapes: checksummed senders, decimal nonces, hex counts."""

from __future__ import annotations

from collections.abc import Callable

from txmanager.core.admission import Entry
from txmanager.core.models import Json
from txmanager.runtime.gateway.node import GatewayNode

Shown = dict[str, dict[str, Json]]


async def content(node: GatewayNode) -> dict[str, Json]:
    return await _by_sender(node, lambda entry: node.upstream.show(entry.raw, entry.sender))


async def inspect(node: GatewayNode) -> dict[str, Json]:
    return await _by_sender(node, lambda entry: node.upstream.line(entry.raw))


async def content_from(node: GatewayNode, sender: str) -> dict[str, Json]:
    pending: dict[str, Json] = {}
    queued: dict[str, Json] = {}
    async for entry in node.content(sender):
        (queued if entry.gapped else pending)[str(entry.nonce)] = node.upstream.show(entry.raw, entry.sender)
    return {"pending": pending, "queued": queued}


async def status(node: GatewayNode) -> dict[str, Json]:
    totals = await node.mempool.totals()
    executable = totals.waiting - totals.gapped + totals.processing + totals.unsure
    return {"pending": hex(executable), "queued": hex(totals.gapped)}


async def _by_sender(node: GatewayNode, shown: Callable[[Entry], Json]) -> dict[str, Json]:
    pending: Shown = {}
    queued: Shown = {}
    async for entry in node.content():
        name = node.upstream.checksummed(entry.sender)
        (queued if entry.gapped else pending).setdefault(name, {})[str(entry.nonce)] = shown(entry)
    return {"pending": pending, "queued": queued}
