"""The commands that open the console: the URL that they print, or open, logs a browser in."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.api.stage import Stage, token
from tests.servers import free_port
from tests.servers.processes import end
from tests.stack.running import QUICK, ROOT
from tests.waiting import until_sync


@pytest.fixture
def opened(tmp_path) -> Path:
    """Where a browser of ours writes the URLs that it is given; see `screen`."""
    return Path(tmp_path / "opened")


@pytest.fixture
def screen(tmp_path, opened) -> dict[str, str]:
    """The environment of somebody who sits before a screen."""
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    program.chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TXMANAGER")}
    return clean | {"DISPLAY": ":99", "BROWSER": f"{program} %s", "PYTHONPATH": str(ROOT)}


def console(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "txmanager", "console", *options]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


def logs_in(browser: Browser, url: str) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(url)
        expect(page.locator(".linkstate")).to_have_text("live", timeout=20_000)


def test_the_command_opens_a_page_that_is_logged_in(browser: Browser, stage: Stage, screen, opened):
    told = console(screen, "--url", stage.url, "--token", token("ops"))
    assert told.returncode == 0, told.stderr
    [url] = opened.read_text().split()
    assert url == told.stdout.strip()
    assert url.startswith(f"{stage.url}/console#code=")
    assert token("ops") not in url
    logs_in(browser, url)


def test_without_a_screen_the_url_is_only_printed(stage: Stage, screen, opened):
    told = console(screen, "--url", stage.url, "--token", token("ops"), "--no-browser")
    assert "/console#code=" in told.stdout
    del screen["DISPLAY"]
    told = console(screen, "--url", stage.url, "--token", token("ops"))
    assert (told.returncode, "within a minute" in told.stderr) == (0, True)
    assert not opened.exists()


def test_a_wrong_token_and_an_api_that_is_away_are_one_sentence(stage: Stage, screen):
    wrong = console(screen, "--url", stage.url, "--token", "guess")
    away = console(screen, "--url", f"http://127.0.0.1:{free_port()}", "--token", "guess")
    assert wrong.returncode
    assert away.returncode
    assert "gave no code" in wrong.stderr
    assert "does not answer" in away.stderr
    assert "Traceback" not in wrong.stderr + away.stderr


@pytest.fixture
def terminal(tmp_path, screen) -> Iterator[list[str]]:
    """`make run` in a terminal; what it printed so far."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "txmanager", "up", "--port", str(free_port()), "--data", str(tmp_path / "data")]
    running = subprocess.Popen([*command, *QUICK], stdout=theirs, stderr=theirs, env=screen, cwd=ROOT)
    os.close(theirs)
    said: list[str] = []

    def read() -> None:
        try:
            while text := os.read(ours, 65536):
                said.append(text.decode(errors="replace"))
        except OSError:  # the terminal is closed
            pass

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    yield said
    running.send_signal(signal.SIGINT)
    try:
        running.wait(60)
    finally:
        end(running)
        reading.join(5)
        os.close(ours)


def test_make_run_opens_the_console_logged_in(browser: Browser, terminal, opened):
    until_sync(opened.exists, 90, what="a browser was opened")
    until_sync(lambda: opened.read_text().endswith("\n"), 5, what="it has its URL")
    [url] = opened.read_text().split()
    assert f"console: {url}" in "".join(terminal)
    logs_in(browser, url)
