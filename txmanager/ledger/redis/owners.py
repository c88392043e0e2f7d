"""Owning a lane on Redis: lease, take, write ahead, settle. Every write is fenced by the script that makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from txmanager.core.budgets import corrections
from txmanager.core.errors import Fenced, Refused, RolledBack
from txmanager.core.ledger import SCHEMA, TOMBSTONE_MS, Lease, Renewed, Settled, Settlement, Taken, WriteAhead
from txmanager.core.models import Fence, IntentId, Json, Purpose, Record
from txmanager.core.positions import START
from txmanager.core.states import LaneState, Status, sources
from txmanager.ledger.inputs import check_settlement, check_token
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.backend import Backend, words
from txmanager.ledger.redis.runner import Arg, Call

_SOURCES = [words(sources(status)) for status in (Status.DONE, Status.FAILED, Status.CANCELLED)]
"""What each end may follow, as `settle` looks for it."""


class Owners(Backend):
    async def lease(self, lane: str, owner: str, token: str, lease_ms: int) -> Lease:
        check_token(token)
        reply = await self._runner.run("lease", self._lane_keys(lane), (owner, token, lease_ms, SCHEMA))
        match reply:
            case [b"leased", epoch, holder, snapshot]:
                fence, view = Fence(lane, holder.decode(), int(epoch), token), codec.lane(lane, snapshot)
                assert view is not None
                self._signed_upto[lane] = view.signed_upto
                return Lease("leased", fence, view, fence.owner, lease_ms)
            case [b"held", holder, left]:
                return Lease("held", owner=holder.decode(), left_ms=int(left))
            case [word, *_]:
                name: Any = word.decode()
                return Lease(name)
        raise AssertionError(reply)

    async def renew(self, fences: Sequence[Fence], lease_ms: int) -> list[Renewed]:
        calls = [
            Call("renew", (self._keys.lane(f.lane), self._keys.queue(f.lane)), (f.epoch, f.token, lease_ms))
            for f in fences
        ]
        answers = []
        for fence, reply in zip(fences, await self._runner.run_many(calls), strict=True):
            if reply[0] == b"renewed":
                _, depth, state, asks, stored, found = reply
                answers.append(
                    Renewed(
                        "renewed",
                        depth,
                        LaneState(state.decode()),
                        int(asks),
                        stored != found,
                        fence.owner,
                        fence.epoch,
                    )
                )
            else:
                answers.append(Renewed("fenced", owner=reply[1].decode(), epoch=int(reply[2])))
        return answers

    async def release(self, fence: Fence) -> bool:
        self._signed_upto.pop(fence.lane, None)
        reply = await self._runner.run("release", [self._keys.lane(fence.lane)], (fence.epoch, fence.token))
        return bool(reply[0] == b"released")

    async def baseline(self, fence: Fence, cursor: int, *, operator: bool = False) -> int:
        args = (fence.epoch, fence.token, str(cursor), "operator" if operator else "")
        reply = await self._fenced(fence, "baseline", [self._keys.lane(fence.lane)], args, durable=True)
        return int(reply[1])

    async def vouch(self, fence: Fence, stored: str, found: str) -> bool:
        args = (fence.epoch, fence.token, stored, found)
        reply = await self._fenced(fence, "vouch", [self._keys.lane(fence.lane)], args)
        return bool(reply[0] == b"ok")

    async def take(self, fence: Fence, count: int) -> list[Taken]:
        """Two plain commands: nothing rests on what is read here, because the write-ahead compares it with the queue. A
        script would turn each entry into Lua values and back."""
        lane, queue = self._keys.lane(fence.lane), self._keys.queue(fence.lane)
        while True:
            upto = self._signed_upto.get(fence.lane, START)
            fields, entries = await self._runner.plain(
                lane,
                ("HMGET", lane, "epoch", "token", "owner", "state", "upto"),
                ("XRANGE", queue, f"({upto}", "+", "COUNT", count),
            )
            epoch, token, owner, state, found = map(codec.text, fields)
            if (epoch, token) != (str(fence.epoch), fence.token):
                self._signed_upto.pop(fence.lane, None)
                raise Fenced(fence.lane, owner, int(epoch or 0))
            if state not in (LaneState.ACTIVE, LaneState.DRAINING):
                return []
            if found == upto:
                return [codec.entry(sid, flat) for sid, flat in entries or ()]  # of a count of 0 there is no list
            self._signed_upto[fence.lane] = found

    async def unfinished(self, fence: Fence) -> list[Record]:
        lane = fence.lane
        reply = await self._fenced(fence, "unfinished", self._unfinished_keys(lane), (fence.epoch, fence.token))
        ids = [IntentId.parse(id.decode()) for id in reply[1:]]
        if not ids:
            return []
        # A new owner sends what it finds here: not what a failover could still take back from its predecessor.
        records = await self._records(lane, ids, confirmed=True)
        found = [r for r in records if r is not None and not r.status.final]
        return sorted((r for r in found if r.attempts), key=lambda r: min(a.nonce for a in r.attempts))

    async def record_attempts(self, fence: Fence, cursor: int, batch: Sequence[WriteAhead]) -> int:
        lane = fence.lane
        after = max([cursor, *(w.attempt.nonce + 1 for w in batch)])
        args: list[Arg] = [fence.epoch, fence.token, str(cursor), str(after)]
        for write in batch:
            attempt = write.attempt
            args += (write.life, write.position, attempt.nonce, attempt.hash, codec.pack_attempt(attempt))
            args += (int(write.counted), *_deaths(write.deaths))
        if len(batch) == 1 and batch[0].digest:
            args.append(batch[0].digest)
        keys = [
            self._keys.lane(lane),
            self._keys.queue(lane),
            self._keys.events(lane),
            self._keys.unfinished(lane),
            *self._keys.records(lane, [write.id for write in batch]),
        ]
        reply = await self._fenced(fence, "record_attempts", keys, args, durable=True)
        if reply[0] == b"refused":
            raise Refused(lane if reply[1] == b"lane" else reply[1].decode(), reply[2].decode())
        if reply[0] == b"rolled_back":
            raise RolledBack(lane, reply[1].decode(), reply[2].decode())
        if batch and batch[-1].attempt.purpose in (Purpose.FIRST, Purpose.KEYLESS):
            self._signed_upto[lane] = batch[-1].position
        return int(reply[1])

    async def settle(self, fence: Fence, batch: Sequence[Settlement], landed: int | None = None) -> list[Settled]:
        lane = fence.lane
        # an outcome seen on chain can be seen again; one that only we know must not be lost, nor rest on what was
        unseen = any(item.outcome.tx_hash is None for item in batch)
        args: list[Arg] = [fence.epoch, fence.token, "" if landed is None else str(landed), self._keys.final(lane)]
        args += ("unseen" if unseen else "", *_SOURCES, lane, self._retention_ms, TOMBSTONE_MS, len(batch))
        args.append("1" if self._one_step else "")
        keys = [*self._lane_keys(lane, events=True), *self._keys.records(lane, [item.id for item in batch])]
        for item in batch:
            outcome = check_settlement(item)
            landed_as = "" if outcome.tx_hash is None else f"{outcome.nonce}:{outcome.tx_hash}"
            code = str(outcome.error["code"]) if outcome.error else ""
            args += (item.life, outcome.status.value, codec.pack_outcome(outcome), landed_as, code)
            args += self._home_args(item)
            args += _deaths(item.deaths)
            if self._link.one_server:
                keys += self._home_keys(item.id)
        reply = await self._fenced(fence, "settle", keys, args, durable=unseen)
        if reply[0] == b"rolled_back":
            raise RolledBack(lane, reply[1].decode(), reply[2].decode())
        at, answers = int(reply[1]), []
        for item, answer in zip(batch, reply[2:], strict=True):
            if isinstance(answer, bytes):
                answers.append(Settled("settled", item.outcome.status.value, at, answer == b"retired"))
            else:
                word: Any = answer[0].decode()
                answers.append(Settled(word, answer[1].decode() if len(answer) > 1 else ""))
        return answers

    def _home_args(self, item: Settlement) -> tuple[Arg, ...]:
        """What the home is to keep at once: nothing where it lives elsewhere, or charges are corrected first."""
        final = item.final
        if final is None or not self._link.one_server or corrections(final):
            return "", "", "", ""
        return final.intent.fingerprint, final.created_at, *codec.pack_around(final)

    async def hold(self, fence: Fence, id: IntentId, life: str, reason: str, evidence: Mapping[str, Json]) -> bool:
        lane = fence.lane
        keys = [self._keys.lane(lane), self._keys.events(lane), self._keys.record(lane, id)]
        held = codec.dumps({"reason": reason, "evidence": evidence})
        args = (fence.epoch, fence.token, str(id), life, reason, held)
        reply = await self._fenced(fence, "hold", keys, args)
        return bool(reply[0] == b"held")

    async def set_aside(self, fence: Fence, entry: Taken, reason: str, evidence: Mapping[str, Json]) -> bool:
        lane, id = fence.lane, entry.intent.id
        keys = [*self._lane_keys(lane, events=True)[:4], self._keys.record(lane, id)]
        held = codec.dumps({"reason": reason, "evidence": evidence})
        args = (fence.epoch, fence.token, str(id), entry.position, reason, held)
        reply = await self._fenced(fence, "set_aside", keys, args)
        return bool(reply[0] == b"held")

    async def broke(self, fence: Fence, what: str, mark: str, error: str, forget_ms: int) -> int:
        keys = [self._keys.lane(fence.lane), self._keys.breaks(fence.lane)]
        args = (fence.epoch, fence.token, what, mark, error[:500], forget_ms)
        return int((await self._fenced(fence, "broke", keys, args))[1])

    async def answer(self, fence: Fence, id: IntentId, life: str) -> bool:
        keys = [self._keys.lane(fence.lane), self._keys.record(fence.lane, id)]
        reply = await self._fenced(fence, "answer", keys, (fence.epoch, fence.token, life))
        return bool(reply[0] == b"ok")

    async def _fenced(
        self, fence: Fence, name: str, keys: Sequence[str], args: Sequence[Arg], *, durable: bool = False
    ) -> Any:
        reply = await self._runner.run(name, keys, args, durable=durable)
        if reply[0] == b"fenced":
            raise Fenced(fence.lane, reply[1].decode(), int(reply[2]))
        return reply


def _deaths(deaths: Mapping[str, Mapping[str, Json]]) -> tuple[Arg, ...]:
    if not deaths:
        return (0,)
    return len(deaths), *(part for name, proof in deaths.items() for part in (name, codec.dumps(proof)))
