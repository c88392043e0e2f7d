"""How fast the devnet is: the state machine alone, and `broadcast_tx_async` over HTTP.

    python -m bench.devnet [--count 20000] [--connections 8] [--pipeline 16]

The first figure decodes with near-kit, verifies with PyNaCl, includes and executes every transaction in
one process. The second drives a devnet in its own process from this one and waits until all have landed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import subprocess
import sys
import time
from typing import Any

from near import wire
from near.keys import KeyPairSigner, parse_key

from txmanager.devnet import Config, Genesis, Network
from txmanager.devnet.launch import calm_collector
from txmanager.devnet.wire import decode


def sign_many(genesis: Genesis, base: bytes, count: int) -> list[bytes]:
    """Function calls of about 200 bytes of arguments, spread over the genesis accounts."""
    signers = [KeyPairSigner(u.account_id, parse_key(u.keys[0].private_key)) for u in genesis.users]
    keys = [wire.to_wire_public_key(signer.public_key) for signer in signers]
    args = json.dumps({"by": 1, "memo": "x" * 180}).encode()
    call = wire.Action.FunctionCall(method_name="increment", args=args, gas=30 * 10**12, deposit=0)
    nonce = (genesis.height - 1) * 1_000_000
    signed = []
    for index in range(count):
        lane = index % len(signers)
        tx = wire.Transaction(
            signer_id=signers[lane].account_id,
            public_key=keys[lane],
            nonce=nonce + 1 + index // len(signers),
            receiver_id="counter.near",
            block_hash=base,
            actions=[call],
        )
        signed.append(wire.sign_transaction(tx, signers[lane])[1])
    return signed


def machine(count: int) -> dict[str, Any]:
    genesis = Genesis.from_seed(0)
    network = Network(genesis, Config(delay_ms=(0.0, 5.0)), random.Random(0))
    signed = sign_many(genesis, genesis.hash, count)
    calm_collector()
    started, worked = time.perf_counter(), time.process_time()
    hashes = []
    for index, raw in enumerate(signed):
        hashes.append(network.submit(decode(raw)))
        if index % 500 == 0:
            network.tick(network.next_block_at)
    while network.status(hashes[-1]) is None or network.chain.backlog():
        network.tick(network.next_block_at)
    network.advance(10)
    spent, busy = time.perf_counter() - started, time.process_time() - worked
    landed = sum(1 for digest in hashes if network.status(digest) is not None)
    return {
        "what": "state machine, decode and verify",
        "tx_per_s": round(count / spent),
        "tx_per_cpu_s": round(count / busy),  # what a machine of one's own would give
        "landed": landed,
    }


def http(count: int, connections: int, pipeline: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "txmanager.devnet", "--port", "0", "--block-ms", "200", "--delay-ms", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        port = int(told["url"].rpartition(":")[2])
        signed = sign_many(Genesis.from_seed(0), Genesis.from_seed(0).hash, count)
        requests = [_request(raw) for raw in signed]
        return asyncio.run(_measure(port, requests, connections, pipeline))
    finally:
        process.terminate()
        process.wait(10)


async def _measure(port: int, requests: list[bytes], connections: int, pipeline: int) -> dict[str, Any]:
    # One account's transactions stay on one connection, in order, as a lane's do.
    shares = [requests[lane::connections] for lane in range(connections)]
    started = time.perf_counter()
    await asyncio.gather(*(_drive(port, share, pipeline) for share in shares))
    spent = time.perf_counter() - started
    landed = 0
    while landed < len(requests) and time.perf_counter() - started < 60:
        landed = await _landed(port)
        await asyncio.sleep(0.1)
    return {
        "what": "HTTP broadcast_tx_async",
        "tx_per_s": round(len(requests) / spent),
        "landed": landed,
        "landed_after_s": round(time.perf_counter() - started, 2),
        "connections": connections,
        "pipeline": pipeline,
    }


def _request(raw: bytes) -> bytes:
    params = [base64.b64encode(raw).decode()]
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "broadcast_tx_async", "params": params}).encode()
    return b"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


async def _drive(port: int, requests: list[bytes], pipeline: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for start in range(0, len(requests), pipeline):
        batch = requests[start : start + pipeline]
        writer.write(b"".join(batch))
        for _ in batch:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            assert b'"result"' in body, body
    writer.close()


async def _landed(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /admin HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    raw = await reader.read()
    writer.close()
    return int(json.loads(raw.partition(b"\r\n\r\n")[2])["transactions"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=5)
    parser.add_argument("--pipeline", type=int, default=16)
    told = parser.parse_args()
    print(json.dumps(machine(told.count)), flush=True)
    for pipeline in sorted({1, told.pipeline}):
        print(json.dumps(http(told.count // 2, told.connections, pipeline)), flush=True)


if __name__ == "__main__":
    main()
