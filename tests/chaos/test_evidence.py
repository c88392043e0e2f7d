"""How journals become a history: what was answered, what only may have happened, and what came too late to count."""

from __future__ import annotations

from typing import Any

from tests.chaos.evidence import facts
from tests.sim.history import Leased, Recorded, Sent, Wrote
from txmanager.core.models import Attempt, Purpose, Record, new_intent
from txmanager.core.states import Status

LANE = "near:localnet:a:k"
INTENT = new_intent(key="k1", pool="p", kind="near.transfer", payload={})


def line(at: float, what: str, **more: Any) -> dict[str, Any]:
    return {"at": at, "what": what, "lane": LANE, **more}


def leased(at: float, epoch: int, token: str) -> dict[str, Any]:
    return line(at, "leased", epoch=epoch, token=token, owner=token)


def tried(at: float, hash: str) -> dict[str, Any]:
    write = {"id": str(INTENT.id), "life": "l", "position": "1-0", "nonce": 7, "hash": hash, "purpose": "first"}
    return line(at, "try_record", batch=[{**write, "deaths": []}])


def stored(*hashes: str) -> dict[Any, Record]:
    attempts = tuple(Attempt(7, hash, b"", Purpose.FIRST, 0) for hash in hashes)
    return {INTENT.id: Record(INTENT, LANE, "l", Status.INFLIGHT, "1-0", 0, 0, attempts)}


def test_a_lease_that_is_heard_of_after_its_successors_is_left_out() -> None:
    found = facts([leased(1.0, 4, "a"), leased(2.0, 6, "c"), leased(3.0, 5, "b")], {})
    assert [fact.epoch for fact in found if isinstance(fact, Leased)] == [4, 6]


def test_one_epoch_given_to_two_owners_stays_in_the_history() -> None:
    found = facts([leased(1.0, 4, "a"), leased(2.0, 4, "b")], {})
    assert [fact.token for fact in found if isinstance(fact, Leased)] == ["a", "b"]


def test_a_write_ahead_without_an_answer_counts_if_the_ledger_has_it() -> None:
    lines = [tried(1.0, "kept"), tried(2.0, "refused")]
    assert [fact.hash for fact in facts(lines, stored("kept")) if isinstance(fact, Recorded)] == ["kept"]


def test_a_write_ahead_that_was_answered_counts_even_if_the_ledger_forgot_it() -> None:
    answered = line(1.5, "did_record", began=1.0, epoch=4, token="a", hashes=["lost"], cursor=8)
    found = facts([tried(1.0, "lost"), answered, line(1.6, "sent", hashes=[["lost", True]])], {})
    assert [type(fact) for fact in found] == [Recorded, Wrote, Sent]


def test_leases_of_two_primaries_are_no_part_of_one_history() -> None:
    assert facts([leased(1.0, 4, "a"), leased(2.0, 4, "b")], {}, one_history=False) == []
