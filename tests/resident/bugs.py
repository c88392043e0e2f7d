"""Mistakes that were put into the loop of a resident lane on purpose: the lockstep simulation catches each."""

from __future__ import annotations

from tests.resident.lockstep import Bug

BUGS: dict[str, list[Bug]] = {
    "sent_before_it_is_written_ahead": [
        Bug(
            "resident/first.ts",
            "const blob = packAttempt(",
            "await this.loop.nodes.send(attempt.raw);\n        const blob = packAttempt(",
            "a kill between the two leaves bytes that nobody knows",
        )
    ],
    "newest_first": [
        Bug(
            "resident/first.ts",
            "const [entry] = await loop.own<EntryRow[]>('take', { count: 1 });",
            "const entry = (await loop.own<EntryRow[]>('take', { count: 9 })).at(-1);",
            "first attempts in another order than that of acceptance",
        )
    ],
    "settled_before_finality": [
        Bug(
            "resident/nodes.ts",
            "if (status === 'FINAL') return",
            "if (status === 'FINAL' || status === 'EXECUTED_OPTIMISTIC') return",
            "a reorg takes back what was told",
        ),
        Bug(
            "resident/nodes.ts",
            "wait_until: 'FINAL' }, SEND_MS",
            "wait_until: 'INCLUDED' }, SEND_MS",
            "and looked early",
        ),
    ],
    "signs_on_top_of_a_stranger": [
        Bug("resident/first.ts", "({ nonce }) => nonce === expected", "() => true", "foreign use is not noticed")
    ],
    "proof_out_of_thin_air": [
        Bug(
            "resident/nodes.ts",
            "if (!overtaken && key.height <= attempt.validUntil) return undefined;",
            "return { cause: 'expired' };",
            "alive, and called dead",
        ),
        Bug(
            "resident/decide.ts",
            "return seen.held ? { do: 'wait' } : { do: 'hold', reason: cause };",
            "return { do: 'end', as: 'failed' };",
            "and ended",
        ),
    ],
    "retired_without_its_home": [
        Bug(
            "resident/loop.ts",
            "for (const [object, finals] of byHome) await",
            "for (const [object, finals] of []) await",
            "the answer to a retry is lost",
        )
    ],
    "never_sent_again": [
        Bug(
            "resident/decide.ts", "seen.sentAgoMs >= patience.includeWithinMs", "false", "dropped bytes never come back"
        ),
        Bug("resident/loop.ts", "this.sentAt.delete(attempt.hash);", "", "and nobody tries"),
        Bug("resident/decide.ts", "seen.sentAgoMs === null ||", "seen.ageMs < 500 ||", "not even whoever comes next"),
    ],
    "two_in_flight": [
        Bug(
            "resident/loop.ts",
            "if (pending.length > 0) {",
            "if (pending.length > 1) {",
            "the second one overtakes the first",
        )
    ],
    "landed_is_forgotten": [
        Bug("resident/loop.ts", "landed: nonce });", "landed: null });", "its own nonce is taken for a stranger's")
    ],
    "rolled_back_and_unnoticed": [
        Bug(
            "resident/loop.ts",
            "if (lane.history_id !== lane.found_history_id &&",
            "if (lane.history_id === '' &&",
            "the lane neither works nor says why",
        )
    ],
    "a_timeout_is_a_failure": [
        Bug(
            "resident/loop.ts",
            "if (['unavailable', 'rate_limited', 'busy', 'unknown'].includes(reply.verdict)) {",
            "if (['unavailable', 'rate_limited', 'busy', 'unknown'].includes(reply.verdict)) {\n            "
            "throw new Error('gave up');",
            "whoever is not answered gives up",
        ),
        Bug(
            "resident/decide.ts",
            "return { do: unsent ? 'send' : 'wait' };",
            "return { do: seen.ageMs > 3_000 ? 'wait' : 'send' };",
            "for good",
        ),
    ],
}
