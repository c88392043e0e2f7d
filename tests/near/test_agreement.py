"""Two nodes, one of which lies, lags or is gone: nothing ends without an effect on the word of one."""

from __future__ import annotations

import copy

import pytest

from tests.near.test_death import overtaken
from tests.near.world import ALICE, CAROL, NearWorld, intent, lane_of, transfer
from tests.waiting import until
from txmanager.chains.near import NearChain
from txmanager.chains.panel import origin
from txmanager.core.chain import Impossible, Prepared, Verdict
from txmanager.core.errors import InvalidSettings, KeyMissing, Unavailable
from txmanager.core.models import Purpose
from txmanager.core.states import Status
from txmanager.rpc import ConnectionFailed
from txmanager.rpc.one import OneNode

REVERTED = {"Failure": {"ActionError": {"index": 0, "kind": {"AccountDoesNotExist": {"account_id": "bob"}}}}}


class Nodes:
    """The world through two nodes; `lie` changes what the first one answers, `away` nodes answer nothing."""

    def __init__(self, **options):
        self.world = NearWorld(**options)
        self.away = set()
        self.lie = lambda method, params, answer: answer
        self.asked = {0: 0, 1: 0}
        self.world.see((self._node(0), True, False), (self._node(1), True, False))
        self.chain = self.chain_of(self.world.rpc)
        self.lane = self.world.lane

    def chain_of(self, rpc, **more):
        lane, signer = lane_of(ALICE)
        return NearChain("localnet", (), {lane: signer}, rpc=rpc, settings=self.world.chain.settings, **more)

    def _node(self, number):
        honest = self.world.node(number)

        async def handle(method, params):
            self.asked[number] += 1
            if number in self.away:
                raise ConnectionFailed("refused")
            answer = await honest(method, params)
            return self.lie(method, params, copy.deepcopy(answer)) if number == 0 else answer

        return handle

    async def final(self, request=None):
        """(intent, attempt) of a transfer that is final on chain."""
        request = request or transfer("k")
        [ready] = await self.chain.prepare(self.lane, [request])
        view = await self.chain.nonce(self.lane)
        [attempt] = await self.chain.sign(self.lane, [ready], view.next_nonce, Purpose.FIRST, 0)
        [reply] = await self.chain.broadcast(self.lane, [attempt])
        assert reply.verdict.sent
        self.world.network.advance(12)
        return request, attempt


def flips(method, params, answer):
    if method == "EXPERIMENTAL_tx_status" and "result" in answer:
        for outcome in answer["result"]["receipts_outcome"]:
            outcome["outcome"]["status"] = REVERTED
    return answer


async def test_a_success_asks_one_node_only():
    nodes = Nodes()
    pair = await nodes.final()
    nodes.asked[1] = 0
    [sighting] = await nodes.chain.look_up(nodes.lane, [pair])
    assert sighting.where == "final"
    assert sighting.outcome.status is Status.DONE
    assert nodes.asked[1] == 0


async def test_a_failure_that_one_node_invents_is_a_dispute_with_both_answers():
    nodes = Nodes()
    pair = await nodes.final()
    nodes.lie = flips
    [sighting] = await nodes.chain.look_up(nodes.lane, [pair])
    assert sighting.where == "included"
    assert sighting.outcome is None
    assert sighting.doubt.conflict
    assert {a["status"] for a in sighting.doubt.answers.values()} == {"failed", "done"}
    assert {"seen0", "seen1"} <= set(sighting.doubt.answers)


async def test_a_failure_that_both_nodes_see_is_a_failure():
    nodes = Nodes()
    pair = await nodes.final(intent("k", "near.transfer", {"receiver_id": "nobody.near", "amount": "1"}))
    [sighting] = await nodes.chain.look_up(nodes.lane, [pair])
    assert sighting.where == "final"
    assert sighting.outcome.status is Status.FAILED


