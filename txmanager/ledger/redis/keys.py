"""Every key of the ledger, and nothing but keys. Lane keys share `{lane}`, home keys share `{h<k>}`: one slot each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from txmanager.core.budgets import slot_of
from txmanager.core.models import IntentId


@dataclass(frozen=True, slots=True)
class Keys:
    prefix: str

    def home(self, id: IntentId) -> str:
        return f"{self.prefix}:{{h{id.home}}}:{id}"

    def open_claims(self, home: int) -> str:
        return f"{self.prefix}:{{h{home}}}:open"

    def of_home(self, id: IntentId) -> tuple[str, str]:
        """Both keys of a claim; the home is a hash, taken once."""
        start = f"{self.prefix}:{{h{id.home}}}:"
        return start + id.text, start + "open"

    def lane(self, lane: str) -> str:
        return f"{self.prefix}:{{{lane}}}:lane"

    def queue(self, lane: str) -> str:
        return f"{self.prefix}:{{{lane}}}:queue"

    def events(self, lane: str) -> str:
        return f"{self.prefix}:{{{lane}}}:events"

    def unfinished(self, lane: str) -> str:
        return f"{self.prefix}:{{{lane}}}:unfinished"

    def breaks(self, lane: str) -> str:
        return f"{self.prefix}:{{{lane}}}:breaks"

    def shelf(self, lane: str) -> str:
        return f"{self.prefix}:{{{lane}}}:shelf"

    def fills(self, lane: str) -> str:
        return f"{self.prefix}:{{{lane}}}:fills"

    def kept(self, lane: str) -> str:
        """Bytes that are final, for a while."""
        return f"{self.prefix}:{{{lane}}}:kept"

    def reservations(self, lane: str) -> str:
        return f"{self.prefix}:{{{lane}}}:reservations"

    def reservation_deadlines(self, lane: str) -> str:
        return f"{self.prefix}:{{{lane}}}:deadlines"

    def of_numbers(self, lane: str) -> list[str]:
        """All keys that the numbers of a keyless lane live in."""
        return [
            self.lane(lane),
            self.reservations(lane),
            self.reservation_deadlines(lane),
            f"{self.prefix}:{{{lane}}}:reuse",
            f"{self.prefix}:{{{lane}}}:line",
        ]

    def owned(self, lane: str, owner: str) -> str:
        """The tokens of one caller that hold a number or a place in line, or did a while ago."""
        return f"{self.prefix}:{{{lane}}}:owned:{owner}"

    def made(self, owner: str) -> str:
        """The lanes that one caller brought into being."""
        return f"{self.prefix}:{{registry}}:made:{owner}"

    def finals(self, lane: str) -> str:
        return f"{self.prefix}:{{{lane}}}:finals"

    def backlog(self, lane: str) -> str:
        """Final records that were retired before an archive had them."""
        return f"{self.prefix}:{{{lane}}}:backlog"

    def record(self, lane: str, id: IntentId) -> str:
        return f"{self.prefix}:{{{lane}}}:r:{id}"

    def records(self, lane: str, ids: Iterable[IntentId]) -> list[str]:
        start = f"{self.prefix}:{{{lane}}}:r:"
        return [start + id.text for id in ids]

    def wake(self, lane: str) -> str:
        """A channel, not a key: something was appended to the lane, or asked of its owner."""
        return f"{self.prefix}:wake:{lane}"

    def final(self, lane: str) -> str:
        """A channel: intents of the lane became final."""
        return f"{self.prefix}:final:{lane}"

    @property
    def registry(self) -> str:
        return f"{self.prefix}:{{registry}}:lanes"

    @property
    def schema(self) -> str:
        """Which formats the installation may write."""
        return f"{self.prefix}:{{registry}}:schema"

    @property
    def parked(self) -> str:
        """Lanes that left the registry because nobody uses them."""
        return f"{self.prefix}:{{registry}}:parked"

    @property
    def of_registry(self) -> list[str]:
        """The routes, how often they changed, which did, and the parked ones."""
        start = f"{self.prefix}:{{registry}}"
        return [self.registry, f"{start}:revision", f"{start}:changes", self.parked]

    def audit(self, tenant: str, *, refused: bool) -> str:
        return f"{self.prefix}:{{audit}}:{'refused' if refused else 'acted'}:{tenant}"

    def bucket(self, name: str) -> str:
        """What is left of a caller's rate; each in a slot of its own."""
        return f"{self.prefix}:{{quota:{name}}}:bucket"

    def codes(self, issuer: str) -> str:
        """Codes that buy a session of this issuer."""
        return f"{self.prefix}:{{session:{issuer}}}:codes"

    def sessions(self, issuer: str) -> str:
        return f"{self.prefix}:{{session:{issuer}}}:open"

    def budget(self, name: str) -> tuple[str, str, str, str]:
        """Book and costs of a budget; agenda and history of its place, whose slot they share."""
        start = f"{self.prefix}:{{b{slot_of(name)}}}:"
        return f"{start}book:{name}", f"{start}spent:{name}", f"{start}agenda", f"{start}history"

    def budget_place(self, slot: int) -> tuple[str, str]:
        """Agenda and history."""
        return f"{self.prefix}:{{b{slot}}}:agenda", f"{self.prefix}:{{b{slot}}}:history"

    @property
    def audited(self) -> str:
        """The tenants that have entries."""
        return f"{self.prefix}:{{audit}}:tenants"

    @property
    def members(self) -> str:
        return f"{self.prefix}:{{members}}:lanes"

    @property
    def deadlines(self) -> str:
        return f"{self.prefix}:{{members}}:deadlines"

    @property
    def of_members(self) -> tuple[str, str, str]:
        """Who lives and what each can serve, until when, and digests of what they serve."""
        return self.members, self.deadlines, f"{self.prefix}:{{members}}:versions"
