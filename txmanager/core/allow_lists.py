"""Allow-lists of names that have parts: an entry is a name, or `*.suffix` for every name below it."""

from __future__ import annotations


def allowed(name: str, allow_list: frozenset[str] | None) -> bool:
    """A list of None allows all."""
    if allow_list is None or name in allow_list:
        return True
    _, dot, rest = name.partition(".")
    while dot:
        if f"*.{rest}" in allow_list:
            return True
        _, dot, rest = rest.partition(".")
    return False
