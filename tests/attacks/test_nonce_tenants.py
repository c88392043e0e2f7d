"""The nonce service among several tenants: reservations, turns, what is pending, and lanes that callers make."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.stage import ROOT
from tests.evm.machines import Anvil
from tests.evm.nonce_stage import Service, Wallet, nonce_service

NAMES = {
    "acme": ("acme", ["submit", "read"], "max_reservations = 3"),
    "maker": ("acme", ["submit"], "max_lanes = 3"),
    "chief": ("acme", ["submit", "read", "operate"], ""),
    "rival": ("rival", ["submit", "read", "operate"], ""),
    "ops": ("*", ["submit", "read", "operate"], ""),
}
TOKENS = "\n".join(
    f"""[[api.tokens]]
name = "{name}"
sha256 = "{hashlib.sha256(name.encode()).hexdigest()}"
scopes = {scopes}
tenant = "{tenant}"
[api.tokens.limits]
{limits}
"""
    for name, (tenant, scopes, limits) in NAMES.items()
)


@pytest.fixture(scope="module")
def running(redis7) -> Iterator[Service]:
    with Anvil() as node, nonce_service(node, redis7.url, tokens=TOKENS) as service:
        yield service


def by(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


def ask(running: Service, name: str, path: str, body: dict[str, Any]) -> httpx.Response:
    return running.post(path, body, headers=by(name))


def lane_of(wallet: Wallet) -> str:
    return f"evm:31337:{wallet.address}"


def operate(running: Service, name: str, method: str, path: str) -> httpx.Response:
    return running.http[0].request(method, path, headers=by(name))


def test_one_tenant_neither_sends_nor_gives_back_with_anothers_reservation(running: Service):
    wallet = running.wallet()
    told = running.on(wallet, reservation="shared-word")
    ours = ask(running, "acme", "address/nonce", told).json()
    theirs = ask(running, "rival", "address/nonce", told).json()
    assert (ours["nonce"], theirs["nonce"]) == (0, 1), "the same token of two tenants is two reservations"
    raw = wallet.sign(0, running.receiver)
    body = {"signedTransaction": raw, "networkId": "local", "reservation": "shared-word"}
    assert ask(running, "rival", "transaction/sendRaw", body).json()["error"] == "NONCE_CONFLICT"
    fresh = ask(running, "acme", "address/nonce", running.on(wallet, reservation="only-ours")).json()
    refused = ask(running, "rival", "address/nonce/recycle", running.on(wallet, reservation="only-ours"))
    assert (refused.status_code, refused.json()["code"]) == (409, "reservation_over")
    again = ask(running, "acme", "address/nonce", running.on(wallet, reservation="only-ours")).json()
    assert again["nonce"] == fresh["nonce"]
    assert (
        ask(running, "chief", "address/nonce/recycle", running.on(wallet, reservation="only-ours")).status_code == 200
    )
    forged = ask(running, "rival", "address/nonce", running.on(wallet, reservation="acme shared-word"))
    assert forged.status_code == 422


def test_a_turn_belongs_to_its_tenant(running: Service):
    wallet = running.wallet()
    turn = ask(running, "acme", "address/nonce/lock", running.on(wallet, lockId="t", waitSeconds=0))
    assert turn.status_code == 200
    assert ask(running, "rival", "address/nonce/unlock", running.on(wallet, lockId="t")).status_code == 409
    waiting = ask(running, "rival", "address/nonce/lock", running.on(wallet, lockId="t", waitSeconds=0))
    assert (waiting.status_code, waiting.json()["ahead"]) == (429, 1), "in line, not in another's place"
    assert ask(running, "acme", "address/nonce/unlock", running.on(wallet, lockId="t")).status_code == 200


def test_what_is_pending_is_shown_to_its_own_tenant(running: Service):
    running.machine.rpc("evm_setAutomine", False)
    try:
        wallet = Wallet()
        running.machine.fund(wallet.address, 10**21)
        got = ask(running, "acme", "address/nonce", running.on(wallet)).json()
        raw = wallet.sign(got["nonce"], running.receiver)
        body = {"signedTransaction": raw, "networkId": "local", "reservation": got["reservation"]}
        sent = ask(running, "acme", "transaction/sendRaw", body)
        assert sent.status_code == 202, sent.text
        ask(running, "acme", "address/nonce", running.on(wallet))

        def health(name: str) -> dict[str, Any]:
            params = running.on(wallet)
            return dict(running.http[0].get("/evm/nonce/health", params=params, headers=by(name)).json())

        for name, count in (("acme", 1), ("rival", 0), ("ops", 1)):
            seen = health(name)
            assert (seen["pendingCount"], len(seen["pending"]), seen["reservedCount"]) == (count,) * 3, name
        hash = sent.json()["txHash"]
        assert hash not in str(health("rival"))
    finally:
        running.machine.rpc("evm_setAutomine", True)
        running.machine.rpc("evm_mine")


def test_unsent_reservations_of_a_token_are_capped_for_each_address(running: Service):
    wallet, other = running.wallet(), running.wallet()
    answers = [ask(running, "acme", "address/nonce", running.on(wallet)) for _ in range(5)]
    assert [a.status_code for a in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].json()["code"] == "too_many_held"
    assert ask(running, "chief", "address/nonce", running.on(wallet)).json()["nonce"] == 3, "no number was lost"
    assert ask(running, "acme", "address/nonce", running.on(other)).status_code == 200
    token = answers[0].json()["reservation"]
    assert ask(running, "acme", "address/nonce/recycle", running.on(wallet, reservation=token)).status_code == 200
    assert ask(running, "acme", "address/nonce", running.on(wallet)).json()["nonce"] == 0


def test_an_operator_releases_a_number_of_its_own_tenant(running: Service):
    wallet = running.wallet()
    for name in ("acme", "rival"):
        assert ask(running, name, "address/nonce", running.on(wallet, ttlSeconds=3600)).status_code == 200
    path = f"/v1/lanes/{lane_of(wallet)}/reservations"
    assert operate(running, "acme", "GET", path).status_code == 403
    shown = operate(running, "chief", "GET", path).json()["reservations"]
    assert [(one["nonce"], one["tenant"], one["state"]) for one in shown] == [(0, "acme", "reserved")]
    assert [one["nonce"] for one in operate(running, "ops", "GET", path).json()["reservations"]] == [0, 1]
    assert operate(running, "chief", "POST", f"{path}/1/release").status_code == 404
    assert operate(running, "chief", "POST", f"{path}/0/release").json()["nonce"] == 0
    assert operate(running, "chief", "POST", f"{path}/zero/release").json()["field"] == "nonce"
    assert operate(running, "ops", "POST", f"{path}/1/release").status_code == 200
    assert ask(running, "chief", "address/nonce", running.on(wallet)).json()["nonce"] == 0, (
        "handed out again, lowest first"
    )


def test_a_sent_number_is_not_released_and_its_lane_not_deleted(running: Service):
    wallet = running.wallet()
    got = ask(running, "chief", "address/nonce", running.on(wallet)).json()
    raw = wallet.sign(got["nonce"], running.receiver)
    body = {"signedTransaction": raw, "networkId": "local", "reservation": got["reservation"]}
    assert ask(running, "chief", "transaction/sendRaw", body).status_code == 202
    refused = operate(running, "ops", "POST", f"/v1/lanes/{lane_of(wallet)}/reservations/0/release")
    assert refused.status_code in (404, 409)
    assert operate(running, "ops", "DELETE", f"/v1/lanes/{lane_of(wallet)}").status_code == 409


def test_a_caller_cannot_make_lanes_without_end_and_an_operator_deletes_unused_ones(running: Service):
    made = [Wallet() for _ in range(4)]
    answers = [ask(running, "maker", "address/nonce", running.on(one, reservation="only")) for one in made]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    refused = answers[-1]
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_held")
    assert "max_lanes" in refused.json()["detail"]
    assert ask(running, "chief", "address/nonce", running.on(Wallet())).status_code == 200
    lane = lane_of(made[0])
    assert operate(running, "chief", "DELETE", f"/v1/lanes/{lane}").status_code == 403, "lanes are everybody's"
    assert "reserved" in operate(running, "ops", "DELETE", f"/v1/lanes/{lane}").json()["detail"]
    ask(running, "maker", "address/nonce/recycle", running.on(made[0], reservation="only"))
    command = [sys.executable, "-m", "txmanager", "lanes", "delete", lane, "--yes"]
    config = str(running.folder / "txmanager.toml")
    done = subprocess.run(
        [*command, "--config", config], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60
    )
    assert "deleted" in done.stdout
    assert operate(running, "ops", "GET", f"/v1/lanes/{lane}").status_code == 404
    told = operate(running, "ops", "GET", "/v1/audit").json()["audit"]
    assert {"txmanager lanes delete", "DELETE /v1/lanes/{lane}"} <= {entry["what"] for entry in told}
