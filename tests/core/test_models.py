"""What a caller may call things, and what becomes of an intent's words."""

from __future__ import annotations

import dataclasses
from collections import Counter

import mypy.api
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txmanager.core.errors import InvalidInput, InvalidKey
from txmanager.core.models import (
    HOMES,
    Attempt,
    Intent,
    IntentId,
    Outcome,
    Purpose,
    Record,
    check_key,
    check_lane,
    check_name,
    intent_id,
    new_intent,
)
from txmanager.core.states import Status

VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=255)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", fullmatch=True)


def make(**changes) -> Intent:
    return new_intent(**({"key": "k1", "pool": "main", "kind": "near.transfer", "payload": {}} | changes))


@given(VISIBLE)
def test_every_visible_key_of_255_characters_is_accepted(key):
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["", "a b", " a", "a\n", "a\t", "ключ", "a\x7f", "a\x00", "x" * 256, None, 5, b"a"])
def test_any_other_key_is_refused_with_the_rule(key):
    with pytest.raises(InvalidKey, match="idempotency_key: must be 1 to 255 visible") as caught:
        check_key(key)
    assert caught.value.field == "idempotency_key"


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a/b", "a{b}", "x" * 64, "a\n", None])
def test_a_name_that_could_break_a_key_is_refused(name):
    with pytest.raises(InvalidInput, match="pool: must be"):
        check_name("pool", name)


@pytest.mark.parametrize(
    "lane",
    ["near:testnet:relayer.testnet:ed25519:4Xk2", "near:testnet:a:ed25519:4Xk2:17", "evm:1:0x00000000000000000000"],
)
def test_lane_ids_of_both_chains_are_accepted(lane):
    assert check_lane(lane) == lane


@pytest.mark.parametrize(
    "lane", ["", "near", "near:", "near::a", "near:{x}:a", "near:a b", "NEAR:a:b", "a:" + "b" * 255]
)
def test_a_lane_that_could_break_a_key_is_refused(lane):
    with pytest.raises(InvalidInput, match="lane: must look like"):
        check_lane(lane)


@given(NAMES, NAMES, VISIBLE)
def test_an_intent_id_survives_its_text_form(tenant, pool, key):
    id = intent_id(key, pool, tenant)
    assert IntentId.parse(str(id)) == id


@given(VISIBLE)
def test_every_key_has_a_home(key):
    assert 0 <= intent_id(key, "main").home < HOMES


def test_the_home_of_a_known_key_is_pinned():
    """Changing the hash would lose every stored answer."""
    assert intent_id("create:alice.testnet", "main").home == 884


def test_keys_spread_over_the_homes():
    count = Counter(intent_id(f"key-{n}", "main").home for n in range(100_000))
    assert len(count) == HOMES
    assert max(count.values()) < 2 * 100_000 / HOMES


def test_tenants_and_pools_do_not_share_keys():
    ids = {str(intent_id("k", pool, tenant)) for pool in ("a", "b") for tenant in ("a", "b")}
    assert len(ids) == 4


def test_the_partition_is_the_created_account_else_the_key():
    assert make(payload={"new_account_id": "alice.testnet"}).partition_key == "alice.testnet"
    assert make(payload={"new_account_id": 5}).partition_key == "k1"
    assert make().partition_key == "k1"
    assert make(payload={"new_account_id": "alice.testnet"}, partition_key="mine").partition_key == "mine"


@pytest.mark.parametrize("age", [0, -1, True])
def test_a_maximum_age_is_at_least_a_second(age):
    with pytest.raises(InvalidInput, match="max_age_s"):
        make(max_age_s=age)


def test_models_are_values():
    """Compared and hashed by their fields."""
    assert make() == make()
    assert hash(make().id) == hash(make().id)
    assert len({make().id, make().id, dataclasses.replace(make().id, key="k2")}) == 2


def test_the_type_checker_refuses_an_assignment_to_a_model(tmp_path):
    code = tmp_path / "assigns.py"
    code.write_text("from txmanager.core.models import Fence\nFence('l', 'o', 1, 't').epoch = 2\n")
    told, _, failed = mypy.api.run([str(code)])
    assert failed
    assert "read-only" in told


def test_a_proven_attempt_is_dead_and_noops_are_no_effect():
    first = Attempt(nonce=7, hash="h7", raw=b"", purpose=Purpose.FIRST, signed_at=0)
    noop = Attempt(nonce=8, hash="h8", raw=b"", purpose=Purpose.NOOP, signed_at=0)
    record = Record(
        intent=make(),
        lane="near:testnet:a:ed25519:k",
        life="l",
        status=Status.INFLIGHT,
        position="1-0",
        created_at=0,
        updated_at=0,
        attempts=(first.with_proof({"cause": "overtaken"}), noop),
    )
    assert first.name == "7:h7"
    assert not first.dead
    assert record.live == (noop,)
    assert [attempt.hash for attempt in record.effects] == ["h7"]


def test_a_record_that_ends_keeps_everything_of_its_intent_but_the_payload():
    intent = new_intent(
        key="k",
        pool="p",
        kind="near.transfer",
        payload={"amount": "1"},
        tenant="t",
        partition_key="alice",
        max_age_s=60,
        metadata={"order": 7},
        limits={"max_cost": "5"},
        token="app",
        trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    intent = dataclasses.replace(intent, version=2)
    plain = Intent(intent.id, "", {}, "", "")
    same = [f.name for f in dataclasses.fields(Intent) if getattr(intent, f.name) == getattr(plain, f.name)]
    assert same == ["id"], "this test gives every field a value of its own"
    record = Record(intent, "near:net:a:1", "life", Status.INFLIGHT, "1-1", 1, 1)
    assert record.ended(Outcome(Status.DONE), {}).intent == dataclasses.replace(intent, payload={})
