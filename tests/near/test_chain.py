"""`NearChain` over the real state machine: nonces, sends, look-ups, gas keys, restricted keys."""

from __future__ import annotations

import pytest

from tests.near.world import ALICE, BOB, NearWorld, intent, lane_of, transfer
from txmanager.chains.near import HarmlessCall, LaneId, NearChain, NearNetwork, NearPolicy, PublicKey
from txmanager.core.chain import Impossible, Verdict
from txmanager.core.errors import InvalidInput, InvalidSettings, KeyMissing, Misconfigured
from txmanager.core.models import Purpose
from txmanager.core.states import Status
from txmanager.rpc import ConnectionFailed, RpcError
from txmanager.signing import Ed25519Signer, Secret

OTHER = Ed25519Signer(Secret(b"o" * 32))


async def test_a_missing_key_is_an_error_and_never_nonce_zero():
    world = NearWorld()
    lane = str(LaneId("localnet", ALICE.account_id, PublicKey.parse(OTHER.public_key)))
    with pytest.raises(KeyMissing):
        await world.chain.nonce(lane)
    nobody = str(LaneId("localnet", "nobody.near", PublicKey.parse(OTHER.public_key)))
    with pytest.raises(KeyMissing):
        await world.chain.nonce(nobody)


async def test_the_next_nonce_is_one_above_the_final_one():
    world = NearWorld()
    before = await world.chain.nonce(world.lane)
    await world.run(transfer("k"))
    after = await world.chain.nonce(world.lane)
    assert after.next_nonce == before.next_nonce + 1
    assert after.balance < before.balance


async def test_signing_uses_consecutive_nonces_and_one_final_block():
    world = NearWorld()
    world.network.advance(5)
    _, attempts = await world.signed(20, first=10**15)
    assert [a.nonce for a in attempts] == list(range(10**15, 10**15 + 20))
    assert {a.base_height for a in attempts} == {world.network.final().height}
    assert {a.valid_until for a in attempts} == {world.network.final().height + world.network.config.validity}
    _, again = await world.signed(20, first=10**15)
    assert [a.raw for a in again] == [a.raw for a in attempts]


async def test_a_hash_is_unknown_then_included_then_final():
    world = NearWorld()
    intents, attempts = await world.signed(1)
    pair = [(intents[0], attempts[0])]
    seen = [(await world.chain.look_up(world.lane, pair))[0].where]
    await world.chain.broadcast(world.lane, attempts)
    for _ in range(8):
        world.network.advance(1)
        seen.append((await world.chain.look_up(world.lane, pair))[0].where)
    assert list(dict.fromkeys(seen)) == ["unknown", "included", "final"]


async def test_many_hashes_are_looked_up_with_one_question_while_none_can_have_landed():
    world = NearWorld()
    intents, attempts = await world.signed(200)
    world.calls.clear()
    await world.chain.look_up(world.lane, list(zip(intents, attempts, strict=True)))
    assert world.calls == ["query"]


async def test_a_hash_on_its_way_is_asked_for_once_per_block():
    world = NearWorld()
    intents, attempts = await world.signed(10)
    await world.chain.broadcast(world.lane, attempts)
    world.network.advance(1)
    pairs = list(zip(intents, attempts, strict=True))
    world.calls.clear()
    for _ in range(5):
        sightings = await world.chain.look_up(world.lane, pairs)
        assert {s.where for s in sightings} == {"included"}
    assert world.calls.count("EXPERIMENTAL_tx_status") == 10


async def test_sends_stop_at_the_first_bytes_that_were_not_taken():
    world = NearWorld()
    _, attempts = await world.signed(5)
    honest, sent = world.node(0), []

    async def choosy(method, params):
        sent.append(params)
        if len(sent) == 3:
            return {"error": {"name": "INTERNAL_ERROR", "cause": {"name": "INTERNAL_ERROR"}}}
        return await honest(method, params)

    world.see((choosy, True, False))
    replies = await world.chain.broadcast(world.lane, attempts)
    assert [r.verdict for r in replies] == [Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.UNKNOWN]
    assert len(sent) == 3


async def test_a_node_that_answers_another_hash_has_not_taken_ours():
    world = NearWorld()
    _, attempts = await world.signed(2)

    async def confused(method, params):
        return {"result": "1" * 32}

    world.see((confused, True, False))
    [reply] = await world.chain.broadcast(world.lane, attempts)
    assert reply.verdict is Verdict.UNKNOWN


