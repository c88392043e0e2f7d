"""How fast a NEAR transaction is made: build, sign and serialise one function call with 200 bytes of arguments.

    python -m bench.near_codec [--count 3000] [--lane]

Ours is compared with every library that is installed; all must give the same bytes. `--lane` adds the whole path of a
lane (prepare, sign, broadcast, track to the end) against a devnet process, per transaction.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import base58
from near import wire
from near.keys import Ed25519KeyPair

from txmanager.chains.near import LaneId, NearChain, NearNetwork, PublicKey
from txmanager.chains.near.actions import FunctionCall
from txmanager.chains.near.transaction import Envelope, call_bytes
from txmanager.core.chain import Prepared
from txmanager.core.models import Purpose, new_intent
from txmanager.rpc import Endpoint
from txmanager.signing import Ed25519Signer, Secret

ACCOUNT, CONTRACT, METHOD, GAS = "relayer.testnet", "contract.testnet", "ft_transfer", 30 * 10**12
ARGS = json.dumps({"receiver_id": "bob.testnet", "memo": "x" * 160}).encode().ljust(200)
BLOCK = bytes(range(32))
SIGNER = Ed25519Signer(Secret(bytes(range(32))))
PRIVATE = SIGNER.export().reveal().decode()


def ours() -> Callable[[int], bytes]:
    envelope = Envelope(ACCOUNT, PublicKey.parse(SIGNER.public_key), SIGNER)

    def make(nonce: int) -> bytes:
        receiver, actions = call_bytes(CONTRACT, (FunctionCall(METHOD, ARGS, GAS, 1),))
        return envelope.sign_now([(nonce, receiver, actions)], BLOCK)[0].raw

    return make


def near_kit() -> Callable[[int], bytes]:
    pair = Ed25519KeyPair.from_string(PRIVATE)
    key = wire.to_wire_public_key(pair.public_key)

    def make(nonce: int) -> bytes:
        call = wire.Action.FunctionCall(method_name=METHOD, args=ARGS, gas=GAS, deposit=1)
        tx = wire.Transaction(
            signer_id=ACCOUNT, public_key=key, nonce=nonce, receiver_id=CONTRACT, block_hash=BLOCK, actions=[call]
        )
        return wire.sign_transaction(tx, pair)[1]

    return make


def py_near_primitives() -> Callable[[int], bytes]:
    import py_near_primitives as rust

    secret = base58.b58decode(PRIVATE.removeprefix("ed25519:"))

    def make(nonce: int) -> bytes:
        call = rust.FunctionCallAction(METHOD, ARGS, GAS, 1)
        tx = rust.Transaction(ACCOUNT, SIGNER.public_bytes, nonce, CONTRACT, BLOCK, [call])
        return bytes(bytearray(tx.to_vec(secret)))

    return make


def near_api_py() -> Callable[[int], bytes]:
    from near_api import signer, transactions

    known = signer.Signer(ACCOUNT, signer.KeyPair(PRIVATE))

    def make(nonce: int) -> bytes:
        call = transactions.create_function_call_action(METHOD, ARGS, GAS, 1)
        return bytes(transactions.sign_and_serialize_transaction(CONTRACT, nonce, [call], BLOCK, known))

    return make


def microseconds(make: Callable[[int], bytes], count: int) -> float:
    """The median of batches: one slow slice of a shared machine must not decide."""
    batch = max(1, count // 20)
    times = []
    for start in range(0, count, batch):
        began = time.perf_counter()
        for nonce in range(start, start + batch):
            make(nonce)
        times.append((time.perf_counter() - began) / batch * 1e6)
    return statistics.median(times)


def lane(count: int) -> None:
    command = [sys.executable, "-m", "txmanager.devnet", "--port", "0", "--block-ms", "200"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        asyncio.run(drive(json.loads(process.stdout.readline()), count))
    finally:
        process.terminate()
        process.wait()


async def drive(told: dict[str, Any], count: int) -> None:
    account = told["accounts"][0]
    signer = Ed25519Signer.parse(Secret(account["private_key"]))
    name = str(LaneId("localnet", account["account_id"], PublicKey.parse(signer.public_key)))
    chain = NearChain(
        "localnet",
        [Endpoint(told["nodes"][0], direct=True)],
        {name: signer},
        settings=NearNetwork(86_400, 20_000),
    )
    payload = {"contract_id": "counter.near", "method_name": "increment", "args": {"memo": "x" * 180}}
    intents = [new_intent(key=f"k{i}", pool="p", kind="near.function_call", payload=payload) for i in range(count)]
    view = await chain.nonce(name)
    clock = time.perf_counter
    marks = [clock()]
    ready = [p for p in await chain.prepare(name, intents) if isinstance(p, Prepared)]
    marks.append(clock())
    attempts = await chain.sign(name, ready, view.next_nonce, Purpose.FIRST, 0)
    marks.append(clock())
    replies = await chain.broadcast(name, attempts)
    marks.append(clock())
    assert all(reply.verdict.sent for reply in replies)
    left, asking = list(zip(intents, attempts, strict=True)), 0.0
    while left:
        began = clock()
        sightings = await chain.look_up(name, left)
        asking += clock() - began
        left = [pair for pair, sighting in zip(left, sightings, strict=True) if sighting.where != "final"]
        if left and all(proof is not None for proof in await chain.prove_dead(name, [a for _, a in left])):
            break
        await asyncio.sleep(0.05)
    for what, seconds in zip(("prepare", "sign", "broadcast"), map(float.__sub__, marks[1:], marks), strict=False):
        print(f"{what:>20} {seconds / count * 1e6:9.1f} us per transaction")
    print(f"{'track':>20} {asking / count * 1e6:9.1f} us per transaction")
    print(f"{'overtaken':>20} {len(left):9d} of {count}")
    await chain.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3_000)
    parser.add_argument("--lane", action="store_true")
    options = parser.parse_args()
    makers = {"txmanager": ours(), "near-kit": near_kit()}
    if importlib.util.find_spec("py_near_primitives"):
        makers["py-near-primitives"] = py_near_primitives()
    if importlib.util.find_spec("near_api"):
        makers["near-api-py"] = near_api_py()
    expected = makers["txmanager"](7)
    for name, make in makers.items():
        assert make(7) == expected, f"{name} gives other bytes"
        print(f"{name:>20} {microseconds(make, options.count if name != 'near-api-py' else 200):9.1f} us")
    if options.lane:
        lane(options.count)


if __name__ == "__main__":
    main()
