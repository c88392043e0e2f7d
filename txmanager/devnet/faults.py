"""Faults: what may go wrong, how often, and for whom. Every draw comes from the network's own generator.

A fault lasts until cleared, or for its next `count` hits. `probability` below 1 makes each hit a draw.
Which layer acts on a kind is written beside it; both layers work the same in code and over HTTP.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, fields
from typing import Any

NETWORK_KINDS = {
    "drop": "a submitted transaction is accepted and goes nowhere",
    "delay": "delivery to every producer takes `ms` longer",
    "reorder": "delivery to each producer takes up to `ms` longer, each drawn anew",
    "expired": "the base block of a submitted transaction counts as too old",
    "congestion": "the shard refuses transactions at congestion `level`; the pool drops them",
    "stall": "no blocks are produced",
    "lag": "a node answers from `blocks` behind the head",
    "disagree": "each answer of a node comes from up to `blocks` behind the head, drawn anew",
    "forget": "a node no longer knows transactions older than `blocks`",
}
TRANSPORT_KINDS = {
    "timeout": "the request is carried out, then answered TIMEOUT_ERROR (408) after `ms`",
    "disconnect": "the request is carried out, then the connection closes without an answer",
    "error": "the request is refused with INTERNAL_ERROR (500) and not carried out",
    "rate_limit": "the request is refused with a bare 429",
    "http_error": "the request is refused with a bare `status` (502 unless told)",
    "untracked": "transaction requests are answered DOES_NOT_TRACK_SHARD",
}
TX_METHODS = frozenset({"broadcast_tx_async", "broadcast_tx_commit", "send_tx", "tx", "EXPERIMENTAL_tx_status"})
KINDS = {**NETWORK_KINDS, **TRANSPORT_KINDS}


@dataclass(slots=True)
class Fault:
    kind: str
    probability: float = 1.0
    count: int | None = None
    node: int | None = None
    signer_id: str | None = None
    method: str | None = None  # transport kinds: one JSON-RPC method only
    ms: float = 0.0
    blocks: int = 0
    level: float = 1.0
    status: int = 502
    id: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}; known: {', '.join(sorted(KINDS))}")
        if not 0.0 <= self.probability <= 1.0:
            raise ValueError("probability lies between 0 and 1")
        if self.count is not None and self.count < 1:
            raise ValueError("count is at least 1, or absent")
        if self.ms < 0 or self.blocks < 0:
            raise ValueError("ms and blocks are not negative")
        if not 400 <= self.status <= 599:
            raise ValueError("status is an HTTP error, 400 to 599")

    @classmethod
    def parse(cls, spec: Any) -> Fault:
        """A fault from JSON, or ValueError saying what is wrong with it."""
        if not isinstance(spec, dict) or not isinstance(spec.get("kind"), str):
            raise ValueError("a fault is an object with a kind")
        known = {f.name for f in fields(cls)} - {"id"}
        extra = set(spec) - known
        if extra:
            raise ValueError(f"unknown fields: {', '.join(sorted(extra))}")
        for name, types in _JSON_TYPES.items():
            value = spec.get(name)
            if value is not None and (not isinstance(value, types) or isinstance(value, bool)):
                raise ValueError(f"{name} has the wrong type")
        return cls(**{name: value for name, value in spec.items() if value is not None})

    def describe(self) -> dict[str, Any]:
        return asdict(self)


_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "probability": (int, float),
    "count": (int,),
    "node": (int,),
    "signer_id": (str,),
    "method": (str,),
    "ms": (int, float),
    "blocks": (int,),
    "level": (int, float),
    "status": (int,),
}


class Faults:
    """The faults in force. Cheap to ask when there are none."""

    __slots__ = ("_ids", "_rng", "active")

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._ids = 0
        self.active: list[Fault] = []

    def set(self, fault: Fault) -> Fault:
        self._ids += 1
        fault.id = self._ids
        self.active.append(fault)
        return fault

    def clear(self, kind: str | None = None, fault_id: int | None = None) -> int:
        kept = [
            f
            for f in self.active
            if (kind is not None and f.kind != kind) or (fault_id is not None and f.id != fault_id)
        ]
        gone = len(self.active) - len(kept)
        self.active = kept
        return gone

    def draw(
        self, kind: str, *, node: int | None = None, signer_id: str | None = None, method: str | None = None
    ) -> Fault | None:
        """The fault that strikes now, if any; a hit uses up one of its count."""
        if not self.active:
            return None
        for fault in self.active:
            if (
                fault.kind != kind
                or (fault.node is not None and fault.node != node)
                or (fault.signer_id is not None and fault.signer_id != signer_id)
                or (fault.method is not None and fault.method != method)
            ):
                continue
            if fault.probability < 1.0 and self._rng.random() >= fault.probability:
                continue
            if fault.count is not None:
                fault.count -= 1
                if fault.count == 0:
                    self.active.remove(fault)
            return fault
        return None

    def before(self, method: str, node: int) -> Fault | None:
        """The transport fault that keeps a request from being carried out."""
        for kind in ("rate_limit", "http_error", "error", "untracked"):
            if kind == "untracked" and method not in TX_METHODS:
                continue
            fault = self.draw(kind, node=node, method=method)
            if fault is not None:
                return fault
        return None

    def after(self, method: str, node: int) -> Fault | None:
        """The transport fault that hides the answer of a request that was carried out."""
        return self.draw("timeout", node=node, method=method) or self.draw("disconnect", node=node, method=method)
