"""`txmanager doctor`: can the real servers keep the promises? Each line is ok, warn or fail, with the fix."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import typer

from txmanager.cli.options import ConfigFile
from txmanager.core.chain import Chain
from txmanager.core.errors import InvalidInput, InvalidSettings, KeyMissing, SignerFault, TxManagerError
from txmanager.core.findings import Finding
from txmanager.core.ledger import SCHEMA
from txmanager.core.seal import SealMode
from txmanager.core.states import LaneState
from txmanager.settings import Settings, load
from txmanager.settings.family import Unit

COLOURS = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "fail": typer.colors.RED}
_SKEW_MS = 1_000


def doctor(config: ConfigFile = None) -> None:
    """Check configuration, ledger, nodes and keys, and say what to fix. Exits with 2 if a check fails."""
    if asyncio.run(_examine(load(config))):
        raise typer.Exit(2)


async def _examine(settings: Settings) -> int:
    failed = 0
    async for part, finding in _findings(settings):
        failed += finding.level == "fail"
        level = typer.style(f"{finding.level:<4}", fg=COLOURS[finding.level])
        fix = f" (fix: {finding.fix})" if finding.fix else ""
        typer.echo(f"{level}  {part}: {finding.what}{fix}")
    return failed


async def _findings(settings: Settings) -> AsyncIterator[tuple[str, Finding]]:
    yield "config", Finding("ok", f"{len(settings.networks)} networks, {len(settings.pools)} pools")
    findings = await ledger(settings)
    for finding in findings:
        yield "ledger", finding
    yield "ledger", seals(settings)
    if not any(finding.level == "fail" for finding in findings):
        async for part, finding in _inside(settings):
            yield part, finding
    for name in settings.networks:
        for finding in await nodes(settings, name):
            yield f"network {name}", finding
    for finding in await keys(settings):
        yield "keys", finding


async def ledger(settings: Settings) -> list[Finding]:
    # Imported here: the ledger's libraries take as long to load as all the rest, and `--help` should not wait.
    from txmanager.ledger.redis.checks import inspect

    try:
        url = settings.ledger.reveal_url()
    except InvalidSettings as problem:
        return [Finding("fail", str(problem), "see `txmanager config check`")]
    if url.startswith("memory:"):
        return [Finding("warn", "the memory ledger loses everything when its process ends", "use Redis or Valkey")]
    if url.startswith("do+"):
        return await _worker(url)
    options = settings.ledger
    return await inspect(url, options.durability, replicas=options.replicas, may_be_open=options.open)


async def _worker(url: str) -> list[Finding]:
    """Whether the Worker of a Durable Object ledger knows us, and what our secret may do there."""
    from txmanager.ledger.durable import DurableObjectLedger

    try:
        opened = DurableObjectLedger(url)
    except InvalidSettings as problem:
        return [Finding("fail", str(problem), "see docs/durable-objects.md")]
    try:
        role = await opened.role()
    except TxManagerError as error:
        return [Finding("fail", str(error), "see docs/durable-objects.md")]
    finally:
        await opened.close()
    return [Finding("ok", f"Durable Objects; our secret is the {role}'s")]


def seals(settings: Settings) -> Finding:
    """Whether somebody who can write to the ledger can make a worker sign."""
    from txmanager.wiring import open_seals

    try:
        opened = open_seals(settings)
    except InvalidSettings as problem:
        return Finding("fail", str(problem), "see docs/operations.md, Sealed intents")
    if opened is None:
        return Finding("ok", "intents are not sealed (ledger.seal): anyone who can write to the ledger can spend")
    if opened.mode is SealMode.ACCEPT:
        what = "intents are sealed, but intents without a seal are still signed"
        return Finding("warn", what, 'set ledger.seal_mode = "require" once no unsealed intent is queued')
    return Finding("ok", "only sealed intents are signed")


async def _inside(settings: Settings) -> AsyncIterator[tuple[str, Finding]]:
    """The server's clock, and what the lanes and workers in it say of themselves."""
    from txmanager.wiring import open_ledger

    try:
        opened = await open_ledger(settings)
    except TxManagerError as error:
        yield "ledger", Finding("fail", str(error), "see the lines above")
        return
    try:
        before = time.time_ns() // 1_000_000
        there = await opened.now_ms()
        after = time.time_ns() // 1_000_000
        # A slow answer is no wrong clock: any time between question and answer is right.
        yield "clock", _clock(max(there - after, 0) or min(there - before, 0))
        if (schema := await opened.schema()) < SCHEMA:
            advice = "run `txmanager ledger upgrade` once no release older than this one runs"
            yield (
                "schema",
                Finding("warn", f"schema {schema} of {SCHEMA}: slower formats that older releases read", advice),
            )
        lanes, members = await opened.lanes(), await opened.members()
        if lanes or settings.pools:
            yield (
                "workers",
                (
                    Finding("ok", f"{len(members)} alive, {len(lanes)} lanes")
                    if members
                    else Finding("warn", "none is alive: intents are accepted and wait", "start `txmanager worker`")
                ),
            )
        for lane in lanes:
            if lane.state in (LaneState.PAUSED, LaneState.QUARANTINED):
                level: Any = "fail" if lane.state is LaneState.QUARANTINED else "warn"
                yield "lanes", Finding(level, f"{lane.id} is {lane.state}: {lane.reason}", "see deploy/RUNBOOK.md")
    finally:
        await opened.close()