async def test_a_failure_waits_for_a_node_that_is_away_or_behind():
    nodes = Nodes()
    pair = await nodes.final(intent("k", "near.transfer", {"receiver_id": "nobody.near", "amount": "1"}))
    nodes.away.add(1)
    [sighting] = await nodes.chain.look_up(nodes.lane, [pair])
    assert (sighting.where, sighting.doubt.conflict) == ("included", False)
    assert "no answer" in sighting.doubt.answers["seen1"]
    nodes.away.clear()
    nodes.world.network.set_fault("lag", node=1, blocks=12)
    [sighting] = await nodes.chain.look_up(nodes.lane, [pair])
    assert (sighting.where, sighting.doubt.conflict) == ("included", False)
    nodes.world.network.faults.clear()
    [sighting] = await nodes.chain.look_up(nodes.lane, [pair])
    assert sighting.where == "final"


async def test_two_urls_of_one_node_are_one_word():
    nodes = Nodes()
    pair = await nodes.final(intent("k", "near.transfer", {"receiver_id": "nobody.near", "amount": "1"}))
    nodes.world.see((nodes.world.node(0, "same"), True, False), (nodes.world.node(1, "same"), True, False))
    [sighting] = await nodes.chain.look_up(nodes.lane, [pair])
    assert (sighting.where, sighting.doubt.conflict) == ("included", False)
    assert sighting.doubt.answers["seen1"] == "the same node as another endpoint"


async def test_two_of_three_nodes_outvote_the_one_that_lies():
    nodes = Nodes()
    pair = await nodes.final()
    nodes.lie = flips
    nodes.world.see(
        (nodes._node(0), True, False), (nodes._node(1), True, False), (nodes.world.node(1, "third"), True, False)
    )
    [sighting] = await nodes.chain.look_up(nodes.lane, [pair])
    assert sighting.where == "final"
    assert sighting.outcome.status is Status.DONE


async def test_agreement_for_done_asks_both_nodes_about_a_success():
    nodes = Nodes()
    chain = nodes.chain_of(nodes.world.rpc, agreement_for_done=True)
    pair = await nodes.final()
    nodes.away.add(1)
    [sighting] = await chain.look_up(nodes.lane, [pair])
    assert (sighting.where, sighting.doubt.conflict) == ("included", False)
    nodes.away.clear()
    [sighting] = await chain.look_up(nodes.lane, [pair])
    assert sighting.outcome.status is Status.DONE


async def test_what_the_first_node_hides_the_second_one_shows(monkeypatch):
    """A node that says "unknown" for ever delays what landed; it does not keep it from ending."""
    nodes = Nodes()
    pair = await nodes.final()
    nodes.lie = lambda method, params, answer: (
        {"error": {"name": "HANDLER_ERROR", "cause": {"name": "UNKNOWN_TRANSACTION"}}}
        if method == "EXPERIMENTAL_tx_status"
        else answer
    )
    [sighting] = await nodes.chain.look_up(nodes.lane, [pair])
    assert sighting.where == "unknown"
    monkeypatch.setattr("txmanager.chains.agreement.UNSEEN_S", 0.01)

    async def found():
        [seen] = await nodes.chain.look_up(nodes.lane, [pair])
        return seen.where == "final" and seen.outcome.status is Status.DONE

    await until(found, 5.0, what="the second node's word")


# -- deaths


async def test_a_death_needs_the_whole_proof_of_each_of_two_nodes():
    nodes = Nodes()
    nodes.world.chain = nodes.chain
    dead, landed = await overtaken(nodes.world)
    proof, alive = await nodes.chain.prove_dead(nodes.lane, [dead, landed])
    assert alive is None
    assert proof.cause == "overtaken"
    assert set(proof.evidence["nodes"]) == {"seen0", "seen1"}
    assert {p["node_key"] for p in proof.evidence["nodes"].values()} == {"ed25519:node0", "ed25519:node1"}


async def test_one_node_alone_buries_nobody_and_what_it_says_is_kept():
    nodes = Nodes()
    pair = await nodes.final()
    landed = pair[1]

    def buries(method, params, answer):
        if method == "tx":
            return {"error": {"name": "HANDLER_ERROR", "cause": {"name": "UNKNOWN_TRANSACTION"}}}
        if method == "EXPERIMENTAL_tx_status":
            return {"error": {"name": "HANDLER_ERROR", "cause": {"name": "UNKNOWN_TRANSACTION"}}}
        if method == "chunk":
            answer["result"]["transactions"] = []
        return answer

    nodes.lie = buries
    assert await nodes.chain.prove_dead(nodes.lane, [landed]) == [None]
    [sighting] = await nodes.chain.look_up(nodes.lane, [pair])
    assert (sighting.where, sighting.doubt.about) == ("unknown", "death")
    assert sighting.doubt.answers["seen0"]["cause"] == "overtaken"
    assert sighting.doubt.answers["seen1"] == "no proof of death"


