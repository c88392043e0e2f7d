"""JSON text taken apart without changing a byte: the elements of an array, the members of an object.

Callers have proven that the text is valid JSON; here it is only cut. What is not understood is so passed on as it came,
with every digit and every escape.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]', re.DOTALL)
_QUOTE, _COMMA, _COLON = b'",:'
_OPEN, _CLOSE = frozenset(b"[{"), frozenset(b"]}")


class TooMany(Exception):
    """The array has more elements than were asked for."""


def elements(array: bytes, most: int | None = None) -> list[bytes]:
    """The text of each element."""
    found: list[bytes] = []
    depth = begin = 0
    for token in _TOKEN.finditer(array):
        what = array[token.start()]
        if what in (_QUOTE, _COLON):
            continue
        if what in _OPEN:
            depth += 1
            if depth == 1:
                begin = token.end()
        elif what == _COMMA:
            if depth == 1:
                found.append(array[begin : token.start()].strip())
                begin = token.end()
                if most is not None and len(found) >= most:
                    raise TooMany
        else:
            depth -= 1
            if depth == 0 and (last := array[begin : token.start()].strip()):
                found.append(last)
    return found


def members(text: bytes) -> list[tuple[bytes, int, int]]:
    """Each member of an object: its quoted name, and where the text of its value begins and ends."""
    found: list[tuple[bytes, int, int]] = []
    depth = begin = 0
    name = b""
    for token in _TOKEN.finditer(text):
        what = text[token.start()]
        if what == _QUOTE:
            continue
        if what in _OPEN:
            depth += 1
            if depth == 1:
                begin = token.end()
        elif depth == 1 and what == _COLON:
            name, begin = text[begin : token.start()].strip(), token.end()
        elif depth == 1 and what == _COMMA:
            found.append((name, *_trimmed(text, begin, token.start())))
            begin = token.end()
        elif what in _CLOSE:
            depth -= 1
            if depth == 0 and text[begin : token.start()].strip():
                found.append((name, *_trimmed(text, begin, token.start())))
    return found


def _trimmed(text: bytes, begin: int, end: int) -> tuple[int, int]:
    part = text[begin:end]
    left = len(part) - len(part.lstrip())
    return begin + left, begin + left + len(part.strip())
