"""One row of the table of operations: a route, and everything there is to say of it.

The router, the OpenAPI document and `/docs` are built from the rows (`table.py`), so none of them can say something
else. A handler raises what its row lists; anything else is logged as `undeclared error`, and the tests look for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from txmanager.api.auth import Right
from txmanager.api.call import Handler
from txmanager.core.errors import TxManagerError

Schema = dict[str, Any]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Shape = type[BaseModel] | str
"""A model, or the name of a schema that the kinds of intents contribute (`kind_schemas.py`)."""
Errors = frozenset[type[TxManagerError]]


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    where: Literal["path", "query", "header"]
    schema: Mapping[str, Any]
    words: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Success:
    words: str
    shape: Shape | None = None
    """Of a JSON body; `content` describes any other one."""
    status: int = 200
    or_shape: Shape | None = None
    """Another one that the same status may have."""
    content: Mapping[str, Any] | None = None
    headers: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    method: Method
    path: str
    id: str
    """Its name in the OpenAPI document."""
    summary: str
    right: Right | None
    """What a token needs for it; None needs no token."""
    handler: Handler
    successes: tuple[Success, ...]
    errors: Errors
    """All that the operation may answer with, admission included."""
    parameters: tuple[Parameter, ...] = ()
    request: Shape | None = None
    body_optional: bool = False
    lines: tuple[Shape, Shape] | None = None
    """Of each line and of its answer, where the body may also come as lines of JSON; its handler then reads it."""
