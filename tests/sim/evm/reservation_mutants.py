"""Seeded bugs of the nonce service: those that teams have had, and others as plausible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.sim.evm.planting import Bugs, Patch
from txmanager.core.chain import Traits
from txmanager.core.decide import Observation, Policy, Step, Wait
from txmanager.core.decide import decide as sound
from txmanager.core.keyless_plan import KeylessPlan
from txmanager.core.models import IntentId, Purpose, Record
from txmanager.core.reservations import Recycled, Use
from txmanager.core.signing_plan import SigningPlan
from txmanager.ledger.memory import numbers
from txmanager.ledger.memory.lanes import LaneStore
from txmanager.runtime.lane import tracker as runtime_tracker

MUTANTS = Bugs()
mutant, planted = MUTANTS.mutant, MUTANTS.planted


@mutant
def late_duplicate_recycle_frees_the_number_again() -> Sequence[Patch]:
    """A recycle that compares a number, not an owner."""
    honest = numbers.recycle

    def recycle(store: LaneStore, token: str, now: int, *, unlock: bool = False) -> Recycled:
        held = store.held.get(token)
        if held is not None and held.state == "over" and held.nonce >= 0:
            store.reuse.add(held.nonce)
            return Recycled("recycled", held.nonce)
        return honest(store, token, now, unlock=unlock)

    return [patch.object(numbers, "recycle", recycle)]


@mutant
def recycled_after_a_send() -> Sequence[Patch]:
    """A catch-all that gives back a number whose bytes are on their way."""
    honest = numbers.recycle

    def recycle(store: LaneStore, token: str, now: int, *, unlock: bool = False) -> Recycled:
        held = store.held.get(token)
        if held is not None and held.state == "sent":
            store.held[token] = replace(held, state="reserved")
        return honest(store, token, now, unlock=unlock)

    return [patch.object(numbers, "recycle", recycle)]


@mutant
def counter_forgotten_on_a_nonce_error() -> Sequence[Patch]:
    """A DEL on the error path: the counter starts again from the chain while others are in flight."""
    honest = numbers.taken

    def taken(store: LaneStore, use: Use | None) -> Any:
        answer = honest(store, use)
        if answer is not None:
            store.cursor = None
        return answer

    return [patch.object(numbers, "taken", taken)]


@mutant
def lock_without_a_fence() -> Sequence[Patch]:
    """Whoever held the turn once may send with its number for ever."""

    def taken(store: LaneStore, use: Use | None) -> Any:
        held = store.held.get(use.token) if use is not None else None
        if use is not None and held is not None and held.nonce == use.nonce:
            return None
        return "unreserved"

    return [patch.object(numbers, "taken", taken)]


@mutant
def stale_count_of_the_chain_is_believed() -> Sequence[Patch]:
    honest = numbers._hand_out

    def hand_out(store: LaneStore, chain: int | None, seed: int | None) -> tuple[int, int]:
        if chain is not None and store.cursor is not None:
            store.cursor = max(chain, store.landed + 1 if store.landed is not None else 0)
        return honest(store, chain, seed)

    return [patch.object(numbers, "_hand_out", hand_out)]


@mutant
def expired_although_it_was_sent() -> Sequence[Patch]:
    honest = numbers.expire

    def expire(store: LaneStore, now: int) -> int:
        for token, held in list(store.held.items()):
            if held.state == "sent" and now - held.at > 4_000:
                store.held[token] = replace(held, state="reserved", till=0)
        return honest(store, now)

    return [patch.object(numbers, "expire", expire)]


@mutant
def unused_reservation_never_expires() -> Sequence[Patch]:
    def expire(store: LaneStore, now: int) -> int:
        if store.turn and store.turn_until <= now:
            store.turn = ""
        return 0

    return [patch.object(numbers, "expire", expire)]


@mutant
def bytes_accepted_without_binding_their_number() -> Sequence[Patch]:
    def bind(store: LaneStore, use: Use, id: IntentId, now: int) -> None:
        return None

    return [patch.object(numbers, "bind", bind)]


@mutant
def reuse_forgotten() -> Sequence[Patch]:
    """A number that came back is burned: everything above it waits for ever."""
    return [patch.object(numbers, "_free", lambda store, nonce: None)]


@mutant
def refused_bytes_stop_all_others() -> Sequence[Patch]:
    """A keyless lane that waits for its lowest number as a signing one does."""
    return [patch.object(KeylessPlan, "go_on", SigningPlan.go_on), patch.object(KeylessPlan, "turn", SigningPlan.turn)]


@mutant
def given_bytes_are_sent_once_only() -> Sequence[Patch]:
    def decide(record: Record, seen: Observation, policy: Policy, traits: Traits, now: int) -> Step:
        step = sound(record, seen, policy, traits, now)
        given = record.attempts and record.attempts[0].purpose is Purpose.KEYLESS
        return Wait("sent") if given and type(step).__name__ in ("Probe", "Prove") else step

    return [patch.object(runtime_tracker, "decide", decide)]


@mutant
def same_token_gets_another_number() -> Sequence[Patch]:
    """A lost reply costs a number each time, and the token only remembers the last."""
    honest = numbers.reserve

    def reserve(store: LaneStore, token: str, *rest: Any) -> Any:
        held = store.held.get(token)
        if held is not None and held.state == "reserved":
            del store.held[token]
        return honest(store, token, *rest)

    return [patch.object(numbers, "reserve", reserve)]
