"""A storm: a thousand mixed requests, duplicates, lost clients, and the API killed -9 five times.

Every request that ever got a 2xx reaches one final state, every duplicate gets the same answer, and the chain holds
each effect once.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import Counter
from typing import Any

import httpx

from tests.api.stage import KEY, STORM_RECEIVER, Stage, bearer
from tests.waiting import until

REQUESTS = 1000
CONNECTIONS = 50
DUPLICATES = 0.3
KILLS = 5
RECEIVER = f"dev{STORM_RECEIVER}.near"


def requests(stage: Stage, rng: random.Random) -> list[tuple[str, str | None, dict[str, Any]]]:
    """(path, key, body); three in ten repeat an earlier one."""
    tag = secrets.token_hex(4)
    made: list[tuple[str, str | None, dict[str, Any]]] = []
    for n in range(REQUESTS):
        if made and rng.random() < DUPLICATES:
            made.append(rng.choice(made))
        elif rng.random() < 0.3:
            name = f"s{tag}-{n}.{stage.account_id}"
            made.append(("/v1/near/accounts", None, {"pool": "main", "new_account_id": name, "new_public_key": KEY}))
        elif rng.random() < 0.5:
            actions = [{"type": "transfer", "amount": "1"}]
            body: dict[str, Any] = {"pool": "main", "receiver_id": RECEIVER, "actions": actions}
            made.append(("/v1/near/transactions", f"t-{tag}-{n}", body))
        else:
            payload = {"receiver_id": RECEIVER, "amount": "1"}
            body = {"pool": "main", "kind": "near.transfer", "payload": payload}
            made.append(("/v1/intents", f"i-{tag}-{n}", body))
    return made


async def test_every_accepted_intent_ends_once_through_five_kills(make_stage, redis7, devnet, prefix):
    stage: Stage = make_stage(redis7.url, prefix, devnet, lanes=8)
    await asyncio.to_thread(stage.start)
    balance = {"request_type": "view_account", "finality": "final", "account_id": RECEIVER}
    before = int(devnet.rpc("query", balance)["amount"])
    rng = random.Random(7)
    waiting = requests(stage, rng)
    rng.shuffle(waiting)
    accepted: dict[str, tuple[str, str | None, dict[str, Any]]] = {}
    statuses: Counter[Any] = Counter()
    left = len(waiting)

    async def caller(client: httpx.AsyncClient) -> None:
        nonlocal left
        while waiting:
            path, key, body = waiting.pop()
            headers = {"Idempotency-Key": key} if key else {}
            done = False
            while not done:
                impatient = rng.random() < 0.1
                try:
                    async with asyncio.timeout(rng.uniform(0.001, 0.02) if impatient else 15):
                        query = "?wait=1" if rng.random() < 0.1 else ""
                        answer = await client.post(path + query, json=body, headers=headers)
                except (httpx.HTTPError, TimeoutError):
                    statuses["lost"] += 1
                    await asyncio.sleep(0.02)
                    continue
                statuses[answer.status_code] += 1
                if answer.status_code in (200, 202):
                    accepted[answer.json()["idempotency_key"]] = (path, key, body)
                    done = True
                else:
                    assert answer.status_code in (429, 503), answer.text
                    await asyncio.sleep(0.02)
            left -= 1

    async def killer() -> None:
        for n in range(1, KILLS + 1):
            await until(lambda n=n: left < REQUESTS * (1 - n / (KILLS + 2)), 60, what=f"time for kill {n}")
            stage.api.kill()
            await asyncio.to_thread(stage.start_api)

    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    async with httpx.AsyncClient(base_url=stage.url, headers=bearer(), limits=limits, timeout=20) as client:
        await asyncio.gather(killer(), *(caller(client) for _ in range(CONNECTIONS)))
        assert statuses["lost"] > 0, "some clients left early, some connections died"
        finals: dict[str, bytes] = {}
        gate = asyncio.Semaphore(CONNECTIONS)

        async def final(key: str) -> None:
            async with gate:
                answer = await client.get(f"/v1/intents/{key}?pool=main&wait=30")
            assert answer.json()["status"] == "done", answer.text
            finals[key] = answer.content

        await asyncio.gather(*map(final, accepted))

        async def repeat(key: str) -> None:
            path, own, body = accepted[key]
            async with gate:
                answer = await client.post(path, json=body, headers={"Idempotency-Key": own} if own else {})
            assert (answer.status_code, answer.headers["idempotency-replayed"]) == (200, "true")
            assert answer.content == finals[key]

        await asyncio.gather(*(repeat(key) for key in accepted))
    assert len(accepted) > REQUESTS * 0.6
    transfers = sum(own is not None for _, own, _ in accepted.values())
    after = int(devnet.rpc("query", balance)["amount"])
    assert after - before == transfers, "one yoctoNEAR per accepted transfer, not one more"
