"""One scene: a ledger on its ground, a devnet, workers and APIs as processes, callers.

Faults strike, then it is calm, then the simulator's checker reads the history of what really happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from tests.chaos import evidence
from tests.chaos.blocks import SeenChain
from tests.chaos.crowd import POOL, Crowd
from tests.chaos.ground import Ground, lay
from tests.chaos.plan import ANYWHERE, SIGNERS, SceneSpec, Script, draw
from tests.chaos.seats import Child, Nursery, Seat
from tests.devnet.process import Devnet
from tests.runtime.stage import Account, lane_of, make_chain
from tests.servers import free_port
from tests.signing.boxes import NEAR, Box, make_box, public_key_of
from tests.sim.history import Broke, Fact
from tests.waiting import until
from txmanager.chains.near.provision import provision
from txmanager.core.errors import TxManagerError
from txmanager.core.models import IntentId, Record
from txmanager.runtime.manager import TxManager

TOKEN = "chaos"
PREFIX = "chaos"
MAX_LANES = 5
_SETTLE_S = 90.0


class Scene:
    def __init__(self, spec: SceneSpec, folder: Path) -> None:
        self.spec, self.folder = spec, folder
        self.script: Script = draw(spec)
        self.counts: Counter[str] = Counter()
        self.facts: list[Fact] = []
        self.rolled_back = False
        self.quarantined = 0
        self.ground: Ground = lay(spec.ground, spec.durability, spec.server)
        self.lanes_served = spec.lanes
        self.striking = True
        self._queue = list(self.script.deaths)
        self._depth = 0
        self._born = 0
        self._running = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    # -- setting the stage

    async def __aenter__(self) -> Self:
        try:
            return await self._set()
        except BaseException:
            await self._running.aclose()
            raise

    async def _set(self) -> Self:
        spec, running = self.spec, self._running
        running.push_async_callback(asyncio.to_thread, self.ground.__exit__)
        await asyncio.to_thread(self.ground.__enter__)
        self.devnet = running.enter_context(Devnet(accounts=2, keys=MAX_LANES, block_ms=50))
        relayer = self.devnet.account(0)
        self.accounts: list[Account] = [{"account_id": relayer["account_id"], **key} for key in relayer["keys"]]
        self.boxes = await self._with_signers() if spec.signers else {}
        self.ledger = self.ground.open(PREFIX)
        running.push_async_callback(self.ledger.close)
        self.manager = TxManager(self.ledger)
        self.nursery = await running.enter_async_context(Nursery(self.folder))
        self.workers = [await self._seat(f"w{n}") for n in range(spec.workers)]
        self.apis = [await self._seat(f"api{n}", free_port()) for n in range(spec.apis)]
        receiver = self.devnet.account(1)["account_id"]
        urls = [f"http://127.0.0.1:{seat.door.port}" for seat in self.apis if seat.door is not None]
        self.crowd = Crowd(urls, TOKEN, receiver, self.script.rng, lambda: self._depth < spec.depth * self.lanes_served)
        running.callback(self.crowd.close)
        await until(lambda: self.devnet.head("final")["height"] > 100_000_000, what="blocks are final")
        self._tasks = [asyncio.create_task(self._keep_seats()), asyncio.create_task(self._gauge())]
        running.push_async_callback(self._end_tasks)
        return self

    async def _with_signers(self) -> dict[str, Box]:
        """Signers elsewhere for the first lanes; their keys are put on the account by one of its own."""
        account = self.accounts[-1]
        boxes: dict[str, Box] = {}
        for n, kind in enumerate(SIGNERS):
            (folder := self.folder / kind).mkdir()
            box = await self._running.enter_async_context(make_box(kind, folder, account["account_id"]))
            box.slow(0.3)  # so that there is always something it owes
            boxes[kind] = box
            public_key = await public_key_of(box.told, NEAR)
            self.accounts[n] = {**account, "public_key": public_key, "signer": box.told}
        chain = make_chain(self.devnet.url, [account])
        await until(lambda: self.devnet.head("final")["height"] > 100_000_000, what="blocks are final")
        keys = [one["public_key"] for one in self.accounts[: len(SIGNERS)]]
        await provision(chain, lane_of(account), keys, per_transaction=1)  # as the chain is read back here
        await chain.close()
        return boxes

    async def _seat(self, name: str, port: int | None = None) -> Seat:
        return await self._running.enter_async_context(Seat(name, self.ground.servers, self.devnet.port, port))

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aexit__(self, *_: object) -> None:
        await self._running.aclose()

    @property
    def lanes(self) -> list[str]:
        return [lane_of(account) for account in self.accounts[: self.lanes_served]]

    @property
    def seats(self) -> list[Seat]:
        return [*self.workers, *self.apis]

    # -- processes

    async def _keep_seats(self) -> None:
        """Whoever ended is replaced, as a supervisor does it; every death is counted where it belongs."""
        while True:
            for seat in self.workers:
                if seat.child is not None and seat.child.dies_at <= time.monotonic():
                    seat.child.signal(signal.SIGKILL)
                if seat.child is not None and seat.child.code is not None:
                    self._bury(seat.child)
                    seat.child = None
                if seat.child is None and not self._last_rites:
                    seat.child = self._start_worker(seat)
            for seat in self.apis:
                gone = seat.child is None or seat.child.code is not None
                # One that cannot start (its ledger is away) is tried again, not at once and for ever.
                if gone and time.monotonic() - seat.started > 0.5:
                    seat.started, seat.child = time.monotonic(), self._start_api(seat)
            await asyncio.sleep(0.02)

    @property
    def _last_rites(self) -> bool:
        """The last who are to die get all the lanes: a worker without any reaches no point."""
        return self.striking and not self._queue and any(seat.child and seat.child.point for seat in self.workers)

    def _bury(self, child: Child) -> None:
        if child.code == -signal.SIGKILL:
            if child.point:
                self.counts[f"worker kill -9: {child.point}"] += 1
        elif child.code != 0:
            said = child.log.read_text()[-1500:]
            self.facts.append(Broke(time.monotonic(), f"worker {child.name} ended with {child.code}: {said}"))

    def dismiss(self, seat: Seat) -> None:
        """Kill it before it gets where it was going; its own death is left to another."""
        child = seat.child
        if child is None or not child.alive:
            return
        if child.point:
            self._queue.append((child.point, 1))
        child.point = ANYWHERE
        child.signal(signal.SIGKILL)

    def _start_worker(self, seat: Seat) -> Child:
        self._born += 1
        name = f"{seat.name}.{self._born}"
        dies = self.striking and self._queue and seat.clock is None
        point, nth = self._queue.pop() if dies else ("", 1)
        told = {
            "program": "worker",
            "name": name,
            "log": str(self.folder / f"{name}.log"),
            "journal": str(self.folder / f"{name}.journal"),
            "redis": self.ground.url,
            "durability": self.ground.durability,
            "prefix": PREFIX,
            "devnet": self.devnet.url,
            "accounts": self.accounts[: self.lanes_served],
            "pool": POOL,
            "lease_ms": self.spec.lease_ms,
            "window": self.spec.window,
            "point": point if point != ANYWHERE else None,
            "nth": nth,
            "detours": seat.detours,
            "bug": self.spec.bug,
        }
        if seat.clock is not None:
            return self.nursery.start_apart(told, seat.clock, skewed=True)
        dies_at = time.monotonic() + self.script.rng.uniform(0.1, 1.2) if point == ANYWHERE else float("inf")
        return self.nursery.bear(told, point=point, dies_at=dies_at)

    def _start_api(self, seat: Seat) -> Child:
        self._born += 1
        name = f"{seat.name}.{self._born}"
        config = self.folder / f"{seat.name}.toml"
        config.write_text(self._api_config(seat.port))
        told = {"program": "api", "name": name, "config": str(config), "detours": seat.detours}
        return self.nursery.bear({**told, "log": str(self.folder / f"{name}.log")})

    def _api_config(self, port: int | None) -> str:
        return f"""
