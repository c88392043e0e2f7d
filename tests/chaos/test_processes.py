"""Producers and workers as processes of their own: order, idempotency and take-over as a deployment sees them."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path

from tests.chaos.arena import POOL, Arena, Victim
from tests.runtime.stage import lane_of
from tests.waiting import until
from txmanager.core.models import new_intent
from txmanager.core.states import Status


async def test_200_concurrent_submissions_to_one_key_from_two_producers_and_two_workers_have_one_total_order(
    tmp_path: Path,
) -> None:
    """The seed's first regression: concurrent requests across two instances, no InvalidNonce, every caller answered."""
    async with Arena(tmp_path, lanes=1, window=16) as arena:
        workers = [arena.start(), arena.start()]
        await arena.until_owned()
        # Each producer has 90 of its own and 20 that both submit: 200 keys, 220 calls.
        shared = [arena.transfer(n) for n in range(1, 21)]
        callers = [
            arena.call([*(arena.transfer(n) for n in range(first, first + 90)), *shared]) for first in (101, 201)
        ]
        told = [await arena.answers(c) for c in callers]
        assert [len(answers) for answers in told] == [110, 110]
        for key in (i.id.key for i in shared):
            assert told[0][key] == told[1][key], "both callers of one key get the same outcome"
        assert {a["status"] for answers in told for a in answers.values()} == {"done"}

        landed = arena.landed()
        nonces = [t.nonce for t in landed]
        assert nonces == list(range(nonces[0], nonces[0] + 200)), "one total order without a gap"
        assert Counter(t.amount for t in landed) == Counter([*range(1, 21), *range(101, 191), *range(201, 291)])
        by_stream = sorted(
            [await arena.read(arena.transfer(t.amount).id) for t in landed],
            key=lambda r: [*map(int, r.position.split("-"))],
        )
        assert [r.outcome.nonce for r in by_stream if r.outcome] == nonces, "the order of acceptance"

        for worker in workers:
            worker.signal(signal.SIGTERM)
        assert [w.wait() for w in workers] == [0, 0]
        sends = Counter[str]()
        for worker in workers:
            sends.update(worker.told()[-1]["sends"])
        assert sends["accepted"] >= 200
        assert sends["nonce_too_low"] == 0, "no InvalidNonce"


async def test_account_creation_over_two_producers_and_two_workers_never_fails_now_and_then(tmp_path: Path) -> None:
    """The seed's integration test: two relay servers, one Redis, several relayer keys."""
    async with Arena(tmp_path, lanes=3) as arena:
        arena.start()
        arena.start()
        await arena.until_owned()
        key = arena.receiver["public_key"]

        def create(n: int) -> object:
            payload = {"new_account_id": f"u{n}.near", "public_key": key, "root_contract": "near"}
            return new_intent(key=f"create:u{n}.near:{key}", pool=POOL, kind="near.create_account", payload=payload)

        callers = [arena.call([create(n) for n in numbers]) for numbers in (range(30), range(15, 45))]  # type: ignore[misc]
        told = [await arena.answers(c) for c in callers]
        outcomes = {**told[0], **told[1]}
        assert len(outcomes) == 45
        assert {o["status"] for o in outcomes.values()} == {"done"}
        assert all(told[0][k] == told[1][k] for k in set(told[0]) & set(told[1]))
        assert len({o["tx_hash"] for o in outcomes.values()}) == 45, "each account was created by one transaction"


async def test_a_crash_and_a_retry_return_the_same_hash_and_outcome(tmp_path: Path) -> None:
    """The seed's second regression: crash/retry, idempotency returns the same tx hash and outcome."""
    async with Arena(tmp_path) as arena:
        victim = arena.start("after_broadcast")
        await arena.until_owned()
        await arena.submit([arena.transfer(n) for n in range(1, 6)])
        await asyncio.to_thread(victim.wait)
        hashes = [(await arena.read(id)).attempts[0].hash for id in arena.accepted]
        caller = arena.call([arena.transfer(n) for n in range(1, 6)])  # the client retries while nobody works
        arena.start()
        told = await arena.answers(caller)
        assert [told[f"k{n}"]["tx_hash"] for n in range(1, 6)] == hashes
        again = await arena.answers(arena.call([arena.transfer(n) for n in range(1, 6)]))
        assert again == told
        assert sorted(t.amount for t in arena.landed()) == [1, 2, 3, 4, 5]


async def test_a_stopped_worker_that_wakes_after_its_lease_sends_nothing_twice_and_leaves_its_lanes(
    tmp_path: Path,
) -> None:
    async with Arena(tmp_path, lanes=2) as arena:
        workers = {w.name: w for w in (arena.start(), arena.start())}
        await arena.until_owned()
        lane = lane_of(arena.accounts[0])
        for round_ in range(2):
            await arena.submit([arena.transfer(n) for n in range(30 * round_ + 1, 30 * round_ + 16)])
            name = await until(lambda: arena.owner(lane), what="the lane has an owner")
            zombie = workers[name]
            zombie.signal(signal.SIGSTOP)
            await arena.submit([arena.transfer(n) for n in range(30 * round_ + 16, 30 * round_ + 31)])

            async def taken_over(name: str = name) -> bool:
                return await arena.owner(lane) not in ("", name)

            await until(taken_over, 15, what="another worker takes over")
            before = len(zombie.told())
            zombie.signal(signal.SIGCONT)

            def leaves(zombie: Victim = zombie, before: int = before) -> bool:
                return any(e["event"] in ("lane stopped", "lane lost") for e in zombie.told()[before:])

            await until(leaves, 10, what="the zombie says that it leaves")
        verdict = await arena.verdict()
        assert verdict.problems == []
        assert verdict.intents == 60


async def test_a_server_restarted_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    async with Arena(tmp_path, lanes=2) as arena:
        arena.start()
        arena.start()
        await arena.until_owned()
        for round_ in range(3):
            await arena.submit([arena.transfer(n) for n in range(20 * round_ + 1, 20 * round_ + 21)])
            await asyncio.to_thread(arena.server.restart, kill=True)
        verdict = await arena.verdict()
    assert verdict.problems == []
    assert verdict.intents == 60


async def test_sigterm_settles_what_flies_and_a_second_signal_ends_at_once_and_safely(tmp_path: Path) -> None:
    async with Arena(tmp_path, window=4) as arena:
        worker = arena.start()
        await arena.until_owned()
        await arena.submit([arena.transfer(n) for n in range(1, 21)])

        async def some_fly() -> bool:
            return any([(await arena.read(id)).status is Status.INFLIGHT for id in arena.accepted])

        await until(some_fly, what="some are in flight")
        worker.signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait) == 0
        statuses = {(await arena.read(id)).status for id in arena.accepted}
        assert statuses <= {Status.DONE, Status.QUEUED}
        assert await arena.owner(lane_of(arena.accounts[0])) == "", "the lease is given back"

        arena.devnet.fault("stall")
        hasty = arena.start()
        await until(some_fly, 15, what="some are in flight again")
        hasty.signal(signal.SIGTERM)

        async def draining() -> bool:
            return hasty.name not in {m.name for m in await arena.ledger.members()}

        await until(draining, what="the first signal was heard")
        assert hasty.alive, "the chain stands still: it waits for what flies"
        hasty.signal(signal.SIGTERM)
        assert await asyncio.to_thread(hasty.wait, 2) == 1
        arena.devnet.clear_faults()
        arena.start()
        verdict = await arena.verdict()
    assert verdict.problems == []
