"""What a user of the console does, in a real browser against real programs."""

from __future__ import annotations

import re
import secrets
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.api.stage import Stage, bearer
from tests.conftest import HasUrl
from tests.console.conftest import Console, until_live
from tests.console.ledger import by_hand, hold
from tests.waiting import until_sync


def new_key(begin: str = "pay") -> str:
    return f"{begin}-{secrets.token_hex(5)}"


def mark(page: Page) -> None:
    """A reload would lose it."""
    page.evaluate("() => { window.marked = true }")


def not_reloaded(page: Page) -> bool:
    return bool(page.evaluate("() => window.marked === true"))


def lanes_of(stage: Stage) -> list[dict[str, Any]]:
    return list(stage.client.get("/v1/lanes", headers=bearer("ops")).json()["lanes"])


# -- logging in


def test_a_code_logs_in_and_leaves_no_trace_in_the_url(console: Console):
    page = console.log_in()
    assert "code" not in page.url
    assert "code" not in page.evaluate("() => JSON.stringify(history.state) + document.referrer")
    expect(page.locator(".whoami")).to_contain_text("ops")
    assert page.evaluate("() => document.cookie") == ""
    assert page.evaluate("() => Object.keys(localStorage).length") == 0
    page.reload()
    expect(page.locator(".whoami")).to_contain_text("ops")


def test_a_browser_that_paints_late_shows_what_happened_meanwhile(console: Console):
    """Effects run after a paint. What an answer changed before the first one must be shown all the same."""
    console.context.add_init_script(
        """const later = window.setTimeout
        window.requestAnimationFrame = () => 0
        window.setTimeout = (call, ms, ...more) => later(call, (ms ?? 0) + 1000, ...more)"""
    )
    expect(console.log_in().locator(".whoami")).to_contain_text("ops")


def test_a_used_code_and_no_code_say_how_to_log_in(console: Console, new_console: Any):
    code = console.code()
    page = console.context.new_page()
    page.goto(f"{console.stage.url}/console#code={code}")
    until_live(page)
    thief = new_console().context.new_page()
    thief.goto(f"{console.stage.url}/console#code={code}")
    expect(thief.locator(".login")).to_contain_text("older than a minute")
    expect(thief.locator(".login")).to_contain_text("txmanager console")
    other = new_console().context.new_page()
    other.goto(f"{console.stage.url}/console/intents?status=failed")
    expect(other.locator(".login")).to_contain_text("txmanager console")


def test_a_page_whose_session_was_ended_logs_itself_out(console: Console):
    page = console.log_in()
    sessions = httpx.get(f"{console.stage.url}/v1/sessions", headers=bearer("ops"), timeout=10).json()["sessions"]
    id = page.evaluate("() => sessionStorage.getItem('txmanager.session')")
    for session in sessions:
        httpx.delete(f"{console.stage.url}/v1/sessions/{session['id']}", headers=bearer("ops"), timeout=10)
    expect(page.locator(".login")).to_contain_text("session is over", timeout=20_000)
    assert page.evaluate("() => sessionStorage.length") == 0
    assert id


def test_logging_out_ends_the_session_on_the_server(console: Console):
    page = console.log_in()
    token = page.evaluate("() => sessionStorage.getItem('txmanager.session')")
    page.get_by_role("button", name="Log out").click()
    expect(page.locator(".login")).to_contain_text("You are logged out")
    answer = httpx.get(f"{console.stage.url}/v1/session", headers={"Authorization": f"Bearer {token}"}, timeout=10)
    assert answer.status_code in (401, 429)


def test_a_tab_opened_from_another_one_is_logged_in(console: Console):
    page = console.log_in()
    with console.context.expect_page() as opened:
        page.get_by_role("link", name="Audit").click(modifiers=["ControlOrMeta"])
    expect(opened.value.locator("h1")).to_have_text("Audit")


def test_a_reader_sees_no_verbs_it_has_no_right_to(console: Console):
    page = console.log_in("reader")
    page.locator("[aria-label='Lanes: rows'] a").first.click()
    expect(page.locator("h1")).to_be_visible()
    assert page.get_by_role("button", name=re.compile("Pause|Drain|Rebaseline")).count() == 0
    page.get_by_role("link", name="Audit").click()
    expect(page.locator("main")).to_contain_text("needs the scope")


# -- intents


def test_an_intent_goes_from_queued_to_done_without_a_reload(console: Console, worker_off: Stage):
    stage, key = worker_off, new_key()
    page = console.log_in()
    mark(page)
    stage.transfer(key, metadata={"order": 7})
    expect(page.locator("[aria-label='Newest transitions: rows']")).to_contain_text(key)
    page.locator("[aria-label='Newest transitions: rows'] a", has_text=key).click()
    expect(page.locator(".head")).to_contain_text("queued")
    expect(page.locator(".panel", has_text="Payload")).to_contain_text("dev1.near")
    stage.worker.start()
    expect(page.locator(".head")).to_contain_text("done", timeout=30_000)
    titles = page.locator(".timeline strong").all_inner_texts()
    assert titles == ["Accepted", "Signed, written ahead, sent", "Final on chain"]
    expect(page.locator(".panel", has_text="Metadata")).to_contain_text('"order": 7')
    assert not_reloaded(page)


