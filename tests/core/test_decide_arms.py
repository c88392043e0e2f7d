"""The arms of `decide` for bytes that may still land: each is needed, and each says its own reason."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.core.test_decide import EVM, NEAR, NOW, attempt, record
from txmanager.core import alive
from txmanager.core.alive import ARMS, Alive, Arm, decide_alive
from txmanager.core.chain import SendReply, Sighting, Verdict
from txmanager.core.funds import Finding, Purse, Word
from txmanager.core.kills import Doom, KillCause
from txmanager.core.models import Purpose
from txmanager.core.states import Status
from txmanager.core.steps import Observation, Policy


def cases(count: int) -> Iterator[Alive]:
    """Random, and the same in each run."""
    rng = random.Random(7)
    pick, odds = rng.choice, lambda chance: rng.random() < chance
    for _ in range(count):
        first = attempt(7, signed_at=NOW - pick([100, 900, 1_500, 5_000, 60_000]))
        noop = attempt(8, Purpose.NOOP, signed_at=NOW - pick([100, 5_000]))
        noops = [noop] if odds(0.2) else []
        seen = Observation(
            sightings={noop.name: Sighting("included")} if odds(0.1) else {},
            reply=SendReply(pick(list(Verdict)), "words") if odds(0.8) else None,
            sent_at=NOW - pick([10, 5_000]),
            overtaken=odds(0.1),
            clear=odds(0.6),
            idle=odds(0.6),
            unproven=odds(0.5),
            killable=odds(0.8),
            lowest=odds(0.7),
            lowest_since=pick([0, NOW - 100]),
            priced_out=odds(0.1),
            means=Finding(pick(list(Word)), Purse("account", 10), 50) if odds(0.7) else None,
        )
        yield Alive.of(
            record(first, *noops, status=pick([Status.INFLIGHT, Status.HELD]), cancel_requested=odds(0.2)),
            [first],
            noops,
            seen,
            Policy(
                include_within_ms=1_000,
                hold_after_ms=60_000,
                replace_after_ms=pick([900, 10_000]),
                cancel_after_ms=pick([None, 3_000]),
            ),
            pick([NEAR, EVM]),
            NOW,
            Doom(KillCause.REJECTED, "never acceptable") if odds(0.1) else None,
        )


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.__name__)
def test_without_any_one_arm_something_is_decided_otherwise(arm: Arm, monkeypatch: pytest.MonkeyPatch) -> None:
    some = list(cases(2_000))
    sound = [decide_alive(case) for case in some]
    monkeypatch.setattr(alive, "ARMS", tuple(one for one in ARMS if one is not arm))
    assert [decide_alive(case) for case in some] != sound


def test_no_two_arms_give_the_same_reason() -> None:
    reasons: dict[tuple[str, str], set[str]] = {}
    for case in cases(5_000):
        arm, step = next(((arm, step) for arm in ARMS if (step := arm(case)) is not None), (None, None))
        if arm is not None and hasattr(step, "reason"):
            reasons.setdefault((type(step).__name__, step.reason), set()).add(arm.__name__)
    assert reasons
    assert {reason: arms for reason, arms in reasons.items() if len(arms) > 1} == {}
