"""`python -m tests.console.docs_pictures` makes the pictures of docs/images again, of real programs at work."""

from __future__ import annotations

import secrets
import shutil
import time
from itertools import count
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.api.stage import ACCOUNTS, Stage, bearer
from tests.console.conftest import FLAGS, until_live
from tests.devnet.process import Devnet
from tests.servers import DURABLE, Server

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
WORK_S = 75
PER_SECOND = 5
_POLICY = '[pools.main.policy]\nbudget = [{ network = "localnet", amount = "2 NEAR", per = "1d" }]\n'


def work(stage: Stage, numbers: count[int], seconds: float) -> str:
    """Transfers, of which a few fail; answers the last key that ends done."""
    until, key = time.monotonic() + seconds, ""
    while time.monotonic() < until:
        n = next(numbers)
        lost = n % 23 == 0
        receiver = "nobody.near" if lost else "dev1.near"
        body = {"pool": "main", "kind": "near.transfer", "payload": {"receiver_id": receiver, "amount": str(n)},
                "metadata": {"order": n}}  # fmt: skip
        stage.post("/v1/intents", body, key=f"payout-{n}").raise_for_status()
        key = key if lost else f"payout-{n}"
        time.sleep(1 / PER_SECOND)
    return key


def open_console(browser: Browser, stage: Stage, name: str, path: str = "") -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 860}, color_scheme="light")
    code = stage.client.post("/v1/sessions/codes", headers=bearer(name)).json()["code"]
    page.goto(f"{stage.url}/console{path}#code={code}")
    until_live(page)
    return page


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with (
        Server(config=DURABLE) as server,
        Devnet(block_ms=600, accounts=ACCOUNTS, keys=8) as devnet,
        Stage(server.url, f"t{secrets.token_hex(4)}", devnet, lanes=8, spare=False, pool_more=_POLICY) as stage,
        sync_playwright() as playwright,
    ):
        explorer = 'direct = true }]\nexplorer = "https://explorer.example/txns/{hash}"'
        stage.config.write_text(stage.config.read_text().replace("direct = true }]", explorer))
        stage.start()
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = open_console(browser, stage, "ops")
        numbers = count(5001)
        work(stage, numbers, 5)
        lane = stage.client.get("/v1/lanes").json()["lanes"][2]["lane"]
        reason = {"reason": "key is being rotated, back at 15:00"}
        stage.client.post(f"/v1/lanes/{lane}/pause", json=reason, headers=bearer("ops")).raise_for_status()
        key = work(stage, numbers, WORK_S)
        page.screenshot(path=IMAGES / "console-overview.png")
        page = open_console(browser, stage, "all", f"/intent?key={key}&pool=main")
        page.locator(".head .tone-good").wait_for()
        page.wait_for_timeout(1500)
        page.screenshot(path=IMAGES / "console-intent.png")
        browser.close()


if __name__ == "__main__":
    main()
