"""The settings of traces."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from txmanager.core.errors import InvalidSettings
from txmanager.settings.parts import Name, Part


class TracingSettings(Part):
    endpoint: str = "http://127.0.0.1:4318"
    """The OTLP receiver's address, without `/v1/traces`. Headers for it come from `OTEL_EXPORTER_OTLP_HEADERS`."""
    service: Name = "txmanager"
    """The service name in the traces; each program adds its own, as in `txmanager-api`."""
    sample: float = Field(default=1.0, ge=0, le=1)
    """The share of requests without a `traceparent` that get a trace. With one, the caller decides."""

    def contradictions(self) -> Iterator[InvalidSettings]:
        if not self.endpoint.startswith(("http://", "https://")):
            yield InvalidSettings("tracing.endpoint", "must begin with http:// or https://")
        if "@" in self.endpoint:
            yield InvalidSettings(
                "tracing.endpoint", "must not hold credentials; set OTEL_EXPORTER_OTLP_HEADERS instead"
            )
