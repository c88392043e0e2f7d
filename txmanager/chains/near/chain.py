"""`NearChain`: NEAR as a lane worker sees it. Gaps are harmless, being overtaken is fatal, nothing is replaced.

It holds no state that matters: caches of what the chain already decided, connections, and the keys it was given. Time
is the running loop's, randomness and the nodes are arguments, so that a simulator can run it as it is.
"""

from __future__ import annotations

import asyncio
import base64
import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

import structlog

from txmanager.chains.agreement import Agreement, needed
from txmanager.chains.near import views
from txmanager.chains.near.actions import FunctionCall, Transfer
from txmanager.chains.near.compile import Body, compile_intent, make_body
from txmanager.chains.near.costs import Prices, check_cost, lowest, read_funds, read_prices, worst_cost
from txmanager.chains.near.death import DeathProver, Facts
from txmanager.chains.near.delegates import (
    Unpaid,
    check_call_permission,
    check_delegate,
    check_delegate_nonce,
    check_expiry,
    delegate_turn,
)
from txmanager.chains.near.head import FinalHead
from txmanager.chains.near.intents import KINDS, parse_payload
from txmanager.chains.near.names import LaneId, b58_text
from txmanager.chains.near.policy import NETWORKS, KeyView, NearNetwork, NearPolicy, other_chain
from txmanager.chains.near.tracker import Tracker
from txmanager.chains.near.transaction import Envelope, actions_of
from txmanager.chains.near.verdicts import classify
from txmanager.chains.panel import Panel
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
from txmanager.core.errors import (
    InvalidInput,
    InvalidSettings,
    KeyMissing,
    Misconfigured,
    NotSigned,
    OwnAccountRefused,
    TransactionRefused,
    Unavailable,
)
from txmanager.core.funds import Cost
from txmanager.core.models import INTENT_VERSION, Attempt, Intent, Purpose, failure
from txmanager.core.spending import allowed
from txmanager.rpc.endpoint import Endpoint
from txmanager.rpc.errors import RpcError, RpcFailure, TooLarge, shown
from txmanager.rpc.http import HttpRpc
from txmanager.rpc.protocol import JsonRpc, Node
from txmanager.rpc.reading import from_any
from txmanager.signing.checked import not_signed
from txmanager.signing.signer import Signer

T = TypeVar("T")
_PROBE_TIMEOUT_S = 15.0
_DELEGATE = "near.delegate"
_log = structlog.get_logger("near")


