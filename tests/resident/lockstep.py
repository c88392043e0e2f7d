"""The simulator with resident lanes in place of workers: the real loop in a Node child, every effect answered here.

The ledger, the chain, the faults and the checker are the simulator's own. A seat is where an object lives: the first
one that runs serves the lanes; one that was frozen and thaws goes on as a zombie, beside its successor.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tests.servers.processes import make_folder
from tests.servers.workerd import SOURCE, package
from tests.sim.cast import EPOCH_MS, LANES, POOL, RELAYER, Seat
from tests.sim.ledger import SimLedger, Snapshot
from tests.sim.loop import Life, Process
from tests.sim.nodes import SimRpc
from tests.sim.plan import Plan, draw
from tests.sim.world import World
from txmanager.core.errors import Fenced, Refused, RolledBack, TxManagerError
from txmanager.core.ledger import Settlement, Taken, WriteAhead
from txmanager.core.models import Fence, IntentId, LaneSpec, Outcome, Record
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import PauseCause, QuarantineCause
from txmanager.ledger.redis.codec import more, pack_attempt, pack_outcome, unpack_attempt
from txmanager.rpc.errors import BadAnswer, RateLimited, RpcError, RpcFailure, TooLarge
from txmanager.runtime.accept.producer import Producer
from txmanager.runtime.lane.sealing import make_seals

HERE = Path(__file__).parent
SEAL = "a-seal-of-the-simulator-0123456789abcdef"
_RUN_MS = 8_000
_ALARM_S = 30.0
_LOST = ("failover", "replica_cut")
"""What no object knows: its store has no replica that could take its place."""


class Bug(NamedTuple):
    file: str
    text: str
    without: str
    mistake: str


class Child:
    """`node child.js`: one for all schedules of a process. Loops are told apart by their names."""

    def __init__(self, bugs: Sequence[Bug] = ()) -> None:
        bundle = make_folder("lockstep") / "child.mjs"
        told = json.dumps([bug._asdict() for bug in bugs])
        command = ["node", str(HERE / "child.mjs"), str(HERE / "child.ts"), str(SOURCE / "src"), str(bundle)]
        done = subprocess.run(command, cwd=package(), input=told, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self._node = subprocess.Popen(["node", str(bundle)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.made = 0

    def tell(self, line: dict[str, Any]) -> dict[str, Any]:
        """Whatever it says next is about the loop that was told something: everybody else waits for an answer."""
        self._write(line)
        assert self._node.stdout is not None
        said = self._node.stdout.readline()
        assert said, "the child ended"
        found: dict[str, Any] = json.loads(said)
        return found

    def _write(self, line: dict[str, Any]) -> None:
        assert self._node.stdin is not None
        self._node.stdin.write(orjson.dumps(line) + b"\n")
        self._node.stdin.flush()

    def close(self) -> None:
        self._node.kill()
        self._node.wait()
        for pipe in (self._node.stdin, self._node.stdout):
            assert pipe is not None
            pipe.close()


class ObjectLedger(SimLedger):
    """As Durable Objects keep it: a restart is no other history, only an operator's restore of a backup is."""

    def start(self, back_to: Snapshot | None = None) -> None:
        if back_to is None:
            self.down = False
        else:
            super().start(back_to)


def row_of(record: Record) -> dict[str, Any]:
    return {
        "id": record.id.text,
        "life": record.life,
        "status": record.status.value,
        "position": record.position,
        "created": record.created_at,
        "updated": record.updated_at,
        "kind": record.intent.kind,
        "fingerprint": record.intent.fingerprint,
        "more": more(record.intent, record.seal).decode(),
        "payload": orjson.dumps(record.intent.payload).decode(),
        "outcome": None if record.outcome is None else pack_outcome(record.outcome).decode(),
        "hold": None if record.hold is None else orjson.dumps(record.hold).decode(),
        "cancel_requested": int(record.cancel_requested),
        "directive": None if record.directive is None else orjson.dumps(record.directive).decode(),
        "resigns": record.resigns,
        "attempts": [
            {
                "nonce": str(a.nonce),
                "hash": a.hash,
                "purpose": a.purpose.value,
                "blob": base64.b64encode(pack_attempt(a)).decode(),
                "proof": None if a.proof is None else orjson.dumps(a.proof).decode(),
            }
            for a in record.attempts
        ],
    }


