"""The devnet's state machine behind faulty nodes: the chain is real, the way to it is not to be trusted.

An identified node never goes back (that is what makes it one); a balancer answers from any of them, each as far as it
got. Transactions may be dropped, delayed for each producer apart, or refused by a node that is wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from tests.sim.faults import Faults
from tests.sim.history import History, Sent
from tests.sim.loop import PROCESS, Life, Process, VirtualLoop
from tests.sim.plan import RPC
from txmanager.devnet import params, wire
from txmanager.devnet.errors import InvalidTx, Unknown
from txmanager.devnet.genesis import Genesis
from txmanager.devnet.model import Block, Tx
from txmanager.devnet.network import Config, Delivery, Network, View
from txmanager.devnet.rpc import Rpc, Wait, timeout_error
from txmanager.devnet.rpc import RpcError as Refusal
from txmanager.devnet.views import b58
from txmanager.rpc.errors import ConnectionFailed, RateLimited, RpcError, RpcFailure, TimedOut
from txmanager.rpc.protocol import ask_apart

_SENDS = ("broadcast_tx_async", "send_tx")
_ANY_CALL = tuple(kind for kind in RPC if kind not in ("rpc_refusal", "rpc_duplicate"))
_POLL_S = 10.0
"""How long a node waits before it says TIMEOUT_ERROR."""


@lru_cache(maxsize=20_000)
def _decoded(text: str) -> Tx:
    """near-kit's decoding costs more than all the rest of a schedule; the same bytes are decoded once."""
    tx = _decode(text)
    tx.valid_signature = True
    return tx


_decode = wire.decode_base64


def decoded_once() -> AbstractContextManager[Any]:
    """While a schedule runs; other users of the devnet in this process check every signature."""
    return patch.object(params, "decode_base64", _decoded)


class SimNetwork(Network):
    """The chain, with faults on the way into it, and nodes that fall behind and forget."""

    def __init__(
        self, genesis: Genesis, config: Config, rng: random.Random, faults: Faults, history: History, kept: int
    ) -> None:
        super().__init__(genesis, config, rng)
        self._sim_faults, self._history = faults, history
        self._kept = kept
        self.stuck_at: dict[int, int] = {}
        """Nodes that do not follow the chain now, by the height they stopped at."""
        self.final_index = 0
        """Where the newest final block is: what was final stays so, also while a reorg makes the chain shorter."""

    def _produce(self) -> Block:
        block = super()._produce()
        self.final_index = max(self.final_index, len(self.chain.blocks) - 3)
        for tx in block.txs:
            self._history.landed.add(b58(tx.hash))
        return block

    def _route(self, tx: Tx, node: int) -> None:
        fault = self._sim_faults.draw("route", b58(tx.hash)[:8])
        if fault in ("drop", "congestion", "false_expiry"):
            return
        if fault is None:
            super()._route(tx, node)
            return
        amount = self._sim_faults.amount("route")
        super()._route(tx, node)
        self.in_transit = sorted(self._later(d, fault, amount) if d[3] is tx else d for d in self.in_transit)

    def _later(self, delivery: Delivery, fault: str, amount: float) -> Delivery:
        at, order, producer, tx = delivery
        spread = self.rng.random() if fault == "overtake" else 1.0
        return at + amount * amount * 14_000.0 * spread, order, producer, tx

    def check(self, tx: Tx, node: int = 0, *, faults: bool = True) -> None:
        super().check(tx, node, faults=faults)
        if faults:
            fault = self._sim_faults.draw("route", b58(tx.hash)[:8], only=("congestion", "false_expiry"))
            if fault == "congestion":
                raise InvalidTx({"ShardCongested": {"shard_id": 0, "congestion_level": 1.0}})
            if fault == "false_expiry":
                raise InvalidTx("Expired")

    def view(self, node: int = 0) -> View:
        blocks = self.chain.blocks
        top = len(blocks) - 1
        stuck = self.stuck_at.get(node)
        if stuck is not None:
            while top and blocks[top].height > stuck:
                top -= 1
        head = blocks[top]
        return View(node, head, blocks[max(0, top - self.config.finality_lag)], head.height - self._kept)

    def block(self, ref: int | bytes, node: int = 0) -> Block:
        block = super().block(ref, node)
        if block.height < self.view(node).oldest:
            raise Unknown("block", ref)
        return block


