"""What may be wrong with an EVM lane, by names that metrics, logs, rules and the ledger share."""

from __future__ import annotations

from enum import StrEnum

from txmanager.core.values import value


class Alert(StrEnum):
    """What is wrong, by names that metrics, logs and rules share. An owner acts on all but the last two."""

    STUCK = "stuck"
    """The lowest nonce waits for longer than it should, at the price it offers."""
    OVERDUE = "overdue"
    """... and for so long that somebody should look."""
    DROPPED = "dropped"
    """No node knows any hash of a nonce that is in flight."""
    GAP = "nonce_gap"
    """Numbers below the cursor that belong to nobody: all above them waits."""
    DRIFT = "nonce_drift"
    """The cursor is far ahead of the chain, or the chain went back below what was final."""
    FOREIGN = "foreign_nonce_use"
    """A number was used that this lane did not hand out, or by bytes that it did not sign."""
    STOPPED = "stopped"
    """The lane is paused or quarantined."""
    UNOWNED = "unowned"
    """Intents wait, and no worker holds the lane."""


FOR_THE_OWNER = frozenset({Alert.STUCK, Alert.OVERDUE, Alert.DROPPED, Alert.GAP, Alert.DRIFT, Alert.FOREIGN})


_RECONCILE = "reconcile"
"""What a monitor says when nothing is wrong and it is time to compare."""


@value(frozen=True, slots=True)
class Check:
    """A monitor's request to a lane's owner: its name, and what was seen. An empty name: nobody asked yet."""

    name: str = ""
    alerts: frozenset[Alert] = frozenset()

    def __str__(self) -> str:
        """As it is stored: the alerts are the words after the last space, whatever a monitor calls itself."""
        return f"{self.name} {','.join(sorted(self.alerts)) or _RECONCILE}" if self.name else ""

    @classmethod
    def parse(cls, text: str) -> Check:
        name, _, words = text.rpartition(" ")
        return cls(name, frozenset(alert for alert in Alert if alert.value in words.split(",")))
