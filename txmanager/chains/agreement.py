"""Agreement: what ends an intent without an effect, or stops a lane, needs the word of two different nodes.

One node may lie or be broken. So a final `failed`, a proof of death, a refusal before signing that rests on a node's
word, a refusal of bytes and whatever would quarantine a lane are asked of every node apart: each gives its whole
answer through an adapter of its own that shares no cache with the others. A word that enough different nodes give
counts. Too few means wait; words that contradict each other mean that nothing ends. The way of an intent that succeeds
asks nobody twice, unless `for_done` says so.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from txmanager.chains.panel import Panel, Poll
from txmanager.core.chain import (
    Chain,
    Doubt,
    Impossible,
    NonceView,
    Prepared,
    Proof,
    Readings,
    SendReply,
    Sighting,
    Unpriced,
    Verdict,
)
from txmanager.core.errors import InvalidSettings, KeyMissing, Unavailable
from txmanager.core.models import Attempt, Intent, Json, failure
from txmanager.core.states import Status

T = TypeVar("T")
Pair = tuple[Intent, Attempt]
Ready = Prepared | Impossible | Unpriced

_ENDS = (Verdict.PERMANENT, Verdict.KEY_MISSING, Verdict.INSUFFICIENT_FUNDS)
"""Refusals that kill an intent or stop a lane."""
UNSEEN_S, UNFINAL_S = 15.0, 60.0
"""How long bytes may stay unseen, and seen but not final, before the other nodes are asked where they are."""
REFUSE_AFTER_S = 60.0
"""How long a refusal before signing waits for another node. Nothing is signed by then, so that the intent may end
without harm, and does not keep its lane waiting for a node that is gone."""
_REMEMBERED = 20_000


def needed(agreement: int | None, different: int) -> int:
    """How many nodes must agree: two where there are two."""
    if agreement is None:
        return min(2, different)
    if not 1 <= agreement <= different:
        raise InvalidSettings("agreement", f"is {agreement}; the network has {different} different endpoints")
    return agreement


class Agreement:
    """`count`: how many different nodes must say it. With one, every question goes straight to the adapter."""

    def __init__(self, panel: Panel | None = None, count: int = 1, *, for_done: bool = False) -> None:
        if for_done and count < 2:
            raise InvalidSettings("agreement_for_done", "needs an agreement of at least 2 nodes")
        self._panel = panel
        self._count = count if panel is not None else 1
        self._for_done = for_done
        self._late: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Attempts that are not final: since when, and when the other nodes were asked last."""
        self._deaths: OrderedDict[str, Doubt] = OrderedDict()
        """Attempts that too few nodes call dead."""
        self._probes: OrderedDict[str, int] = OrderedDict()
        self._lacking_since: float | None = None

    @property
    def single(self) -> bool:
        return self._count < 2

    # -- the end of what was sent

    async def look_up(
        self,
        own: Callable[[str, Sequence[Pair]], Awaitable[list[Sighting]]],
        lane: str,
        attempts: Sequence[Pair],
    ) -> list[Sighting]:
        seen = await own(lane, attempts)
        if self.single:
            return seen
        again = [n for n, (_, attempt) in enumerate(attempts) if self._asks_others(attempt, seen[n])]
        if again:
            asked = [attempts[n] for n in again]
            poll = await self._poll(lambda chain: chain.look_up(lane, asked))
            for place, n in enumerate(again):
                seen[n] = self._weigh(seen[n], {node: word[place] for node, word in poll.words.items()}, poll.absent)
        for n, (_, attempt) in enumerate(attempts):
            if seen[n].where == "unknown" and (doubt := self._deaths.get(attempt.hash)) is not None:
                seen[n] = replace(seen[n], doubt=doubt)
        return seen

    def _asks_others(self, attempt: Attempt, sighting: Sighting) -> bool:
        if sighting.where == "final":
            self._late.pop(attempt.hash, None)
            return self._for_done or sighting.outcome is None or sighting.outcome.status is not Status.DONE
        now = asyncio.get_running_loop().time()
        since, asked = self._late.get(attempt.hash, (now, now))
        patience = UNSEEN_S if sighting.where == "unknown" else UNFINAL_S
        due = now - since >= patience and now - asked >= patience / 2
        _remember(self._late, attempt.hash, (since, now if due else asked))
        return due

    def _weigh(self, first: Sighting, words: Mapping[str, Sighting], absent: Mapping[str, Json]) -> Sighting:
        finals = {node: word for node, word in words.items() if word.where == "final" and word.outcome is not None}
        votes = Counter(map(_meaning, finals.values()))
        agreed = [meaning for meaning, count in votes.items() if count >= self._count]
        if len(agreed) == 1:
            return next(word for word in finals.values() if _meaning(word) == agreed[0])
        claims = {*votes, _meaning(first)} if first.where == "final" else set(votes)
        if not claims:
            return first
        if len(claims) == 1 and not self._for_done and not agreed:
            [(status, _)] = claims
            if status == Status.DONE and finals:
                return next(iter(finals.values()))  # seen by a node, denied by none: success needs one word
        answers: dict[str, Json] = {**absent, **{node: _answer(word) for node, word in words.items()}}
        if first.where == "final":
            answers["first answer"] = _answer(first)
        where = "included" if first.where == "final" else first.where
        return Sighting(where, height=first.height, doubt=Doubt("outcome", answers, len(claims) > 1))

    async def prove_dead(
        self,
        own: Callable[[str, Sequence[Attempt]], Awaitable[list[Proof | None]]],
        lane: str,
        attempts: Sequence[Attempt],
    ) -> list[Proof | None]:
        """Each node proves it all, at its own final height; one that has no proof may only be behind."""
        if self.single:
            return await own(lane, attempts)
        poll = await self._poll(lambda chain: chain.prove_dead(lane, attempts))
        agreed: list[Proof | None] = []
        for n, attempt in enumerate(attempts):
            proofs = {node: proof for node, word in poll.words.items() if (proof := word[n]) is not None}
            self._deaths.pop(attempt.hash, None)
            if len(proofs) >= self._count:
                agreed.append(_together(proofs))
                continue
            agreed.append(None)
            if proofs:
                answers: dict[str, Json] = {**poll.absent, **dict.fromkeys(poll.words, "no proof of death")}
                answers |= {node: {"cause": proof.cause, **proof.evidence} for node, proof in proofs.items()}
                _remember(self._deaths, attempt.hash, Doubt("death", answers, conflict=False))
        return agreed

    # -- before anything is signed

    async def prepare(
        self,
        own: Callable[[str, Sequence[Intent]], Awaitable[list[Ready]]],
        lane: str,
        intents: Sequence[Intent],
    ) -> list[Ready]:
        """A refusal that one node makes and another does not is none: the intent is signed, and the chain decides."""
        ready = await own(lane, intents)
        refused = [
            n
            for n, one in enumerate(ready)
            if isinstance(one, Unpriced) or (isinstance(one, Impossible) and one.by_node)
        ]
        if self.single or not refused:
            return ready
        asked = [intents[n] for n in refused]
        poll = await self._poll(lambda chain: chain.prepare(lane, asked))
        lacking = False
        for place, n in enumerate(refused):
            words = [word[place] for word in poll.words.values()]
            able = next((word for word in words if isinstance(word, Prepared)), None)
            poor = next((word for word in [*words, ready[n]] if isinstance(word, Unpriced)), None)
            if (kept := able or poor) is not None:
                ready[n] = kept  # what lacks funds waits for them, and does not fail
            elif len(words) < self._count:
                lacking = True
                ready[n] = self._unconfirmed(ready[n], poll)
        if not lacking:
            self._lacking_since = None
        return ready

    def _unconfirmed(self, refused: Ready, poll: Poll[list[Ready]]) -> Impossible:
        assert isinstance(refused, Impossible)
        now = asyncio.get_running_loop().time()
        if self._lacking_since is None:
            self._lacking_since = now
        if now - self._lacking_since < REFUSE_AFTER_S:
            raise self._too_few("a refusal before signing", poll)
        message = (
            f"one node refuses it ({refused.error.get('message', '')}) and no other answered for "
            f"{REFUSE_AFTER_S:g} s; nothing was signed and nothing spent"
        )
        return Impossible(failure("unconfirmed", message, new_key_helps=True, nodes=dict(poll.absent)))

    # -- the lane itself

    async def nonce(self, own: Callable[[str], Awaitable[NonceView]], lane: str) -> NonceView:
        """A key is missing when enough nodes say so; else it is as the first one that has it says."""
        try:
            return await own(lane)
        except KeyMissing:
            if self.single:
                raise
            poll = await self._poll(lambda chain: _nonce_or_none(chain, lane))
            views = [view for view in poll.words.values() if view is not None]
            if len(poll.words) - len(views) >= self._count:
                raise
            if views:
                return views[0]
            raise self._too_few("a missing key", poll) from None

    async def readings(self, lane: str, first: NonceView) -> Readings:
        if self.single:
            return Readings({"node": first})
        poll = await self._poll(lambda chain: chain.nonce(lane))
        if len(poll.words) < self._count:
            raise self._too_few("the lane's nonce", poll)
        return Readings(poll.words, self._count)

    async def probe(
        self, own: Callable[[str, Attempt], Awaitable[SendReply]], lane: str, attempt: Attempt
    ) -> SendReply:
        """One node after the other: the first may take our bytes and keep them to itself."""
        if self.single:
            return await own(lane, attempt)
        turn = self._probes.get(attempt.hash, 0)
        _remember(self._probes, attempt.hash, turn + 1)
        assert self._panel is not None
        members = self._panel.members
        ask = own if turn % len(members) == 0 else members[turn % len(members)][2].probe
        return await self.weigh_reply(lane, attempt, await ask(lane, attempt))

    async def weigh_reply(self, lane: str, attempt: Attempt, reply: SendReply) -> SendReply:
        """A refusal that would end the intent or stop the lane, when enough nodes make it; else the mildest answer."""
        if self.single or reply.verdict not in _ENDS:
            return reply
        poll = await self._poll(lambda chain: chain.probe(lane, attempt))
        if sum(word.verdict is reply.verdict for word in poll.words.values()) >= self._count:
            return reply
        milder = [word for word in poll.words.values() if word.verdict not in _ENDS]
        milder.sort(key=lambda word: not word.verdict.sent)
        return milder[0] if milder else SendReply(Verdict.UNKNOWN, f"only one node says so: {reply.message}")

    async def _poll(self, ask: Callable[[Chain], Awaitable[T]]) -> Poll[T]:
        assert self._panel is not None
        return await self._panel.poll(ask)

    async def close(self) -> None:
        if self._panel is not None:
            await self._panel.close()

    def _too_few(self, what: str, poll: Poll[T]) -> Unavailable:
        return Unavailable(
            f"{what} needs the word of {self._count} different nodes, {len(poll.words)} gave it: "
            + ", ".join(f"{node} ({why})" for node, why in poll.absent.items())
        )


