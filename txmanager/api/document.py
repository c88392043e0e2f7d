"""`python -m txmanager.api.document` prints the OpenAPI document of a server with default settings: what client types
are generated from."""

from __future__ import annotations

import sys

import orjson

from txmanager.api.app import TYPED
from txmanager.api.openapi import Schema, build_document
from txmanager.settings import ApiSettings, Settings
from txmanager.wiring import build_kinds


def default_document() -> Schema:
    return build_document(build_kinds(Settings()), TYPED, ApiSettings().max_wait_s)


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(default_document(), option=orjson.OPT_INDENT_2) + b"\n")
