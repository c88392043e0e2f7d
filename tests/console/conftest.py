"""One browser and one installation for all stories: real programs, a devnet, Chromium."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.api.stage import ACCOUNTS, Stage, bearer
from tests.conftest import HasUrl
from tests.console.furnished import Furnished, furnish
from tests.devnet.process import Devnet

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PICTURES = Path(__file__).parent / "pictures"
"""What the pages look like, made by the stories; not committed."""


@pytest.fixture(scope="package")  # it keeps an event loop of this thread: other suites need theirs
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("there is no chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="package")
def devnet() -> Iterator[Devnet]:
    with Devnet(block_ms=50, accounts=ACCOUNTS, keys=8) as running:
        yield running


@pytest.fixture(scope="package")
def stage(redis7: HasUrl, devnet: Devnet) -> Iterator[Stage]:
    with Stage(redis7.url, f"t{secrets.token_hex(6)}", devnet, lanes=4, spare=False) as running:
        yield running.start()


@pytest.fixture(scope="package")
def installation(redis7: HasUrl, devnet: Devnet) -> Iterator[Furnished]:
    with ExitStack() as running:
        yield furnish(running, redis7.url, f"t{secrets.token_hex(6)}", devnet)


def until_live(page: Page) -> None:
    page.wait_for_selector(".linkstate.live", timeout=20_000)


class Console:
    """A browser window of one user. Whatever the page complains about is kept in `complaints`."""

    def __init__(self, context: BrowserContext, stage: Stage) -> None:
        self.context = context
        self.stage = stage
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        context.on("request", lambda request: self.hosts.add(request.url.partition("://")[2].partition("/")[0]))
        context.on("page", self._listen)

    def _listen(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda line: line.type == "error" and self.complaints.append(line.text))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))

    def code(self, name: str = "ops") -> str:
        answer = self.stage.client.post("/v1/sessions/codes", headers=bearer(name))
        return str(answer.json()["code"])

    def log_in(self, name: str = "ops", path: str = "") -> Page:
        page = self.context.new_page()
        page.goto(f"{self.stage.url}/console{path}#code={self.code(name)}")
        until_live(page)
        return page


@pytest.fixture
def new_console(browser: Browser, stage: Stage) -> Iterator[Any]:
    made: list[Console] = []

    def new(of: Stage = stage, **options: Any) -> Console:
        options = {"viewport": {"width": 1360, "height": 900}, **options}
        made.append(Console(browser.new_context(**options), of))
        made[-1].context.set_default_timeout(15_000)
        return made[-1]

    yield new
    for console in made:
        console.context.close()
        unexpected = [line for line in console.complaints if "Failed to load resource" not in line]
        assert not unexpected, unexpected
        assert console.hosts <= {console.stage.url.partition("://")[2]}, "no foreign host"


@pytest.fixture
def console(new_console: Any) -> Console:
    made: Console = new_console()
    return made


def ensure_worker(stage: Stage) -> None:
    if not stage.worker.running:
        stage.worker.start()


@pytest.fixture
def worker_off(stage: Stage) -> Iterator[Stage]:
    """Intents are accepted and wait, until the story starts the worker again."""
    stage.worker.stop()
    yield stage
    ensure_worker(stage)
