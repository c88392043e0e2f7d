"""Somebody else's numbers: of one sequence only rising ones are signed, whatever else is on its way."""

from __future__ import annotations

from txmanager.core.models import Intent, IntentId, check_key, is_name, new_intent
from txmanager.core.turns import Turn, Turns

READERS = {"toy.relay": lambda payload: Turn(str(payload["of"]), int(payload["number"]))}


def relay(number: int, of: str = "alice", kind: str = "toy.relay") -> Intent:
    return new_intent(key=f"{of}-{number}", pool="p", kind=kind, payload={"of": of, "number": number})


def test_a_number_is_given_once_and_only_upwards():
    turns = Turns(READERS, [])
    assert turns.take(relay(5)) is None
    for late in (5, 4):
        refused = turns.take(relay(late))
        assert refused is not None
        assert (refused["code"], refused["new_key_helps"]) == ("nonce_in_use", False)
        assert "nothing spent" in refused["message"]
    assert turns.take(relay(6)) is None


def test_what_is_unsettled_keeps_its_number():
    turns = Turns(READERS, [relay(7), relay(3), relay(9, of="bob")])
    assert turns.take(relay(7)) is not None
    assert turns.take(relay(8)) is None
    assert turns.take(relay(9, of="bob")) is not None


def test_sequences_and_kinds_do_not_touch_each_other():
    turns = Turns(READERS, [relay(5)])
    assert turns.take(relay(5, of="bob")) is None
    assert turns.take(relay(5, kind="toy.other")) is None
    assert turns.take(relay(5, kind="toy.other")) is None


def test_a_number_has_one_place_for_all_lanes_of_a_network():
    turn = Turn("alice", 5)
    assert turn.place("toy:main:one", 0) == turn.place("toy:main:two:3", 0)
    others = [
        turn.place("toy:test:one", 0),
        turn.place("toy:main:one", 1),
        Turn("alice", 6).place("toy:main:one", 0),
        Turn("bob", 5).place("toy:main:one", 0),
    ]
    assert len({turn.place("toy:main:one", 0), *others}) == 5


def test_no_caller_can_hold_the_place_of_a_number():
    place = Turn("ed25519:x of alice.near, nonce index 3,", 5).place("near:mainnet:relay.near:ed25519:y", 0)
    assert not is_name(place.pool)
    assert IntentId.parse(place.text) == place
    assert check_key(place.key) == place.key
