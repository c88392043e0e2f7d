"""`python -m txmanager.api.document` prints the OpenAPI document of a server with default settings: what client types
are generated from."""

from __future__ import annotations

import asyncio
import sys

import orjson

from txmanager.api.app import build_app
from txmanager.api.operation import Schema
from txmanager.runtime.manager import TxManager
from txmanager.settings import Settings
from txmanager.wiring import open_ledger


async def default_document() -> Schema:
    settings = Settings.model_validate({"ledger": {"url": "memory://"}})
    return build_app(TxManager(await open_ledger(settings)), settings).document


if __name__ == "__main__":
    document = asyncio.run(default_document())
    sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
