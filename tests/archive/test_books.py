"""After a random run with crashes the books of usage say what the accounts lost, to the yoctoNEAR and to the wei."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.api.stage import Program
from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.evm.machines import PHRASE, Anvil
from tests.evm.trouble import foreign
from tests.waiting import until
from txmanager.archive import Database, SqlReader
from txmanager.core.archive import Spending, UsageLine, UsageQuery
from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import Ledger
from txmanager.core.models import Intent, Purpose, new_intent
from txmanager.runtime.manager import TxManager
from txmanager.settings import load
from txmanager.signing.evm import EvmSigner
from txmanager.signing.evm_sources import derive
from txmanager.signing.secret import Secret
from txmanager.wiring import open_ledger

INTENTS = int(os.environ.get("TXMANAGER_BOOKED_INTENTS", "150"))
ETHER, NEAR = 10**18, 10**24
LEDGER = """
[ledger]
url = "{redis}"
prefix = "{prefix}"
[archive]
url = "sqlite:///{folder}/archive.db"
period_s = 0.1
[worker]
lease_s = 1.0
"""
Make = Callable[[random.Random, int], tuple[str, dict[str, Any]]]


class Run:
    """Real programs on one ledger, killed at random while intents come in and are cancelled."""

    def __init__(self, config: Path, environment: dict[str, str], more: Sequence[str] = ()) -> None:
        self.config = config
        self.programs = [Program(name, config, environment) for name in ("lanes", "lanes", "archiver", *more)]
        self.chance = random.Random(24)
        self.keys: list[Intent] = []
        self.cancelled = 0

    async def __aenter__(self) -> Run:
        self.ledger: Ledger = await open_ledger(load(self.config))
        self.manager = TxManager(self.ledger)
        for program in self.programs:
            program.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for program in self.programs:
            program.kill()
        await self.ledger.close()

    async def lanes(self, count: int) -> None:
        async def based() -> bool:
            return len([lane for lane in await self.ledger.lanes() if lane.cursor is not None]) == count

        await until(based, 60, what="every lane has read its nonce")

    async def submit(self, make: Make, count: int) -> None:
        """In small batches; somebody is killed and somebody is cancelled now and then."""
        for start in range(0, count, 10):
            batch = [new_intent(key=f"k{start + n}", pool="p", kind=kind, payload=payload)
                     for n in range(10) for kind, payload in [make(self.chance, start + n)]]  # fmt: skip
            await self.manager.submit_many(batch)
            self.keys += batch
            await self._begun(batch)
            for intent in self.chance.sample(batch, 3):
                with contextlib.suppress(TxManagerError):
                    await self.manager.cancel(intent.id)
                    self.cancelled += 1
            victim = self.chance.choice(self.programs)
            if self.chance.random() < 0.6:
                victim.kill()
                victim.start()

    async def submit_and_cancel(self, make: Make, count: int) -> list[Intent]:
        for n in range(len(self.keys), len(self.keys) + count):
            kind, payload = make(self.chance, n)
            one = new_intent(key=f"k{n}", pool="p", kind=kind, payload=payload)
            await self.manager.submit_many([one])
            self.keys.append(one)
            await self._begun([one])
            with contextlib.suppress(TxManagerError):
                await self.manager.cancel(one.id)
                self.cancelled += 1
        return self.keys[-count:]

    async def until_killed(self, intent: Intent) -> None:
        async def killed() -> bool:
            record = await self.ledger.read(intent.id)
            return record is not None and any(a.purpose is Purpose.NOOP for a in record.attempts)

        await until(killed, 60, what="a no-op is recorded")

    async def ended(self) -> None:
        async def idle() -> bool:
            return sum(lane.depth for lane in await self.ledger.lanes()) == 0

        await until(idle, 120, what="every intent has ended")

    async def _begun(self, batch: Sequence[Intent]) -> None:
        """Something of the batch is signed, so that a cancel needs more than a word."""

        async def signed() -> bool:
            found = [await self.ledger.read(intent.id) for intent in batch]
            return any(record is not None and record.attempts for record in found)

        await until(signed, 60, what="a part of the batch is signed")

    async def usage(self) -> list[UsageLine]:
        database = Database(f"sqlite:///{self.config.parent}/archive.db")
        try:
            return await SqlReader(database).usage(UsageQuery(()))
        finally:
            await database.close()

    async def all_booked(self, more: Callable[[Sequence[UsageLine]], bool]) -> list[UsageLine]:
        """Every intent has ended and is in the books, and so is what belongs to no intent."""

        async def booked() -> list[UsageLine] | None:
            for program in self.programs:
                program.said("tells when it ended")
            lines = await self.usage()
            asked = sum(one.count for one in lines if one.spending in (Spending.INTENT, Spending.KEY_ACTION))
            return lines if asked == len(self.keys) and more(lines) else None

        return await until(booked, 120, every=0.3, what="everything is in the books")


async def compared(lost: Callable[[], int], lines: Sequence[UsageLine]) -> Counter[str]:
    assert sum(line.unknown for line in lines) == 0, "everybody knows what everything cost"
    inside = sum(line.deposits for line in lines if line.spending is Spending.TOP_UP)
    booked = sum(line.cost for line in lines) - inside
    seen: list[int] = []

    def same() -> bool:
        seen.append(lost())
        return seen[-1] == booked

    with contextlib.suppress(AssertionError):
        await until(same, 30, what="refunds have arrived")
    assert seen[-1] == booked, f"{seen[-1] - booked} more left the accounts than the books say"
    return Counter({line.spending.value: line.count for line in lines})


NEAR_POOL = """
[networks.localnet]
chain = "near"
rpc = [{{ url = "{node}", direct = true }}]
[pools.p]
network = "localnet"
account = "{account}"
keys = ["env:KEY0", "env:KEY1"]
window = 4
policy.own_account = ["add_key"]
"""


def near_intent(account: str, other: str) -> Make:
    def make(chance: random.Random, n: int) -> tuple[str, dict[str, Any]]:
        fresh = f"ed25519:{'1' * 31}{chance.choice('23456789ABCDEFGH')}"
        pay = {"receiver_id": other, "amount": str(chance.randrange(1, NEAR))}
        root = {"public_key": fresh, "initial_balance": str(NEAR), "root_contract": "near"}
        call = {"contract_id": "counter.near", "method_name": "increment", "args": {}, "deposit": str(n)}
        spare = {"contract_id": "ft.near", "method_name": "storage_deposit", "args": {}, "deposit": str(NEAR)}
        key = {"receiver_id": account, "actions": [{"type": "add_key", "public_key": fresh}]}
        kinds: list[tuple[str, dict[str, Any]]] = [
            ("near.transfer", pay),
            ("near.transfer", pay),
            ("near.transfer", {**pay, "receiver_id": "nobody.near"}),
            ("near.create_account", {**root, "new_account_id": f"a{n}.near"}),
            ("near.create_account", {**root, "new_account_id": other}),
            ("near.function_call", call),
            ("near.function_call", {**call, "method_name": "fail"}),
            ("near.function_call", spare),
            ("near.transaction", key),
        ]
        return chance.choice(kinds)

    return make


async def test_books_are_what_a_near_account_lost(make_server: Any, prefix: str, tmp_path: Path):
    server: HasUrl = make_server(config={"appendonly": "yes", "appendfsync": "always"})
    with Devnet(accounts=2, keys=3, block_ms=100) as devnet:
        relayer, other = devnet.account(0), devnet.account(1)["account_id"]
        account = relayer["account_id"]
        config = tmp_path / "txmanager.toml"
        more = NEAR_POOL.format(node=devnet.url, account=account)
        config.write_text(LEDGER.format(redis=server.url, prefix=prefix, folder=tmp_path) + more)
        keys = {f"KEY{n}": relayer["keys"][n]["private_key"] for n in range(2)}

        def owned() -> int:
            params = {"request_type": "view_account", "account_id": account, "finality": "optimistic"}
            return int(devnet.post("query", params).json()["result"]["amount"])

        before = owned()
        async with Run(config, keys) as run:
            await run.lanes(2)
            devnet.fault("drop", probability=0.2)
            await run.submit(near_intent(account, other), INTENTS)
            await run.ended()
            for _ in range(3):
                devnet.fault("drop")  # nothing of it lands, and on an idle lane a cancel takes a no-op
                [one] = await run.submit_and_cancel(near_intent(account, other), 1)
                await run.until_killed(one)
                devnet.clear_faults()
                await run.ended()
            await run.submit_and_cancel(near_intent(account, other), 4)
            lines = await run.all_booked(lambda _: True)
            counts = await compared(lambda: before - owned(), lines)
            print(f"NEAR: {dict(counts)}, {run.cancelled} cancels")
            assert counts["intent"] > 0
            assert counts["key_action"] > 0
            assert counts["noop"] >= 3


EVM_POOL = """
[networks.local]
chain = "evm"
chain_id = 31337
finality = 2
rpc = [{{ url = "{node}", direct = true }}]
[networks.local.fees]
resend_after_s = 2.0
replace_after_s = 3.0
[pools.p]
network = "local"
keys = ["mnemonic:PHRASE:2"]
window = 4
policy.fill_after_s = 1
[pools.treasury]
network = "local"
keys = ["env:TREASURY"]
policy.max_cost = "{most}"
policy.budget = [{{ network = "local", amount = "100 ETH", per = "1d" }}]
[monitor]
period_s = 1.0
reconcile_every_s = 1.0
[monitor.networks.local]
low = "{low}"
high = "{high}"
treasury = "treasury"
"""
REVERTS = "0x" + "cc" * 20


def evm_intent(other: str) -> Make:
    def make(chance: random.Random, n: int) -> tuple[str, dict[str, Any]]:
        value = str(chance.randrange(1, ETHER // 1000))
        fails = {"to": REVERTS, "value": value, "data": "0x01", "gas": "60000", "simulate": False}
        return chance.choice([("evm.transfer", {"to": other, "value": value})] * 3 + [("evm.transaction", fails)])

    return make


async def test_books_are_what_evm_addresses_lost(make_server: Any, prefix: str, tmp_path: Path):
    server: HasUrl = make_server(config={"appendonly": "yes", "appendfsync": "always"})
    with Anvil("--block-time", "1") as anvil:
        signers, key = derive(Secret(PHRASE), 0, 1), secrets.token_bytes(32)
        treasury = EvmSigner(Secret(key))
        addresses = [signer.address for signer in (*signers, treasury)]
        anvil.rpc("anvil_setCode", REVERTS, "0x60006000fd")
        anvil.fund(treasury.address, 100 * ETHER)
        # Taken back below: the number before the lane's first is then nobody's.
        anvil.rpc("eth_sendRawTransaction", foreign(signers[0], 0))
        await until(lambda: anvil.count(addresses[0]) == 1, 10)
        config = tmp_path / "txmanager.toml"
        more = EVM_POOL.format(node=anvil.url, low=ETHER, high=3 * ETHER, most=4 * ETHER)
        config.write_text(LEDGER.format(redis=server.url, prefix=prefix, folder=tmp_path) + more)
        environment = {"PHRASE": PHRASE, "TREASURY": "0x" + key.hex()}
        async with Run(config, environment) as run:
            await run.lanes(3)
            anvil.rpc("anvil_reorg", anvil.number("eth_blockNumber"), [])
            assert anvil.count(addresses[0]) == 0
            for address, ether in zip(addresses, (100 * ETHER, ETHER // 2, 100 * ETHER), strict=True):
                anvil.fund(address, ether)
            before = sum(anvil.balance(address) for address in addresses)
            run.programs.append(Program("monitor", config, environment).start())
            await run.submit(evm_intent("0x" + "ee" * 20), INTENTS)

            def special(lines: Sequence[UsageLine]) -> bool:
                return {Spending.GAP_FILL, Spending.TOP_UP} <= {line.spending for line in lines}

            lines = await run.all_booked(special)
            counts = await compared(lambda: before - sum(map(anvil.balance, addresses)), lines)
            print(f"EVM: {dict(counts)}, {run.cancelled} cancels")
            assert counts["gap_fill"] == 1
            assert counts["top_up"] >= 1
            assert counts["noop"] > 0, "a run without a no-op tests no no-op"
