"""What a contract or a node chose to say, made fit to be kept: bounded in depth and bytes, always storable as JSON.

A final transaction ends its intent by its status, whatever its result looks like, so `bounded` never fails: what does
not fit is cut, and `<field>_truncated` beside it says so. A JSON value is kept whole or not at all, because half of one
is another value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txmanager.core.models import Json, Outcome, failure

MAX_RESULT_BYTES = 8_192
MAX_DEPTH = 32
EXACT = 2**53
"""Beyond it a JSON number is not the same for every reader, so it is kept as text."""
_WHOLE = frozenset({"value", "cause"})
_UNESCAPED = 6
"""A character takes no more bytes in JSON than this."""


class TooDeep(ValueError):
    pass


def bounded(outcome: Outcome, max_bytes: int = MAX_RESULT_BYTES) -> Outcome:
    """The same end, with a result and an error of at most about `max_bytes` together."""
    if _plain(outcome.result, outcome.error, max_bytes):
        return outcome
    try:
        result, error = _fit(outcome.result, outcome.error, max_bytes)
        return replace(outcome, result=result, error=error)
    except Exception:  # by construction it cannot happen; a settled status must not depend on that
        found = outcome.error or {}
        code, helps = str(found.get("code", "failed_on_chain"))[:64], found.get("new_key_helps") is True
        error = failure(code, "the chain's words could not be kept", new_key_helps=helps)
        return replace(
            outcome,
            result=None if outcome.result is None else {"truncated": True},
            error=None if outcome.error is None else error,
        )


def _plain(result: Mapping[str, Json] | None, error: Mapping[str, Json] | None, max_bytes: int) -> bool:
    """As of most intents: short texts and nothing else."""
    size = 0
    for part in (result, error):
        for value in part.values() if part else ():
            if type(value) is str and value.isascii():
                size += len(value)
            elif value is not None and value is not True and value is not False and value not in ([], {}):
                return False
            size += 8
    return size * _UNESCAPED <= max_bytes


def _fit(
    result: Mapping[str, Json] | None, error: Mapping[str, Json] | None, max_bytes: int
) -> tuple[dict[str, Json] | None, dict[str, Json] | None]:
    """Room is shared evenly, and what needs less than its share leaves the rest to others."""
    parts: list[dict[str, Json] | None] = [None if part is None else {} for part in (result, error)]
    fields: list[tuple[int, int, str, Json]] = []
    room = max_bytes - 64
    for place, part in enumerate((result, error)):
        for given, value in (part or {}).items():
            name = _text(str(given))[:64]
            room -= 2 * len(name.encode()) + 24  # the name, and what says that it was cut
            target = parts[place]
            assert target is not None
            target[name] = None  # keeps the order
            try:
                kept = clean(value)
            except TooDeep:
                target[f"{name}_truncated"] = True
                continue
            fields.append((_size(kept), place, name, kept))
    fields.sort(key=lambda field: field[0])
    for left, (size, place, name, whole) in zip(range(len(fields), 0, -1), fields, strict=True):
        share = max(0, room) // left
        target = parts[place]
        assert target is not None
        if size <= share:
            target[name] = whole
            room -= size
        else:
            target[name] = _cut(name, whole, share)
            target[f"{name}_truncated"] = True
            room -= _size(target[name])
    return parts[0], parts[1]


def clean(value: Json, depth: int = MAX_DEPTH) -> Json:
    """The same value with nothing in it that no JSON writer takes."""
    if depth < 0:
        raise TooDeep
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return value if abs(value) <= EXACT else _digits(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {_text(str(name)): clean(inner, depth - 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean(inner, depth - 1) for inner in value]
    return _text(type(value).__name__)


def exact_json(text: bytes) -> tuple[Json, bool]:
    """(what a contract returned, whether it can be kept): numbers that not every reader keeps exact are their own text.
    Bytes that are no JSON are None, and whole."""
    try:
        value = json.loads(text, parse_int=_exact, parse_float=_exact, parse_constant=str)
    except RecursionError:
        return None, False
    except ValueError:
        return None, True
    try:
        return clean(value), True
    except TooDeep:
        return None, False


def _exact(text: str) -> int | float | str:
    if len(text) > 32:
        return text
    if text.lstrip("-").isdigit():
        return int(text) if abs(int(text)) <= EXACT else text
    number = float(text)
    return number if math.isfinite(number) and abs(number) <= EXACT and len(text) <= 17 else text


def _digits(value: int) -> str:
    return str(value) if value.bit_length() <= 4096 else hex(value)[:1024]


def _text(value: str) -> str:
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def _cut(name: str, value: Json, room: int) -> Json:
    if isinstance(value, str):
        kept = value[:room]
        while kept and (size := _size(kept)) > room:
            kept = kept[: min(len(kept) - 1, len(kept) * room // size)]
        return kept
    if not isinstance(value, list) or name in _WHOLE:
        return None
    items: list[Json] = []
    room -= 2
    for item in value:
        size = _size(item) + 1
        if size > room:
            if isinstance(item, str) and (begin := _cut("", item, room - 1)):
                items.append(begin)
            break
        items.append(item)
        room -= size
    return items