async def test_a_probe_tells_why_bytes_are_not_included():
    world = NearWorld(validity=20)
    _, [first, second] = await world.signed(2)
    assert (await world.chain.probe(world.lane, second)).verdict is Verdict.ACCEPTED
    assert (await world.chain.probe(world.lane, first)).verdict is Verdict.NONCE_TOO_LOW
    assert (await world.chain.probe(world.lane, second)).verdict is Verdict.ACCEPTED  # it is there
    _, [third] = await world.signed(1)
    world.network.set_fault("congestion", level=1.0)
    assert (await world.chain.probe(world.lane, third)).verdict is Verdict.BUSY
    world.network.faults.clear()
    world.network.advance(30)
    assert (await world.chain.probe(world.lane, third)).verdict is Verdict.EXPIRED


async def test_a_probe_without_funds_says_so():
    world = NearWorld()
    poor = transfer("k", str(10**31))
    [ready] = await world.chain.prepare(world.lane, [poor])
    view = await world.chain.nonce(world.lane)
    [attempt] = await world.chain.sign(world.lane, [ready], view.next_nonce, Purpose.FIRST, 0)
    assert (await world.chain.probe(world.lane, attempt)).verdict is Verdict.INSUFFICIENT_FUNDS


async def test_a_noop_uses_up_a_nonce_and_nothing_else():
    world = NearWorld()
    _, [victim] = await world.signed(1)
    noop = await world.chain.noop(world.lane, victim.nonce + 1, [victim], 0)
    assert noop.purpose is Purpose.NOOP
    await world.chain.broadcast(world.lane, [noop])
    world.network.advance(8)
    [sighting] = await world.chain.look_up(world.lane, [(transfer("k"), noop)])
    assert sighting.outcome.status is Status.DONE
    [proof] = await world.chain.prove_dead(world.lane, [victim])
    assert proof is not None


OWN = NearPolicy(own_account=frozenset({"add_key", "transfer_to_gas_key"}))


async def add_key(world: NearWorld, **payload) -> str:
    outcome = await world.run(intent("add", "near.add_key", {"public_key": OTHER.public_key, **payload}))
    assert outcome.status is Status.DONE, outcome
    return f"near:localnet:{ALICE.account_id}:{OTHER.public_key}"


def with_other(world: NearWorld, lane: str, policy: NearPolicy | None = None) -> NearChain:
    return NearChain("localnet", (), {lane: OTHER}, rpc=world.rpc, settings=world.chain.settings, policy=policy)


async def test_a_function_call_key_is_held_to_its_permission_before_a_nonce_is_spent():
    world = NearWorld(policy=OWN)
    permission = {"receiver_id": "counter.near", "method_names": ["increment"], "allowance": str(10**24)}
    lane = await add_key(world, permission=permission)
    chain = with_other(world, lane)
    assert (await chain.nonce(lane)).balance == 10**24
    good = intent("k", "near.function_call", {"contract_id": "counter.near", "method_name": "increment"})
    wrong = [
        transfer("t"),
        intent("m", "near.function_call", {"contract_id": "counter.near", "method_name": "reset"}),
        intent("r", "near.function_call", {"contract_id": "ft.near", "method_name": "increment"}),
        intent("d", "near.function_call", {"contract_id": "counter.near", "method_name": "increment", "deposit": "1"}),
    ]
    ready, *refused = await chain.prepare(lane, [good, *wrong])
    assert not isinstance(ready, Impossible)
    assert all(isinstance(r, Impossible) for r in refused)
    assert await chain.noop(lane, 1, [], 0) is None
    harmless = NearPolicy(harmless_call=HarmlessCall("counter.near", "increment", b'{"by":0}'))
    assert await with_other(world, lane, harmless).noop(lane, 1, [], 0) is not None
    elsewhere = NearPolicy(harmless_call=HarmlessCall("ft.near", "increment"))
    assert await with_other(world, lane, elsewhere).noop(lane, 1, [], 0) is None


