"""Real servers for tests: single, Cluster, Sentinel, and a proxy that loses replies."""

from tests.servers.binaries import Binaries, Binary, find_binaries
from tests.servers.cluster import Cluster
from tests.servers.postgres import Postgres, find_postgres
from tests.servers.processes import end, free_port, spawn
from tests.servers.sentinel import Sentinel
from tests.servers.server import DURABLE, HOST, Server

__all__ = [
    "DURABLE",
    "HOST",
    "Binaries",
    "Binary",
    "Cluster",
    "Postgres",
    "Sentinel",
    "Server",
    "end",
    "find_binaries",
    "find_postgres",
    "free_port",
    "spawn",
]
