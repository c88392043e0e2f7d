"""A devnet as its own process on a free port, stopped by its pid."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx


class Devnet:
    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.url: str = told["url"]
        self.nodes: list[str] = told["nodes"]
        self.accounts: list[dict[str, Any]] = told["accounts"]

    def admin(self, path: str, **body: Any) -> Any:
        return httpx.post(f"{self.url}/admin/{path}", json=body).raise_for_status().json()

    def clear_faults(self) -> None:
        httpx.delete(f"{self.url}/admin/faults").raise_for_status()


@contextmanager
def devnet(*options: str) -> Iterator[Devnet]:
    command = [sys.executable, "-m", "txmanager.devnet", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, "the devnet did not start"
        yield Devnet(json.loads(line))
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
