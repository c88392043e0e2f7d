"""The fingerprint of a payload: equal for equal requests, whatever their key order, white space or number form.

Taken from the payload as received, before any default is filled in, so that a new default in a new release
never turns an honest retry into a conflict. The version prefix lets the algorithm change later.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from json.encoder import encode_basestring  # `json.dumps` would make an encoder for every word

from txmanager.core.errors import InvalidInput

VERSION = "v1"
MAX_DEPTH = 64
MAX_DIGITS = 400
_TOO_BIG = 10**MAX_DIGITS


def fingerprint(kind: str, payload: object) -> str:
    parts: list[str] = [json.dumps(kind), "\n"]
    _write(payload, parts, 0)
    return f"{VERSION}:{hashlib.sha256(''.join(parts).encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def _write(value: object, out: list[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidInput("payload", f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        out.append(encode_basestring(value))
    elif value is None:
        out.append("null")
    elif isinstance(value, bool):
        out.append("true" if value else "false")
    elif isinstance(value, (int, float, Decimal)):
        out.append(_number(value))
    elif isinstance(value, (dict, Mapping)):
        out.append("{")
        for name in value:
            if not isinstance(name, str):
                raise InvalidInput("payload", f"object keys must be strings, not {type(name).__name__}")
        for name in sorted(value):
            out.append(encode_basestring(name) + ":")
            _write(value[name], out, depth + 1)
            out.append(",")
        out.append("}")
    elif isinstance(value, (list, Sequence)) and not isinstance(value, (bytes, bytearray)):
        out.append("[")
        for item in value:
            _write(item, out, depth + 1)
            out.append(",")
        out.append("]")
    else:
        raise InvalidInput("payload", f"{type(value).__name__} is not a JSON value")


def _number(value: int | float | Decimal) -> str:
    """1, 1.0 and 1e0 are one number; so are 1e23 and the integer with 23 zeros."""
    if isinstance(value, int):
        if abs(value) >= _TOO_BIG:
            raise InvalidInput("payload", f"a number has more than {MAX_DIGITS} digits")
        return str(value)
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    if not exact.is_finite():
        raise InvalidInput("payload", "NaN and infinity are not JSON numbers")
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "0"
    stripped = text.rstrip("0")
    exponent += len(text) - len(stripped)
    prefix = "-" if sign else ""
    if exponent >= 0:
        if len(stripped) + exponent > MAX_DIGITS:
            raise InvalidInput("payload", f"a number has more than {MAX_DIGITS} digits")
        return prefix + stripped + "0" * exponent
    return f"{prefix}{stripped}e{exponent}"
