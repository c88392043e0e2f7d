"""Real servers for tests: single, Cluster, Sentinel, and a proxy that loses replies."""

from tests.servers.binaries import Binaries, Binary, find_binaries
from tests.servers.cluster import Cluster
from tests.servers.processes import end, free_port, spawn
from tests.servers.sentinel import Sentinel
from tests.servers.server import DURABLE, HOST, Server

__all__ = [
    "DURABLE",
    "HOST",
    "Binaries",
    "Binary",
    "Cluster",
    "Sentinel",
    "Server",
    "end",
    "find_binaries",
    "free_port",
    "spawn",
]