def failure_of(error: RpcFailure) -> dict[str, Any]:
    if isinstance(error, RpcError):
        told = {"name": error.name, "cause": error.cause, "reason": error.reason, "status": error.status}
        return {"sort": "error", "message": str(error)[:300], **told, "data_text": json.dumps(error.data)}
    sorts = ((RateLimited, "rate_limited"), (TooLarge, "too_large"), (BadAnswer, "bad_answer"))
    sort = next((sort for kind, sort in sorts if isinstance(error, kind)), "unavailable")
    return {"sort": sort, "message": str(error)[:300]}


class Loop:
    """One start of a lane's loop: carries out what it asks for, until it rests or its process dies."""

    def __init__(self, home: ResidentSeat, lane: str) -> None:
        self._home, self._lane = home, lane
        self._ledger: SimLedger = home.world.ledger
        self._fence: Fence | None = None
        self._taken: dict[str, Taken] = {}
        self._final: dict[str, Record] = {}

    async def run(self) -> None:
        world, child = self._home.world, self._home.world.child
        child.made += 1
        name = f"{world.plan.seed}.{child.made}"
        plan = world.plan
        told = {
            "start": name,
            "lane": self._lane,
            "secret": RELAYER.keys[LANES.index(self._lane)].private_key,
            "seal": SEAL,
            "token": f"{self._home.rng.getrandbits(128):032x}",
            "now": self._home.now(),
            "run_ms": _RUN_MS,
            "direct": [node.direct for node in self._home.rpc.nodes],
            "validity": str(plan.validity),
            "epoch": str(plan.epoch_blocks),
            "include_within_ms": 4_000,
            "hold_after_ms": plan.hold_after_ms,
            "retention_ms": plan.retention_ms,
        }
        said = child.tell(told)
        while "ask" in said:
            answer = await self._carry_out(*said["ask"])
            said = child.tell({"answer": name, "now": self._home.now(), **answer})
        if "threw" in said:
            world.alarms[self._lane] = world.loop.time() + 2.0

    async def _carry_out(self, what: str, *args: Any) -> dict[str, Any]:
        if what == "sleep":
            await asyncio.sleep(args[0] / 1000)
            return {}
        if what == "ask":
            return await self._ask(*args)
        try:
            if what == "home":
                return {"value": await self._retire_home(args[2])}
            operation, told = args
            return {"value": await getattr(self, f"_{operation}")(told)}
        except Fenced as error:
            return {"refused": ["fenced", {"owner": error.owner, "epoch": error.epoch}]}
        except Refused as error:
            return {"refused": ["refused", {"entry": error.entry, "why": error.why}]}
        except RolledBack as error:
            return {"refused": ["rolled_back", {"stored": error.stored, "found": error.found}]}
        except TxManagerError:
            return {"away": True}

    async def _ask(self, node: int, method: str, params: str, timeout_ms: int) -> dict[str, Any]:
        target = self._home.rpc.nodes[node]
        try:
            told = await target.call(method, json.loads(params), group=self._lane, timeout=timeout_ms / 1000)
        except RpcFailure as failure:
            return {"failure": failure_of(failure)}
        return {"text": json.dumps(told)}

    # -- the steps of a lane, on the simulator's ledger

    @property
    def _own(self) -> Fence:
        assert self._fence is not None
        return self._fence

    async def _adopt(self, told: Any) -> Any:
        store = self._ledger.stores.get(self._lane)
        if store is None:
            return {"word": "unknown"}

        def step(now: int) -> Any:
            at = self._ledger.stores[self._lane]
            if at.token != told["token"]:
                at.lease_until = 0
            return at.lease("resident", told["token"], told["lease_ms"], now, self._ledger.history_id)

        lease = await self._ledger._step("lease", step)
        if lease.fence is None:
            return {"word": lease.word}
        self._fence = lease.fence
        return {"word": "adopted", "epoch": lease.fence.epoch, "token": lease.fence.token}

    async def _look(self, _told: Any) -> Any:
        records = await self._ledger.unfinished(self._own)
        store = self._ledger.stores[self._lane]
        view = {
            "state": store.state.value,
            "cause": "" if store.cause is None else store.cause.value,
            "command": "" if store.command is None else store.command.value,
            "cursor": None if store.cursor is None else str(store.cursor),
            "baseline": None if store.baseline is None else str(store.baseline),
            "landed": None if store.landed is None else str(store.landed),
            "history_id": store.history_id,
            "found_history_id": self._ledger.history_id,
            "unretired": sum(record.status.final for record in store.records.values()),
        }
        return {"lane": view, "pending": [row_of(record) for record in records]}

    async def _renew(self, told: Any) -> Any:
        [answer] = await self._ledger.renew([self._own], told["lease_ms"])
        if answer.word == "fenced":
            raise Fenced(self._lane, answer.owner, answer.epoch)
        return None

    async def _take(self, told: Any) -> Any:
        taken = await self._ledger.take(self._own, told["count"])
        self._taken = {entry.position: entry for entry in taken}
        return [
            {
                "id": entry.intent.id.text,
                "life": entry.life,
                "kind": entry.intent.kind,
                "fingerprint": entry.intent.fingerprint,
                "more": more(entry.intent, entry.seal).decode(),
                "payload": orjson.dumps(entry.intent.payload).decode(),
                "position": entry.position,
                "at": entry.at,
            }
            for entry in taken
        ]

    async def _record_attempts(self, told: Any) -> Any:
        writes = []
        for one in told["batch"]:
            attempt = unpack_attempt(f"{one['nonce']}:{one['hash']}", base64.b64decode(one["blob"]), None)
            writes.append(WriteAhead(IntentId.parse(one["id"]), one["life"], one["position"], attempt))
        return str(await self._ledger.record_attempts(self._own, int(told["cursor"]), writes))

    async def _settle(self, told: Any) -> Any:
        items = []
        for one in told["batch"]:
            end = json.loads(one["outcome"])
            nonce = None if end["nonce"] is None else int(end["nonce"])
            outcome = Outcome(Status(end["status"]), end["tx_hash"], nonce, end["result"], end["error"])
            id = IntentId.parse(one["id"])
            record = self._ledger.stores[self._lane].records.get(id)
            deaths = {name: json.loads(proof) for name, proof in one["deaths"].items()}
            items.append(Settlement(id, one["life"], "" if record is None else record.position, outcome, deaths))
        landed = None if told["landed"] is None else int(told["landed"])
        answers = await self._ledger.settle(self._own, items, landed)
        return [{"word": answer.word} for answer in answers]

    async def _hold(self, told: Any) -> Any:
        evidence = json.loads(told["hold"])["evidence"]
        return await self._ledger.hold(self._own, IntentId.parse(told["id"]), told["life"], told["reason"], evidence)

    async def _set_aside(self, told: Any) -> Any:
        return await self._ledger.set_aside(self._own, self._taken[told["position"]], told["reason"], {})

    async def _set_lane(self, told: Any) -> Any:
        state = LaneState(told["state"])
        causes: Any = PauseCause if state is LaneState.PAUSED else QuarantineCause
        cause = causes(told["cause"]) if told["cause"] else None
        await self._ledger.set_lane(
            self._lane, state, told["reason"], json.loads(told["evidence"]), cause=cause, fence=self._own
        )

    async def _baseline(self, told: Any) -> Any:
        return str(await self._ledger.baseline(self._own, int(told["cursor"]), operator=told["operator"]))

    async def _vouch(self, told: Any) -> Any:
        return await self._ledger.vouch(self._own, told["stored"], told["found"])

    async def _answer(self, told: Any) -> Any:
        return await self._ledger.answer(self._own, IntentId.parse(told["id"]), told["life"])

    async def _count(self, _told: Any) -> Any:
        return await self._renew({"lease_ms": 60_000})

    async def _rest(self, told: Any) -> Any:
        await self._renew({"lease_ms": 60_000})
        world, after_ms = self._home.world, told["after_ms"]
        store = self._ledger.stores[self._lane]
        works = store.state in (LaneState.ACTIVE, LaneState.DRAINING)
        left = any(r.status.final or (works and r.status is Status.QUEUED) for r in store.records.values())
        after_s = float("inf") if after_ms is None else after_ms / 1000
        world.alarms[self._lane] = world.loop.time() + (0.05 if after_ms is None and left else after_s)

    async def _unretired(self, told: Any) -> Any:
        records = await self._ledger.unretired(self._lane, told["count"])
        self._final = {record.life: record for record in records}
        return [row_of(record) for record in records]

    async def _retire_home(self, told: Any) -> Any:
        records = [self._final[one["life"]] for one in told["finals"]]
        ledger, keep_ms = self._ledger, self._home.world.plan.retention_ms
        await ledger._step(
            "retire_home", lambda now: [ledger.homes.retire(r, keep_ms, now) for r in records], durable=True
        )

    async def _bury(self, told: Any) -> Any:
        records = [self._final[one["life"]] for one in told["records"]]
        ledger = self._ledger
        return await ledger._step("retire_lane", lambda now: sum(ledger.stores[r.lane].bury(r, now) for r in records))


