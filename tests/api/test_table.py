"""One table says what the API does: routes, document, /docs and clients are held to its rows."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from tests.test_architecture import ROOT
from txmanager.api.call import Call, Reply
from txmanager.api.document import default_document
from txmanager.api.endpoint import Endpoint
from txmanager.api.operation import Operation
from txmanager.api.problems import ANSWERS, SERVER_ERRORS
from txmanager.core.errors import NotFound, TxManagerError, Unavailable
from txmanager.rpc.errors import TimedOut

CLIENTS = ("txmanager/client/calls.py", "txmanager/client/nonce_calls.py", "clients/typescript/src/client.ts")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return asyncio.run(default_document())


def described(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(method, path, told) for path, methods in document["paths"].items() for method, told in methods.items()]


def codes(told: dict[str, Any]) -> set[str]:
    found = [a["content"]["application/problem+json"]["schema"] for a in told["responses"].values() if "content" in a
             and "application/problem+json" in a["content"]]  # fmt: skip
    return {code for schema in found for code in schema["allOf"][1]["properties"]["code"]["enum"]}


def test_every_operation_has_a_name_of_its_own(document):
    ids = [told["operationId"] for _, _, told in described(document)]
    assert len(set(ids)) == len(ids)


def test_schemas_have_plain_names(document):
    names = document["components"]["schemas"]
    assert all(re.fullmatch(r"[A-Z][A-Za-z]+", name) for name in names), names
    assert {"NearTransaction", "EvmTransaction", "NearTransactionRequest", "EvmTransactionRequest"} <= set(names)


def test_every_reference_leads_somewhere(document):
    text = orjson.dumps(document).decode()
    for kind, name in set(re.findall(r'"#/components/(\w+)/(\w+)"', text)):
        assert name in document["components"][kind]


def test_each_operation_lists_the_errors_it_can_give_and_no_others(document):
    told = {(method, path): codes(told) for method, path, told in described(document)}
    always = {"unauthorized", "forbidden", "quota_used"}
    ledger = {"unavailable", "unconfirmed", "ledger_memory_full"}
    assert told["get", "/healthz"] == set()
    assert told["get", "/readyz"] == {"invalid_input"}
    assert told["get", "/v1/lanes"] == always | ledger | {"invalid_input"}
    assert told["get", "/v1/webhooks/dead"] == always | ledger
    assert told["post", "/evm/getCurrentFee"] == always | {
        "unavailable", "body_too_large", "request_too_slow", "unsupported_media_type", "malformed_request",
        "invalid_input",
    }  # fmt: skip
    assert "missing_idempotency_key" in told["post", "/v1/intents"]
    assert "not_found" not in told["post", "/v1/intents"]
    assert len({frozenset(found) for found in told.values()}) > 12


def test_words_are_plain_and_say_what_happens(document):
    told = {told["operationId"]: told for _, _, told in described(document)}
    assert told["rebaselineLane"]["summary"] == "Vouch for the chain's nonce, then work again from there"
    words = [a["description"] for t in told.values() for a in t["responses"].values() if "description" in a]
    assert "It is so." not in words
    assert "It is gone." not in words


class Bare:
    """A surface without tokens and bodies."""

    async def admit(self, operation: Operation, scope: Any, receive: Any) -> Call:
        return Call(scope, {}, None, receive)  # type: ignore[arg-type]

    def refuse(self, error: TxManagerError) -> Reply:
        return Reply(418, error.code.encode())

    def answered(self, path: str, status: int, seconds: float) -> None:
        pass


@pytest.mark.parametrize(
    ("raised", "undeclared"), [(NotFound("x"), False), (Unavailable("x"), True), (TimedOut("x"), True)]
)
def test_an_error_that_its_row_does_not_list_is_logged(raised, undeclared):
    async def handler(call: Call) -> Reply:
        raise raised

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    row = Operation("GET", "/x", "x", "x", None, handler, (), frozenset({NotFound}))
    with capture_logs() as logs:
        asyncio.run(Endpoint(Bare(), [row])({"method": "GET", "headers": []}, None, send))  # type: ignore[arg-type]
    assert [log["event"] for log in logs] == ["undeclared error"] * undeclared
    assert sent[0]["status"] == 418, "a surface answers in its own way"


def test_what_every_path_may_answer_has_its_line():
    assert set(ANSWERS) > SERVER_ERRORS


def called(source: str) -> set[str]:
    """The paths a client asks for, with `{}` for whatever it puts in."""
    quoted = re.sub(r"\$?\{(?:quote|encodeURIComponent)\([^)]*\)\}", "{}", source)
    found = re.findall(r"""['"`](/(?:v1|evm)/[^'"`?$]*)""", quoted)
    return {re.sub(r"\{\w*\}", "{}", path).rstrip("/") for path in found}


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_ask_for_routes_that_are_in_the_table(client, document):
    paths = {re.sub(r"\{\w+\}", "{}", path) for path in document["paths"]}
    paths |= {"/v1/lanes/{}/{}", "/evm/{}"}  # a verb, a call of the nonce service
    found = called((ROOT / Path(client)).read_text())
    assert len(found) >= 3
    assert found <= paths, found - paths
