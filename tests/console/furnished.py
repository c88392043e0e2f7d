"""An installation with something of everything that pages show: archive, explorer, budget, low purse, dead webhooks."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, NamedTuple

from tests.api.stage import Program, Stage
from tests.api.test_webhooks import Receiver

_POOL = """
[pools.main.policy]
budget = [{ network = "localnet", amount = "2 NEAR", per = "1d" }]

[[pools.main.webhooks]]
name = "backend"
url = "HOOK"
secret = { env = "HOOK_SECRET" }
statuses = ["failed"]
retry_for_s = 0.0
timeout_s = 1.0

[monitor.networks.localnet]
low = "1000000000 NEAR"
"""
"""A mark that every account is below, and a budget that a few transfers do not use up."""
EXPLORER = "https://explorer.example/txns/"


class Furnished(NamedTuple):
    stage: Stage
    receiver: Receiver
    """What the webhook goes to; it refuses everything at first."""


def furnish(running: ExitStack, ledger_url: str, prefix: str, devnet: Any) -> Furnished:
    receiver = Receiver()
    running.callback(receiver.server.server_close)
    running.callback(receiver.server.shutdown)
    receiver.status = 500
    pool = _POOL.replace("HOOK", receiver.url, 1)
    stage = running.enter_context(Stage(ledger_url, prefix, devnet, pool_more=pool, lanes=4, spare=False))
    text = stage.config.read_text().replace("direct = true }]", f'direct = true }}]\nexplorer = "{EXPLORER}{{hash}}"')
    stage.config.write_text(f'{text}\n[archive]\nurl = "sqlite:///{stage.folder}/archive.db"\nperiod_s = 0.1\n')
    archiver = Program("archiver", stage.config)
    archiver.start()
    running.callback(archiver.kill)
    stage.webhooks.start()
    return Furnished(stage.start(), receiver)
