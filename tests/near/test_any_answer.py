"""Whatever JSON a node answers, every method of the chain ends in a result or in an error of our own tree."""

from __future__ import annotations

import asyncio
import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.near.world import NearWorld, transfer
from txmanager.core.chain import Proof
from txmanager.core.errors import TxManagerError
from txmanager.core.models import Purpose

WORDS = [
    "header",
    "hash",
    "height",
    "prev_hash",
    "chunks",
    "nonce",
    "permission",
    "FullAccess",
    "block_height",
    "error",
]
WORDS += ["block_hash", "sync_info", "node_public_key", "latest_block_height", "FunctionCall", "keys", "cause", "name"]
WORDS += ["UNKNOWN_TRANSACTION", "final_execution_status", "FINAL", "receipts_outcome", "transaction_outcome"]
WORDS += ["data", "error"]
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
values = st.recursive(
    leaves | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=10,
)
answers = st.builds(lambda v: {"result": v}, values) | st.builds(lambda v: {"error": v}, values) | values


async def _world(**config):
    """One transaction that landed, its predecessor that is dead, and everything prepared."""
    world = NearWorld(**config)
    intents, [dead, landed] = await world.signed(2)
    await world.chain.broadcast(world.lane, [landed])
    world.network.advance(12)
    return world, intents, dead, landed


async def _ask_everything(world: NearWorld, intents, dead, landed) -> list[Proof | None]:
    """Every method once; a failure of our own tree is a fine answer, anything else is not."""
    chain, lane = world.chain, world.lane

    async def attempt(call):
        try:
            return await call
        except TxManagerError:
            return None

    await attempt(chain.nonce(lane))
    ready = await attempt(chain.prepare(lane, [transfer("x")])) or []
    await attempt(chain.sign(lane, [r for r in ready if hasattr(r, "body")], 10**15, Purpose.FIRST, 0))
    await attempt(chain.noop(lane, 10**15, [], 0))
    await attempt(chain.broadcast(lane, [dead, landed]))
    await attempt(chain.probe(lane, landed))
    await attempt(chain.look_up(lane, list(zip(intents, [dead, landed], strict=True))))
    await attempt(chain.keys("alice.near"))
    await attempt(chain.gas_price())
    return await attempt(chain.prove_dead(lane, [landed])) or []


@given(st.lists(answers, min_size=1, max_size=6))
@settings(max_examples=80, deadline=None)
def test_any_json_from_a_node_is_a_clear_error_and_proves_nothing(script):
    async def run() -> None:
        world, *rest = await _world()
        turn = 0

        async def liar(method, params):
            nonlocal turn
            turn += 1
            return copy.deepcopy(script[turn % len(script)])

        world.see((liar, True, False))
        await _ask_everything(world, *rest)
        await world.chain.close()

    asyncio.run(run())


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_a_true_answer_with_one_damaged_place_never_crashes_and_never_kills_what_landed(data):
    """By a node alone: a chunk that leaves out a transaction is a lie that no reader of chunks could see through."""

    async def run() -> None:
        world, *rest = await _world(scan_blocks=0)
        honest = world.node(0)

        async def damaged(method, params):
            answer = copy.deepcopy(await honest(method, params))
            if "result" not in answer:
                return answer
            places = list(_places(answer["result"]))
            if not places:
                return answer
            place = data.draw(st.sampled_from(places))
            target = answer["result"]
            for step in place[:-1]:
                target = target[step]
            target[place[-1]] = data.draw(values)
            return answer

        world.see((damaged, True, False))
        proofs = await _ask_everything(world, *rest)
        assert not any(proofs)
        await world.chain.close()

    asyncio.run(run())


def _places(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (*path, name)
        yield from _places(inner, (*path, name))
