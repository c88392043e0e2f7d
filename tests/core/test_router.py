"""The router spreads new keys evenly, and a changed pool moves as few of them as it must."""

from __future__ import annotations

import random
from collections import Counter
from math import log
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txmanager.core.errors import NoLane
from txmanager.core.router import Router, _mix, _seed, route

KEYS = [f"user-{n}.testnet" for n in range(100_000)]


PINNED = ["658", "192", "717", "964", "19", "899"]


def lanes(count: int) -> list[tuple[str, int]]:
    return [(f"near:testnet:relayer.testnet:ed25519:key{n}", 1) for n in range(count)]


def choices(members: list[tuple[str, int]]) -> list[str | None]:
    router = Router(members)
    return [router.choose(key) for key in KEYS]


@pytest.fixture(scope="module")
def sixteen() -> list[str | None]:
    return choices(lanes(16))


def test_sixteen_lanes_share_100k_keys_within_five_percent(sixteen):
    count = Counter(sixteen)
    assert len(count) == 16
    for lane, share in count.items():
        assert abs(share / (len(KEYS) / 16) - 1) < 0.05, f"{lane} has {share}"


def test_an_added_lane_takes_its_share_and_moves_nothing_else(sixteen):
    after = choices(lanes(17))
    new = lanes(17)[16][0]
    moved = [(old, now) for old, now in zip(sixteen, after, strict=True) if old != now]
    assert {now for _, now in moved} == {new}
    assert len(moved) / len(KEYS) <= 1 / 17 + 0.02


def test_a_drained_lane_gives_up_its_own_keys_only(sixteen):
    drained = lanes(16)[5][0]
    after = choices([member for member in lanes(16) if member[0] != drained])
    moved = [old for old, now in zip(sixteen, after, strict=True) if old != now]
    assert set(moved) == {drained}
    assert len(moved) / len(KEYS) <= 1 / 16 + 0.02


def test_the_keys_of_a_drained_lane_spread_over_all_others(sixteen):
    drained = lanes(16)[5][0]
    after = choices([member for member in lanes(16) if member[0] != drained])
    heirs = Counter(now for old, now in zip(sixteen, after, strict=True) if old == drained)
    assert len(heirs) == 15
    assert max(heirs.values()) < 2 * sum(heirs.values()) / 15


def test_shares_follow_the_weights():
    weights = {"a:x": 1, "b:x": 2, "c:x": 5}
    count = Counter(choices(list(weights.items())))
    for lane, weight in weights.items():
        assert abs(count[lane] / (len(KEYS) * weight / 8) - 1) < 0.05, count


def test_a_raised_weight_moves_keys_to_that_lane_only(sixteen):
    heavier = [(name, 2 if n == 3 else 1) for n, (name, _) in enumerate(lanes(16))]
    moved = [(old, now) for old, now in zip(sixteen, choices(heavier), strict=True) if old != now]
    assert {now for _, now in moved} == {heavier[3][0]}
    assert len(moved) / len(KEYS) <= 1 / 17 + 0.02


@given(st.lists(st.text(min_size=1), min_size=1, max_size=8, unique=True), st.text(), st.randoms())
def test_the_choice_does_not_depend_on_the_order_of_the_registry(names, key, random):
    members = [(name, 1 + len(name) % 3) for name in names]
    shuffled = random.sample(members, len(members))
    assert Router(members).choose(key) == Router(shuffled).choose(key)


def test_the_choice_is_pinned():
    """Producers of two releases that run side by side must agree."""
    router = Router(lanes(4))
    assert [(router.choose(key) or "")[-1] for key in KEYS[:8]] == list("32011202")


def test_the_mix_is_the_finaliser_of_splitmix64():
    """Low bits decide only between close scores: keys that are routed do not show them, these known numbers do."""
    golden = 0x9E3779B97F4A7C15
    mixed = [_mix(n * golden % 2**64) for n in range(4)]
    assert mixed == [0, 0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def best_of_all(members: list[tuple[str, int]], key: str) -> str:
    """The choice of release 0.1.0, whatever the number of lanes."""

    def score(member: tuple[str, int]) -> float:
        mixed = _mix(_seed(key) ^ _seed(member[0]))
        return -member[1] / log((mixed + 1) / 2**64)

    return max(sorted(members), key=score)[0]


@pytest.mark.parametrize("heavy", [1, 3])
@pytest.mark.parametrize("count", [1, 2, 8, 9, 63, 64])
def test_a_pool_of_up_to_64_lanes_is_routed_as_by_release_0_1_0(count: int, heavy: int):
    members = [(name, heavy if n % 5 == 2 else 1) for n, (name, _) in enumerate(lanes(count))]
    router = Router(members)
    assert all(router.choose(key) == best_of_all(members, key) for key in KEYS[:300])


@pytest.fixture(scope="module")
def thousand() -> list[str | None]:
    return choices(lanes(1_000))


def test_a_thousand_lanes_share_100k_keys_as_evenly_as_dice_would(thousand):
    count = Counter(thousand)
    assert len(count) == 1_000
    variance = sum((share - 100) ** 2 for share in count.values()) / 1_000
    assert 80 < variance < 130  # of a fair draw: 100


def test_the_choice_in_a_large_pool_is_pinned_and_does_not_depend_on_the_order_of_the_registry(thousand):
    shuffled = Router(random.Random(1).sample(lanes(1_000), 1_000))
    assert [shuffled.choose(key) for key in KEYS[:500]] == thousand[:500]
    assert [(lane or "").rpartition("key")[2] for lane in thousand[:6]] == PINNED


@pytest.mark.parametrize("count", [999, 1_001])
def test_a_lane_that_comes_or_leaves_moves_the_keys_of_a_few_lanes(thousand, count):
    moved = sum(old != now for old, now in zip(thousand, choices(lanes(count)), strict=True))
    assert moved / len(KEYS) < 8 / 1_000


def test_shares_follow_the_weights_in_a_large_pool():
    members = [(name, 3 if n % 2 else 1) for n, (name, _) in enumerate(lanes(200))]
    count = Counter(choices(members))
    heavy = sum(count[name] for name, weight in members if weight == 3)
    assert abs(heavy / len(KEYS) - 0.75) < 0.01


def test_a_hundred_thousand_lanes_are_routed_by_a_few_dozen_hashes():
    router = Router(lanes(100_000))
    with patch("txmanager.core.router._mix", side_effect=_mix) as mixed:
        for key in KEYS[:100]:
            router.choose(key)
    assert mixed.call_count < 100 * 40


def test_a_lane_of_weight_zero_gets_nothing():
    assert set(choices([("a:x", 1), ("b:x", 0)])) == {"a:x"}


def test_a_pool_without_active_lanes_is_a_named_error():
    assert Router([]).choose("k") is None
    assert len(Router([("a:x", 0)])) == 0
    with pytest.raises(NoLane, match="pool 'main' has no active lane"):
        route(Router([]), "main", "k")
