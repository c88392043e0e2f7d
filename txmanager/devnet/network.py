"""The network: nodes that take transactions, producers that make blocks, time that is told to it.

Pure and deterministic: the same genesis, config, generator and calls give the same chain, byte for byte.
`tick(now)` is the only thing that moves time; no clock is read and no I/O is done here. Times are
milliseconds. A final block never changes; the two blocks above it may be orphaned by `reorg`.
"""

from __future__ import annotations

import heapq
import random
from typing import Any, Protocol

from .chain import Chain
from .config import Config
from .errors import InvalidTx, Unknown
from .faults import Fault, Faults
from .genesis import Genesis
from .model import AccessKey, Block, FunctionCall, Transfer, Tx
from .nodes import Nodes, TxStatus, View
from .pool import Pool
from .validate import check_shape, check_signer, current_nonce

__all__ = ["Config", "Delivery", "Network", "Recorder", "TxStatus", "View"]

REJECT_AT = 0.8  # the congestion level from which a shard refuses new transactions


Delivery = tuple[float, int, int, Tx]  # when, in which order, to which producer, what


class Recorder(Protocol):
    """Told of everything that changes the chain's future, as it was decided: replaying needs no generator."""

    def routed(self, deliveries: list[Delivery]) -> None: ...
    def pooled(self, tx: Tx) -> None: ...
    def produced(self, now: float) -> None: ...
    def orphaned(self, depth: int) -> None: ...


