"""docs/configuration.md and the JSON schema say what the settings models say."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest

from txmanager.settings.schema import build_schema

ROOT = Path(__file__).parent.parent.parent


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("configuration_page", ROOT / ".ci" / "docs" / "configuration.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_models_say():
    assert (ROOT / "docs" / "configuration.md").read_text() == generator().render(), "run `make reference`"


def test_every_key_has_a_meaning():
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", generator().render(), re.MULTILINE)
    assert len(rows) > 150
    assert [key for key, meaning in rows if not meaning.strip()] == []


@pytest.mark.parametrize("path", sorted((ROOT / "config").glob("*.toml")), ids=lambda path: path.name)
def test_the_schema_accepts_every_example(path):
    jsonschema.validate(tomllib.loads(path.read_text()), build_schema())


@pytest.mark.parametrize(
    "text",
    [
        "[ledger]\nurll = 'redis://x'",
        "[api]\nport = 70000",
        "[networks.x]\nchain = 'near'\nrpc = []",
        "[worker]\nlease_s = 'long'",
        "[pools.p]\nnetwork = 'n'\nno_such_key = 1",
    ],
)
def test_the_schema_refuses_what_the_programs_refuse(text):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), build_schema())


def test_the_command_prints_the_schema():
    said = subprocess.run(
        [sys.executable, "-m", "txmanager", "config", "schema"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(said.stdout) == json.loads(json.dumps(build_schema()))
