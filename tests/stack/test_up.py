"""`txmanager up` through what happens to it: restarts, kills, a stop at the wrong time, a taken port, no Redis."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.servers import free_port
from tests.servers.processes import end
from tests.stack.running import QUICK, ROOT, Up, alive
from tests.waiting import until_sync


@pytest.fixture
def start(tmp_path) -> Iterator[object]:
    running: list[Up] = []

    def start(*options: str) -> Up:
        running.append(Up(tmp_path, *QUICK, *options))
        return running[-1]

    yield start
    for up in running:
        up.end(signal.SIGTERM)


def crowded() -> float:
    """How many processes each core is shared by: the 10 s are those of a machine that does nothing else."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@pytest.mark.alone
def test_a_second_start_finds_its_data_within_10_s_and_a_stop_leaves_no_process(start):
    first = start().ready()
    headers, record = first.create("alice")
    assert record["status"] == "done"
    assert "idempotency-replayed" not in headers
    headers, again = first.create("alice")
    assert headers["idempotency-replayed"] == "true"
    assert again == record
    children = first.children()
    assert len(children) == 7, children
    assert first.end() == 0
    assert alive(children) == set()
    assert first.said.endswith("stopped; the next start continues with the same data\n")

    second = start()
    second.until_said("new_public_key", timeout=10 * crowded())
    headers, still = second.create("alice")
    assert headers["idempotency-replayed"] == "true"
    assert still == record
    _, fresh = second.create("bob")
    assert fresh["status"] == "done"


def test_a_killed_part_is_started_again_and_a_killed_supervisor_leaves_no_process(start):
    up = start("--workers", "1").ready()
    for part in ("worker-1", "api"):
        pid = up.child(part)
        os.kill(pid, signal.SIGKILL)
        up.until_said(f"{part} was killed by signal 9; starting it again")
        until_sync(lambda gone=pid, part=part: part_pid(up, part) not in (None, gone), 20, what=f"another {part}")
    until_sync(lambda: accepts(up.port), 20, what="the API listening again")
    _, record = up.create("carol")
    assert record["status"] == "done"

    children = up.children()
    os.kill(up.process.pid, signal.SIGKILL)
    # At once, while the killed one's children may still write: the new stack waits for them.
    heir = start("--workers", "1")
    until_sync(lambda: alive(children) == set(), 30, what="the children of the killed supervisor ending")
    headers, still = heir.ready().create("carol")
    assert headers["idempotency-replayed"] == "true"
    assert still == record


def test_redis_node_and_configuration_of_ones_own_replace_the_embedded_parts(start, valkey9, tmp_path):
    """On a devnet that was started by hand; then the same again from a copy of the configuration."""
    devnet = subprocess.Popen(
        [sys.executable, "-m", "txmanager.devnet", "--port", "0", "--block-ms", "100"], stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert devnet.stdout is not None
        network = json.loads(devnet.stdout.readline())
        account = network["accounts"][1]
        (tmp_path / "mine.json").write_text(json.dumps(account))
        node = ("--near-rpc", network["url"], "--near-network", "localnet", "--near-account", account["account_id"])
        up = start("--redis", valkey9.url, *node, "--near-keys", f"file:{tmp_path / 'mine.json'}", "--workers", "1")
        _, record = up.ready().create("mine", parent=account["account_id"])
        assert record["status"] == "done", record
        assert len(up.children()) == 4, up.children()
        assert up.end() == 0

        port = free_port()
        copied = (up.data / "txmanager.toml").read_text().replace(f"port = {up.port}", f"port = {port}")
        (tmp_path / "secret").write_text("s" * 32)
        webhook = f'name = "a"\nurl = "http://127.0.0.1:9/"\nsecret = {{ file = "{tmp_path / "secret"}" }}\n'
        (tmp_path / "copy.toml").write_text(f"{copied}\n[[pools.default.webhooks]]\n{webhook}")
        again = start("--config", str(tmp_path / "copy.toml"), "--workers", "1")
        assert f"ready: http://127.0.0.1:{port} " in again.until_said("ready: ")
        headers, same = again.create("mine", parent=account["account_id"])
        assert headers["idempotency-replayed"] == "true"
        assert same == record
        until_sync(lambda: part_pid(again, "webhooks") is not None, 20.0, what="webhooks are delivered")
        assert part_pid(again, "monitor") is None, "there is no EVM network"
    finally:
        end(devnet)


def part_pid(up: Up, part: str) -> int | None:
    try:
        return up.child(part)
    except AssertionError:
        return None


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("words", ["starting txmanager", "Valkey on", "NEAR devnet at"])
def test_a_stop_during_the_start_leaves_no_process(start, words):
    up = start()
    up.until_said(words)
    children = up.children()
    assert up.end() == 0
    assert "Traceback" not in up.said
    assert alive(children) == set()
    assert not [c for c in subprocess.check_output(["ps", "-eo", "args="], text=True).splitlines() if str(up.data) in c]


def test_a_store_that_dies_ends_the_stack_with_the_reason(start):
    up = start("--workers", "1").ready()
    children = up.children()
    os.kill(up.child("valkey"), signal.SIGKILL)
    assert up.process.wait(60) == 2
    assert "txmanager: valkey ended" in up.said
    assert alive(children) == set()


def test_a_second_stack_on_the_same_folder_is_one_sentence(start):
    up = start("--workers", "1")
    up.until_said("Valkey on")
    other = start()
    assert other.process.wait(60) == 2
    said = f"txmanager: another `txmanager up` uses {up.data}; stop it, or choose another folder with --data\n"
    assert other.said.endswith(said)


def test_a_taken_port_is_one_sentence(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = run(tmp_path, "--port", str(port))
    assert said.returncode == 2
    assert said.stderr.startswith(f"txmanager: port {port} on 127.0.0.1 is in use (Address already in use); ")
    assert said.stderr.count("\n") == 1


def test_redis_down_is_one_sentence(tmp_path):
    port = free_port()
    said = run(tmp_path, *QUICK, "--port", str(free_port()), "--redis", f"redis://:hunter2@127.0.0.1:{port}/0")
    assert said.returncode == 2
    assert f"cannot reach Redis at 127.0.0.1:{port}" in said.stderr
    assert said.stderr.count("\n") == 1
    assert "hunter2" not in said.stderr + said.stdout
    assert "hunter2" not in (tmp_path / "data" / "txmanager.toml").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--near-rpc", "http://127.0.0.1:1"), "add --near-account"),
        (("--near-account", "a.testnet"), "--near-rpc: is missing"),
        (("--config", "nowhere.toml"), "cannot read"),
        (("--config", "config/single.toml", "--near-rpc", "http://127.0.0.1:1"), "cannot be combined with"),
        (("--data", "/dev/null"), "cannot use the data folder /dev/null"),
    ],
)
def test_options_that_cannot_work_are_one_sentence(tmp_path, options, words):
    said = run(tmp_path, "--port", str(free_port()), *options)
    assert said.returncode == 2
    assert words in said.stderr
    assert said.stderr.count("\n") == 1


def run(folder, *options: str) -> subprocess.CompletedProcess[str]:
    data = () if "--data" in options else ("--data", str(folder / "data"))
    return subprocess.run(
        [sys.executable, "-m", "txmanager", "up", *data, *options],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("TXMANAGER")},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
