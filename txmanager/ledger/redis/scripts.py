"""The Lua scripts, one file per transition, with `--@include` lines replaced by the shared pieces they name."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "lua"
_INCLUDE = re.compile(r"^--@include (\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    text: str
    sha: str


def build(name: str, text: str) -> Script:
    return Script(name, text, hashlib.sha1(text.encode()).hexdigest())


@cache
def script(name: str) -> Script:
    text = (_FOLDER / f"{name}.lua").read_text()
    return build(name, _INCLUDE.sub(lambda m: (_FOLDER / f"{m[1]}.lua").read_text(), text))


def names() -> list[str]:
    return sorted(p.stem for p in _FOLDER.glob("[a-z]*.lua"))
