"""The shapes that the kinds of intents contribute to the document: their payloads, and the bodies of submits.

A family's name begins the names of its shapes, so that two families may call a model the same.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from itertools import groupby

from pydantic.json_schema import models_json_schema

from txmanager.api.operation import Schema
from txmanager.core.kinds import Kind

REF = "#/components/schemas/{model}"
ANY_INTENT = "IntentRequest"


def family_of(kind: Kind) -> str:
    return kind.name.partition(".")[0].capitalize()


def payload_name(kind: Kind) -> str:
    return family_of(kind) + kind.model.__name__


def request_name(kind: Kind) -> str:
    """Of the body on the kind's own path."""
    return f"{payload_name(kind)}Request"


def kind_schemas(kinds: Iterable[Kind], envelope: Mapping[str, Schema]) -> Schema:
    kinds = sorted(kinds, key=family_of)
    schemas: Schema = {}
    for family, group in groupby(kinds, key=family_of):
        models = [(kind.model, "validation") for kind in group]
        _, found = models_json_schema(models, ref_template=REF.format(model=f"{family}{{model}}"))  # type: ignore[arg-type]
        schemas |= {f"{family}{name}": schema for name, schema in found["$defs"].items()}
    bodies = {
        request_name(kind): _flat(kind, schemas[payload_name(kind)], envelope)
        for kind in kinds
        if kind.own_path is not None
    }
    any_intent = {
        "title": ANY_INTENT,
        "description": "An intent of any kind.",
        "oneOf": [_intent(kind, envelope) for kind in kinds],
        "discriminator": {"propertyName": "kind"},
    }
    return {**schemas, **bodies, ANY_INTENT: any_intent}


def _intent(kind: Kind, envelope: Mapping[str, Schema]) -> Schema:
    payload = {"$ref": REF.format(model=payload_name(kind))}
    return {
        "type": "object",
        "title": kind.name,
        "properties": {"kind": {"const": kind.name}, "payload": payload, **envelope},
        "required": ["kind", "payload"],
        "additionalProperties": False,
    }


def _flat(kind: Kind, payload: Schema, envelope: Mapping[str, Schema]) -> Schema:
    """The payload's own fields and the envelope's, side by side."""
    assert kind.own_path is not None
    flat = copy.deepcopy(payload)
    flat["title"] = request_name(kind)
    for theirs, ours in kind.own_path.renamed.items():
        flat["properties"][theirs] = flat["properties"].pop(ours)
        flat["required"] = [theirs if name == ours else name for name in flat["required"]]
        for example in flat.get("examples", ()):
            example[theirs] = example.pop(ours)
    flat["properties"] |= envelope
    return flat
