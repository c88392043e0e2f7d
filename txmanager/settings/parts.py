"""What every table of the configuration is made of, those of the chains included: frozen, no unknown key."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from txmanager.core.errors import InvalidInput
from txmanager.core.kinds import UNLIMITED
from txmanager.core.models import check_name


def _exact(value: object) -> object:
    if isinstance(value, float):
        # 1e24 is not 10**24 as a float: money would silently change.
        raise ValueError("must be whole digits; put numbers beyond 2^53 in quotes")
    return value


def _name(value: str) -> str:
    try:
        return check_name("name", value)
    except InvalidInput as error:
        raise ValueError(error.problem) from None


_DIGITS = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+$"}]}
Money = Annotated[int, BeforeValidator(_exact), Field(ge=0, lt=UNLIMITED), WithJsonSchema(_DIGITS)]
Name = Annotated[str, AfterValidator(_name)]
Names = Annotated[frozenset[str], PlainSerializer(sorted)]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=False)