def test_the_age_of_the_oldest_intent_grows_while_nothing_moves(console: Console, worker_off: Stage):
    worker_off.transfer(new_key("old"))
    page = console.log_in()
    oldest = page.locator(".tile", has_text="Oldest").locator("b")
    expect(oldest).to_contain_text(" s")
    first = oldest.inner_text()
    expect(oldest).not_to_have_text(first, timeout=15_000)


def test_an_intent_is_found_by_its_hash_with_the_keyboard_alone(console: Console, worker_off: Stage, redis7: HasUrl):
    key = new_key("hash")
    worker_off.transfer(key)
    by_hand(redis7, worker_off, lambda ledger: hold(ledger, key, "lost_proof", {"height": "12"}))
    page = console.log_in()
    page.keyboard.press("/")
    page.keyboard.type("HeldHash" + key[-8:])
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text(key)
    page.keyboard.press("/")
    page.keyboard.type(key)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text(key)


def test_a_held_intent_is_on_top_and_an_operator_resolves_it(console: Console, worker_off: Stage, redis7: HasUrl):
    stage, key = worker_off, new_key("held")
    stage.transfer(key)
    by_hand(redis7, stage, lambda ledger: hold(ledger, key, "lost_proof", {"height": "12"}))
    page = console.log_in()
    expect(page.locator(".todo")).to_contain_text(key)
    page.locator(".todo a", has_text=key).click()
    expect(page.locator(".note")).to_contain_text("lost proof")
    page.get_by_role("button", name="Resolve …").click()
    page.locator("dialog").get_by_role("button", name="Fail …").click()
    dialog = page.locator("dialog")
    expect(dialog).to_contain_text("What it risks")
    button = dialog.get_by_role("button", name="Fail", exact=True)
    expect(button).to_be_disabled()
    dialog.locator("input").fill("fail")
    button.click()
    expect(dialog).to_have_count(0)

    async def directive(ledger: Any) -> Any:
        from txmanager.core.models import IntentId

        record = await ledger.read(IntentId("main", key))
        return record and record.directive

    found = by_hand(redis7, stage, directive)
    assert found["verb"] == "fail"
    assert found["by"].startswith("ops (session ")


def test_all_that_fit_a_filter_are_cancelled_after_a_dry_run(console: Console, worker_off: Stage):
    stage, begin = worker_off, new_key("bulk")
    for n in range(12):
        stage.transfer(f"{begin}-{n}")
    other = new_key("kept")
    stage.transfer(other)
    page = console.log_in(path=f"/intents?key_prefix={begin}")
    expect(page.locator("[aria-label='Intents: rows']")).to_contain_text(f"{begin}-11")
    page.get_by_role("button", name="Cancel all matching").click()
    dialog = page.locator("dialog")
    expect(dialog).to_contain_text("Dry run")
    expect(dialog).to_contain_text("12 queued intents")
    statuses = {stage.get(f"/v1/intents/{begin}-{n}").json()["status"] for n in range(12)}
    assert statuses == {"queued"}, "the dry run changed nothing"
    dialog.locator("input").fill("cancel 12")
    dialog.get_by_role("button", name="Cancel 12").click()
    expect(dialog).to_have_count(0)
    assert {stage.get(f"/v1/intents/{begin}-{n}").json()["status"] for n in range(12)} == {"cancelled"}
    assert stage.get(f"/v1/intents/{other}").json()["status"] == "queued"


def test_a_bulk_cancel_goes_on_when_the_api_is_busy(console: Console, worker_off: Stage):
    stage, begin = worker_off, new_key("busy")
    for n in range(6):
        stage.transfer(f"{begin}-{n}")
    page = console.log_in(path=f"/intents?key_prefix={begin}")
    refused: list[str] = []

    def busy(route: Route) -> None:
        if len(refused) >= 3:
            route.continue_()
            return
        refused.append(route.request.url)
        route.fulfill(status=429, json={"code": "quota_used", "detail": "too many calls"})

    page.route("**/cancel?*", busy)
    page.get_by_role("button", name="Cancel all matching").click()
    dialog = page.locator("dialog")
    dialog.locator("input").fill("cancel 6")
    dialog.get_by_role("button", name="Cancel 6").click()
    expect(dialog).to_have_count(0, timeout=20_000)
    assert len(refused) == 3
    assert {stage.get(f"/v1/intents/{begin}-{n}").json()["status"] for n in range(6)} == {"cancelled"}


