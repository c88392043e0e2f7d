"""The OpenAPI document, built from the table of operations and the models that check requests and shape answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from txmanager.api.intents import Envelope
from txmanager.api.kind_schemas import REF, kind_schemas
from txmanager.api.live import LookView
from txmanager.api.operation import Errors, Operation, Parameter, Schema, Shape, Success
from txmanager.api.problems import ANSWERS, SERVER_ERRORS, Problem
from txmanager.api.records import EventView
from txmanager.core.kinds import Kind

_SCOPES = {
    "read": "Needs the scope `read`.",
    "submit": "Needs the scope `submit`.",
    "cancel": "Needs the scope `submit` or `operate`.",
    "operate": "Needs the scope `operate`.",
    "steer": 'Needs the scope `operate`, and a token with tenant = "*" once the tokens have several tenants.',
}
_SERVER = "ServerProblem"
_SERVER_WORDS = "The server itself refused or failed, whatever the operation."


def build_document(operations: Sequence[Operation], kinds: Mapping[str, Kind]) -> Schema:
    paths: Schema = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "txmanager",
            "version": version("txmanager"),
            "description": "Takes intents, gives each exactly one life, and drives it onto the chain in order.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(operations, kinds),
            "responses": {_SERVER: {**_problem(SERVER_ERRORS), "description": _SERVER_WORDS}},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic", "description": "Any name; the token as password."},
            },
        },
        "security": [{"token": []}, {"password": []}],
    }


def _schemas(operations: Sequence[Operation], kinds: Mapping[str, Kind]) -> Schema:
    used = [one.request for one in operations]
    used += [shape for one in operations if one.lines is not None for shape in one.lines]
    used += [shape for one in operations for success in one.successes for shape in (success.shape, success.or_shape)]
    models: set[type[BaseModel]] = {shape for shape in used if isinstance(shape, type)}
    models |= {Problem, Envelope, EventView, LookView}
    wanted: list[tuple[type[BaseModel], Any]] = [(model, "validation") for model in models]
    _, found = models_json_schema(wanted, ref_template=REF)
    schemas: Schema = found["$defs"]
    schemas |= kind_schemas(kinds.values(), schemas["Envelope"]["properties"])
    return {name: schemas[name] for name in sorted(schemas)}


def _described(operation: Operation) -> Schema:
    described: Schema = {"operationId": operation.id, "summary": operation.summary}
    if operation.right is None:
        described["security"] = []
    else:
        described["description"] = _SCOPES[operation.right]
    if operation.lines is not None:  # a schema describes a whole body, and these have no end
        given, answered = (shape if isinstance(shape, str) else shape.__name__ for shape in operation.lines)
        described["description"] += f" As `application/x-ndjson`: a `{given}` per line, a `{answered}` for each."
    if operation.parameters:
        described["parameters"] = [_parameter(parameter) for parameter in operation.parameters]
    if operation.request is not None:
        content = {"application/json": {"schema": _ref(operation.request)}}
        described["requestBody"] = {"required": not operation.body_optional, "content": content}
    answers = {str(success.status): _success(success) for success in operation.successes}
    server = {"$ref": f"#/components/responses/{_SERVER}"}
    described["responses"] = {**_problems(operation.errors), **answers, "default": server}
    return described


def _ref(shape: Shape) -> Schema:
    return {"$ref": REF.format(model=shape if isinstance(shape, str) else shape.__name__)}


def _parameter(parameter: Parameter) -> Schema:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.required,
        "schema": parameter.schema,
        "description": parameter.words,
    }


def _success(success: Success) -> Schema:
    described: Schema = {"description": success.words}
    if success.shape is not None:
        schema = _ref(success.shape)
        if success.or_shape is not None:
            schema = {"anyOf": [schema, _ref(success.or_shape)]}
        described["content"] = {"application/json": {"schema": schema}}
    elif success.content is not None:
        described["content"] = success.content
    if success.headers is not None:
        described["headers"] = success.headers
    return described


def _problems(errors: Errors) -> Schema:
    """One answer per status, which names the codes that it can have."""
    statuses = sorted({ANSWERS[error].status for error in errors})
    return {str(s): _problem(frozenset(e for e in errors if ANSWERS[e].status == s)) for s in statuses}


def _problem(errors: Errors) -> Schema:
    lines = sorted(errors, key=lambda error: error.code)
    schema = {"allOf": [_ref(Problem), {"properties": {"code": {"enum": [error.code for error in lines]}}}]}
    described: Schema = {
        "description": "; ".join(f"{ANSWERS[error].title} (`{error.code}`)" for error in lines) + ".",
        "content": {"application/problem+json": {"schema": schema}},
    }
    if all(ANSWERS[error].status in (429, 503) for error in lines):
        described["headers"] = {"Retry-After": {"schema": {"type": "string"}, "required": True}}
    return described
