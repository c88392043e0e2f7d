"""One tree of errors: drawn completely, each with a code of its own and a message without secrets."""

from __future__ import annotations

import re

import pytest

from txmanager.core import errors
from txmanager.core.errors import TxManagerError


def tree(root: type[TxManagerError] = TxManagerError) -> list[type[TxManagerError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in tree(child))]


OURS = [error for error in tree() if error.__module__ == errors.__name__]


def drawn() -> list[tuple[int, str]]:
    """Depth and name of each class in the drawing at the top of the module."""
    assert errors.__doc__
    found = re.finditer(r"^([│├└─ ]*)([A-Z][A-Za-z]+)(?:  |$)", errors.__doc__, re.MULTILINE)
    return [(len(match[1]) // 4, match[2]) for match in found]


def test_the_drawing_holds_every_error_exactly_once():
    assert sorted(name for _, name in drawn()) == sorted(error.__name__ for error in OURS)


def test_the_drawing_shows_the_real_inheritance():
    branch: list[str] = []
    for depth, name in drawn():
        branch[depth:] = [name]
        parents = [base.__name__ for base in getattr(errors, name).__mro__ if issubclass(base, TxManagerError)]
        assert parents == branch[::-1]


def test_every_error_says_its_reaction_in_the_drawing():
    assert errors.__doc__
    for error in OURS:
        if error is not TxManagerError:
            assert re.search(rf"{error.__name__} +\S+ \S+", errors.__doc__), error.__name__


def test_codes_are_stable_words_and_unique():
    codes = [error.code for error in OURS]
    assert len(set(codes)) == len(codes)
    for code in codes:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", code)


@pytest.mark.parametrize("error", [errors.Busy, errors.Unavailable])
def test_errors_that_ask_to_come_back_say_when(error):
    assert all(vars(kind).get("retry_after_s", error.retry_after_s) >= 1 for kind in tree(error))