class Network(Nodes):
    """Several node views of one chain, and the ways to change it. `node` is an index below `config.nodes`."""

    def __init__(
        self,
        genesis: Genesis,
        config: Config | None = None,
        rng: random.Random | None = None,
        now: float = 0.0,
    ) -> None:
        self.config = config or Config()
        self.rng = rng or random.Random(0)
        self.faults = Faults(self.rng)
        self.chain = Chain(genesis, self.config, now)
        self.pools = [Pool() for _ in range(self.config.producers)]
        self.now = now
        self.next_block_at = now + self.config.block_ms
        self.in_transit: list[Delivery] = []
        self.recorder: Recorder | None = None
        self._sent = 0

    # time

    def tick(self, now: float) -> list[Block]:
        """Move time to `now`; answers the blocks made on the way. Going back is ignored."""
        made: list[Block] = []
        while self.next_block_at <= now:
            self.now = self.next_block_at
            self._deliver(self.now)
            if self.faults.draw("stall") is None:
                made.append(self._produce())
            self.next_block_at += self.config.block_ms
        if now > self.now:
            self.now = now
            self._deliver(now)
        return made

    def advance(self, blocks: int) -> list[Block]:
        """Make blocks at once, without waiting: for expiry, epochs and other long roads."""
        made = []
        for _ in range(blocks):
            self.now = self.next_block_at
            self._deliver(self.now)
            made.append(self._produce())
            self.next_block_at += self.config.block_ms
        return made

    def resume(self, now: float) -> None:
        """Set the clock, forward or back, after a pause or an `advance`: no block is made up for."""
        self.now = now
        self.next_block_at = now + self.config.block_ms

    def reorg(self, depth: int = 1) -> list[Block]:
        """Orphan the newest blocks above the final one. Their transactions return to the pools."""
        orphans = self.chain.orphan(depth)
        for block in orphans:
            for tx in block.txs:
                for pool in self.pools:
                    pool.add(tx)
        if self.recorder is not None:
            self.recorder.orphaned(len(orphans))
        return orphans

    def replay(self, event: tuple[str, Any]) -> None:
        """Do again what a recorder was told."""
        kind, what = event
        if kind == "routed":
            for delivery in what:
                heapq.heappush(self.in_transit, delivery)
                self._sent = max(self._sent, delivery[1])
        elif kind == "pooled":
            for pool in self.pools:
                pool.add(what)
        elif kind == "orphaned":
            self.reorg(what)
        elif kind == "produced":
            self.now = what
            self._deliver(what)
            self._produce()
            self.next_block_at = what + self.config.block_ms
        else:
            raise ValueError(f"unknown event {kind!r}")

    def _produce(self) -> Block:
        if self.recorder is not None:
            self.recorder.produced(self.now)
        producer = self.chain.next_height % len(self.pools)
        return self.chain.produce(self.pools[producer], producer, self.now)

    def _deliver(self, now: float) -> None:
        transit = self.in_transit
        while transit and transit[0][0] <= now:
            _, _, producer, tx = heapq.heappop(transit)
            self.pools[producer].add(tx)

    # submitting

    def submit(self, what: Tx | bytes, node: int = 0, *, verify: bool = True) -> bytes:
        """`broadcast_tx_async`: take it and say its hash. Nothing is validated; it may go nowhere."""
        tx = self._decoded(what, verify)
        draw = self.faults.draw
        if self.faults.active and (
            draw("drop", node=node, signer_id=tx.signer_id)
            or draw("expired", node=node, signer_id=tx.signer_id)
            or self.congestion(node, tx.signer_id) >= REJECT_AT
        ):
            return tx.hash
        self._route(tx, node)
        return tx.hash

    def send(self, what: Tx | bytes, node: int = 0, *, verify: bool = True) -> bytes:
        """`send_tx`: validate against the node's head, then take it. Raises `InvalidTx`."""
        tx = self._decoded(what, verify)
        self.check(tx, node)
        if self.faults.active and self.faults.draw("drop", node=node, signer_id=tx.signer_id):
            return tx.hash
        self._route(tx, node)
        return tx.hash

    def check(self, tx: Tx, node: int = 0, *, faults: bool = True) -> None:
        """The RPC node's checks, in its order. A transaction already on chain passes again.

        A request that looks again while it waits is the same request: it draws no new faults.
        """
        view = self.view(node)
        self._check_validity(tx, view)
        if faults:
            if self.faults.active and self.faults.draw("expired", node=node, signer_id=tx.signer_id):
                raise InvalidTx("Expired")
            level = self.congestion(node, tx.signer_id)
            if level >= REJECT_AT:
                raise InvalidTx({"ShardCongested": {"shard_id": 0, "congestion_level": level}})
        check_shape(tx)
        try:
            check_signer(self.reader(view.head), tx, self.config)
        except InvalidTx as refusal:
            if refusal.name == "InvalidNonce" and self.known(tx.hash, view) is not None:
                return  # resending what already landed is not an error
            self.chain.refused[refusal.name] += faults
            raise

    def _check_validity(self, tx: Tx, view: View) -> None:
        base = self.chain.by_hash.get(tx.block_hash)
        # A base this node has not seen looks expired to it, however fresh it is.
        if base is None or base.height > view.head.height:
            raise InvalidTx("Expired")
        if view.head.height > base.height + self.config.validity:
            raise InvalidTx("Expired")

    def congestion(self, node: int = 0, signer_id: str | None = None) -> float:
        fault = self.faults.draw("congestion", node=node, signer_id=signer_id)
        return max(fault.level if fault else 0.0, self.chain.backlog())

    def _decoded(self, what: Tx | bytes, verify: bool) -> Tx:
        if isinstance(what, bytes):
            from .wire import decode  # near-kit takes a second to import; a simulator may never need it

            what = decode(what)
        if not verify:
            what.valid_signature = True
        return what

    def _route(self, tx: Tx, node: int) -> None:
        """Towards every producer, each with its own delay: this is where overtaking comes from."""
        extra, spread = 0.0, 0.0
        if self.faults.active:
            delay = self.faults.draw("delay", node=node, signer_id=tx.signer_id)
            reorder = self.faults.draw("reorder", node=node, signer_id=tx.signer_id)
            extra, spread = delay.ms if delay else 0.0, reorder.ms if reorder else 0.0
        low, high = self.config.delay_ms
        width = high - low + spread
        deliveries: list[Delivery] = []
        for producer in range(len(self.pools)):
            if self.config.loss and self.rng.random() < self.config.loss:
                continue
            self._sent += 1
            at = self.now + low + extra + (self.rng.random() * width if width else 0.0)
            deliveries.append((at, self._sent, producer, tx))
        if self.recorder is not None:
            self.recorder.routed(deliveries)
        for delivery in deliveries:
            heapq.heappush(self.in_transit, delivery)

    def foreign_use(self, account_id: str, public_key: str, by: int = 1, count: int = 1) -> list[bytes]:
        """Somebody else signs with this key: real transactions that raise its nonce in the next block."""
        key: AccessKey | None = self.chain.state.get((account_id, public_key))
        if key is None:
            raise Unknown("access key", f"{account_id} {public_key}")
        lane = 0 if key.gas_balance is not None else None
        receiver_id = account_id
        action: Transfer | FunctionCall = Transfer(0)
        if key.permission is not None:
            receiver_id = key.permission.receiver_id
            method = (key.permission.method_names or ("get_num",))[0]
            action = FunctionCall(method, b"{}", 5 * 10**12)
        base = self.chain.blocks[-1].hash
        tx = Tx(account_id, public_key, 0, receiver_id, base, (action,), nonce_index=lane)
        nonce = current_nonce(self.chain.state.get, tx, key)
        hashes = []
        for _ in range(count):
            nonce += by
            tx = Tx(account_id, public_key, nonce, receiver_id, base, (action,), nonce_index=lane)
            if self.recorder is not None:
                self.recorder.pooled(tx)
            for pool in self.pools:
                pool.add(tx)
            hashes.append(tx.hash)
        return hashes

    def set_fault(self, kind: str, **settings: object) -> Fault:
        return self.faults.set(Fault(kind, **settings))  # type: ignore[arg-type]