class Nodes:
    """All nodes of the chain, shared by every process."""

    def __init__(self, loop: VirtualLoop, network: SimNetwork) -> None:
        self.loop, self.network = loop, network
        self.rpc = Rpc(network)
        self.stalled = False
        """No blocks are made."""
        self._waiting: list[asyncio.Future[None]] = []

    def tick(self) -> None:
        if not self.stalled and self.network.tick(self.loop.time() * 1000):
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def next_block(self) -> None:
        future = self.loop.create_future()
        self._waiting.append(future)
        await future

    async def answer(self, method: str, asked: Any, node: int, timeout_s: float) -> Any:
        self.tick()
        try:
            answer = self.rpc.call(method, asked, node)
            if isinstance(answer, Wait):
                try:
                    async with asyncio.timeout(min(timeout_s, _POLL_S)):
                        while isinstance(answer, Wait):
                            await self.next_block()
                            answer = self.rpc.poll(answer) or answer
                except TimeoutError:
                    if timeout_s < _POLL_S:
                        raise TimedOut("no answer in time") from None
                    raise timeout_error() from None
        except Refusal as refusal:
            raise RpcError(refusal.body, refusal.http) from None
        if method == "status":
            answer = {**answer, "node_public_key": f"ed25519:node{node}"}
        return answer


class SimNode:
    """One URL as one process sees it."""

    archival = False

    def __init__(self, rpc: SimRpc, index: int | None) -> None:
        self._rpc, self._index = rpc, index
        self.name = "balancer" if index is None else f"node{index}"
        self.direct = index is not None
        self.ready = True

    async def call(self, method: str, params: Any, *, group: str = "", timeout: float | None = None) -> Any:
        return await self._rpc.ask(self._index, method, params, 5.0 if timeout is None else timeout, group)

    async def call_many(
        self, calls: Sequence[tuple[str, Any]], *, group: str = "", timeout: float | None = None
    ) -> list[Any]:
        answers: list[Any] = []
        for method, asked in calls:
            try:
                answers.append(await self.call(method, asked, group=group, timeout=timeout))
            except RpcError as error:
                answers.append(error)
        return answers

    async def send(self, lane: str, method: str, batch: Sequence[Any]) -> list[Any]:
        answers: list[Any] = []
        for asked in batch:
            try:
                answers.append(await self.call(method, asked, group=lane))
            except RpcFailure as failure:
                answers.append(failure)
                break
        return answers


