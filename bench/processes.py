"""The processes of a run: a Redis of its own, the sink, the delaying proxy, a contender. All end with their block."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import redis

from txmanager.signing.ed25519 import Ed25519Signer
from txmanager.stack.allocator import find_jemalloc, preloaded
from txmanager.stack.parts import valkey_binary

ROOT = Path(__file__).resolve().parent.parent
SERVERS = ("valkey", "redis")
"""The embedded Valkey that `make run` starts, or the machine's own `redis-server`."""
_CHOSEN = "TXMANAGER_BENCH_SERVER"
_DAY = str(10**36)


class Failed(Exception):
    """A contender did not finish; the report says so instead of a figure."""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Redis:
    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"redis://127.0.0.1:{port}/0"
        self.client: redis.Redis = redis.Redis(port=port)

    def cpu_s(self) -> float:
        told = self._info("cpu")
        return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])

    def commands(self) -> int:
        """Every command, those inside of scripts included."""
        return sum(int(one["calls"]) for one in self._info("commandstats").values())

    def scripts(self) -> int:
        told = self._info("commandstats")
        return sum(int(told[name]["calls"]) for name in ("cmdstat_evalsha", "cmdstat_eval") if name in told)

    def written(self) -> int:
        """Bytes in the append-only file. The servers here never rewrite theirs, so it only grows."""
        return int(self._info("persistence")["aof_current_size"])

    def memory(self) -> int:
        return int(self._info("memory")["used_memory"])

    def mean_size(self, pattern: str, sample: int = 500) -> float:
        """MEMORY USAGE of some keys of a family, on average; the keys' own names are counted."""
        sizes: list[int] = []
        for key in self.client.scan_iter(pattern, count=1_000):
            sizes.append(int(self.client.memory_usage(key, samples=0) or 0))
            if len(sizes) == sample:
                break
        return sum(sizes) / max(1, len(sizes))

    def forget_events(self) -> None:
        """The event streams are bounded by their length, so they are no cost of an intent."""
        for key in self.client.scan_iter("*:events", count=1_000):
            self.client.delete(key)

    @property
    def version(self) -> str:
        told = self._info("server")
        return f"Valkey {told['valkey_version']}" if "valkey_version" in told else f"Redis {told['redis_version']}"

    def _info(self, section: str) -> dict[str, Any]:
        told: dict[str, Any] = self.client.info(section)
        return told


def choose_server(name: str) -> None:
    """For everything that this process and its children start from now on."""
    os.environ[_CHOSEN] = name


@contextlib.contextmanager
def redis_server(fsync: str = "everysec", server: str = "", *, jemalloc: bool = False) -> Iterator[Redis]:
    """`jemalloc` for the embedded Valkey only: `redis-server` brings its own."""
    folder, port = tempfile.mkdtemp(prefix="bench-redis-"), _free_port()
    chosen = server or os.environ.get(_CHOSEN, SERVERS[0])
    binary = valkey_binary() if chosen == "valkey" else "redis-server"
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", fsync, "--daemonize", "no"]
    command += ["--auto-aof-rewrite-percentage", "0"]
    library = find_jemalloc(binary) if jemalloc else None
    environment = {**os.environ, **(preloaded(library) if library else {})}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    try:
        server = Redis(port)
        for _ in range(200):
            with contextlib.suppress(redis.ConnectionError, redis.BusyLoadingError):
                server.client.ping()
                break
            time.sleep(0.02)
        yield server
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _printing_its_port(*arguments: str) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def sink(handler_ms: float = 0.0) -> contextlib.AbstractContextManager[int]:
    return _printing_its_port("-m", "bench.sink", "--delay-ms", str(handler_ms))


def proxy(target: int, rtt_ms: float) -> contextlib.AbstractContextManager[int]:
    return _printing_its_port("-m", "bench.proxy", str(target), str(rtt_ms))


def ask(port: int, method: str) -> Any:
    """One question to the sink, on a connection of its own."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": []}).encode()
    with socket.create_connection(("127.0.0.1", port)) as link, link.makefile("rb") as reader:
        link.sendall(b"POST / HTTP/1.1\r\nHost: sink\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        length = 0
        while (line := reader.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return json.loads(reader.read(length))["result"]


def run(
    command: Sequence[str], timeout_s: float, env: dict[str, str] | None = None, source: Path = ROOT
) -> dict[str, Any]:
    """A contender's last line of output, which is JSON. `source` is the tree that its modules come from."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, cwd=source, env=env, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"not done within {timeout_s:g} s") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise Failed((done.stderr.strip().splitlines() or ["no output"])[-1][:300])
    told: dict[str, Any] = json.loads(lines[-1])
    return told


@contextlib.contextmanager
def signer_process(key: Ed25519Signer, account: str) -> Iterator[str]:
    """A `txmanager signer` with this key; answers how to reach it."""
    with tempfile.TemporaryDirectory(prefix="bench-signer-") as folder:
        policy = f'{{ max_value = "1000", max_fee = "{_DAY}", max_per_day = "{_DAY}" }}'
        (Path(folder) / "signer.toml").write_text(
            f'[signer]\nlisten = "unix:{folder}/s"\nstate = "{folder}/state"\n'
            f'clients = {{ worker = {{ uid = {os.getuid()}, keys = ["lane"] }} }}\n'
            f'[signer.keys.lane]\nchain = "near"\naccount = {json.dumps(account)}\n'
            f'source = "env:BENCH_KEY"\npolicy = {policy}\n'
        )
        environment = {
            **os.environ,
            "TXMANAGER_CONFIG": f"{folder}/signer.toml",
            "BENCH_KEY": key.export().reveal().decode(),
        }
        command = [sys.executable, "-m", "txmanager", "signer"]
        subprocess.run([*command, "--init"], env=environment, cwd=ROOT, check=True, capture_output=True)
        with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.DEVNULL) as child:
            try:
                until = time.monotonic() + 30
                while not Path(folder, "s").exists():
                    if time.monotonic() > until or child.poll() is not None:
                        raise Failed("the signer did not start")
                    time.sleep(0.05)
                yield f"unix:{folder}/s"
            finally:
                child.terminate()