async def test_a_death_waits_for_a_node_that_is_away():
    nodes = Nodes()
    nodes.world.chain = nodes.chain
    dead, _ = await overtaken(nodes.world)
    nodes.away.add(1)
    assert await nodes.chain.prove_dead(nodes.lane, [dead]) == [None]
    nodes.away.clear()
    assert (await nodes.chain.prove_dead(nodes.lane, [dead]))[0] is not None


async def test_walks_over_chunks_share_no_cache():
    """Behind balancers each endpoint walks for itself: what the first one hid is not remembered for the second."""
    nodes = Nodes()
    pair = await nodes.final()
    nodes.world.network.advance(3)

    def empties(method, params, answer):
        """Chunks and blocks that agree about the lie: nothing less passes the check against the root."""
        if method == "chunk":
            answer["result"]["transactions"] = []
            answer["result"]["header"]["tx_root"] = "1" * 32
        if method == "block":
            for header in answer["result"]["chunks"]:
                header["tx_root"] = "1" * 32
        return answer

    nodes.lie = empties
    nodes.world.see((nodes._node(0), False, False), (nodes._node(1), False, False))
    alone = nodes.chain._alone(nodes.world.rpc)
    [lie] = await alone.prove_dead(nodes.lane, [pair[1]])
    assert lie is not None, "the lie must be good enough for one"
    assert await nodes.chain.prove_dead(nodes.lane, [pair[1]]) == [None]


@pytest.mark.parametrize("root", [None, "1" * 32])
async def test_a_chunk_whose_transactions_were_left_out_proves_nothing(root):
    nodes = Nodes()
    pair = await nodes.final()
    nodes.world.network.advance(3)

    def empties(method, params, answer):
        if method == "chunk":
            answer["result"]["transactions"] = []
            if root is not None:
                answer["result"]["header"]["tx_root"] = root
        return answer

    nodes.lie = empties
    nodes.world.see((nodes._node(0), False, False))
    alone = nodes.chain._alone(nodes.world.rpc)
    assert await alone.prove_dead(nodes.lane, [pair[1]]) == [None]


# -- before signing, and the lane itself


async def test_a_refusal_that_only_one_node_makes_is_none():
    nodes = Nodes()
    key = ALICE.keys[0].public_key

    def narrows(method, params, answer):
        if method == "query" and params.get("public_key") == key and "result" in answer:
            call = {"receiver_id": CAROL.account_id, "method_names": [], "allowance": None}
            answer["result"]["permission"] = {"FunctionCall": call}
        return answer

    nodes.lie = narrows
    [ready] = await nodes.chain.prepare(nodes.lane, [transfer("k")])
    assert isinstance(ready, Prepared)
    [alone] = await nodes.chain._alone(nodes.world.rpc).prepare(nodes.lane, [transfer("k")])
    assert isinstance(alone, Impossible), "the lie must be good enough for one"


async def test_a_refusal_waits_for_the_second_node_and_then_ends_without_a_signature(monkeypatch):
    nodes = Nodes()
    chain = nodes.chain
    key = ALICE.keys[0].public_key

    def narrows(method, params, answer):
        if method == "query" and params.get("public_key") == key and "result" in answer:
            call = {"receiver_id": CAROL.account_id, "method_names": [], "allowance": None}
            answer["result"]["permission"] = {"FunctionCall": call}
        return answer

    nodes.lie = narrows
    nodes.away.add(1)
    with pytest.raises(Unavailable, match="2 different nodes, 1 gave it"):
        await chain.prepare(nodes.lane, [transfer("k")])
    monkeypatch.setattr("txmanager.chains.agreement.REFUSE_AFTER_S", 0.0)
    [ready] = await chain.prepare(nodes.lane, [transfer("k")])
    assert ready.error["code"] == "unconfirmed"