[ledger]
{self.ground.settings(self.folder)}
prefix = "{PREFIX}"

[networks.localnet]
chain = "near"
rpc = [{{ url = "{self.devnet.url}", direct = true }}]

[pools.{POOL}]
network = "localnet"
account = "{self.accounts[0]["account_id"]}"
keys = []

[api]
port = {port}

[[api.tokens]]
name = "{TOKEN}"
sha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"
scopes = ["submit", "read", "operate"]
"""

    async def _gauge(self) -> None:
        """How much is waiting, so that callers neither starve nor drown the lanes."""
        while True:
            with contextlib.suppress(TxManagerError):
                self._depth = sum(lane.depth for lane in await self.ledger.lanes())
            await asyncio.sleep(0.1)

    # -- playing

    async def play(self) -> dict[str, Any]:
        from tests.chaos.faults import strike  # it needs a scene's type, and a scene needs it

        began = time.monotonic()
        await self._until_owned()
        self.crowd.start()
        try:
            async with asyncio.timeout(self.spec.limit_s):
                for one in self.script.troubles:
                    self.counts[one.kind] += await strike(self, one)
                await until(self._all_died, self.spec.limit_s, every=0.1, what="every worker of the plan has died")
        except TimeoutError:
            pass  # what was reached is judged as well
        struck_s = time.monotonic() - began
        await self.calm()
        result = await self.judge()
        return {**result, "struck_s": round(struck_s, 1), "took_s": round(time.monotonic() - began, 1)}

    async def _until_owned(self) -> None:
        async def owned() -> bool:
            with contextlib.suppress(TxManagerError):
                return all([(lane := await self.ledger.lane(id)) and lane.lease_ms > 0 for id in self.lanes])
            return False

        await until(owned, 30, what="every lane has an owner")

    def _all_died(self) -> bool:
        return not self._queue and not any(seat.child and seat.child.point for seat in self.workers)

    async def calm(self) -> None:
        """No more faults: healthy workers, open networks, and time for everything to end."""
        self.striking = False
        for seat in self.seats:
            seat.heal(drop=True)
        for seat in self.workers:
            if seat.child is not None and (seat.child.point or seat.child.stopped):
                seat.child.point = ""
                seat.child.signal(signal.SIGKILL)
        await self.crowd.stop_within(_SETTLE_S)
        await self._until_settled()

    async def _until_settled(self) -> None:
        with contextlib.suppress(AssertionError):  # the judge names what is still open
            await until(self._settled, _SETTLE_S, every=0.1, what="everything is settled")

    async def _settled(self) -> bool:
        with contextlib.suppress(TxManagerError):
            lanes = await self.ledger.lanes()
            return bool(lanes) and sum(lane.depth for lane in lanes) == 0
        return False

    # -- judging

    async def records(self) -> dict[IntentId, Record]:
        found: dict[IntentId, Record] = {}
        ids = list(self.crowd.accepted.values())
        for start in range(0, len(ids), 50):
            for record in await asyncio.gather(*(self.ledger.read(id) for id in ids[start : start + 50])):
                if record is not None:
                    found[record.id] = record
        return found

    async def judge(self) -> dict[str, Any]:
        before = await asyncio.to_thread(lambda: SeenChain().read(self.devnet).paid())
        await self.crowd.replay()
        await self._until_settled()  # what a roll-back took is accepted anew
        records = await self.records()
        chain = await asyncio.to_thread(lambda: SeenChain().read(self.devnet))
        checked = evidence.judge(
            lines=evidence.read_journals(self.folder),
            more=[*self.facts, *self.crowd.facts],
            records=records,
            lanes=await self.ledger.lanes(),
            chain=chain,
            keys={amount: id for amount, id in self.crowd.keys.items() if amount not in self.crowd.given_up},
            acknowledged={self.crowd.accepted[a] for a in self.crowd.accepted if a not in self.crowd.given_up},
            window=self.spec.window,
            vouches=self.ledger.vouches,
            rolled_back=self.rolled_back,
            at_end=time.monotonic(),
        )
        violations = [*checked.violations, *self._paid_twice(chain, before)]
        finals = [r for r in records.values() if r.status.final]
        return {
            "server": self.ground.label,
            "accepted": len(self.crowd.accepted),
            "unique": len([amount for amount in chain.paid() if amount]),
            "final": len(finals),
            "held": checked.ends["held"],
            "quarantined": self.quarantined,
            "resigned": sum(len(r.attempts) - 1 for r in finals if r.attempts),
            "retries": self.crowd.retries,
            "refused": self.crowd.refused,
            "given_up": len(self.crowd.given_up),
            "violations": violations,
            "lanes": {lane.id[-6:]: f"{lane.state} {lane.reason}" for lane in await self.ledger.lanes()},
        }

    def _paid_twice(self, chain: SeenChain, before: dict[int, int]) -> list[str]:
        """The chain alone, whatever the ledger says: no amount twice, none that nobody asked for, none by a replay."""
        paid = {amount: times for amount, times in chain.paid().items() if amount}  # a no-op pays nothing
        twice = [f"{amount} took effect {times} times on chain" for amount, times in paid.items() if times > 1]
        stray = [f"{amount} was paid, and nobody asked for it" for amount in paid if amount not in self.crowd.keys]
        late = [f"{amount} was paid by a replay" for amount in paid if amount not in before and not self.rolled_back]
        return [*twice, *stray, *late]