class NearChain:
    traits = Traits(gaps_block=False, overtaking_kills=True, replaces=False, turns={_DELEGATE: delegate_turn})

    def __init__(
        self,
        network: str,
        endpoints: Sequence[Endpoint] = (),
        signers: Mapping[str, Signer] | None = None,
        *,
        policy: NearPolicy | None = None,
        policies: Mapping[str, NearPolicy] | None = None,
        settings: NearNetwork | None = None,
        rpc: JsonRpc | None = None,
        rng: random.Random | None = None,
        agreement: int | None = None,
        agreement_for_done: bool = False,
    ) -> None:
        """`signers` and `policies` are by lane id. `rpc` replaces the HTTP transport that `endpoints` describe.
        `agreement`: how many nodes must say what ends an intent without an effect; two where there are two."""
        self.network = network
        self.settings = settings or NETWORKS.get(network) or NearNetwork()
        self._policy = policy or NearPolicy()
        self._policies = dict(policies or {})
        self._lanes: dict[str, LaneId] = {}
        self._envelopes = {lane: self._envelope(lane, signer) for lane, signer in (signers or {}).items()}
        self._newest_keys: dict[str, KeyView] = {}
        """Where the first node denies a key that others have: the newest reading of any of them."""
        self._ask_of(rpc if rpc is not None else HttpRpc(endpoints, rng))
        panel = Panel(self.rpc, self._alone, _node_key)
        count = needed(agreement, len(self.rpc.nodes))
        self._agreement = Agreement(panel, count, for_done=agreement_for_done)

    def _ask_of(self, rpc: JsonRpc) -> None:
        """Everything that is learned from nodes belongs to those that told it."""
        self.rpc = rpc
        self._permissions: dict[str, KeyView] = {}
        self._head = FinalHead(self._final_block, self.settings.head_fresh_s, self.settings.head_max_age_s)
        self._tracker = Tracker(self.rpc, self.settings.finality, patience_s=5.0)
        self._prover = DeathProver(self.rpc, self.facts, self.settings.scan_blocks)
        self._facts: Facts | None = None
        self._same_chain: set[Node] = set()
        """Nodes that said that they serve the chain of our settings."""
        self._epoch = ""
        self._prices, self._priced_in = Prices(), ""
        """What gas and new accounts cost, and the epoch in which that was read: protocols change with epochs."""

    def _alone(self, rpc: JsonRpc) -> NearChain:
        one = copy(self)
        one._agreement = Agreement()
        one._ask_of(rpc)
        return one

    # what the worker asks

    def serves(self, intent: Intent) -> bool:
        return intent.kind in KINDS and intent.version <= INTENT_VERSION

    async def nonce(self, lane: str) -> NonceView:
        return await self._agreement.nonce(self._nonce, lane)

    async def readings(self, lane: str, first: NonceView) -> Readings:
        return await self._agreement.readings(lane, first)

    async def _nonce(self, lane: str) -> NonceView:
        await self._check_chain()
        named = self._lane(lane)
        key = await self._reading(lambda ask: views.view_lane(ask, named, views.FINAL), lane)
        if key is None:
            raise KeyMissing(f"{named.public_key} is not a key of {named.account_id} on {self.network}")
        self._permissions[lane] = self._newest_keys[lane] = key
        account = await self._reading(lambda ask: views.view_account(ask, named.account_id), lane)
        balance = key.gas_balance if key.gas_balance is not None else key.allowance
        if balance is None and account is not None:
            balance = account.amount
        return NonceView(key.nonce + 1, key.height, balance, read_funds(key, account))

    async def prepare(self, lane: str, intents: Sequence[Intent]) -> list[Prepared | Impossible | Unpriced]:
        return await self._agreement.prepare(self._prepare, lane, intents)

    async def _prepare(self, lane: str, intents: Sequence[Intent]) -> list[Prepared | Impossible | Unpriced]:
        await self._check_chain()
        key = await self._key(lane)
        if self._priced_in != self._epoch or not self._epoch:
            await self._read_prices()
        policy = self._policy_of(lane)
        prepared: list[Prepared | Impossible | Unpriced] = [self._compile(lane, key, i, policy) for i in intents]
        if any(intent.kind == _DELEGATE for intent in intents):  # only these ask the chain, so only these are awaited
            prepared = list(await asyncio.gather(*(self._check_delegate(lane, one) for one in prepared)))
        return prepared

    def cost(self, attempt: Attempt) -> Cost:
        return worst_cost(actions_of(attempt.raw), self._prices.gas, self._prices.creation)

    async def sign(
        self, lane: str, prepared: Sequence[Prepared], first_nonce: int, purpose: Purpose, now: int
    ) -> list[Attempt]:
        envelope = self._signer_of(lane)
        head, facts = await self._head_for(lane, prepared), await self.facts()
        height, until = head.height, head.height + facts.validity_blocks
        bodies = [body for ready in prepared if isinstance(body := ready.body, Body)]
        assert len(bodies) == len(prepared)
        calls = [(nonce, body.receiver_bytes, body.action_bytes) for nonce, body in enumerate(bodies, first_nonce)]
        try:
            batch = await envelope.sign(calls, head.hash)
        except TransactionRefused as refused:
            raise not_signed(prepared[0].intent.id, refused) from None
        attempts = []
        for nonce, signed in enumerate(batch, first_nonce):
            ready = prepared[nonce - first_nonce]
            terms = {"receiver_id": bodies[nonce - first_nonce].receiver_id}
            if ready.cost is not None:
                terms["deposit"] = str(ready.cost.deposit)
            attempts.append(Attempt(nonce, b58_text(signed.hash), signed.raw, purpose, now, height, until, terms))
        return attempts

    async def _head_for(self, lane: str, prepared: Sequence[Prepared]) -> views.BlockHead:
        """A delegate may have expired since it was checked, while a node or the signer was away."""
        await self._check_chain()
        delegates = [p for p in prepared if p.intent.kind == _DELEGATE]
        if not delegates:
            return await self._head.get()
        margin = self._policy_of(lane).delegate_min_blocks_left // 2
        head = await self._head.get(margin * self._head.block_s)
        for one in delegates:
            assert isinstance(one.body, Body)
            assert one.body.delegate is not None
            try:
                check_expiry(one.body.delegate, head.height, margin)
            except Unpaid as error:
                raise NotSigned(one.intent.id, _impossible(one.intent, error, by_node=True).error, error.why) from None
        return head

    def instant(self, lane: str) -> bool:
        envelope = self._envelopes.get(lane)
        return envelope is None or envelope.instant

    async def trial(self, lane: str) -> None:
        await self._signer_of(lane).trial()

    async def replace(self, lane: str, prepared: Prepared, previous: Sequence[Attempt], now: int) -> Attempt | None:
        return None

    async def noop(self, lane: str, nonce: int, previous: Sequence[Attempt], now: int) -> Attempt | None:
        named, key = self._lane(lane), await self._key(lane)
        if key.permission is None:
            body = make_body(named.account_id, (Transfer(0),))
        else:
            harmless = self._policy_of(lane).harmless_call
            if harmless is None:
                return None
            body = make_body(harmless.receiver_id, (FunctionCall(harmless.method_name, harmless.args, harmless.gas),))
            try:
                check_call_permission(harmless.receiver_id, body.actions, key.permission, "harmless_call")
            except InvalidInput:
                return None
        await self._check_chain()
        head, facts = await self._head.get(), await self.facts()
        call = (nonce, body.receiver_bytes, body.action_bytes)
        try:
            [signed] = await self._signer_of(lane).sign([call], head.hash, urgent=True)
        except TransactionRefused as refused:
            _log.error("the signer refuses a no-op", lane=lane, why=str(refused))
            return None
        terms = {"receiver_id": body.receiver_id, "deposit": "0"}
        until = head.height + facts.validity_blocks
        return Attempt(nonce, b58_text(signed.hash), signed.raw, Purpose.NOOP, now, head.height, until, terms)

    async def broadcast(self, lane: str, attempts: Sequence[Attempt]) -> list[SendReply]:
        batch = [[base64.b64encode(attempt.raw).decode()] for attempt in attempts]
        named = self._lane(lane)
        question = views.key_question(named.account_id, str(named.public_key), views.OPTIMISTIC)
        # The key of a gas key's lane does not tell the lane's nonce.
        then = question if named.nonce_index is None else None
        answers = await self.rpc.send(lane, "broadcast_tx_async", batch, then=then)
        key = self._read_behind(lane, answers[len(batch) :])
        replies = []
        for attempt, answer in zip(attempts, answers, strict=False):
            if isinstance(answer, TooLarge):
                replies.append(await self._too_large(lane, attempt, answer))
            elif isinstance(answer, RpcFailure):
                replies.append(classify(answer))
            elif answer == attempt.hash:
                replies.append(SendReply(Verdict.ACCEPTED, reached=key is not None and attempt.nonce <= key.nonce))
            else:
                replies.append(SendReply(Verdict.UNKNOWN, f"the node answered {shown(answer, 80)!r} to {attempt.hash}"))
            if not replies[-1].verdict.sent:
                replies[-1] = await self._agreement.weigh_reply(lane, attempt, replies[-1])
                break
        return replies

    async def _too_large(self, lane: str, attempt: Attempt, first: TooLarge) -> SendReply:
        """Bytes that one node finds too large may fit through another; they are hopeless when no node takes them."""
        params = [base64.b64encode(attempt.raw).decode()]
        for node in self.rpc.nodes if len(self.rpc.nodes) > 1 else ():
            try:
                if await node.call("broadcast_tx_async", params, group=lane) == attempt.hash:
                    return SendReply(Verdict.ACCEPTED)
            except TooLarge:
                continue
            except RpcFailure as failure:
                return SendReply(Verdict.UNKNOWN, f"{first}; and {failure}"[:500])
            return SendReply(Verdict.UNKNOWN, f"{first}; and {node.name} answered something else")
        return classify(first)

    def _read_behind(self, lane: str, answers: Sequence[Any]) -> KeyView | None:
        """The lane's key as the node saw it behind the sends; nothing depends on it, so no failure matters."""
        if not answers or isinstance(answers[0], RpcFailure):
            return None
        try:
            key = views.read_key(answers[0])
        except RpcFailure:
            return None
        if key is not None:
            self._tracker.read_ahead(lane, key)
        return key

    async def probe(self, lane: str, attempt: Attempt) -> SendReply:
        return await self._agreement.probe(self._probe, lane, attempt)

    async def _probe(self, lane: str, attempt: Attempt) -> SendReply:
        params = {"signed_tx_base64": base64.b64encode(attempt.raw).decode(), "wait_until": "INCLUDED"}
        try:
            await self.rpc.call("send_tx", params, group=f"{lane}/probe", timeout=_PROBE_TIMEOUT_S)
        except TooLarge as refused:
            return await self._too_large(lane, attempt, refused)
        except RpcFailure as refused:
            return classify(refused, waited=True)
        return SendReply(Verdict.ACCEPTED)

    async def look_up(self, lane: str, attempts: Sequence[tuple[Intent, Attempt]]) -> list[Sighting]:
        return await self._agreement.look_up(self._look_up, lane, attempts) if attempts else []

    async def _look_up(self, lane: str, attempts: Sequence[tuple[Intent, Attempt]]) -> list[Sighting]:
        return await self._tracker.look_up(lane, self._lane(lane), attempts)

    async def prove_dead(self, lane: str, attempts: Sequence[Attempt]) -> list[Proof | None]:
        return await self._agreement.prove_dead(self._prove_dead, lane, attempts) if attempts else []

    async def _prove_dead(self, lane: str, attempts: Sequence[Attempt]) -> list[Proof | None]:
        return await self._prover.prove(lane, self._lane(lane), attempts)

    async def close(self) -> None:
        await self._agreement.close()
        await self._head.close()
        await self.rpc.close()
        for envelope in self._envelopes.values():
            await envelope.close()

    # what others ask

    async def facts(self) -> Facts:
        """The network's periods: configured, else told by a node, else known of its chain id. Never guessed: a validity
        that is too short would call the living dead."""
        if self._facts is None:
            validity, epoch = self.settings.validity_blocks, self.settings.epoch_blocks
            if validity is None or epoch is None:
                config, known = await self._reading(self._network_config)
                validity = validity or config.get("transaction_validity_period") or known.validity_blocks
                epoch = epoch or config.get("epoch_length") or known.epoch_blocks
            if validity is None or epoch is None:
                raise Misconfigured(
                    f"network {self.network!r}: its nodes do not tell their periods; "
                    "set validity_blocks and epoch_blocks"
                )
            self._facts = Facts(views.number(validity, "validity"), views.number(epoch, "epoch_length"))
        return self._facts

    async def recent_block(self) -> str:
        """The hash of the final block that is signed against now."""
        return b58_text((await self._head.get()).hash)

    async def gas_price(self) -> int:
        return await self._reading(views.gas_price)

    async def prepare_own(self, lane: str, intent: Intent, policy: NearPolicy) -> Prepared | Impossible:
        """For an operator at the key itself, who is not bound to what the pool does for its callers."""
        return self._compile(lane, await self._key(lane), intent, policy)

    async def keys(self, account_id: str) -> dict[str, Mapping[str, Any]]:
        """Every access key of an account, by public key."""
        return await self._reading(lambda ask: views.list_keys(ask, account_id))

    # parts

    def _compile(self, lane: str, key: KeyView, intent: Intent, policy: NearPolicy) -> Prepared | Impossible:
        try:
            payload, most = parse_payload(intent.kind, intent.payload), self.settings.max_transaction_bytes
            body = compile_intent(payload, self._lane(lane), policy, most)
            if (limit := allowed(intent, policy.max_cost)) is not None:
                check_cost(body.actions, limit)
        except InvalidInput as error:
            return _impossible(intent, error, by_node=False)
        try:
            if key.permission is not None:
                check_call_permission(body.receiver_id, body.actions, key.permission, "lane")
        except InvalidInput as error:
            return _impossible(intent, error, by_node=True)
        return Prepared(intent, body, worst_cost(body.actions, self._prices.gas, self._prices.creation))

    async def _check_delegate(
        self, lane: str, prepared: Prepared | Impossible | Unpriced
    ) -> Prepared | Impossible | Unpriced:
        if not isinstance(prepared, Prepared) or not isinstance(prepared.body, Body) or prepared.body.delegate is None:
            return prepared
        signed = prepared.body.delegate
        try:
            policy, inner = self._policy_of(lane), signed.delegate
            named = LaneId(self.network, inner.sender_id, inner.public_key, inner.nonce_index)
            theirs = await self._reading(lambda ask: views.view_lane(ask, named, views.OPTIMISTIC), lane)
            # The reading of the key is the newest height there is; only where there is no key a head is needed.
            height = theirs.height if theirs is not None else 0
            half = policy.delegate_min_blocks_left / 2 * self._head.block_s
            head = await self._head.get(half if theirs is None else math.inf)
            check_delegate(signed, policy, max(height, head.height))
            check_delegate_nonce(signed, theirs)
        except InvalidInput as error:
            return _impossible(prepared.intent, error, by_node=True)
        return prepared

    async def _check_chain(self) -> None:
        """A transaction signed for another chain's block might be valid there. So every node says first which chain it
        serves, again and again until it does; a wrong one is left out beside a right one, and stops us alone."""
        if self.settings.chain_id is None and self.settings.genesis_hash is None:
            return
        if len(self._same_chain) == len(self.rpc.nodes):
            return
        wrong: list[tuple[Node, str]] = []
        silent: list[str] = []
        for node in self.rpc.nodes:
            if node in self._same_chain or not node.ready:
                continue
            try:
                other = other_chain(self.settings, views.mapping(await node.call("status", []), "a status"))
            except RpcFailure as failure:
                silent += [f"{node.name} does not say which chain it serves ({failure})"] if node.ready else []
                continue
            if other is None:
                self._same_chain.add(node)
            else:
                wrong.append((node, f"{node.name} {other}; correct rpc, chain_id or genesis_hash"))
        for node, words in wrong:
            if not self._same_chain:
                raise Misconfigured(words) if len(wrong) == len(self.rpc.nodes) else Unavailable(words)
            _log.error("node left out", why=words)
            node.leave_out()
        if silent:
            raise Unavailable("; ".join(silent))

    async def _key(self, lane: str) -> KeyView:
        """What the lane's key may do: fixed for the life of a key, so read once."""
        if lane not in self._permissions:
            await self.nonce(lane)
        return self._permissions.get(lane) or self._newest_keys[lane]

    async def _read_prices(self) -> None:
        """At the start and in each new epoch, of every node that tells: one that lies cannot make a lane look poor."""
        head = await self._head.get()  # tells the epoch
        if self._priced_in == self._epoch and self._priced_in:
            return
        prices: list[Prices] = []
        away: RpcFailure | None = None
        for node in self.rpc.nodes:
            try:
                config = await node.call("EXPERIMENTAL_protocol_config", views.FINAL)
                prices.append(read_prices(views.mapping(config, "a protocol config")))
            except RpcError:  # many providers do not serve it
                continue
            except RpcFailure as failure:
                away = failure
        if prices:
            self._prices = lowest(prices)
        elif away is not None and not self._priced_in:
            raise away
        elif self.settings.purchase_price is not None and not self._priced_in:
            self._prices = Prices(self.settings.purchase_price)
        if prices or away is None:
            self._priced_in = head.epoch or "unknown"

    @staticmethod
    async def _network_config(ask: views.Ask) -> tuple[Mapping[str, Any], NearNetwork]:
        try:
            config = views.mapping(await ask("EXPERIMENTAL_protocol_config", views.FINAL), "a protocol config")
        except RpcError:  # many providers do not serve it
            config = {}
        chain_id = config.get("chain_id")
        if chain_id is None:
            chain_id = views.mapping(await ask("status", []), "a status").get("chain_id")
        return config, NETWORKS.get(str(chain_id), NearNetwork())

    def _envelope(self, lane: str, signer: Signer) -> Envelope:
        named = self._lane(lane)
        if signer.public_key != str(named.public_key):
            raise InvalidSettings("signers", f"lane {lane} was given the key {signer.public_key}")
        return Envelope(named.account_id, named.public_key, signer, named.nonce_index)

    def _signer_of(self, lane: str) -> Envelope:
        envelope = self._envelopes.get(lane)
        if envelope is None:
            raise InvalidInput("lane", f"this process holds no key of {lane}")
        return envelope

    def _policy_of(self, lane: str) -> NearPolicy:
        return self._policies.get(lane, self._policy)

    def _lane(self, lane: str) -> LaneId:
        named = self._lanes.get(lane)
        if named is None:
            named = LaneId.parse(lane)
            if named.network != self.network:
                raise InvalidInput("lane", f"{lane} is not of the network {self.network!r}")
            self._lanes[lane] = named
        return named

    async def _reading(self, run: Callable[[views.Ask], Awaitable[T]], lane: str = "") -> T:
        """What a node says that cannot be read is asked of the next one."""
        return await from_any(self.rpc, run, group=lane)

    async def _final_block(self) -> views.BlockHead:
        head, _ = await self._reading(lambda ask: views.view_block(ask, views.FINAL))
        self._epoch = head.epoch or "unknown"
        return head


def _impossible(intent: Intent, error: InvalidInput, *, by_node: bool) -> Impossible:
    helps = intent.kind != _DELEGATE
    code = error.code if isinstance(error, OwnAccountRefused) else "invalid_intent"
    saved = error.why if isinstance(error, Unpaid) else ""
    return Impossible(failure(code, str(error), new_key_helps=helps, field=error.field), by_node, saved)


async def _node_key(node: Node) -> str | None:
    """Behind a balancer the key is whoever's turn it was, so only a direct node has one."""
    if not node.direct:
        return None
    key = views.mapping(await node.call("status", []), "a status").get("node_public_key")
    return key if isinstance(key, str) else None
