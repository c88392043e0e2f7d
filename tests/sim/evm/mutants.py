"""Seeded bugs of EVM lanes: each a plausible mistake, put in by patching. Missing one would prove nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.sim.evm.planting import Bugs, Patch
from txmanager.chains.evm import chain as evm_chain
from txmanager.chains.evm import nodes as evm_nodes
from txmanager.chains.evm.tracker import Head
from txmanager.chains.evm.tracker import Tracker as EvmTracker
from txmanager.chains.evm.transaction import Fees
from txmanager.core.chain import Prepared, Proof, SendReply, Traits, Verdict
from txmanager.core.decide import Observation, Policy, Settle, Step
from txmanager.core.decide import decide as sound
from txmanager.core.models import Attempt, Outcome, Purpose, Record
from txmanager.core.states import Status
from txmanager.rpc.errors import RpcError
from txmanager.runtime.lane import tracker as runtime_tracker
from txmanager.runtime.lane.outbox import Outbox

MUTANTS = Bugs()
mutant, planted = MUTANTS.mutant, MUTANTS.planted


@mutant
def bump_below_the_minimum() -> Sequence[Patch]:
    def bump(previous: Sequence[Fees], market: Fees, cap: int, percent: int) -> Fees | None:
        dearest = max(previous, key=lambda p: p.max_fee)
        return Fees(dearest.max_fee * 105 // 100 + 1, dearest.tip * 105 // 100 + 1)

    return [patch.object(evm_chain, "bump", bump)]


@mutant
def replacement_sent_before_it_is_written_ahead() -> Sequence[Patch]:
    record = Outbox.write_ahead

    async def early(self: Outbox, writes: Sequence[Any], **asked: Any) -> bool:
        for write in writes:
            if write.attempt.purpose in (Purpose.REPLACE, Purpose.NOOP):
                await self._lane.chain.broadcast(self._lane.id, [write.attempt])
        return await record(self, writes, **asked)

    return [patch.object(Outbox, "write_ahead", early)]


@mutant
def null_look_up_taken_as_death() -> Sequence[Patch]:
    """A receipt that is not there, of bytes that a node calls too low: dead, whatever the final count says."""

    async def hasty(self: EvmTracker, lane_id: str, lane: Any, attempts: Sequence[Attempt]) -> list[Proof | None]:
        calls = [("eth_getTransactionReceipt", [a.hash]) for a in attempts]
        receipts = await evm_nodes.ask_many(self._rpc, calls, lane_id)
        return [
            Proof("overtaken", {"nonce": str(a.nonce)}) if r is None else None
            for a, r in zip(attempts, receipts, strict=True)
        ]

    return [patch.object(EvmTracker, "prove_dead", hasty)]


@mutant
def cancel_that_frees_a_nonce_in_flight() -> Sequence[Patch]:
    """Cancelled by saying so: no no-op, no proof."""

    def decide(record: Record, seen: Observation, policy: Policy, traits: Traits, now: int) -> Step:
        step = sound(record, seen, policy, traits, now)
        if record.cancel_requested and not isinstance(step, Settle):
            deaths = {a.name: {"cause": "cancelled"} for a in record.live}
            return Settle(Outcome(Status.CANCELLED), "cancelled", deaths)
        return step

    return [patch.object(runtime_tracker, "decide", decide)]


@mutant
def receipt_taken_as_final_too_early() -> Sequence[Patch]:
    head = EvmTracker._head

    def eager(self: EvmTracker, answers: Sequence[Any]) -> Head:
        told = head(self, answers)
        return replace(told, final=told.number)

    return [patch.object(EvmTracker, "_head", eager)]


@mutant
def nonce_error_trips_the_breaker() -> Sequence[Patch]:
    return [patch.object(RpcError, "breaks", True)]


@mutant
def dropped_bytes_are_never_sent_again() -> Sequence[Patch]:
    async def deaf(self: Any, lane: str, attempt: Attempt) -> SendReply:
        return SendReply(Verdict.ACCEPTED)

    return [
        patch.object(evm_chain.EvmChain, "probe", deaf),
        patch.object(evm_chain.EvmChain, "replace", _never),
    ]


async def _never(self: Any, lane: str, prepared: Prepared, previous: Sequence[Attempt], now: int) -> Attempt | None:
    return None


@mutant
def no_op_at_the_next_nonce() -> Sequence[Patch]:
    """As on NEAR: it kills nothing here, and leaves the lane with a nonce that belongs to nobody."""
    noop = evm_chain.EvmChain.noop

    async def next_nonce(self: Any, lane: str, nonce: int, previous: Sequence[Attempt], now: int) -> Attempt | None:
        return await noop(self, lane, nonce + 1, previous, now)

    return [patch.object(evm_chain.EvmChain, "noop", next_nonce)]


@mutant
def replacement_changes_what_is_paid() -> Sequence[Patch]:
    sign = evm_chain.EvmChain._sign

    async def generous(self: Any, lane: str, jobs: Sequence[Any]) -> Any:
        if len(jobs) == 1 and jobs[0][1].tip > 1:
            nonce, fees, body = jobs[0]
            jobs = [(nonce, fees, replace(body, value=body.value + 1))]
        return await sign(self, lane, jobs)

    return [patch.object(evm_chain.EvmChain, "_sign", generous)]
