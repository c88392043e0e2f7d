"""The resident lane says what the Python stack says, byte for byte: one question after the other."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.resident import vectors
from tests.servers.processes import make_folder, remove_folder
from tests.servers.workerd import package

HERE = Path(__file__).parent
ASKS = [
    "fingerprint",
    "plain",
    "sorted",
    "home",
    "mark",
    "route",
    "compile",
    "sign",
    "delegate",
    "check_delegate",
    "check_nonce",
    "verdict",
    "failure",
    "judge",
    "seal",
    "pack_attempt",
    "pack_final",
    "decide",
]


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    folder = make_folder("answers")
    try:
        command = [
            "node",
            str(HERE / "answers.mjs"),
            str(HERE / "answers.ts"),
            str(vectors.FILE),
            str(folder / "a.mjs"),
        ]
        done = subprocess.run(command, cwd=package(), capture_output=True, text=True, timeout=120, check=False)
    finally:
        remove_folder(folder)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_the_vectors_are_what_the_python_stack_says_now():
    assert vectors.text() == vectors.FILE.read_text(), "run `python -m tests.resident.vectors`"


@pytest.mark.parametrize("ask", ASKS)
def test_a_resident_answers_as_the_python_stack_does(ask: str, compared: dict[str, Any]):
    differs = [one for one in compared["differs"] if one["ask"] == ask]
    assert not differs, (
        f"{len(differs)} of {compared['counts'][ask]} differ; the first: {json.dumps(differs[0])[:3000]}"
    )


def test_every_question_is_asked(compared: dict[str, Any]):
    assert set(compared["counts"]) == set(ASKS)
    assert sum(compared["counts"].values()) > 1_500
