"""From the settings of a gateway to the rules that its parts follow."""

from __future__ import annotations

from txmanager.core.admission import ALIVE_MS, Limits
from txmanager.runtime.gateway.dispatch import Rules
from txmanager.runtime.gateway.node import Options
from txmanager.runtime.gateway.submit import Terms
from txmanager.settings.gateway import GatewaySettings


def limits_of(settings: GatewaySettings, strict: bool, resend_after_s: float, *, local: bool = False) -> Limits:
    """`local`: for the mempool in memory that stands in for a store that is away; it sends without a pause."""
    order = "none" if not settings.ordering else "arrival" if settings.gaps == "forward" else "nonce"
    return Limits(
        capacity=settings.capacity,
        high_watermark=settings.high_watermark,
        per_sender=settings.per_sender,
        kept_bytes=settings.kept_bytes,
        bump_percent=settings.bump_percent,
        executors=settings.executors,
        hold_ms=settings.hold_ms,
        idle_ms=int(settings.idle_s * 1000),
        count_fresh_ms=settings.count_fresh_ms,
        quiet_ms=ALIVE_MS + settings.lag_ms if strict and not local and settings.store == "ledger" else 0,
        resend_ms=0 if strict else int(resend_after_s * 1000),
        strict=strict,
        order=order,  # type: ignore[arg-type]
        next_after=settings.next_after,
        memory_senders=settings.memory_senders,
    )


def options_of(settings: GatewaySettings) -> Options:
    return Options(
        txpool=settings.txpool,
        mempool=settings.txpool or settings.ordering,
        on_store_failure=settings.on_store_failure,
        store_timeout_ms=settings.store_timeout_ms,
    )


def rules_of(settings: GatewaySettings, strict: bool) -> Rules:
    return Rules(
        strict,
        settings.lag_ms,
        settings.poll_ms,
        settings.executors,
        gaps_wait=settings.gaps == "hold",
        detail=settings.detail,
    )


def terms_of(settings: GatewaySettings) -> Terms:
    return Terms(
        waits=settings.mode == "sync",
        answer_ms=settings.answer_ms,
        price_floor=settings.price_floor,
        repeat_is_error=settings.duplicates == "error",
        ordered=settings.ordering,
        gaps_wait=settings.gaps == "hold",
        detail=settings.detail,
    )