async def test_a_payload_that_cannot_be_read_asks_no_second_node():
    nodes = Nodes()
    await nodes.chain.prepare(nodes.lane, [])
    nodes.asked[1] = 0
    [ready] = await nodes.chain.prepare(
        nodes.lane, [intent("k", "near.transfer", {"receiver_id": "BAD", "amount": "1"})]
    )
    assert isinstance(ready, Impossible)
    assert nodes.asked[1] == 0


async def test_a_key_is_missing_only_when_two_nodes_miss_it():
    nodes = Nodes()

    def hides(method, params, answer):
        if method == "query" and params.get("request_type") == "view_access_key":
            return {"error": {"name": "HANDLER_ERROR", "cause": {"name": "UNKNOWN_ACCESS_KEY"}}}
        return answer

    nodes.lie = hides
    honest = await nodes.chain._alone(OneNode(nodes.world.rpc.nodes[1])).nonce(nodes.lane)
    assert (await nodes.chain.nonce(nodes.lane)).next_nonce == honest.next_nonce
    nodes.away.add(1)
    with pytest.raises(Unavailable):
        await nodes.chain.nonce(nodes.lane)
    nodes.away.clear()
    nodes.world.see((nodes._node(0), True, False), (_hiding(nodes, hides), True, False))
    with pytest.raises(KeyMissing):
        await nodes.chain.nonce(nodes.lane)


def _hiding(nodes, lie):
    honest = nodes.world.node(1)

    async def handle(method, params):
        return lie(method, params, await honest(method, params))

    return handle


async def test_readings_are_one_per_node_and_too_few_are_no_reading():
    nodes = Nodes()

    def ahead(method, params, answer):
        if method == "query" and "result" in answer and "nonce" in answer["result"]:
            answer["result"]["nonce"] += 1_000
        return answer

    nodes.lie = ahead
    first = await nodes.chain.nonce(nodes.lane)
    readings = await nodes.chain.readings(nodes.lane, first)
    assert readings.next_nonce is None
    assert not readings.say(lambda view: view.next_nonce >= first.next_nonce)
    assert readings.say(lambda view: view.next_nonce >= first.next_nonce - 1_000)
    assert (await nodes.chain._alone(nodes.world.rpc).readings(nodes.lane, first)).next_nonce == first.next_nonce
    nodes.away.add(1)
    with pytest.raises(Unavailable):
        await nodes.chain.readings(nodes.lane, first)


async def test_bytes_that_one_node_calls_impossible_are_not():
    nodes = Nodes()
    _, [attempt] = await nodes.world.signed(1)
    data = {"TxExecutionError": {"InvalidTxError": {"InvalidAccessKeyError": "RequiresFullAccess"}}}
    refusal = {"error": {"name": "HANDLER_ERROR", "cause": {"name": "INVALID_TRANSACTION"}, "data": data}}
    nodes.lie = lambda method, params, answer: refusal if method == "send_tx" else answer
    assert (await nodes.chain.probe(nodes.lane, attempt)).verdict is Verdict.ACCEPTED
    nodes.away.add(1)
    assert (await nodes.chain._alone(nodes.world.rpc).probe(nodes.lane, attempt)).verdict is Verdict.PERMANENT
    assert (await nodes.chain.probe(nodes.lane, attempt)).verdict in (Verdict.UNKNOWN, Verdict.UNAVAILABLE)


async def test_settings_that_no_node_can_meet_are_refused():
    nodes = Nodes()
    with pytest.raises(InvalidSettings, match="agreement"):
        nodes.chain_of(nodes.world.rpc, agreement=3)
    with pytest.raises(InvalidSettings, match="agreement_for_done"):
        nodes.chain_of(nodes.world.rpc, agreement=1, agreement_for_done=True)


def test_hosts_are_told_apart_by_port_on_this_machine_only():
    assert origin("rpc.example.com:443") == origin("rpc.example.com:8443")
    assert origin("127.0.0.1:1") != origin("127.0.0.1:2")
    assert origin("localhost:1") != origin("localhost:2")
    assert origin("[::1]:1") != origin("[::1]:2")
    assert origin("node0") == "node0"
