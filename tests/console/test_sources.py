"""The files that a browser gets: whole, of no other host, and asking only for routes that there are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.api.test_table import called
from txmanager import console

FOLDER = Path(console.__file__).parent
SOURCES = sorted((FOLDER / "js").rglob("*.js"))


def test_every_import_leads_to_a_file_that_is_served():
    served = console.files()
    for source in SOURCES:
        for name in re.findall(r"from '(\.[^']+)'", source.read_text()):
            path = (source.parent / name).resolve()
            assert f"/{path.relative_to(FOLDER).as_posix()}" in served, f"{source.name} imports {name}"
    document = (FOLDER / "index.html").read_text()
    for path in re.findall(r'(?:src|href)="(/console[^"]*)"', document):
        assert path.removeprefix("/console") in served


def test_every_name_that_is_imported_is_used():
    for source in SOURCES:
        text = source.read_text()
        for names in re.findall(r"^import \{([^}]+)\}", text, re.MULTILINE):
            for name in map(str.strip, names.split(",")):
                assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{source.name} does not use {name}"


def test_pages_ask_only_for_routes_of_the_api():
    document = json.loads(subprocess.check_output([sys.executable, "-m", "txmanager.api.document"]))
    paths = {re.sub(r"\{\w+\}", "{}", path) for path in document["paths"]}
    found = set().union(*(called(source.read_text()) for source in SOURCES))
    assert len(found) > 8
    assert found <= paths | {"/v1/intents", "/v1/lanes"}, found - paths


@pytest.mark.parametrize(
    "word", ["innerHTML", "outerHTML", "dangerouslySetInnerHTML", "eval(", "localStorage", "document.cookie"]
)
def test_no_page_uses_what_makes_text_dangerous(word: str):
    assert not [source.name for source in SOURCES if word in source.read_text()]


def test_the_wheel_has_every_file():
    """Files that are no modules are left out of a wheel unless they are named."""
    root = FOLDER.parent.parent
    named = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["txmanager"]
    packed = {path for pattern in named for path in (root / "txmanager").glob(pattern)}
    assert {path for path in FOLDER.rglob("*") if path.suffix in (".js", ".css", ".svg", ".html", ".txt")} <= packed
