"""Every page in light, dark and on a narrow screen: readable by everybody, small however much there is to show.

The pictures are kept in `pictures/`, for people to look at.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from tests.api.stage import Stage, bearer
from tests.conftest import HasUrl
from tests.console.conftest import PICTURES, Console, ensure_worker, until_live
from tests.console.furnished import Furnished
from tests.console.ledger import add_lanes, by_hand, hold, quarantine, queue
from tests.devnet.process import Devnet

SCREENS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
LANES = 1_000
TOO_WIDE = """() => [...document.querySelectorAll('main *')]
  .filter(one => one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 99)).slice(0, 3)
"""


@pytest.fixture(scope="module")
def furnished(installation: Furnished, redis7: HasUrl) -> Iterator[dict[str, str]]:
    """Something of everything: ends, a failure, a hold, a quarantine; answers what to look at."""
    stage, mark = installation.stage, secrets.token_hex(3)
    installation.receiver.status = 500
    for n in range(24):
        stage.transfer(f"payout-{mark}-{n:02}", metadata={"order": 1000 + n})
    stage.post(
        "/v1/intents",
        {"pool": "main", "kind": "near.transfer", "payload": {"receiver_id": "nobody.near", "amount": "1"}},
        key=f"payout-{mark}-lost",
    )
    done = f"withdraw-{mark}"
    assert stage.transfer(done, wait=20, metadata={"user": "alice", "order": 4711}).json()["status"] == "done"
    stage.worker.stop()
    held = f"refund-{mark}"
    stage.transfer(held)
    evidence = {"final_height": "183204771", "base_height": "183204650", "asked": "rpc.mainnet.near.org"}
    lane = by_hand(redis7, stage, lambda ledger: hold(ledger, held, "proof_unavailable", evidence))
    lanes = [one["lane"] for one in stage.client.get("/v1/lanes", headers=bearer("ops")).json()["lanes"]]
    stopped = next(one for one in lanes if one != lane)
    reason = "foreign nonce use: the chain is at nonce 183204000000017, the lane signed up to 183204000000012"
    facts = {"chain_nonce": "183204000000017", "cursor": "183204000000013", "seen_at": "183204771"}
    by_hand(redis7, stage, lambda ledger: quarantine(ledger, stopped, reason, facts))
    for n in range(8):
        stage.transfer(f"topup-{mark}-{n}")
    yield {"done": done, "held": held, "lane": stopped}
    stage.client.post(f"/v1/lanes/{stopped}/resume", headers=bearer("ops"))
    stage.client.post(f"/v1/intents/{held}/cancel", headers=bearer("all"))
    ensure_worker(stage)


def check_access(page: Page, what: str) -> None:
    found = Axe().run(page)
    serious = [one for one in found.response["violations"] if one["impact"] in ("serious", "critical")]
    told = [(one["id"], one["help"], [node["html"][:120] for node in one["nodes"][:3]]) for one in serious]
    assert not told, f"{what}: {told}"


@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_is_readable_by_everybody(
    screen: str, new_console: Any, installation: Furnished, furnished: dict[str, str]
):
    # without the page's policy: axe is a foreign script
    console: Console = new_console(installation.stage, bypass_csp=True, **SCREENS[screen])
    page = console.log_in()
    for n in range(3):
        console.stage.transfer(f"live-{screen}-{secrets.token_hex(3)}-{n}")
    expect(page.locator(".todo")).to_contain_text("foreign nonce use")
    pages = {
        "overview": "",
        "intents": "/intents",
        "failed": "/intents?status=failed",
        "intent": f"/intent?key={furnished['done']}&pool=main",
        "held": f"/intent?key={furnished['held']}&pool=main",
        "lane": f"/lane?lane={furnished['lane']}",
        "money": "/money",
        "webhooks": "/webhooks",
        "system": "/system",
        "audit": "/audit",
        "missing": "/intent?key=never-there",
    }
    PICTURES.mkdir(exist_ok=True)
    for name, path in pages.items():
        if name != "overview":
            page.goto(f"{console.stage.url}/console{path}")
            until_live(page)
        if name == "overview":
            page.locator("path.line").first.wait_for()
        page.wait_for_timeout(700)  # live pages never become idle: let the first answers come
        page.screenshot(path=PICTURES / f"{name}-{screen}.png")
        check_access(page, f"{name} {screen}")
        wide = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} is {wide} px too wide on a {screen} screen: {page.evaluate(TOO_WIDE)}"
    expect(page.get_by_role("button", name="Log out")).to_be_in_viewport()
    page.goto(f"{console.stage.url}/console/lane?lane={furnished['lane']}")
    page.get_by_role("button", name="Rebaseline …").click()
    page.screenshot(path=PICTURES / f"dialog-{screen}.png")
    check_access(page, f"dialog {screen}")
    page.keyboard.press("Escape")


def test_logged_out_is_readable_too(new_console: Any):
    console: Console = new_console(bypass_csp=True)
    page = console.context.new_page()
    page.goto(f"{console.stage.url}/console")
    expect(page.locator(".login")).to_contain_text("txmanager console")
    page.screenshot(path=PICTURES / "login.png")
    check_access(page, "login")


def test_a_thousand_lanes_are_a_small_page(new_console: Any, redis7: HasUrl, devnet: Devnet):
    with Stage(redis7.url, f"t{secrets.token_hex(6)}", devnet, lanes=1, spare=False) as large:
        by_hand(redis7, large, lambda ledger: add_lanes(ledger, LANES))
        large.start_api()
        console: Console = new_console(large)
        began = time.monotonic()
        page = console.log_in()
        expect(page.locator("main")).to_contain_text(f"{LANES:,} lanes".replace(",", " "))
        assert time.monotonic() - began < 10
        rows = page.locator("[aria-label='Lanes: rows'] [role=row]")
        assert rows.count() < 60, "only what is in sight is in the page"
        page.locator("[aria-label='Lanes: rows']").focus()
        page.keyboard.press("End")
        expect(page.locator("[aria-label='Lanes: rows']")).to_contain_text("relayer0999.near")
        assert rows.count() < 60
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_contain_text("relayer0999.near")
        page.go_back()
        page.get_by_label("Filter lanes").fill("relayer0500")
        expect(rows).to_have_count(1)


MANY = 100_000


def test_a_hundred_thousand_intents_are_a_small_page(console: Console):
    """The answers are made here: only the page is looked at."""
    page = console.log_in()

    def answer(route: Route) -> None:
        first = int(parse_qs(urlsplit(route.request.url).query).get("cursor", ["0"])[0])
        some = [
            {"idempotency_key": f"many-{n:06}", "pool": "main", "tenant": "default", "kind": "near.transfer",
             "status": "queued", "lane": "near:localnet:a.near:ed25519:x", "tx_hash": None, "error": None,
             "created_at": "2026-01-01T00:00:00Z"}
            for n in range(first, first + MANY // 5)
        ]  # fmt: skip
        rest = str(first + len(some)) if first + len(some) < MANY else None
        route.fulfill(json={"intents": some, "cursor": rest, "archived": True, "partial": False})

    page.route(re.compile(r"/v1/intents\?limit="), answer)
    page.get_by_role("link", name="Intents").click()
    body, table = page.locator("[aria-label='Intents: rows']"), page.locator("[aria-label='Intents'][role=table]")
    for n in range(1, 6):
        expect(table).to_have_attribute("aria-rowcount", str(n * MANY // 5 + 1))
        body.focus()
        page.keyboard.press("End")
    expect(body).to_contain_text(f"many-{MANY - 1:06}")
    assert body.locator("[role=row]").count() < 60
    began = time.monotonic()
    for _ in range(20):
        page.keyboard.press("PageUp")
    expect(body.locator("[role=row].at")).to_have_count(1)
    assert time.monotonic() - began < 5, "scrolling does not wait for the rows that are not in sight"


def test_a_long_list_is_a_small_page(console: Console, worker_off: Stage, redis7: HasUrl):
    stage, begin = worker_off, f"long-{secrets.token_hex(3)}-"
    lane = stage.client.get("/v1/lanes", headers=bearer("ops")).json()["lanes"][0]["lane"]
    by_hand(redis7, stage, lambda ledger: queue(ledger, lane, 1_000, begin))
    page = console.log_in(path=f"/intents?key_prefix={begin}")
    body = page.locator("[aria-label='Intents: rows']")
    expect(body).to_contain_text(f"{begin}00999")
    seen = page.locator("[aria-label='Intents'] ").get_attribute("aria-rowcount")
    for _ in range(12):
        body.focus()
        page.keyboard.press("End")
        page.wait_for_timeout(150)
        if f"{begin}00000" in body.inner_text():
            break
    expect(body).to_contain_text(f"{begin}00000")
    assert page.locator("[aria-label='Intents: rows'] [role=row]").count() < 60
    assert int(seen or 0) < 1_000, "pages are read as they are needed"
    page.get_by_role("button", name="Cancel all matching").click()
    dialog = page.locator("dialog")
    expect(dialog).to_contain_text("1 000 queued intents")
    dialog.locator("input").fill("cancel 1000")
    dialog.get_by_role("button", name="Cancel 1000").click()
    expect(dialog).to_have_count(0, timeout=60_000)
