"""The first example of the client's README, as it stands there, in a project that installed the package."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.client.world import World
from tests.typescript.package import CLIENT, npm, run

TOKEN = "token-all"


def first_example() -> str:
    blocks = re.findall(r"```ts\n(.*?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    assert blocks, "the README shows no example"
    return str(blocks[0])


def received(world: World) -> int:
    params = {"request_type": "view_account", "account_id": "dev1.near", "finality": "final"}
    return int(world.devnet.rpc("query", params)["amount"])


def test_the_example_of_the_readme_pays_once_however_often_it_is_run(world: World, tarball: Path, empty: Path):
    example = first_example()
    assert "'http://127.0.0.1:8080'" in example, "the example names where `make run` listens"
    (empty / "package.json").write_text(json.dumps({"name": "empty", "private": True, "type": "module"}))
    (empty / "example.js").write_text(example.replace("http://127.0.0.1:8080", world.stage.url))
    run([npm(), "install", "--offline", "--silent", "--no-audit", "--no-fund", str(tarball)], empty)
    before = received(world)
    first = run(["node", "example.js"], empty, TXMANAGER_TOKEN=TOKEN)
    assert re.fullmatch(r"[1-9A-HJ-NP-Za-km-z]{43,44}\n", first)
    assert run(["node", "example.js"], empty, TXMANAGER_TOKEN=TOKEN) == first
    assert (received(world) - before) // 10**24 == 1  # a refund of another test may arrive meanwhile
