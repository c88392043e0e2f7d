"""Over real HTTP against a devnet process: bursts that overtake themselves, faults, balancers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.near.devnet import Devnet, devnet
from tests.near.world import intent
from tests.waiting import until
from txmanager.chains.near import LaneId, NearChain, NearNetwork, PublicKey
from txmanager.core.chain import Prepared, Verdict
from txmanager.core.models import Purpose
from txmanager.core.states import Status
from txmanager.rpc import Endpoint
from txmanager.signing import Ed25519Signer, Secret

SETTINGS = NearNetwork(validity_blocks=86_400, epoch_blocks=20_000, head_fresh_s=0.1)


@pytest.fixture(scope="module")
def running() -> Iterator[Devnet]:
    with devnet("--block-ms", "100", "--accounts", "12", "--seed", "4") as started:
        yield started


@pytest.fixture(autouse=True)
def _no_faults(running: Devnet) -> Iterator[None]:
    yield
    running.clear_faults()


def connect(account: dict, *endpoints: Endpoint) -> tuple[NearChain, str]:
    signer = Ed25519Signer.parse(Secret(account["private_key"]))
    lane = str(LaneId("localnet", account["account_id"], PublicKey.parse(signer.public_key)))
    return NearChain("localnet", endpoints, {lane: signer}, settings=SETTINGS), lane


async def burst(chain: NearChain, lane: str, count: int, receiver: str):
    view = await chain.nonce(lane)
    intents = [intent(f"k{i}", "near.transfer", {"receiver_id": receiver, "amount": "1"}) for i in range(count)]
    ready = [p for p in await chain.prepare(lane, intents) if isinstance(p, Prepared)]
    attempts = await chain.sign(lane, ready, view.next_nonce, Purpose.FIRST, 0)
    replies = await chain.broadcast(lane, attempts)
    assert [r.verdict for r in replies] == [Verdict.ACCEPTED] * count
    return list(zip(intents, attempts, strict=True))


async def fates(chain: NearChain, lane: str, pairs) -> tuple[set[str], set[str]]:
    """(landed, dead) once every transaction is one or the other."""
    landed: set[str] = set()
    dead: set[str] = set()

    async def decided() -> bool:
        left = [(i, a) for i, a in pairs if a.hash not in landed | dead]
        for (_, attempt), sighting in zip(left, await chain.look_up(lane, left), strict=True):
            if sighting.where == "final":
                assert sighting.outcome.status is Status.DONE
                landed.add(attempt.hash)
        for (_, attempt), proof in zip(left, await chain.prove_dead(lane, [a for _, a in left]), strict=True):
            if proof is not None:
                assert attempt.hash not in landed
                dead.add(attempt.hash)
        return len(landed | dead) == len(pairs)

    await until(decided, 30, every=0.1)
    assert not landed & dead
    return landed, dead


async def balance(chain: NearChain, account_id: str) -> int:
    answer = await chain.rpc.call(
        "query", {"request_type": "view_account", "account_id": account_id, "finality": "final"}
    )
    return int(answer["amount"])


@pytest.mark.parametrize("direct", [True, False])
async def test_a_burst_of_500_on_one_key_is_landed_or_proven_dead_each_and_never_both(running, direct):
    """Deliveries to the producers are shuffled, so the burst overtakes itself as on the real network."""
    sender, receiver = running.accounts[0 if direct else 2], running.accounts[1 if direct else 3]["account_id"]
    running.admin("faults", kind="reorder", ms=250, signer_id=sender["account_id"])
    url = running.nodes[0] if direct else f"{running.url}/any"
    chain, lane = connect(sender, Endpoint(url, direct=direct))
    before = await balance(chain, receiver)
    pairs = await burst(chain, lane, 500, receiver)
    landed, dead = await fates(chain, lane, pairs)
    assert dead, "nothing was overtaken: the test shows nothing"
    assert landed
    assert await balance(chain, receiver) - before == len(landed)
    # The highest nonce can never be overtaken; and everything dead has a landed one above it.
    highest = max(a.nonce for _, a in pairs if a.hash in landed)
    assert all(a.nonce < highest for _, a in pairs if a.hash in dead)
    await chain.close()


@pytest.mark.alone
async def test_an_undisturbed_burst_on_one_connection_lands_whole_and_in_order(running):
    chain, lane = connect(running.accounts[4], Endpoint(running.nodes[0], direct=True))
    running.admin("faults", kind="stall", count=3)
    pairs = await burst(chain, lane, 200, running.accounts[5]["account_id"])
    landed, _ = await fates(chain, lane, pairs)
    assert len(landed) == 200
    await chain.close()


@pytest.mark.parametrize("kind", ["disconnect", "rate_limit", "http_error", "error", "timeout"])
async def test_faults_of_a_node_delay_a_burst_but_lose_and_double_nothing(running, kind):
    number = ["disconnect", "rate_limit", "http_error", "error", "timeout"].index(kind)
    sender, receiver = running.accounts[6 + number % 4], running.accounts[10]["account_id"]
    chain, lane = connect(sender, Endpoint(running.nodes[0], direct=True), Endpoint(running.nodes[1], direct=True))
    before = await balance(chain, receiver)
    view = await chain.nonce(lane)
    intents = [intent(f"k{i}", "near.transfer", {"receiver_id": receiver, "amount": "1"}) for i in range(40)]
    ready = await chain.prepare(lane, intents)
    attempts = await chain.sign(lane, ready, view.next_nonce, Purpose.FIRST, 0)
    running.admin("faults", kind=kind, probability=0.2, count=12, method="broadcast_tx_async")
    left = list(attempts)

    async def all_sent() -> bool:
        replies = await chain.broadcast(lane, left)
        assert all(r.verdict.sent for r in replies[:-1])
        del left[: sum(r.verdict.sent for r in replies)]
        return not left

    await until(all_sent, 20)
    landed, _ = await fates(chain, lane, list(zip(intents, attempts, strict=True)))
    assert await balance(chain, receiver) - before == len(landed)
    await chain.close()


async def test_foreign_use_of_a_key_shows_in_the_final_nonce_and_kills_what_it_overtook(running):
    account = running.accounts[11]
    chain, lane = connect(account, Endpoint(running.nodes[0], direct=True))
    view = await chain.nonce(lane)
    [ready] = await chain.prepare(lane, [intent("k", "near.transfer", {"receiver_id": "dev0.near", "amount": "1"})])
    [ours] = await chain.sign(lane, [ready], view.next_nonce, Purpose.FIRST, 0)
    running.admin("foreign", account_id=account["account_id"], public_key=account["public_key"], count=3)
    await until(lambda: _beyond(chain, lane, ours.nonce))
    [proof] = await chain.prove_dead(lane, [ours])
    assert proof is not None
    assert proof.cause == "overtaken"
    await chain.close()


async def _beyond(chain: NearChain, lane: str, nonce: int) -> bool:
    return (await chain.nonce(lane)).next_nonce > nonce
