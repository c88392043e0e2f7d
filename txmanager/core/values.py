"""Values of the hot path: frozen for the type checker, plain at run time.

A frozen dataclass sets each field through `object.__setattr__`, which makes it five times as dear to build; an intent
builds some twenty of them on its way. mypy (strict, in CI) refuses every assignment to one instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:
    import dataclasses

    def value(*, frozen: bool, slots: bool, **more: Any):
        """`@value(frozen=True, slots=True)`: compared and hashed by its fields, like the frozen class it stands for."""
        assert frozen, "what is not frozen is an ordinary dataclass"
        return dataclasses.dataclass(slots=slots, unsafe_hash=True, **more)


__all__ = ["value"]