def _clock(skew_ms: int) -> Finding:
    if abs(skew_ms) < _SKEW_MS:
        return Finding("ok", "this machine and the ledger agree within a second")
    ahead = "ahead of" if skew_ms > 0 else "behind"
    return Finding("warn", f"the ledger is {abs(skew_ms) / 1000:.1f} s {ahead} this machine", "run NTP on both")


async def nodes(settings: Settings, name: str) -> list[Finding]:
    """Each endpoint on its own: one that is away hides behind the others in normal work."""
    from txmanager.chains.endpoints import endpoints
    from txmanager.rpc.http import HttpRpc

    network, probe = settings.networks[name], settings.family(name).probe
    try:
        found = endpoints(name, network)
    except InvalidSettings as problem:
        return [Finding("fail", str(problem), "see `txmanager config check`")]
    findings = []
    for n, endpoint in enumerate(found):
        client = HttpRpc([endpoint])
        began = time.monotonic()
        try:
            answer = await client.call(probe.doctor, [], timeout=5.0)
        except TxManagerError as error:
            findings.append(Finding("fail", f"rpc[{n}]: {error}", f"check networks.{name}.rpc and the node"))
            continue
        finally:
            await client.close()
        took_ms = (time.monotonic() - began) * 1000
        seen = probe.describe(network, answer)
        answers = f"answers in {took_ms:.0f} ms: " if seen.level == "ok" else ""
        findings.append(replace(seen, what=f"rpc[{n}] {answers}{seen.what}"))
    return findings


async def keys(settings: Settings) -> list[Finding]:
    """Whether every key signs, and what the chain says of it: there, its nonce, its money."""
    from txmanager.wiring import build_services

    try:
        services, chains = build_services(settings)
    except TxManagerError as problem:
        return [Finding("fail", str(problem), "check pools.*.keys; a machine without workers needs none")]
    findings: list[Finding] = []
    try:
        for lane, service in services.items():
            if not await _signs(lane, service.chain, findings):
                continue
            try:
                view = await service.chain.nonce(lane)
            except KeyMissing:
                fix = "`txmanager keys provision`, or remove the key from the pool"
                findings.append(Finding("fail", f"{lane} is not on chain", fix))
            except TxManagerError as error:
                findings.append(Finding("fail", f"{lane}: {error}", "check the network's nodes"))
            else:
                unit = settings.family(settings.pools[service.spec.pool].network).unit
                findings.append(_key(f"{lane} at nonce {view.next_nonce}", view.balance, unit))
    finally:
        for chain in chains:
            await chain.close()
    return findings


async def _signs(lane: str, chain: Chain, findings: list[Finding]) -> bool:
    """A trial signature that verifies; lanes whose callers sign have no key here."""
    try:
        await chain.trial(lane)
    except SignerFault as fault:
        findings.append(Finding("fail", f"{lane} gets no signature: {fault}", "check the signer, see docs/signers.md"))
        return False
    except InvalidInput:
        pass
    return True


def _key(lane: str, balance: int | None, unit: Unit) -> Finding:
    if balance is None:
        return Finding("ok", lane)
    if balance < unit.low:
        return Finding("warn", f"{lane} can spend only {unit.words(balance)}", "send it more")
    return Finding("ok", f"{lane}, can spend {unit.words(balance)}")