async def test_every_index_of_a_gas_key_is_a_lane_of_its_own():
    world = NearWorld(policy=OWN)
    key = await add_key(world, num_nonces=3)
    fund = {"type": "transfer_to_gas_key", "public_key": OTHER.public_key, "amount": str(10**24)}
    await world.run(intent("fund", "near.transaction", {"receiver_id": ALICE.account_id, "actions": [fund]}))
    lanes = [f"{key}:{index}" for index in range(3)]
    chain = NearChain("localnet", (), dict.fromkeys(lanes, OTHER), rpc=world.rpc, settings=world.chain.settings)
    tracked = []
    for lane in lanes:
        wanted = transfer(lane[-1])
        view = await chain.nonce(lane)
        assert view.balance == 10**24
        [ready] = await chain.prepare(lane, [wanted])
        [attempt] = await chain.sign(lane, [ready], view.next_nonce, Purpose.FIRST, 0)
        [reply] = await chain.broadcast(lane, [attempt])
        assert reply.verdict.sent
        tracked.append((lane, wanted, attempt))
    world.network.advance(12)
    for lane, wanted, attempt in tracked:
        [sighting] = await chain.look_up(lane, [(wanted, attempt)])
        assert sighting.where == "final"
        assert sighting.outcome.status is Status.DONE
    with pytest.raises(KeyMissing):
        await chain.nonce(f"{key}:3")


async def test_a_network_whose_periods_nobody_tells_is_refused_not_guessed():
    world = NearWorld()
    chain = NearChain("localnet", (), {}, rpc=world.rpc, settings=NearNetwork())

    async def mute(method, params):
        if method == "status":
            return {"result": {"chain_id": "somebody-elses"}}
        return {"error": {"name": "REQUEST_VALIDATION_ERROR", "cause": {"name": "METHOD_NOT_FOUND"}}}

    async def told(method, params):
        return {"result": {"transaction_validity_period": 77, "epoch_length": 11}}

    world.see((mute, True, False))
    with pytest.raises(Misconfigured, match="validity_blocks"):
        await chain.facts()
    world.see((told, True, False))
    assert (await chain.facts()).validity_blocks == 77


async def test_a_network_under_any_name_is_known_by_its_chain_id():
    world = NearWorld()
    chain = NearChain("my-own-name", (), {}, rpc=world.rpc)
    assert (await chain.facts()).validity_blocks == 86_400


def test_a_lane_with_somebody_elses_key_is_refused_at_the_start():
    lane, _ = lane_of(BOB)
    with pytest.raises(InvalidSettings, match="was given the key"):
        NearChain("localnet", (), {lane: OTHER}, rpc=NearWorld().rpc)


async def test_a_lane_of_another_network_is_refused():
    with pytest.raises(InvalidInput, match="not of the network"):
        await NearWorld().chain.nonce(lane_of(BOB, network="mainnet")[0])


async def test_look_ups_that_all_fail_are_unavailable_and_one_that_fails_is_unknown():
    world = NearWorld()
    intents, attempts = await world.signed(3)
    await world.chain.broadcast(world.lane, attempts)
    world.network.advance(12)
    pairs = list(zip(intents, attempts, strict=True))
    honest = world.node(0)
    broken: set[str] = {attempts[1].hash}

    async def flaky(method, params):
        if method == "EXPERIMENTAL_tx_status" and params["tx_hash"] in broken:
            raise ConnectionFailed("away")
        return await honest(method, params)

    world.see((flaky, True, False))
    assert [s.where for s in await world.chain.look_up(world.lane, pairs)] == ["final", "unknown", "final"]
    broken |= {a.hash for a in attempts}
    with pytest.raises(ConnectionFailed):
        await world.chain.look_up(world.lane, pairs)


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        ({"InvalidNonce": {"tx_nonce": 1, "ak_nonce": 2}}, Verdict.NONCE_TOO_LOW),
        ("Expired", Verdict.EXPIRED),
        ({"ShardCongested": {}}, Verdict.BUSY),
        ({"NotEnoughBalance": {}}, Verdict.INSUFFICIENT_FUNDS),
        ({"InvalidAccessKeyError": {"NotEnoughAllowance": {}}}, Verdict.INSUFFICIENT_FUNDS),
        ({"InvalidAccessKeyError": {"AccessKeyNotFound": {}}}, Verdict.KEY_MISSING),
        ({"InvalidAccessKeyError": "RequiresFullAccess"}, Verdict.PERMANENT),
        ("InvalidSignature", Verdict.PERMANENT),
        ({"StorageError": "x"}, Verdict.UNKNOWN),
        ("SomethingNew", Verdict.UNKNOWN),
        (7, Verdict.UNKNOWN),
    ],
)
def test_every_refusal_has_one_verdict(data, verdict):
    from txmanager.chains.near.verdicts import classify

    error = RpcError({"cause": {"name": "INVALID_TRANSACTION"}, "data": {"TxExecutionError": {"InvalidTxError": data}}})
    assert classify(error).verdict is verdict
