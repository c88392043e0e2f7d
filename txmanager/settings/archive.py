"""The archive's settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field

from txmanager.core.errors import InvalidSettings
from txmanager.settings.parts import Names, Part
from txmanager.settings.secrets import Reference, SecretUrl, Url, reveal

DAY_S = 24 * 3600


class ArchiveSettings(Part):
    url: SecretUrl = Url("sqlite:///data/archive.db")
    max_lag: int = Field(default=10_000, ge=0, le=1_000_000)
    """Final records of one lane that wait for the archive; beyond it they go, and are taken from their homes later."""
    keep_s: int | None = Field(default=None, ge=DAY_S)
    """How long ended intents are kept; for ever where it is left out. The sums of usage stay."""
    index_metadata: Names = frozenset()
    """Names of the callers' metadata that lists can be filtered by."""
    period_s: float = Field(default=1.0, gt=0, le=60)
    """How often lanes are looked at."""
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=1, le=65535)

    def reveal_url(self, environment: Mapping[str, str] | None = None) -> str:
        return reveal("archive.url", self.url, environment)

    def contradictions(self) -> Iterator[InvalidSettings]:
        if not isinstance(self.url, Reference) and self.url.scheme not in ("sqlite", "postgresql"):
            yield InvalidSettings("archive.url", "must begin with sqlite:/// or postgresql://")
