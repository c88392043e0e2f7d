"""64 lanes of one gas key beside 64 keys: `python -m bench.gas_key_lanes [--lanes 64] [--jobs 2000] [--repeats 3]`.

A real Redis, a devnet and one worker. Each way accepts all jobs first, and is timed from the worker's start to the last
settlement. The devnet runs what it is sent, so the figures say how the two ways compare, not how fast a worker can be.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from typing import Any

import uvloop

from bench.ours import drain
from tests.devnet.process import Devnet
from tests.runtime.stage import lane_of, make_chain
from tests.servers import DURABLE, Server
from txmanager.chains.near import NearChain, NearNetwork
from txmanager.chains.near.provision import provision
from txmanager.core.decide import Policy
from txmanager.core.models import LaneSpec, new_intent
from txmanager.ledger.redis import RedisLedger
from txmanager.rpc.endpoint import Endpoint
from txmanager.runtime.accept.producer import Producer, Submitted
from txmanager.runtime.lane.worker import Service, Worker
from txmanager.settings.family import GasKeys
from txmanager.signing import Ed25519Signer

NEAR = 10**24
SETTINGS = NearNetwork(validity_blocks=86_400, epoch_blocks=20_000)


def gas_key_chain(url: str, account_id: str, signer: Ed25519Signer, lanes: int) -> tuple[NearChain, list[str]]:
    names = [f"near:localnet:{account_id}:{signer.public_key}:{index}" for index in range(lanes)]
    endpoint = Endpoint(url, direct=True)
    return NearChain("localnet", [endpoint], dict.fromkeys(names, signer), settings=SETTINGS), names


async def one(chain: NearChain, lanes: list[str], server: Server, prefix: str, jobs: int) -> float:
    ledger = RedisLedger(server.url, prefix=prefix)
    services = {lane: Service(LaneSpec(lane, "p"), chain, Policy(window=32)) for lane in lanes}
    for service in services.values():
        await ledger.register(service.spec)
    producer = Producer(ledger)
    payload = {"receiver_id": "dev1.near", "amount": "1"}
    intents = [new_intent(key=f"job-{n}", pool="p", kind="near.transfer", payload=payload) for n in range(jobs)]
    for first in range(0, jobs, 200):
        for result in await producer.submit_many(intents[first : first + 200]):
            assert isinstance(result, Submitted), result
    told = await drain(ledger, Worker(ledger, services), jobs)
    await ledger.close()
    return float(told["per_s"])


async def measure(lanes: int, jobs: int, repeats: int) -> dict[str, Any]:
    rates: dict[str, list[float]] = {"gas_key": [], "keys": []}
    with Devnet(accounts=2, keys=lanes + 1, block_ms=100, delay_ms=0) as devnet, Server(config=DURABLE) as server:
        [account, _] = devnet.told["accounts"]
        plain = [{**account, **key} for key in account["keys"][:lanes]]
        admin = {**account, **account["keys"][lanes]}
        for number in range(repeats):
            signer = Ed25519Signer.generate()
            operator = make_chain(devnet.url, [admin])
            await provision(operator, lane_of(admin), [signer.public_key], gas_keys=GasKeys(lanes, 100 * NEAR))
            await operator.close()
            chain, names = gas_key_chain(devnet.url, account["account_id"], signer, lanes)
            rates["gas_key"].append(await one(chain, names, server, f"gas{number}", jobs))
            await chain.close()
            chain = make_chain(devnet.url, plain, settings=SETTINGS)
            rates["keys"].append(await one(chain, [lane_of(a) for a in plain], server, f"keys{number}", jobs))
            await chain.close()
    return {"lanes": lanes, "jobs": jobs, **{name: round(statistics.median(told)) for name, told in rates.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    told = uvloop.run(measure(options.lanes, options.jobs, options.repeats))
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
