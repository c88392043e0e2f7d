"""What is published: types that match the API, no dependency, small, and usable from an ESM and a CJS project."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.typescript.package import CLIENT, npm, run, tool

USE = """
const { strictEqual } = ASSERT;
const manager = new TxManager({ baseUrl: 'http://127.0.0.1:9', token: 'secret', retryForMs: 0 });
manager.lanes().then(
    () => process.exit(1),
    (error) => {
        strictEqual(error instanceof UnreachableError, true);
        strictEqual(JSON.stringify(error).includes('secret'), false);
        return verifyWebhook('a', 't=1,v1=00', 'b').then((genuine) => console.log(`used ${genuine}`));
    },
);
"""
NAMES = "{ TxManager, UnreachableError, verifyWebhook }"
PROJECTS = {
    "esm": ("module", f"import {NAMES} from '@txmanager/client';\nimport * as ASSERT from 'node:assert';\n"),
    "cjs": (
        "commonjs",
        f"const {NAMES} = require('@txmanager/client');\nconst ASSERT = require('node:assert');\n",
    ),
}
TYPED = """
import { TxManager, type IntentRecord } from '@txmanager/client';
const manager = new TxManager({ baseUrl: 'http://127.0.0.1:9' });
export const paid: Promise<IntentRecord> = manager.submit('near.transfer', { receiver_id: 'b.near', amount: 1n });
// @ts-expect-error a transfer has an amount
export const wrong = manager.submit('near.transfer', { receiver_id: 'b.near' });
// @ts-expect-error execute needs a key
export const keyless = manager.execute('near.transfer', { receiver_id: 'b.near', amount: 1n }, {});
// @ts-expect-error there is no such kind
export const unknown = manager.submit('near.nothing', {});
"""


def test_it_passes_the_strict_compiler_and_the_linter(package: Path):
    run([tool(package, "tsc"), "--noEmit"], package)
    run([tool(package, "eslint"), "."], package)


def test_the_committed_types_are_those_of_the_api(package: Path, empty: Path):
    """After a change of the API: `make openapi`."""
    document = run([sys.executable, "-m", "txmanager.api.document"], CLIENT.parent.parent)
    (empty / "openapi.json").write_text(document)
    run(["node", "scripts/generate.mjs", str(empty / "openapi.json"), str(empty)], package)
    for name in ("schema.ts", "problems.ts"):
        same = (CLIENT / "src" / "generated" / name).read_bytes() == (empty / name).read_bytes()
        assert same, f"{name} is out of date: run `make openapi`"


def test_it_is_small_and_depends_on_nothing(package: Path):
    assert "dependencies" not in json.loads((CLIENT / "package.json").read_text())
    size = int(run(["node", "scripts/size.mjs"], package))
    print(f"@txmanager/client: {size} bytes minified")
    assert size < 12_800


def test_what_is_packed_is_what_is_needed(tarball: Path):
    with tarfile.open(tarball) as packed:
        names = {name.removeprefix("package/") for name in packed.getnames()}
    assert {"package.json", "README.md", "LICENSE", "dist/esm/index.js", "dist/cjs/index.js"} <= names
    assert {"dist/esm/index.d.ts", "dist/cjs/index.d.ts", "dist/cjs/package.json"} <= names
    strays = {name for name in names if not name.startswith("dist/")} - {"package.json", "README.md", "LICENSE"}
    assert not strays


def test_publint_and_attw_find_nothing(package: Path, tarball: Path):
    run([tool(package, "publint"), "--strict", str(tarball)], package)
    attw = [tool(package, "attw"), str(tarball), "--no-emoji", "--profile"]
    run([*attw, "node16", "--entrypoints", "."], package)
    # The libraries behind the drop-ins are ESM only.
    run([*attw, "esm-only", "--entrypoints", "near-api-js", "near-kit"], package)


@pytest.mark.parametrize("kind", PROJECTS)
def test_an_empty_project_installs_and_uses_it(kind: str, package: Path, tarball: Path, empty: Path):
    of, head = PROJECTS[kind]
    (empty / "package.json").write_text(json.dumps({"name": "empty", "private": True, "type": of}))
    (empty / "use.js").write_text(head + USE)
    (empty / "typed.ts").write_text(TYPED)
    run([npm(), "install", "--offline", "--silent", "--no-audit", "--no-fund", str(tarball)], empty)
    assert run(["node", "use.js"], empty) == "used false\n"
    options = ["--noEmit", "--strict", "--module", "NodeNext", "--lib", "ES2022,DOM", "typed.ts"]
    run([tool(package, "tsc"), *options], empty)


def test_a_machine_without_npm_skips(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(pytest.skip.Exception):
        npm()


def test_the_generator_says_how_it_is_used(package: Path):
    done = subprocess.run(["node", "scripts/generate.mjs"], cwd=package, capture_output=True, text=True, check=False)
    assert (done.returncode, "usage" in done.stderr) == (2, True)
