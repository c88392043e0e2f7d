"""A seal fits one intent in one place, as it was accepted, and nothing else."""

from __future__ import annotations

import hmac
from dataclasses import replace

import pytest

from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.core.models import Intent, IntentId, new_intent
from txmanager.core.seal import SealCheck, SealMode, Seals, message
from txmanager.runtime.lane.sealing import encode, make_seals

OLD, NEW, LIFE, LANE = "o" * 32, "n" * 32, "life", "near:net:relayer:ed25519.a"


def intent() -> Intent:
    made = new_intent(
        key="k", pool="p", kind="near.transfer", payload={"receiver_id": "bob", "amount": "1"}, limits={"max_cost": "9"}
    )
    return replace(made, max_age_s=60)


def test_a_seal_fits_what_it_was_made_for():
    seals = make_seals([NEW])
    assert seals.check(intent(), LIFE, LANE, seals.seal(intent(), LIFE, LANE)) is SealCheck.GOOD


@pytest.mark.parametrize(
    "change",
    [
        {"id": IntentId("p", "k", "other")},
        {"id": IntentId("q", "k")},
        {"id": IntentId("p", "l")},
        {"kind": "near.function_call"},
        {"version": 2},
        {"fingerprint": "v1:00"},
        {"limits": {"max_cost": "10"}},
        {"limits": {}},
        {"max_age_s": None},
        {"max_age_s": 61},
        {"max_age_s": "60"},
        {"version": "1"},
        {"version": True},
        {"payload": {"receiver_id": "eve", "amount": "1"}},
        {"payload": {"receiver_id": "bob", "amount": "2"}},
        {"payload": {"receiver_id": "bob", "amount": 1}},
        {"payload": {"receiver_id": "bob", "amount": "1", "more": None}},
    ],
    ids=str,
)
def test_a_change_of_anything_that_is_signed_breaks_the_seal(change: dict[str, object]):
    seals = make_seals([NEW])
    seal = seals.seal(intent(), LIFE, LANE)
    assert seals.check(replace(intent(), **change), LIFE, LANE, seal) is SealCheck.WRONG  # type: ignore[arg-type]


def test_a_seal_of_another_life_or_lane_is_wrong():
    seals = make_seals([NEW])
    seal = seals.seal(intent(), LIFE, LANE)
    assert seals.check(intent(), "other", LANE, seal) is SealCheck.WRONG
    assert seals.check(intent(), LIFE, "near:net:relayer:ed25519.b", seal) is SealCheck.WRONG


def test_parts_cannot_be_shifted_into_each_other():
    one, two = replace(intent(), id=IntentId("pk", "x")), replace(intent(), id=IntentId("p", "kx"))
    assert message(one, LIFE, LANE, encode) != message(two, LIFE, LANE, encode)
    assert message(intent(), "ab", "c", encode) != message(intent(), "a", "bc", encode)


def test_the_order_of_keys_does_not_count():
    seals = make_seals([NEW])
    turned = replace(intent(), payload={"amount": "1", "receiver_id": "bob"})
    assert seals.check(turned, LIFE, LANE, seals.seal(intent(), LIFE, LANE)) is SealCheck.GOOD


def test_the_first_secret_seals_and_all_verify():
    before, during, after = make_seals([OLD]), make_seals([NEW, OLD]), make_seals([NEW])
    old, new = before.seal(intent(), LIFE, LANE), during.seal(intent(), LIFE, LANE)
    assert during.check(intent(), LIFE, LANE, old) is during.check(intent(), LIFE, LANE, new) is SealCheck.GOOD
    assert after.check(intent(), LIFE, LANE, new) is SealCheck.GOOD
    assert after.check(intent(), LIFE, LANE, old) is SealCheck.UNKNOWN_SECRET


def test_the_mac_is_hmac_sha256_as_the_library_makes_it():
    for secret in (NEW, "x" * 64, "x" * 65, "long" * 40):
        seal = make_seals([secret]).seal(intent(), LIFE, LANE)
        whole = hmac.new(secret.encode(), message(intent(), LIFE, LANE, encode), "sha256").hexdigest()
        assert seal.rpartition(".")[2] == whole[:32]


def test_what_has_no_seal_passes_only_where_that_is_accepted():
    accept, require = make_seals([NEW]), make_seals([NEW], SealMode.REQUIRE)
    assert accept.check(intent(), LIFE, LANE, "") is SealCheck.MISSING
    assert accept.passes(SealCheck.MISSING)
    assert not require.passes(SealCheck.MISSING)
    for seals in (accept, require):
        assert [c for c in SealCheck if seals.passes(c) and c is not SealCheck.MISSING] == [SealCheck.GOOD]


@pytest.mark.parametrize("seal", ["x", "1..", "1.\ud800", "2.name.mac", "1." + "a" * 8 + ".", "0" * 5000])
def test_any_text_in_place_of_a_seal_is_refused_without_an_error(seal: str):
    assert make_seals([NEW]).check(intent(), LIFE, LANE, seal) in (SealCheck.UNKNOWN_SECRET, SealCheck.WRONG)


def test_another_form_of_a_right_seal_is_wrong():
    seals = make_seals([NEW])
    seal = seals.seal(intent(), LIFE, LANE)
    for other in (seal + "=", "2" + seal[1:], seal[:-1], seal + "\ud800"):
        assert seals.check(intent(), LIFE, LANE, other) is SealCheck.WRONG


@pytest.mark.parametrize(
    "damage", [{"version": "x"}, {"max_age_s": []}, {"payload": {1: 2}}, {"limits": {"a": 1 << 70}}]
)
def test_damage_that_cannot_be_encoded_is_wrong(damage: dict[str, object]):
    seals = make_seals([NEW])
    seal = seals.seal(intent(), LIFE, LANE)
    assert seals.check(replace(intent(), **damage), LIFE, LANE, seal) is SealCheck.WRONG  # type: ignore[arg-type]


def test_what_cannot_be_sealed_is_the_callers_to_correct():
    with pytest.raises(InvalidInput, match="payload"):
        make_seals([NEW]).seal(replace(intent(), payload={"amount": 1 << 70}), LIFE, LANE)


@pytest.mark.parametrize(("secrets", "field"), [([], "ledger.seal"), ([NEW, "short"], r"ledger.seal\[1\]")])
def test_a_secret_that_can_be_guessed_is_refused(secrets: list[str], field: str):
    with pytest.raises(InvalidSettings, match=field):
        Seals(secrets, SealMode.ACCEPT, encode)


def test_no_secret_is_in_a_seal_or_in_an_error():
    seal = make_seals([NEW]).seal(intent(), LIFE, LANE)
    assert "nnnn" not in seal
    with pytest.raises(InvalidSettings) as told:
        make_seals(["sesame"])
    assert "sesame" not in str(told.value)
