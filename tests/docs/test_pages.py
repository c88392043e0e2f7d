"""The pages that teach by code: what they show runs, in a folder of its own, as a reader would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
FILE = re.compile(r"^`([\w.]+\.py)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def write_files(page: str, folder: Path) -> list[str]:
    """A line with a file's name, then a block with its text."""
    found = FILE.findall((DOCS / page).read_text())
    for name, text in found:
        (folder / name).write_text(text)
    return [name for name, _ in found]


def run(folder: Path, *words: str) -> str:
    said = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert said.returncode == 0, said.stdout[-3_000:] + said.stderr[-3_000:]
    return said.stdout


def test_the_relay_of_the_tutorial_passes_its_own_tests(tmp_path):
    assert write_files("tutorial.md", tmp_path) == ["relay.py", "conftest.py", "test_relay.py"]
    assert "3 passed" in run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")


RECIPES = {
    "fastapi_relay.py": """
from fastapi.testclient import TestClient

import fastapi_relay


def test_one_payout_is_one_payment(txmanager, monkeypatch):
    monkeypatch.setenv("TXMANAGER_URL", txmanager.url)
    monkeypatch.setenv("TXMANAGER_TOKEN", txmanager.token)
    wanted = {"receiver_id": txmanager.account, "amount": "5"}
    with TestClient(fastapi_relay.app) as client:
        first = client.post("/payouts/7", json=wanted)
        again = client.post("/payouts/7", json=wanted)
        other = client.post("/payouts/7", json={**wanted, "amount": "6"})
    assert first.json()["status"] == "done"
    assert again.json() == first.json()
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
""",
    "django_relay.py": """
import json

import django
from django.conf import settings

settings.configure(DEBUG=False, ALLOWED_HOSTS=["*"], SECRET_KEY="tests", ROOT_URLCONF=__name__)
django.setup()
from django.test import RequestFactory
from django.urls import path

import django_relay

urlpatterns = [path("payouts/<int:payout_id>", django_relay.pay)]


def test_one_payout_is_one_payment(txmanager, monkeypatch):
    monkeypatch.setenv("TXMANAGER_URL", txmanager.url)
    monkeypatch.setenv("TXMANAGER_TOKEN", txmanager.token)
    asked = {"receiver_id": txmanager.account, "amount": "5"}
    answers = [django_relay.pay(RequestFactory().post("/payouts/7", asked), 7) for _ in range(2)]
    first, again = (json.loads(answer.content) for answer in answers)
    assert first["status"] == "done"
    assert again == first
""",
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_pays_once(tmp_path, recipe):
    assert recipe in write_files("recipes.md", tmp_path)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["txmanager.testing.relay"]\n')
    (tmp_path / "test_it.py").write_text(RECIPES[recipe])
    assert "1 passed" in run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def test_the_site_builds_with_strict_links(tmp_path):
    site = tmp_path / "site"
    run(ROOT, "-m", "mkdocs", "build", "--quiet", "-f", ".ci/docs/mkdocs.yml", "-d", str(site))
    assert (site / "index.html").exists()
    assert (site / "search" / "search_index.js").exists()
    foreign = re.compile(r'(?:src|href)="https?://[^"]+\.(?:js|css|woff2?)"')
    assert not [page.name for page in site.glob("*.html") if foreign.search(page.read_text())]
