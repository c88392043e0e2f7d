"""`EvmChain`: an EVM chain as a lane worker sees it. Gaps block, overtaking is harmless, a nonce owns several hashes.

It holds no state that matters: caches of what the chain decided, connections, and the keys it was given. What is
signed again at a nonce is the old bytes read back with better fees, so an attempt never changes what an intent does.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import structlog

from txmanager.chains.agreement import Agreement, needed
from txmanager.chains.evm.fees import FeeOracle, bump, capped, number, price_for
from txmanager.chains.evm.given import given_attempt, prepare_given
from txmanager.chains.evm.intents import KINDS
from txmanager.chains.evm.jumps import enough
from txmanager.chains.evm.names import RAW_KIND, LaneId
from txmanager.chains.evm.network import EvmNetwork, preset
from txmanager.chains.evm.nodes import Broadcaster, ask_many, expect
from txmanager.chains.evm.raw import read_own
from txmanager.chains.evm.simulation import MIN_GAS, read, simulate
from txmanager.chains.evm.spending import highest_price, within_max_cost
from txmanager.chains.evm.tracker import Tracker, height_of
from txmanager.chains.evm.transaction import (
    DYNAMIC,
    LEGACY,
    Body,
    Fees,
    Read,
    Signed,
    encode,
    read_raw,
    sign_any,
)
from txmanager.chains.panel import Panel, origin
from txmanager.core.chain import (
    Impossible,
    NonceView,
    Prepared,
    Proof,
    Readings,
    SendReply,
    Sighting,
    Traits,
    Unpriced,
    Verdict,
)
from txmanager.core.errors import InvalidInput, InvalidSettings, Misconfigured, NotOurs, TransactionRefused, Unavailable
from txmanager.core.funds import Cost, Funds, Purse
from txmanager.core.given import Quote
from txmanager.core.models import INTENT_VERSION, Attempt, Intent, Purpose
from txmanager.rpc.endpoint import Endpoint
from txmanager.rpc.errors import RpcError, RpcFailure
from txmanager.rpc.http import HttpRpc
from txmanager.rpc.protocol import JsonRpc, Node
from txmanager.signing.checked import CheckedSigner, not_signed
from txmanager.signing.evm import check_secp256k1, keccak256
from txmanager.signing.signer import Signer, instant
from txmanager.signing.trial import trial_request

_log = structlog.get_logger("evm")


class EvmChain:
    traits = Traits(gaps_block=True, overtaking_kills=False, replaces=True, height_of=height_of)

    def __init__(
        self,
        chain_id: int,
        endpoints: Sequence[Endpoint] = (),
        signers: Mapping[str, Signer] | None = None,
        *,
        settings: EvmNetwork | None = None,
        max_values: Mapping[str, int | None] | None = None,
        max_costs: Mapping[str, int | None] | None = None,
        bumps: Mapping[str, int] | None = None,
        keyless: Collection[str] = (),
        rpc: JsonRpc | None = None,
        rng: random.Random | None = None,
        agreement: int | None = None,
        agreement_for_done: bool = False,
    ) -> None:
        """`signers`, `max_values` (wei an intent may move), `max_costs` (the same with its gas) and `bumps` (percent a
        replacement adds, where that is more than the network's) are by lane id; the callers hold the keys of `keyless`
        lanes. `rpc` replaces the HTTP transport. `agreement`: how many nodes must say what ends an intent without an
        effect; two where there are two."""
        self.chain_id = chain_id
        self.settings = settings or preset(None, chain_id)
        self._lanes: dict[str, LaneId] = {}
        self._signers = {lane: self._checked(lane, signer) for lane, signer in (signers or {}).items()}
        self._max_values = dict(max_values or {})
        self._max_costs = dict(max_costs or {})
        self._keyless = set(keyless)
        for lane in self._keyless & set(self._signers):
            raise InvalidSettings("keyless", f"lane {lane} has a key here; an address cannot be both")
        self._bumps = dict(bumps or {})
        self._ask_of(rpc if rpc is not None else HttpRpc(endpoints, rng))
        different = len({origin(node.name) for node in self.rpc.nodes})
        panel, count = Panel(self.rpc, self._alone), needed(agreement, different)
        self._agreement = Agreement(panel, count, for_done=agreement_for_done)

    def _ask_of(self, rpc: JsonRpc) -> None:
        """Everything that is learned from nodes belongs to those that told it."""
        self.rpc = rpc
        self._fees = FeeOracle(self._ask, self.settings, self.rpc)
        self._tracker = Tracker(self.rpc, self.settings.finality)
        self._broadcaster = Broadcaster(self.rpc)
        self._strikes: dict[str, int] = {}
        self._same_chain: set[str] = set()

    def _alone(self, rpc: JsonRpc) -> EvmChain:
        one = copy(self)
        one._agreement = Agreement()
        one._ask_of(rpc)
        return one

    # what the worker asks

    def serves(self, intent: Intent) -> bool:
        """A kind of another chain will never be known here: it fails by itself instead of stopping the lane."""
        if not intent.kind.startswith("evm."):
            return True
        return (intent.kind in KINDS or intent.kind == RAW_KIND) and intent.version <= INTENT_VERSION

    async def nonce(self, lane: str) -> NonceView:
        return await self._agreement.nonce(self._nonce, lane)

    async def readings(self, lane: str, first: NonceView) -> Readings:
        return await self._agreement.readings(lane, first)

    async def _nonce(self, lane: str) -> NonceView:
        await self._check_chain_id()
        head, count, balance = await self._tracker.head_and_count(self._lane(lane), lane)
        return NonceView(count, head.number, balance, Funds((Purse("account", balance),), head.number))

    async def prepare(self, lane: str, intents: Sequence[Intent]) -> list[Prepared | Impossible | Unpriced]:
        return await self._agreement.prepare(self._prepare, lane, intents)

    async def _prepare(self, lane: str, intents: Sequence[Intent]) -> list[Prepared | Impossible | Unpriced]:
        if lane in self._keyless:
            return [prepare_given(intent, self._lane(lane)) for intent in intents]
        base_fee, market = await self._fees.read()

        def worst(body: Body) -> Cost:
            return body.cost(capped(price_for(market, base_fee, body.type), body.max_fee_limit))

        read_ones = [read(intent, self._max_values.get(lane), base_fee) for intent in intents]
        bodies = [(i, r[0], r[1]) for i, r in zip(intents, read_ones, strict=True) if not isinstance(r, Impossible)]
        simulated = iter(await simulate(self.rpc, self._lane(lane), self.settings, bodies, self._strikes, worst))
        found = [r if isinstance(r, Impossible) else next(simulated) for r in read_ones]
        most = self._max_costs.get(lane)
        return [within_max_cost(f, most, base_fee, worst) if isinstance(f, Prepared) else f for f in found]

    def cost(self, attempt: Attempt) -> Cost:
        transaction = read_raw(attempt.raw)
        return transaction.body.cost(transaction.fees)

    async def sign(
        self, lane: str, prepared: Sequence[Prepared], first_nonce: int, purpose: Purpose, now: int
    ) -> list[Attempt]:
        if purpose is Purpose.KEYLESS:
            return [given_attempt(ready, now) for ready in prepared]
        base_fee, market = await self._fees.read()
        jobs = []
        for nonce, ready in enumerate(prepared, first_nonce):
            body = ready.body
            assert isinstance(body, Body)
            jobs.append((nonce, capped(price_for(market, base_fee, body.type), body.max_fee_limit), body))
        try:
            signed = await self._sign(lane, jobs)
        except TransactionRefused as refused:
            raise not_signed(prepared[0].intent.id, refused) from None
        return [_attempt(job, one, purpose, now) for job, one in zip(jobs, signed, strict=False)]

    def instant(self, lane: str) -> bool:
        signer = self._signers.get(lane)
        return signer is None or signer.signer.instant

    async def trial(self, lane: str) -> None:
        signer = self._signer_of(lane)
        await signer.sign([trial_request(signer.signer.public_key, keccak256)])

    async def replace(self, lane: str, prepared: Prepared, previous: Sequence[Attempt], now: int) -> Attempt | None:
        newest = [a for a in previous if a.purpose is not Purpose.NOOP][-1]
        transaction = read_own(newest, self._lane(lane))
        limit = prepared.intent.payload.get("max_fee_per_gas")
        cap = self.settings.max_fee if limit is None else min(self.settings.max_fee, int(str(limit), 0))
        price = highest_price(prepared.intent, self._max_costs.get(lane), transaction.body)
        cap = cap if price is None else min(cap, price)
        fees = await self._outbid(lane, previous, transaction.nonce, cap)
        if fees is None:
            return None
        job = (
            transaction.nonce,
            fees if transaction.body.type >= DYNAMIC else Fees(fees.max_fee, fees.max_fee),
            transaction.body,
        )
        return await self._sign_over(lane, job, Purpose.REPLACE, _later(now, previous))

    async def noop(self, lane: str, nonce: int, previous: Sequence[Attempt], now: int) -> Attempt | None:
        named = self._lane(lane)
        fees = await self._outbid(lane, previous, nonce, self.settings.max_fee)
        if fees is None:
            return None
        body = Body(bytes.fromhex(named.address[2:]), 0, b"", await self._noop_gas(named))
        job = (nonce, fees, body)
        return await self._sign_over(lane, job, Purpose.NOOP, _later(now, previous))

    async def broadcast(self, lane: str, attempts: Sequence[Attempt]) -> list[SendReply]:
        replies = await self._broadcaster.send(lane, attempts)
        if replies and not replies[-1].verdict.sent:
            refused = attempts[len(replies) - 1]
            replies[-1] = await self._agreement.weigh_reply(lane, refused, replies[-1])
        return replies

    async def probe(self, lane: str, attempt: Attempt) -> SendReply:
        """A plain send validates already, so asking why is sending again; it also brings back what a pool dropped."""
        return await self._agreement.probe(self._probe, lane, attempt)

    async def _probe(self, lane: str, attempt: Attempt) -> SendReply:
        replies = await self._broadcaster.send(f"{lane}/probe", [attempt])
        return replies[0] if replies else SendReply(Verdict.UNAVAILABLE, "no node answered")

    async def look_up(self, lane: str, attempts: Sequence[tuple[Intent, Attempt]]) -> list[Sighting]:
        return await self._agreement.look_up(self._look_up, lane, attempts) if attempts else []

    async def _look_up(self, lane: str, attempts: Sequence[tuple[Intent, Attempt]]) -> list[Sighting]:
        return await self._tracker.look_up(lane, self._lane(lane), attempts)

    async def prove_dead(self, lane: str, attempts: Sequence[Attempt]) -> list[Proof | None]:
        return await self._agreement.prove_dead(self._prove_dead, lane, attempts) if attempts else []

    async def _prove_dead(self, lane: str, attempts: Sequence[Attempt]) -> list[Proof | None]:
        return await self._tracker.prove_dead(lane, self._lane(lane), attempts)

    async def close(self) -> None:
        await self._agreement.close()
        await self._broadcaster.close()
        await self.rpc.close()
        for signer in self._signers.values():
            await signer.signer.close()

    # what the nonce service asks

    async def counts(self, address: str) -> tuple[int, int]:
        """Transactions of the address: in the newest block, and with what waits in the node's pool."""
        await self._check_chain_id()
        calls = [("eth_getTransactionCount", [address, block]) for block in ("latest", "pending")]
        latest, pending = await ask_many(self.rpc, calls, "counts")
        count = number(expect(latest), "a count")
        try:
            return count, max(count, number(expect(pending), "a count"))
        except RpcError:
            return count, count  # a node without a pool of its own

    async def quote(self) -> Quote:
        base_fee, market = await self._fees.read()
        price = price_for(market, base_fee, LEGACY).max_fee
        return Quote(base_fee, market.max_fee, market.tip, price)

    def add_keyless(self, lane: str) -> None:
        """Serve one more lane whose key the callers hold."""
        self._lane(lane)
        self._keyless.add(lane)

    def drop_keyless(self, lane: str) -> None:
        """Nobody serves it here any more."""
        self._keyless.discard(lane)
        self._lanes.pop(lane, None)

    # parts

    async def _outbid(self, lane: str, previous: Sequence[Attempt], nonce: int, cap: int) -> Fees | None:
        """The market where the nonce is free, else better than everything of ours that may sit there."""
        _, market = await self._fees.read()
        rivals = [
            transaction.fees for a in previous if a.nonce == nonce and (transaction := self._own(lane, a)) is not None
        ]
        percent = max(self.settings.bump_percent, self._bumps.get(lane, 0))
        cap = min(cap, enough(market, self.settings))
        return bump(rivals, market, cap, percent) if rivals else capped(market, cap)

    def _own(self, lane: str, attempt: Attempt) -> Read | None:
        """What somebody else put there has no price that must be outbid."""
        try:
            return read_own(attempt, self._lane(lane))
        except NotOurs:
            return None

    async def _noop_gas(self, lane: LaneId) -> int:
        """21,000 almost everywhere; more where a chain charges for its data in gas."""
        try:
            answer = await self._ask("eth_estimateGas", [{"from": lane.address, "to": lane.address, "value": "0x0"}])
            estimate = number(answer, "an estimate")
        except RpcFailure:
            return MIN_GAS
        margin = estimate * self.settings.gas_margin_percent // 100
        return estimate if estimate == MIN_GAS else max(MIN_GAS, estimate + margin)

    def _signer_of(self, lane: str) -> CheckedSigner:
        signer = self._signers.get(lane)
        if signer is None:
            raise InvalidInput("lane", f"this process holds no key of {lane}")
        return signer

    async def _sign(self, lane: str, jobs: Sequence[tuple[int, Fees, Body]], *, urgent: bool = False) -> list[Signed]:
        """The signed prefix, at least one; see `CheckedSigner`."""
        signer = self._signer_of(lane)
        if (now := instant(signer.signer)) is not None:
            return [sign_any(self.chain_id, nonce, fees, body, now) for nonce, fees, body in jobs]
        unsigned = [encode(self.chain_id, nonce, fees, body) for nonce, fees, body in jobs]
        signatures = await signer.sign([one.request(urgent=urgent) for one in unsigned])
        return [one.assemble(signature) for one, signature in zip(unsigned, signatures, strict=False)]

    async def _sign_over(self, lane: str, job: tuple[int, Fees, Body], purpose: Purpose, now: int) -> Attempt | None:
        """A replacement or a no-op. One that the signer's policy refuses has no price that would do."""
        try:
            [signed] = await self._sign(lane, [job], urgent=True)
        except TransactionRefused as refused:
            _log.error("the signer refuses", lane=lane, purpose=purpose, why=str(refused))
            return None
        return _attempt(job, signed, purpose, now)

    async def _check_chain_id(self) -> None:
        """A node of another chain would refuse every signature, and intents must not pay for a wrong URL. Beside a
        right node it is left out, so that one node's word stops nobody."""
        wrong: list[tuple[Node, int]] = []
        for node in self.rpc.nodes:
            if node.name in self._same_chain or not node.ready:
                continue
            try:
                served = number(await node.call("eth_chainId", []), "eth_chainId")
            except RpcFailure:
                continue
            if served == self.chain_id:
                self._same_chain.add(node.name)
            else:
                wrong.append((node, served))
        for node, served in wrong:
            words = f"{node.name} serves chain {served}, not {self.chain_id}; correct rpc or chain_id"
            if not self._same_chain:
                raise Misconfigured(words) if len(wrong) == len(self.rpc.nodes) else Unavailable(words)
            _log.error("node left out", why=words)
            node.leave_out()

    def _checked(self, lane: str, signer: Signer) -> CheckedSigner:
        if signer.public_key != self._lane(lane).address:
            raise InvalidSettings("signers", f"lane {lane} was given the key of {signer.public_key}")
        return CheckedSigner(signer, partial(check_secp256k1, signer.public_key))

    def _lane(self, lane: str) -> LaneId:
        named = self._lanes.get(lane)
        if named is None:
            named = LaneId.parse(lane)
            if named.chain_id != self.chain_id:
                raise InvalidInput("lane", f"{lane} is not of the chain {self.chain_id}")
            self._lanes[lane] = named
        return named

    async def _ask(self, method: str, params: Any) -> Any:
        [answer] = await ask_many(self.rpc, [(method, params)], "questions")
        if isinstance(answer, RpcFailure):
            raise answer
        return answer


def _attempt(job: tuple[int, Fees, Body], signed: Signed, purpose: Purpose, now: int) -> Attempt:
    nonce, fees, body = job
    terms = {
        "type": body.type,
        "gas": str(body.gas),
        "max_fee_per_gas": str(fees.max_fee),
        "max_priority_fee_per_gas": str(fees.tip),
    }
    return Attempt(nonce, signed.hash, signed.raw, purpose, now, terms=terms)


def _later(now: int, previous: Sequence[Attempt]) -> int:
    """The newest attempt of a nonce is the dearest one, whatever another worker's clock said."""
    return max([now, *(a.signed_at + 1 for a in previous)])
