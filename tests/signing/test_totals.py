"""The day's total of a key: never exceeded, whatever is asked, restarted or set on the clock."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txmanager.core.errors import InvalidSettings, SignerAway, SignerRefused
from txmanager.core.signing_policy import Concerns, Effects, KeyPolicy, fits, judge
from txmanager.signing import Ed25519Signer, SigningRequest, guard
from txmanager.signing.sources import Curve
from txmanager.signing.totals import Totals, create
from txmanager.signing.trial import trial_request

POLICY = KeyPolicy(actions=frozenset({"pay"}), max_value=100, max_fee=100, max_per_day=1_000)
DAY = 86_400.0


def pays(value: int, slot: object = 1, fee: int = 0) -> Effects:
    return Effects(str(slot), frozenset(), frozenset({"pay"}), frozenset(), frozenset(), value, fee, 0)


class Clock:
    def __init__(self) -> None:
        self.now = 20_000 * DAY

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    assert create(tmp_path / "state")
    assert not create(tmp_path / "state"), "what is there is left alone"
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600
    return tmp_path / "state"


def test_nonces_count_once_with_the_dearest_of_their_transactions(path: Path) -> None:
    totals = Totals(path)
    assert (
        totals.spend("k", POLICY, [pays(10, 1), pays(30, 1), pays(20, 1), pays(5, 2), pays(7, 2, fee=1)]) == [None] * 5
    )
    assert totals.spent("k") == 38
    assert totals.spend("other", POLICY, [pays(1000, 1)]) == [None]


def test_a_day_is_over_at_midnight_and_never_comes_back(path: Path) -> None:
    clock = Clock()
    totals = Totals(path, clock)
    assert totals.spend("k", POLICY, [pays(950, 1)]) == [None]
    [refusal] = totals.spend("k", POLICY, [pays(60, 2)])
    assert refusal is not None
    assert refusal.concerns is Concerns.KEY
    assert refusal.lasts_a_day
    clock.now += DAY
    assert totals.spend("k", POLICY, [pays(950, 2)]) == [None]
    clock.now -= 3 * DAY  # somebody sets the clock back, and restarts the signer
    totals.close()
    totals = Totals(path, clock)
    assert totals.spend("k", POLICY, [pays(60, 3)]) != [None]
    assert totals.spent("k") == 950


def test_a_replacement_on_the_next_day_counts_with_what_it_adds(path: Path) -> None:
    clock = Clock()
    totals = Totals(path, clock)
    totals.spend("k", POLICY, [pays(100, 1)])
    clock.now += DAY
    totals.spend("k", POLICY, [pays(130, 1)])
    assert totals.spent("k") == 30


def test_old_nonces_are_forgotten_a_few_at_a_time_and_none_stays(path: Path, monkeypatch) -> None:
    """A day of millions of them must not be deleted while the first signature of the next day waits."""
    monkeypatch.setattr("txmanager.signing.totals._FORGOTTEN_AT_ONCE", 4)
    clock = Clock()
    totals = Totals(path, clock)
    totals.spend("k", POLICY, [pays(1, n) for n in range(10)])
    left = lambda: totals._file.execute("SELECT count(*) FROM slots WHERE slot < 'a'").fetchone()[0]  # noqa: E731
    clock.now += 4 * DAY
    for rest in (6, 2, 0):
        totals.spend("k", POLICY, [pays(1, "next")])
        assert left() == rest
    assert totals.spent("k") == 1


def test_a_file_of_an_earlier_release_is_used(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("DROP INDEX IF EXISTS slots_by_day")
    file.close()
    assert Totals(path).spend("k", POLICY, [pays(1)]) == [None]


def test_what_cannot_be_written_is_not_granted(path: Path) -> None:
    totals = Totals(path)
    totals.spend("k", POLICY, [pays(1)])

    class Full:
        """The disk is full at the commit."""

        def __init__(self, file: sqlite3.Connection) -> None:
            self._file = file
            self.in_transaction = False

        def execute(self, sql: str, *more: object) -> object:
            if sql == "COMMIT":
                self._file.execute("ROLLBACK")
                raise sqlite3.OperationalError("database or disk is full")
            return self._file.execute(sql, *more)

    plain = totals._file
    totals._file = Full(plain)  # type: ignore[assignment]
    with pytest.raises(SignerAway, match="disk is full"):
        totals.spend("k", POLICY, [pays(500, 2)])
    totals._file = plain
    assert totals.spent("k") == 1


def test_one_file_is_one_signers(path: Path) -> None:
    first = Totals(path)
    first.spend("k", POLICY, [pays(1)])
    with pytest.raises(InvalidSettings, match="only one signer may have it"):
        Totals(path)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 12), st.sampled_from(["ask", "ask", "ask", "restart", "day"])),
        max_size=60,
    )
)
def test_whatever_lands_is_at_most_the_days_total(tmp_path_factory: pytest.TempPathFactory, steps) -> None:
    """Of each nonce the dearest transaction lands, on the day it was first signed: the worst that can happen."""
    path, clock = tmp_path_factory.mktemp("totals") / "state", Clock()
    create(path)
    totals, counted, today = Totals(path, clock), dict[int, int](), 0
    for value, slot, step in steps:
        if step == "restart":
            totals.close()
            totals = Totals(path, clock)
        elif step == "day":
            clock.now, today = clock.now + DAY, 0
        elif totals.spend("k", POLICY, [pays(value, slot)]) == [None]:
            today += max(0, value - counted.get(slot, 0))
            counted[slot] = max(value, counted.get(slot, 0))
        assert today <= POLICY.max_per_day
    totals.close()


def test_the_price_of_the_day_is_nobodys_fault_and_its_own_gas_is() -> None:
    dear = Effects("1", frozenset(), frozenset({"pay"}), frozenset(), frozenset(), 0, 150, 90)
    refusal = judge(POLICY, dear)
    assert refusal is not None
    assert refusal.concerns is Concerns.REQUEST
    market = Effects("1", frozenset(), frozenset({"pay"}), frozenset(), frozenset(), 0, 150, 120)
    refusal = judge(POLICY, market)
    assert refusal is not None
    assert refusal.concerns is Concerns.KEY


@pytest.mark.parametrize(
    ("spent", "more", "concerns"),
    [
        (0, 1000, None),
        (500, 500, None),
        (500, 501, Concerns.REQUEST),
        (899, 102, Concerns.REQUEST),
        (900, 101, Concerns.KEY),
        (1000, 1, Concerns.KEY),
        (1000, 0, None),
        (2000, 0, None),
    ],
)
def test_what_does_not_fit_stops_the_key_only_when_the_day_is_nearly_used_up(spent, more, concerns) -> None:
    refusal = fits(POLICY, spent, more)
    assert (refusal.concerns if refusal else None) is concerns


async def test_a_trial_is_refused_until_the_next_day_once_the_day_is_used_up(path: Path, monkeypatch) -> None:
    """However long ago the refusal was: a lane that resumed would be refused again at once."""
    monkeypatch.setattr(guard, "_REFUSES_TRIALS_S", 0.0)
    clock, key, policy = Clock(), Ed25519Signer.generate(), replace(POLICY, max_value=1_000)
    made = guard.Guard(
        "k",
        Curve.ED25519,
        key,
        policy,
        Totals(path, clock),
        lambda data: sha256(data).digest(),
        lambda *_: pays(950, 1),
    )

    def asked(body: bytes) -> SigningRequest:
        return SigningRequest(body, sha256(body).digest())

    trial = trial_request(key.public_key, lambda data: sha256(data).digest())
    assert isinstance((await made.sign_many([asked(b"first")]))[0], bytes)
    made._read = lambda *_: pays(100, 2)
    assert isinstance((await made.sign_many([asked(b"second")]))[0], SignerRefused)
    assert isinstance((await made.sign_many([trial]))[0], SignerRefused)
    clock.now += DAY
    assert isinstance((await made.sign_many([trial]))[0], bytes)