def _meaning(word: Sighting) -> tuple[str, Json]:
    """What two nodes must say alike; the transaction is the one that both were asked for."""
    assert word.outcome is not None
    return word.outcome.status.value, (word.outcome.result or {}).get("block_hash")


def _answer(word: Sighting) -> Json:
    if word.where != "final" or word.outcome is None:
        return {"seen": word.where}
    status, block = _meaning(word)
    return {"seen": "final", "status": status, "block_hash": block, "error": word.outcome.error}


def _together(proofs: Mapping[str, Proof]) -> Proof:
    """The proof that claims the least of several: a nonce that only one node saw used is nobody's yet."""
    weakest = min(proofs.values(), key=_claim)
    nodes = {node: {"cause": proof.cause, **proof.evidence} for node, proof in proofs.items()}
    return replace(weakest, evidence={**weakest.evidence, "nodes": nodes})


def _claim(proof: Proof) -> tuple[bool, int]:
    final_nonce = proof.evidence.get("final_nonce")
    ours = "landed" in proof.evidence or proof.cause != "overtaken" or final_nonce is None
    return not ours, int(str(final_nonce)) if final_nonce is not None else 0


async def _nonce_or_none(chain: Chain, lane: str) -> NonceView | None:
    try:
        return await chain.nonce(lane)
    except KeyMissing:
        return None


def _remember(store: OrderedDict[str, T], name: str, value: T) -> None:
    store[name] = value
    while len(store) > _REMEMBERED:
        store.popitem(last=False)
