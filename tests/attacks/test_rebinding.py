"""An API without tokens on loopback: a web page in the operator's browser is no caller, under whatever name."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.api.stage import Stage

BODY = {"pool": "main", "kind": "near.transfer", "payload": {"receiver_id": "dev1.near", "amount": "1"}}


def without_tokens(stage: Stage, more: str = "") -> None:
    text = re.sub(r"\[\[api\.tokens\]\].*", "", stage.config.read_text(), flags=re.DOTALL)
    stage.config.write_text(text.replace("[api]", f"[api]\n{more}"))
    stage.start_api()


@pytest.fixture(scope="module")
def bare(redis7, devnet) -> Iterator[Stage]:
    with Stage(redis7.url, "rebinding", devnet) as stage:
        without_tokens(stage, 'allowed_hosts = ["Txmanager.Internal"]')
        yield stage


def ask(stage: Stage, path: str = "/v1/lanes", **headers: str) -> httpx.Response:
    return httpx.get(stage.url + path, headers=headers)


@pytest.mark.parametrize("path", ["/v1/lanes", "/docs", "/metrics", "/healthz", "/nowhere"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "[::2]:1"]
)
def test_a_name_bound_to_loopback_reaches_nothing(bare: Stage, host: str, path: str):
    answer = ask(bare, path, Host=host)
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (403, "foreign_host", "Host")


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://127.0.0.1.evil.example", "null", "http://localhost@evil.example", "file://"],
)
def test_a_page_of_another_site_cannot_submit(bare: Stage, origin: str):
    headers = {"Origin": origin, "Idempotency-Key": "rebound", "Content-Type": "application/json"}
    answer = httpx.post(f"{bare.url}/v1/intents", json=BODY, headers=headers)
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (403, "foreign_host", "Origin")
    assert ask(bare, "/v1/intents/rebound?pool=main").status_code == 404, "nothing was accepted"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:8080", "[::1]:8080", "txmanager.internal:443"])
def test_this_machine_and_the_hosts_of_the_setting_are_served(bare: Stage, host: str):
    assert ask(bare, Host=host).status_code == 200
    assert ask(bare, Host=host, Origin=f"http://{host}").status_code == 200


@pytest.mark.parametrize("hosts", [["localhost", "evil.example"], ["evil.example", "localhost"], []])
def test_two_hosts_in_one_request_or_none_are_refused(bare: Stage, hosts: list[str]):
    lines = ["GET /v1/lanes HTTP/1.1", *(f"Host: {host}" for host in hosts), "Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", bare.port), timeout=5) as connection:
        connection.sendall("\r\n".join(lines).encode())
        assert connection.recv(64).startswith(b"HTTP/1.1 403")


def test_with_tokens_the_name_does_not_matter(stage: Stage):
    answer = stage.client.get("/v1/lanes", headers={"Host": "api.example", "Origin": "https://app.example"})
    assert answer.status_code == 200