def test_submitting_again_prefills_a_new_key(console: Console, worker_off: Stage):
    stage, key = worker_off, new_key("again")
    stage.transfer(key)
    page = console.log_in("all", path=f"/intent?key={key}&pool=main")
    page.get_by_role("button", name="Submit again …").click()
    dialog = page.locator("dialog")
    field = dialog.get_by_label("Idempotency key")
    fresh = field.input_value()
    assert fresh.startswith(key)
    assert fresh != key
    assert "dev1.near" in dialog.locator("textarea").input_value()
    dialog.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator("h1")).to_contain_text(fresh)
    assert stage.get(f"/v1/intents/{fresh}").json()["kind"] == "near.transfer"


def test_filters_are_in_the_url_and_come_back_with_it(console: Console):
    page = console.log_in(path="/intents")
    page.get_by_role("button", name="failed").click()
    page.get_by_role("button", name="More filters").click()
    page.get_by_label("Key begins with").fill("pay-")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile(r"status=failed&key_prefix=pay-"))
    page.reload()
    expect(page.get_by_label("Key begins with")).to_have_value("pay-")
    expect(page.locator("main")).to_contain_text("No intent fits")


# -- lanes


def test_a_lane_is_paused_and_resumed_behind_a_typed_word(console: Console):
    stage = console.stage
    lane = lanes_of(stage)[0]["lane"]
    page = console.log_in(path=f"/lane?lane={lane}")
    mark(page)
    page.get_by_role("button", name="Pause …").click()
    dialog = page.locator("dialog")
    expect(dialog).to_contain_text("Intents wait until somebody resumes it")
    expect(dialog.get_by_role("button", name="Pause", exact=True)).to_be_disabled()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Pause …").click()
    dialog.get_by_label("Why").fill("the treasury is being moved")
    dialog.get_by_label("Type pause").fill("pause")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".head")).to_contain_text("paused")
    expect(page.locator(".note", has_text="the treasury is being moved")).to_be_visible()
    page.get_by_role("link", name="Overview").click()
    expect(page.locator(".todo")).to_contain_text("the treasury is being moved")
    page.locator(".todo a").first.click()
    page.get_by_role("button", name="Resume …").click()
    dialog.get_by_label("Type resume").fill("resume")
    dialog.get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator(".head")).to_contain_text("active")
    assert not_reloaded(page)
    page.get_by_role("link", name="Audit").click()
    expect(page.locator("[aria-label='Audit: rows']")).to_contain_text("POST /v1/lanes/{lane}/resume")


# -- trouble


def test_an_api_that_restarts_is_found_again_and_the_page_says_so(console: Console):
    stage, key = console.stage, new_key("restart")
    page = console.log_in()
    mark(page)
    stage.api.kill()
    expect(page.locator(".linkstate")).to_have_text("connection lost")
    expect(page.locator("main")).to_contain_text("The API does not answer")
    stage.start_api()
    expect(page.locator(".linkstate")).to_have_text("live", timeout=20_000)
    expect(page.locator("main")).to_contain_text("Connected again")
    stage.transfer(key)
    expect(page.locator("[aria-label='Newest transitions: rows']")).to_contain_text(key)
    assert not_reloaded(page), "a session outlives the API process"


def test_eight_tabs_share_the_places_that_a_browser_has(console: Console):
    """Browsers allow six connections to a host: a hidden tab must not keep one."""
    stage = console.stage
    console.context.add_init_script(
        """
        let hidden = false
        Object.defineProperty(document, 'visibilityState', { get: () => hidden ? 'hidden' : 'visible' })
        Object.defineProperty(document, 'hidden', { get: () => hidden })
        window.hide = value => { hidden = value; document.dispatchEvent(new Event('visibilitychange')) }
        """
    )
    pages: list[Page] = []
    for _ in range(8):
        for page in pages:
            page.evaluate("() => hide(true)")
        pages.append(console.log_in())
    expect(pages[0].locator(".linkstate")).to_have_text("not following")

    def streams() -> bool:
        text = stage.client.get("/metrics").text
        return "txmanager_http_streams 1.0" in text

    until_sync(streams, 10, what="one stream is open")
    pages[-1].get_by_role("link", name="System").click()
    expect(pages[-1].locator("h1")).to_have_text("System")
    pages[-1].evaluate("() => hide(true)")
    pages[0].evaluate("() => hide(false)")
    expect(pages[0].locator(".linkstate")).to_have_text("live")
    until_sync(streams, 10, what="one stream is open")


HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'`${alert(3)}{{7*7}}"


