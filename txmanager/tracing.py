"""Traces by OpenTelemetry: spans go to an OTLP endpoint over HTTP, from a thread of their own.

A process that is killed loses the spans of its last second. A receiver that is away loses spans; nothing else waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

_SEND_EVERY_MS = 1_000
_TIMEOUT_S = 2.0
_SERVER_ERROR = 500


@dataclass(slots=True)
class _Request:
    span: Span
    trace: str

    def end(self, status: int) -> None:
        self.span.set_attribute("http.response.status_code", status)
        if status >= _SERVER_ERROR:
            self.span.set_status(Status(StatusCode.ERROR))
        self.span.end()


class OtelTracer:
    def __init__(self, endpoint: str, service: str, process: str, sample: float) -> None:
        """`sample` is the share of traces that begin here; a caller's own `traceparent` decides for its traces."""
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(sample)),
            resource=Resource.create({"service.name": f"{service}-{process}"}),
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=_TIMEOUT_S)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=_SEND_EVERY_MS))
        self._tracer = self._provider.get_tracer("txmanager")

    def request(self, parent: str, name: str) -> _Request:
        context = _context(parent) if parent else Context()
        span = self._tracer.start_span(name, context=context, kind=SpanKind.SERVER)
        return _Request(span, _trace(span.get_span_context()))

    def span(
        self,
        parent: str,
        name: str,
        began_ms: int,
        ended_ms: int,
        facts: Mapping[str, str | int],
        *,
        failed: str = "",
        remote: bool = False,
    ) -> None:
        kind = SpanKind.CLIENT if remote else SpanKind.INTERNAL
        attributes = {f"txmanager.{fact}": value for fact, value in facts.items()}
        began = began_ms * 1_000_000
        span = self._tracer.start_span(
            name, context=_context(parent), kind=kind, attributes=attributes, start_time=began
        )
        if failed:
            span.set_status(Status(StatusCode.ERROR, failed))
        span.end(max(began, ended_ms * 1_000_000))

    def close(self) -> None:
        self._provider.shutdown()


def _context(parent: str) -> Context:
    _, trace, span, flags = parent.split("-", 3)
    known = SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
    return set_span_in_context(NonRecordingSpan(known), Context())


def _trace(context: SpanContext) -> str:
    if not context.trace_flags.sampled:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
