"""Each error has exactly one line in the table, and every problem says code, what was kept and what to do."""

from __future__ import annotations

import re

import pytest

from tests.core.test_errors import tree
from txmanager.api import problems
from txmanager.api.problems import ANSWERS, ApiError, answer_to, encoded, problem
from txmanager.core import errors
from txmanager.core.errors import QueueFull, TxManagerError, Unconfirmed

OURS = [kind for kind in tree() if kind.__module__ in (errors.__name__, problems.__name__)]


def test_every_error_has_exactly_one_mapping():
    missing = [kind.__name__ for kind in OURS if kind not in ANSWERS]
    assert not missing, f"add {missing} to ANSWERS"
    assert set(ANSWERS) == set(OURS)


def test_an_error_of_an_adapter_is_answered_like_its_parent():
    class Elsewhere(errors.Unavailable):
        code = "elsewhere"

    assert answer_to(Elsewhere("x")) is ANSWERS[errors.Unavailable]
    assert problem(Elsewhere("x"))[1]["code"] == errors.Unavailable.code, "clients know the codes of the table"


def test_codes_of_the_api_are_stable_words_and_unique():
    codes = [kind.code for kind in OURS]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


def test_the_drawing_holds_every_error_of_the_api():
    assert problems.__doc__
    names = {kind.__name__ for kind in tree(ApiError) if kind.__module__ == problems.__name__}
    assert names <= set(re.findall(r"[─] (\w+)", problems.__doc__))


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_every_answer_says_what_was_kept_and_what_to_do(kind):
    answer = ANSWERS[kind]
    assert 400 <= answer.status <= 599
    assert answer.title
    assert answer.kept.endswith((".", "decides."))
    assert answer.do.endswith(".")


def test_what_asks_to_come_back_says_when():
    for error in (QueueFull("near:x:y:z:k", 3), Unconfirmed("lost")):
        status, _, headers = encoded(error)
        assert status in (429, 503)
        assert int(dict(headers)[b"retry-after"]) >= 1


def test_an_unexpected_error_shows_nothing_of_itself():
    status, body, _ = encoded(TxManagerError("password hunter2 in a stack trace"))
    assert status == 500
    assert b"hunter2" not in body
