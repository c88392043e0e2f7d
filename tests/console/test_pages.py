"""What pages show of an installation with an archive, an explorer, budgets, low balances and a broken webhook."""

from __future__ import annotations

import re
import secrets
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.api.stage import Stage, bearer
from tests.console.conftest import Console, ensure_worker
from tests.console.furnished import EXPLORER, Furnished
from tests.waiting import until_sync


@pytest.fixture(scope="module")
def ended(installation: Furnished) -> dict[str, str]:
    """One intent of each end, archived."""
    stage, mark = installation.stage, secrets.token_hex(3)
    done, failed = f"paid-{mark}", f"lost-{mark}"
    assert stage.transfer(done, wait=20, metadata={"order": 7}).json()["status"] == "done"
    body = {"pool": "main", "kind": "near.transfer", "payload": {"receiver_id": "nobody.near", "amount": "1"}}
    assert stage.post("/v1/intents?wait=20", body, key=failed).json()["status"] == "failed"

    def archived() -> bool:
        found = stage.get(f"/v1/intents?hash={stage.get(f'/v1/intents/{done}').json()['tx_hash']}").json()["intents"]
        return bool(found and found[0]["payload"])

    until_sync(archived, 20, what="it is in the archive")
    return {"done": done, "failed": failed, "hash": stage.get(f"/v1/intents/{done}").json()["tx_hash"]}


@pytest.fixture
def whole(new_console: Any, installation: Furnished) -> Console:
    made: Console = new_console(installation.stage)
    return made


def search(page: Page, text: str) -> None:
    page.keyboard.press("/")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def test_an_ended_intent_tells_its_whole_life(whole: Console, ended: dict[str, str]):
    page = whole.log_in()
    search(page, ended["hash"])
    expect(page.locator("h1")).to_contain_text(ended["done"])
    link = page.locator(f".timeline a[href='{EXPLORER}{ended['hash']}']").first
    expect(link).to_have_attribute("rel", "noreferrer noopener")
    expect(page.locator(".panel", has_text="Payload")).to_contain_text("dev1.near")
    expect(page.locator(".facts", has_text="Cost")).to_contain_text(re.compile(r"0\.\d+…? NEAR"))


def test_failures_are_counted_by_code_and_a_code_is_a_filter(whole: Console, ended: dict[str, str]):
    page = whole.log_in(path="/intents?status=failed")
    codes = page.get_by_label("Failures by code")
    code = page.locator("[aria-label='Intents: rows'] [role=row]", has_text=ended["failed"]).locator(".cell").nth(5)
    name = code.inner_text()
    expect(codes).to_contain_text(name)
    codes.get_by_role("button", name=name).click()
    expect(page).to_have_url(re.compile(f"error={name}"))
    expect(page.locator("[aria-label='Intents: rows']")).to_contain_text(ended["failed"])


def test_a_receiver_and_an_error_code_are_found_by_the_search(whole: Console, ended: dict[str, str]):
    page = whole.log_in()
    search(page, "nobody.near")
    expect(page).to_have_url(re.compile("receiver=nobody.near"))
    expect(page.locator("[aria-label='Intents: rows']")).to_contain_text(ended["failed"])


def test_charts_begin_with_what_the_archive_remembers(whole: Console, ended: dict[str, str]):
    page = whole.log_in()
    for label in ("Intents that ended per second", "From acceptance to the end"):
        line = page.get_by_role("img", name=label).locator("path.line").first
        expect(line).to_have_attribute("d", re.compile(r"\d"), timeout=20_000)
    assert page.get_by_role("img", name="Intents that ended per second").locator("path").count() >= 2


def test_a_low_balance_needs_somebody_and_is_shown_with_its_lane(whole: Console):
    page = whole.log_in()
    expect(page.locator(".todo")).to_contain_text("low balance")
    expect(page.locator(".todo")).to_contain_text("pays for 4 lanes")
    row = page.locator("[aria-label='Lanes: rows'] [role=row]").first
    expect(row).to_contain_text("NEAR")
    page.locator(".todo a", has_text=whole.stage.account_id).first.click()
    expect(page.locator(".facts", has_text="Balance")).to_contain_text("NEAR")
    page.get_by_role("link", name="Money").click()
    expect(page.locator("[aria-label='Balances: rows']")).to_contain_text("1 000 000 000 NEAR")
    expect(page.locator("[aria-label='Budgets: rows']")).to_contain_text("2 NEAR")
    expect(page.locator("[aria-label='Usage: rows']")).to_contain_text("NEAR")


def test_the_system_page_says_which_part_stands_still(whole: Console, installation: Furnished):
    installation.stage.worker.kill()
    try:
        until_sync(lambda: installation.stage.client.get("/readyz").status_code == 503, 20)
        page = whole.log_in(path="/system")
        expect(page.locator(".note", has_text="Not ready")).to_be_visible()
        expect(page.locator(".panel", has_text="Parts")).to_contain_text("no worker of this pool is alive")
        expect(page.locator("[aria-label='Networks: rows']")).to_contain_text("yes")
    finally:
        ensure_worker(installation.stage)


def test_purses_of_pools_that_a_token_may_not_use_are_hidden(installation: Furnished):
    shown = installation.stage.get("/v1/purses", by="ops").json()["purses"]
    assert [len(purse["lanes"]) for purse in shown] == [4]
    assert shown[0]["is_low"]
    assert installation.stage.get("/v1/purses", by="writer").status_code == 403


def test_a_dead_letter_is_delivered_again(whole: Console, installation: Furnished, ended: dict[str, str]):
    receiver = installation.receiver
    page = whole.log_in()
    expect(page.locator(".todo")).to_contain_text("no target took", timeout=60_000)
    page.locator(".todo").get_by_role("link", name="webhook event").click()
    row = page.locator("[aria-label='Dead letters: rows'] [role=row]", has_text=ended["failed"])
    expect(row).to_contain_text("failed")
    receiver.status = 200
    row.get_by_role("button", name="Deliver again").click()
    until_sync(lambda: receiver.statuses(ended["failed"])[-1:] == ["failed"], 20)
    expect(row).to_have_count(0, timeout=20_000)


def test_an_operator_ends_the_session_of_somebody_else(whole: Console, installation: Furnished, new_console: Any):
    stage: Stage = installation.stage
    theirs = new_console(stage).log_in("reader")
    page = whole.log_in("ops", "/system")
    expect(page.locator("[aria-label='Networks: rows']")).to_contain_text("yes")
    expect(page.locator("main")).to_contain_text("Ended, not yet archived")
    row = page.locator("[aria-label='Sessions: rows'] [role=row]", has_text="reader")
    row.get_by_role("button", name="End").click()
    expect(theirs.locator(".login")).to_contain_text("session is over", timeout=20_000)
    expect(row).to_have_count(0)
    entries = stage.client.get("/v1/audit", headers=bearer("ops")).json()["audit"]
    assert [entry for entry in entries if entry["what"] == "DELETE /v1/sessions/{id}"]