def test_text_of_callers_and_chains_stays_text(console: Console, worker_off: Stage, redis7: HasUrl):
    stage, key = worker_off, new_key("hostile")
    nasty = f"{key}<b>&quot;</b>%2F..\\#code=x"
    answer = stage.transfer(nasty, metadata={HOSTILE: HOSTILE, "__proto__": HOSTILE})
    assert answer.status_code == 202, answer.text
    by_hand(redis7, stage, lambda ledger: hold(ledger, nasty, HOSTILE, {"logs": [HOSTILE], HOSTILE: HOSTILE}))
    lane = lanes_of(stage)[1]["lane"]
    stage.client.post(f"/v1/lanes/{lane}/pause", json={"reason": HOSTILE}, headers=bearer("ops"))
    try:
        page = console.log_in()
        expect(page.locator(".todo")).to_contain_text("onerror=alert(1)")
        page.locator(".todo a", has_text=key).click()
        expect(page.locator("h1")).to_contain_text("<b>")
        page.get_by_text("Evidence", exact=True).click()
        expect(page.locator(".json", has_text="__proto__").first).to_contain_text("<script>")
        page.get_by_role("link", name="Intents").click()
        expect(page.locator("[aria-label='Intents: rows']")).to_contain_text("<b>")
        page.goto(f"{stage.url}/console/lane?lane={lane}")
        expect(page.locator(".note", has_text="onerror=alert(1)")).to_be_visible()
        page.goto(f"{stage.url}/console/intents?status=<script>alert(1)</script>&key_prefix=%22%3E%3Cimg%20src=x%3E")
        expect(page.locator("[role=alert]")).to_contain_text("must be one of")
        assert page.locator("main img, main script, main b b").count() == 0
    finally:
        stage.client.post(f"/v1/lanes/{lane}/resume", headers=bearer("ops"))
        stage.client.post(f"/v1/intents/{nasty}/cancel", headers=bearer("all"))


def test_each_attempt_is_shown_with_its_proof_and_logs_of_a_contract_stay_text(console: Console, worker_off: Stage):
    """A life that takes an accident: the answer is made here."""
    key = new_key("life")
    worker_off.transfer(key)
    at = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:02Z", "2026-01-01T00:01:00Z", "2026-01-01T00:01:03Z"]
    proof = {"cause": "nonce_overtaken", "height": "12", "by": HOSTILE}

    def answer(route: Route) -> None:
        record = route.fetch().json() | {
            "status": "failed",
            "attempts": [
                {"nonce": 7, "tx_hash": "DeadHash", "purpose": "first", "signed_at": at[1], "dead": proof},
                {"nonce": 8, "tx_hash": "LastHash", "purpose": "resign", "signed_at": at[2], "dead": None},
            ],
            "tx_hash": "LastHash", "created_at": at[0], "updated_at": at[3], "cost": "44636512500000000000",
            "outcome": {"status": "failed", "result": {"logs": [HOSTILE], "block_hash": "BlockHash"}},
            "error": {"code": "function_call_failed", "message": HOSTILE, "spent": "1", "new_key_helps": True},
        }  # fmt: skip
        route.fulfill(json=record)

    page = console.context.new_page()
    page.route(re.compile(rf"/v1/intents/{key}(\?|$)"), answer)
    page.goto(f"{console.stage.url}/console/intent?key={key}&pool=main&tenant=default#code={console.code()}")
    timeline = page.locator(".timeline")
    expect(timeline.locator("strong").nth(3)).to_be_visible()
    titles = timeline.locator("strong").all_inner_texts()
    assert titles == ["Accepted", "Signed, written ahead, sent", "Signed again at a new nonce", "Failed"]
    timeline.get_by_text("Can never land: nonce overtaken").click()
    expect(timeline.locator(".json")).to_contain_text('"height": "12"')
    expect(timeline.locator("li").nth(3)).to_contain_text("BlockHash")
    expect(page.locator(".note", has_text="A new key can help")).to_contain_text("onerror=alert(1)")
    expect(page.locator(".panel", has_text="Result")).to_contain_text("<script>alert(2)</script>")
    assert page.locator("main img, main script").count() == 0


def test_the_page_is_served_with_a_policy_that_lets_nothing_in(console: Console):
    answer = httpx.get(f"{console.stage.url}/console", timeout=10)
    policy = answer.headers["content-security-policy"]
    for rule in (
        "default-src 'none'",
        "script-src 'self'",
        "require-trusted-types-for 'script'",
        "frame-ancestors 'none'",
    ):
        assert rule in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = httpx.get(f"{console.stage.url}/console", headers={"If-None-Match": answer.headers["etag"]}, timeout=10)
    assert (again.status_code, again.content) == (304, b"")
    page = console.log_in()
    with pytest.raises(Exception, match="TrustedHTML"):
        page.evaluate("() => { document.body.innerHTML = '<b>x</b>' }")
    assert [line for line in console.complaints if "TrustedHTML" in line]
    console.complaints.clear()