class ResidentSeat:
    """Where objects live: wakes each lane when its alarm is due, or when something came for it."""

    def __init__(self, world: ResidentWorld, seat: Seat, process: Process, rpc: SimRpc, rng: Any) -> None:
        self.world, self._seat, self._process, self.rpc, self.rng = world, seat, process, rpc, rng
        self._stopping = False

    def now(self) -> int:
        offset = self.world.workers_offset_ms + self._process.clock_offset_ms
        return EPOCH_MS + offset + int(self.world.loop.time() * 1000)

    def stop(self) -> None:
        self._stopping = True

    async def run(self) -> None:
        lanes = LANES[: self.world.served]
        await asyncio.gather(*(self._serve(lane) for lane in lanes))

    async def _serve(self, lane: str) -> None:
        alarms = self.world.alarms
        registered, seen = False, ""
        while not self._stopping:
            store = self.world.ledger.stores.get(lane)
            if not registered and (store is None or store.state is not LaneState.CLOSED):
                try:
                    await self.world.ledger.register(LaneSpec(lane, POOL))
                    registered = True
                except TxManagerError:
                    await asyncio.sleep(0.5)
                    continue
            store = self.world.ledger.stores.get(lane)
            now = self.world.loop.time()
            mark = "" if store is None else f"{store.last_id} {store.asks} {self.world.ledger.history_id}"
            if not self._lives_here() or (mark == seen and now < alarms.get(lane, 0.0)) or store is None:
                await asyncio.sleep(0.3)
                continue
            seen = mark
            alarms[lane] = now + _ALARM_S  # first of all: should this one die, the next one comes
            loop = Loop(self, lane)
            await loop.run()

    def _lives_here(self) -> bool:
        """The first seat that runs: whoever is frozen is away, as seen from outside."""
        running = [s for s in self.world.seats if s.process is not None and s.process.life is Life.RUNNING]
        return bool(running) and running[0] is self._seat


