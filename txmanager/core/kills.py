"""Why an intent is ended by a no-op. The no-op remembers it through a crash: the cause to act on, the text to show."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from txmanager.core.models import Json
from txmanager.core.values import value


class KillCause(StrEnum):
    CANCELLED = "cancelled"
    """Its caller withdrew it."""
    REJECTED = "rejected"
    """The chain will never take it."""
    OPERATOR = "operator"
    OVERDUE = "overdue"
    """It was not included in the time that the policy gives it."""
    FUNDS = "insufficient_funds"
    """It asks for more than the lane has, which was there when it was signed."""


OVERDUE_WORDS = "not included within"
"""How release 0.1.0 told `overdue` from everything else: its no-ops have the text alone."""


@value(frozen=True, slots=True)
class Doom:
    cause: KillCause
    why: str

    @property
    def terms(self) -> dict[str, Json]:
        """As a no-op keeps it. Release 0.1.0 reads `why` alone, so a node's text must not begin like ours."""
        forged = self.cause is not KillCause.OVERDUE and self.why.startswith(OVERDUE_WORDS)
        return {"why": f"{self.cause}: {self.why}" if forged else self.why, "cause": self.cause.value}


def doom_of(terms: Mapping[str, Json]) -> Doom:
    """What a no-op remembers; one of release 0.1.0 is read by its words."""
    why, cause = str(terms.get("why", "killed by a no-op")), terms.get("cause")
    if cause in list(KillCause):
        return Doom(KillCause(cause), why)
    return Doom(KillCause.OVERDUE if why.startswith(OVERDUE_WORDS) else KillCause.REJECTED, why)
