"""What `doctor` found out about one thing: fine, a risk, or wrong, and then how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    level: Literal["ok", "warn", "fail"]
    what: str
    fix: str = ""