class SimRpc:
    def __init__(
        self,
        nodes: Nodes,
        faults: Faults,
        history: History,
        kinds: Sequence[str],
        rng: random.Random,
        pause: Callable[[float], None],
    ) -> None:
        self._nodes, self._faults, self._history, self._rng, self._pause = nodes, faults, history, rng, pause
        self.nodes = tuple(SimNode(self, None if kind == "balancer" else i) for i, kind in enumerate(kinds))
        self._locks: dict[str, asyncio.Lock] = {}

    async def call(self, method: str, params: Any, *, group: str = "", timeout: float | None = None) -> Any:
        last: RpcFailure | None = None
        for node in self.nodes:
            try:
                return await node.call(method, params, group=group, timeout=timeout)
            except (ConnectionFailed, TimedOut, RateLimited) as failure:
                last = failure
        assert last is not None
        raise last

    async def call_each(
        self, calls: Sequence[tuple[str, Any]], *, group: str = "", timeout: float | None = None
    ) -> list[Any]:
        return await ask_apart(self.call, calls, group, timeout)

    async def send(
        self, lane: str, method: str, batch: Sequence[Any], *, then: tuple[str, Any] | None = None
    ) -> list[Any]:
        async with self._locks.setdefault(lane, asyncio.Lock()):
            answers = await self.nodes[0].send(lane, method, batch)
            if then is not None and self.nodes[0].direct and not any(isinstance(a, RpcFailure) for a in answers):
                answers += await ask_apart(self.nodes[0].call, [then], lane, None)
            return answers

    async def close(self) -> None:
        return None

    async def ask(self, index: int | None, method: str, asked: Any, timeout_s: float, group: str) -> Any:
        process = PROCESS.get()
        assert process is not None
        faults, nodes = self._faults, self._nodes
        node = self._rng.randrange(nodes.network.config.nodes) if index is None else index
        sends = method in _SENDS
        if sends:
            self._note_sent(process, asked, group)
        fault = faults.draw("rpc", f"{process.name} {method}", only=_ANY_CALL if method not in _SENDS else None)
        amount = faults.amount("rpc") if fault else 0.0
        early = amount < 0.5
        if fault == "rpc_crash" and early:
            process.kill()
        if fault == "rpc_pause" and early:
            self._pause(amount * 2)
        await asyncio.sleep(0.0005 + (amount * 3.0 if fault == "rpc_slow" else 0.0))
        if process.life is Life.DEAD:
            await process.gone()
        if fault == "rpc_lost":
            raise ConnectionFailed("connection refused")
        if fault == "rpc_rate_limit":
            raise RateLimited("too many requests")
        if fault == "rpc_error":
            raise RpcError({"name": "INTERNAL_ERROR", "cause": {"name": "INTERNAL_ERROR"}, "code": -32000}, 500)
        if fault == "rpc_refusal" and method == "send_tx":
            self._history.refused.add(b58(_decoded(asked["signed_tx_base64"]).hash))
            # A node of another release refuses what the others take.
            data = {"TxExecutionError": {"InvalidTxError": {"ActionsValidation": "DelegateActionMustBeOnlyOne"}}}
            raise RpcError({"name": "HANDLER_ERROR", "cause": {"name": "INVALID_TRANSACTION"}, "data": data})
        if fault == "rpc_late":
            nodes.loop.later(amount * amount * 20.0, self._arrive, method, asked, node)
            await asyncio.sleep(min(timeout_s, 0.5 + amount))
            raise TimedOut("no answer in time")
        try:
            answer = await nodes.answer(method, asked, node, timeout_s)
        except RpcError as error:
            if method == "send_tx" and error.cause == "INVALID_TRANSACTION":
                self._history.refused.add(b58(_decoded(asked["signed_tx_base64"]).hash))
            raise
        if fault == "rpc_duplicate" and sends:
            nodes.loop.later(amount * amount * 20.0, self._arrive, method, asked, node)
        if fault == "rpc_crash":
            process.kill()
            await process.gone()
        if fault == "rpc_pause":
            self._pause((amount - 0.5) * 2)
        if fault == "rpc_timeout":
            await asyncio.sleep(min(timeout_s, 0.5 + amount))
            raise TimedOut("no answer in time")
        await asyncio.sleep(0.0)
        return answer

    def _arrive(self, method: str, asked: Any, node: int) -> None:
        """A request that reaches its node after its sender gave up."""
        self._nodes.tick()
        with contextlib.suppress(Refusal):
            self._nodes.rpc.call(method, asked, node)

    def _note_sent(self, process: Process, asked: Any, group: str) -> None:
        tx = _decoded(params.named(asked, "signed_tx_base64")["signed_tx_base64"])
        name = b58(tx.hash)
        lane = group.removesuffix("/probe")
        self._history.note(Sent(self._history.time(), lane, name, process.name, name in self._history.recorded))
