"""`txmanager submit --file`: every line once, through Ctrl-C and kill -9; what is refused is written down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import devnet, key, stage  # noqa: F401  (fixtures)
from tests.api.stage import KEY, Stage, token
from tests.waiting import until_sync


def transfer(amount: Any = 1, **more: Any) -> dict[str, Any]:
    return {"kind": "near.transfer", "payload": {"receiver_id": "dev1.near", "amount": str(amount)}, **more}


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    return path


def command(stage: Stage, file: Path, *more: str, by: str = "all") -> list[str]:  # noqa: F811
    options = ["--url", stage.url, "--token", token(by), "--pool", "main", "--file", str(file)]
    return [sys.executable, "-m", "txmanager", "submit", *more, *options]


def run(stage: Stage, file: Path, *more: str, by: str = "all") -> subprocess.CompletedProcess[str]:  # noqa: F811
    told = command(stage, file, *more, by=by)
    return subprocess.run(told, capture_output=True, text=True, timeout=120, check=False)


def test_every_line_is_accepted_once_and_a_second_run_replays(stage: Stage, tmp_path: Path, key: str):  # noqa: F811
    same = transfer()  # the same content twice is two intents: their places differ
    file = write(tmp_path / "lines.ndjson", [same, same, "", transfer(idempotency_key=key), transfer(2)])
    first, again = run(stage, file), run(stage, file)
    assert (first.returncode, first.stdout) == (0, "4 accepted, 0 replayed, 0 refused\n"), first.stderr
    assert (again.returncode, again.stdout) == (0, "0 accepted, 4 replayed, 0 refused\n"), again.stderr
    assert stage.get(f"/v1/intents/{key}?pool=main").status_code == 200
    assert not (tmp_path / "lines.ndjson.refused").exists()


def test_with_a_kind_lines_are_payloads_and_derived_keys_are_kept(stage: Stage, tmp_path: Path, key: str):  # noqa: F811
    name = f"{key[2:10]}.{stage.account_id}"
    file = write(tmp_path / "accounts.ndjson", [{"new_account_id": name, "public_key": KEY}])
    assert run(stage, file, "near.create_account").returncode == 0
    assert stage.get(f"/v1/intents/create:{name}:{KEY}?pool=main").status_code == 200


def test_refused_lines_are_written_down_with_their_problems(stage: Stage, tmp_path: Path, key: str):  # noqa: F811
    lines = [transfer(idempotency_key=f"{key}-1"), "{broken", transfer(-1, idempotency_key=f"{key}-3"), "[]"]
    file, refused = write(tmp_path / "lines.ndjson", lines), tmp_path / "no.ndjson"
    ended = run(stage, file, "--refused", str(refused))
    assert (ended.returncode, ended.stdout) == (1, "1 accepted, 0 replayed, 3 refused\n"), ended.stderr
    assert str(refused) in ended.stderr
    told = sorted((json.loads(one) for one in refused.read_text().splitlines()), key=lambda one: int(one["line"]))
    assert [(one["line"], one["problem"]["code"]) for one in told] == [
        (2, "malformed_line"),
        (3, "invalid_input"),
        (4, "malformed_line"),
    ]
    assert told[1]["intent"]["idempotency_key"] == f"{key}-3"
    assert token("all") not in refused.read_text() + ended.stderr


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_interrupted_run_is_continued_by_the_same_command(
    stage: Stage,  # noqa: F811
    tmp_path: Path,
    key: str,  # noqa: F811
    how: signal.Signals,
    code: int,
):
    """The file is a pipe that stays open: the run waits in the middle of it."""
    lines = [json.dumps(transfer(idempotency_key=f"{key}-{n}")) + "\n" for n in range(600)]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    running = subprocess.Popen(command(stage, pipe), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with pipe.open("w") as writer:
        writer.writelines(lines[:400])
        writer.flush()
        found = f"/v1/intents/{key}-255?pool=main"
        until_sync(lambda: stage.get(found).status_code == 200, 30, what="the first page was accepted")
        running.send_signal(how)
        _, said = running.communicate(timeout=30)
    assert running.returncode == code
    if how is signal.SIGINT:
        assert "run the same command again" in said
    file = tmp_path / "lines.ndjson"
    file.write_text("".join(lines))
    again = run(stage, file)
    assert again.returncode == 0, again.stderr
    count = {word: int(number) for number, word in (part.split() for part in again.stdout.strip().split(", "))}
    assert count["accepted"] + count["replayed"] == 600
    assert count["replayed"] >= 256


def test_rate_of_the_token_slows_the_run_down(stage: Stage, tmp_path: Path, key: str):  # noqa: F811
    file = write(tmp_path / "lines.ndjson", [transfer(idempotency_key=f"{key}-{n}") for n in range(4)])
    ended = run(stage, file, by="slow")
    assert (ended.returncode, ended.stdout) == (0, "4 accepted, 0 replayed, 0 refused\n"), ended.stderr


def test_wrong_use_says_what_to_do(stage: Stage, tmp_path: Path):  # noqa: F811
    missing = run(stage, tmp_path / "nothing")
    assert (missing.returncode, "--file: cannot read" in missing.stderr) == (2, True)
    file = write(tmp_path / "lines.ndjson", [transfer()])
    both = run(stage, file, "near.transfer", "{}")
    assert (both.returncode, "neither a payload" in both.stderr) == (2, True)
    stranger = command(stage, file)
    stranger[stranger.index("--token") + 1] = "nobody"
    began = time.monotonic()
    ended = subprocess.run(stranger, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2, f"{ended.stderr} after {time.monotonic() - began:.0f} s"
    assert "unauthorized" in ended.stderr
