"""Whoever stole, kept or guessed something of a login gets no further with it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import redis

from tests.api.stage import Stage, bearer, token
from tests.conftest import HasUrl
from tests.devnet.process import Devnet

REFUSED = (401, 429)
"""429 once there were too many of them from here."""
MakeStage = Callable[..., Stage]


def ask_code(stage: Stage, name: str = "ops") -> str:
    answer = stage.client.post("/v1/sessions/codes", headers=bearer(name))
    assert answer.status_code == 200, answer.text
    assert answer.json()["lasts_s"] == 60
    return str(answer.json()["code"])


def redeem(stage: Stage, code: str) -> httpx.Response:
    return httpx.post(f"{stage.url}/v1/sessions", json={"code": code}, timeout=20)


def log_in(stage: Stage, name: str = "ops") -> dict[str, str]:
    answer = redeem(stage, ask_code(stage, name))
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return {"Authorization": f"Bearer {answer.json()['token']}"}


def who(stage: Stage, headers: dict[str, str]) -> httpx.Response:
    return httpx.get(f"{stage.url}/v1/session", headers=headers, timeout=20)


def test_a_session_acts_as_its_issuer_and_the_audit_tells_both_apart(stage: Stage):
    session = log_in(stage)
    told = who(stage, session).json()
    assert (told["name"], told["tenant"], told["scopes"], told["whole"]) == ("ops", "*", ["operate", "read"], True)
    [lane, *_] = stage.client.get("/v1/lanes", headers=session).json()["lanes"]
    for verb in ("pause", "resume"):
        assert stage.client.post(f"/v1/lanes/{lane['lane']}/{verb}", headers=session).status_code == 200
    entries = stage.client.get("/v1/audit", headers=session).json()["audit"]
    newest = [(entry["who"], entry["what"]) for entry in entries[:4]]
    name = newest[0][0]
    assert name.startswith("ops (session ")
    assert newest == [
        (name, "POST /v1/lanes/{lane}/resume"),
        (name, "POST /v1/lanes/{lane}/pause"),
        (name, "POST /v1/sessions"),
        ("ops", "POST /v1/sessions/codes"),
    ]
    assert session["Authorization"][-20:] not in str(entries), "no secret is written down"


def test_a_code_that_was_used_opens_nothing(stage: Stage):
    code = ask_code(stage)
    assert redeem(stage, code).status_code == 201
    again = redeem(stage, code)
    assert (again.status_code, again.json()["code"]) == (401, "unauthorized")
    assert "txmanager console" in again.json()["detail"]


def test_of_many_thieves_of_one_code_one_gets_a_session(stage: Stage):
    code = ask_code(stage)
    with ThreadPoolExecutor(8) as crowd:
        answers = list(crowd.map(lambda _: redeem(stage, code).status_code, range(16)))
    assert answers.count(201) == 1
    assert set(answers) <= {201, 401, 429}


def test_an_expired_code_opens_nothing(stage: Stage, redis7: HasUrl):
    code = ask_code(stage)
    with redis.Redis.from_url(redis7.url) as raw:  # the moment its minute is over
        [key] = list(raw.scan_iter(f"{stage.prefix}:*:codes"))
        for field in raw.hkeys(key):
            raw.hset(key, field, "1")
    assert redeem(stage, code).status_code in REFUSED


def test_guesses_are_refused_and_then_slowed_down(stage: Stage):
    code = ask_code(stage)
    begin = code.rpartition("_")[0] if code.count("_") == 2 else code[: len("txc_") + 17]
    guesses = [f"{begin}_{secrets.token_urlsafe(32)}" for _ in range(15)]
    guesses += [f"txc_{secrets.token_hex(8)}_x" for _ in range(15)] + ["", "txc_", "txc__", "x" * 200, "txs_a_b"]
    answers = [redeem(stage, guess).status_code for guess in guesses]
    assert set(answers) == {401, 429}
    assert answers[-5:].count(429) > 0
    sessions = [{"Authorization": f"Bearer {guess.replace('txc_', 'txs_')}"} for guess in guesses[:20]]
    assert {who(stage, session).status_code for session in sessions} <= {401, 429}
    assert redeem(stage, code).status_code == 201, "nobody's guesses keep the owner out"


def test_a_session_never_does_more_than_its_issuer_may(stage: Stage):
    session = log_in(stage, "reader")
    [lane, *_] = stage.client.get("/v1/lanes", headers=session).json()["lanes"]
    refused = [
        stage.client.post(f"/v1/lanes/{lane['lane']}/pause", headers=session),
        stage.client.post("/v1/intents", headers=session, json={"kind": "near.transfer", "payload": {}}),
        stage.client.get("/v1/audit", headers=session),
        stage.client.get("/v1/sessions", headers=session),
        stage.client.delete("/v1/sessions/x", headers=session),
    ]
    assert [answer.status_code for answer in refused] == [403] * 5
    narrow = log_in(stage, "narrow")
    transfer = {"pool": "main", "kind": "near.transfer", "payload": {"receiver_id": "dev1.near", "amount": "6"}}
    answer = stage.client.post("/v1/intents", headers={**narrow, "Idempotency-Key": "a"}, json=transfer)
    assert (answer.status_code, answer.json()["field"]) == (403, "deposit")
    assert log_in_by_session(stage, session).status_code == 403, "or a session would never end"


def log_in_by_session(stage: Stage, session: dict[str, str]) -> httpx.Response:
    return httpx.post(f"{stage.url}/v1/sessions/codes", headers=session, timeout=20)


def test_one_tenant_neither_sees_nor_ends_the_sessions_of_another(stage: Stage):
    theirs, ours = log_in(stage, "other"), log_in(stage, "ops")
    seen = stage.client.get("/v1/sessions", headers=theirs).json()["sessions"]
    assert {one["name"] for one in seen} == {"other"}
    [own] = [one["id"] for one in stage.client.get("/v1/sessions", headers=ours).json()["sessions"] if one["own"]]
    assert stage.client.delete(f"/v1/sessions/{own}", headers=theirs).status_code == 404
    assert who(stage, ours).status_code == 200


def test_a_session_that_was_ended_is_over_at_once(stage: Stage):
    session, other = log_in(stage), log_in(stage)
    assert stage.client.delete("/v1/session", headers=session).json() == {"ended": True}
    assert who(stage, session).status_code in REFUSED
    [id] = [one["id"] for one in stage.client.get("/v1/sessions", headers=other).json()["sessions"] if one["own"]]
    assert stage.client.delete(f"/v1/sessions/{id}", headers=bearer("ops")).json() == {"ended": True}
    assert who(stage, other).status_code in REFUSED
    assert who(stage, bearer("ops")).status_code == 200
    assert stage.client.delete("/v1/session", headers=bearer("ops")).status_code == 409


@pytest.mark.parametrize("change", ["removed", "another secret", "fewer scopes"])
def test_a_session_follows_what_the_configuration_says_of_its_issuer(
    change: str, redis7: HasUrl, devnet: Devnet, make_stage: MakeStage
):
    stage = make_stage(redis7.url, f"t{secrets.token_hex(6)}", devnet, lanes=1)
    stage.start_api()
    session = log_in(stage, "ops")
    assert who(stage, session).status_code == 200
    text = stage.config.read_text()
    assert text.count('name = "ops"') == 1
    before, _, after = text.partition('[[api.tokens]]\nname = "ops"')
    own, middle, rest = after.partition("[[api.tokens]]")
    if change == "removed":
        text = before + middle + rest
    elif change == "another secret":
        text = before + '[[api.tokens]]\nname = "ops"' + _other_secret(own) + middle + rest
    else:
        assert '"operate"' in own
        own = own.replace(', "operate"', "").replace('"operate", ', "")
        text = before + '[[api.tokens]]\nname = "ops"' + own + middle + rest
    stage.api.stop()
    stage.config.write_text(text)
    stage.start_api()
    if change == "fewer scopes":
        assert who(stage, session).json()["scopes"] == ["read"]
        assert stage.client.get("/v1/audit", headers=session).status_code == 403
    else:
        assert who(stage, session).status_code == 401


def _other_secret(text: str) -> str:
    return text.replace(hashlib.sha256(token("ops").encode()).hexdigest(), "0" * 64)