class ResidentWorld(World):
    child: Child
    alarms: dict[str, float]
    """When each lane is woken next: kept by its object, whoever serves it."""

    def __init__(self, plan: Plan, loop: Any, history: Any) -> None:
        super().__init__(plan, loop, history)
        self.alarms = {}
        self.ledger = ObjectLedger(
            loop,
            self.faults,
            history,
            clock=self._server_ms,
            retention_ms=plan.retention_ms,
            vouches=plan.vouches,
            pause=self._pause_current,
            one_step=plan.one_step,
        )
        self.clients = [self._client(process) for process in self.producers]

    def _client(self, process: Process) -> Producer:
        rng = random.Random(f"{process.name}:{self.plan.seed}:{self.rng.random()}")
        return Producer(self.ledger, new_life=lambda: f"{rng.getrandbits(64):016x}", seals=make_seals([SEAL]))

    def _worker(self, seat: Seat, process: Process) -> Any:
        rng = random.Random(f"{process.name}:{seat.generation}:{self.plan.seed}")
        rpc = self.nodes_seen(self.nodes, self.faults, self.history, self.plan.nodes, rng, self._pause_current)
        return ResidentSeat(self, seat, process, rpc, rng)


def resident_plan(seed: int) -> Plan:
    plan = draw(seed)
    events = tuple(event for event in plan.events if event.kind not in _LOST)
    rolled = any(event.kind == "roll_back" for event in events)
    # an object and its home are two: nothing is accepted in one step
    return replace(plan, window=1, one_step=False, events=events, vouches=not rolled, workers=max(2, plan.workers))
