"""What txmanager must know of the toy chain: its kinds, its adapter, and the `ChainFamily` that names them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from toychain.node import FEE, Transaction, read

from txmanager.chains.endpoints import endpoints
from txmanager.core import chain as ask
from txmanager.core.chain import NonceView, Prepared, SendReply, Sighting, Verdict
from txmanager.core.decide import Policy
from txmanager.core.errors import InvalidInput, KeyMissing
from txmanager.core.findings import Finding
from txmanager.core.funds import Cost, Funds, Purse
from txmanager.core.kinds import KindPath, Reading
from txmanager.core.models import Attempt, Intent, Json, Outcome, Purpose, failure
from txmanager.core.states import Status
from txmanager.rpc.errors import RpcError, RpcFailure
from txmanager.rpc.http import HttpRpc
from txmanager.settings import NetworkSettings, PoolSettings
from txmanager.settings.family import ChainFamily, Held, NodeProbe, Unit
from txmanager.signing.checked import CheckedSigner
from txmanager.signing.signer import Signer, SigningRequest
from txmanager.signing.sources import Asked, Curve, KeySources


class Transfer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    creates: ClassVar[bool] = False
    account: str = Field(pattern=r"^[A-Za-z0-9:]{1,80}$", examples=["alice"])
    amount: int = Field(ge=0, examples=[5])


class CreateAccount(Transfer):
    creates: ClassVar[bool] = True


KINDS: dict[str, type[Transfer]] = {"toy.transfer": Transfer, "toy.create_account": CreateAccount}


def parse(kind: str, payload: Mapping[str, Json]) -> Transfer:
    try:
        return KINDS[kind].model_validate(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidInput(".".join(map(str, first["loc"])), first["msg"]) from None


def reading(kind: str, payload: Mapping[str, Json]) -> Reading:
    asked = parse(kind, payload)
    key = f"create:{asked.account}" if asked.creates else None
    return Reading(payload, frozenset({asked.account}), asked.amount, key, cost=asked.amount + FEE)


class ToyChain:
    traits = ask.Traits(gaps_block=True, overtaking_kills=False, replaces=True)

    def __init__(self, rpc: HttpRpc, signers: Mapping[str, Signer]) -> None:
        self._rpc, self._signers = rpc, signers

    def serves(self, intent: Intent) -> bool:
        return intent.kind in KINDS

    def instant(self, lane: str) -> bool:
        return self._signers[lane].instant

    async def trial(self, lane: str) -> None:
        await self._sign(lane, [Transaction(account_of(lane), -1, "", 0)], Purpose.NOOP, 0)

    async def nonce(self, lane: str) -> NonceView:
        told = await self._rpc.call("toy_account", [account_of(lane)])
        if told is None:
            raise KeyMissing(f"{account_of(lane)} is no account")
        funds = Funds((Purse("account", told["balance"]),), told["height"])
        return NonceView(told["nonce"], told["height"], told["balance"], funds)

    async def readings(self, lane: str, first: NonceView) -> ask.Readings:
        return ask.Readings({"node": first})

    async def prepare(self, lane: str, intents: Sequence[Intent]) -> list[Prepared | ask.Impossible | ask.Unpriced]:
        bodies = [(i, parse(i.kind, i.payload)) for i in intents]  # the API read them by the same rules
        made = [(i, Transaction(account_of(lane), 0, b.account, b.amount, b.creates)) for i, b in bodies]
        return [Prepared(intent, body, Cost(FEE, body.amount)) for intent, body in made]

    def cost(self, attempt: Attempt) -> Cost:
        return Cost(FEE, read(attempt.raw).amount)

    async def sign(
        self, lane: str, prepared: Sequence[Prepared], first_nonce: int, purpose: Purpose, now: int
    ) -> list[Attempt]:
        bodies = [one.body for one in prepared if isinstance(one.body, Transaction)]
        return await self._sign(lane, [replace(b, nonce=n) for n, b in enumerate(bodies, first_nonce)], purpose, now)

    async def _sign(self, lane: str, bodies: Sequence[Transaction], purpose: Purpose, now: int) -> list[Attempt]:
        signer = CheckedSigner(self._signers[lane], bodies[0].check)
        signatures = await signer.sign([SigningRequest(body.unsigned, body.digest) for body in bodies])
        signed = zip(bodies, signatures, strict=False)  # a signer that stops halfway has signed what comes before
        raws = [(body.nonce, body.unsigned + signature) for body, signature in signed]
        return [Attempt(nonce, hashlib.sha256(raw).hexdigest(), raw, purpose, now) for nonce, raw in raws]

    async def replace(self, lane: str, prepared: Prepared, previous: Sequence[Attempt], now: int) -> Attempt | None:
        return None  # there is one price

    async def noop(self, lane: str, nonce: int, previous: Sequence[Attempt], now: int) -> Attempt | None:
        body = Transaction(account_of(lane), nonce, account_of(lane), 0)
        return (await self._sign(lane, [body], Purpose.NOOP, now))[0]

    async def broadcast(self, lane: str, attempts: Sequence[Attempt]) -> list[SendReply]:
        answers = await self._rpc.send(lane, "toy_send", [[attempt.raw.hex()] for attempt in attempts])
        return [_reply(answer) for answer in answers]

    async def probe(self, lane: str, attempt: Attempt) -> SendReply:
        return (await self.broadcast(lane, [attempt]))[0]

    async def look_up(self, lane: str, attempts: Sequence[tuple[Intent, Attempt]]) -> list[Sighting]:
        return [_sighting(told) for told in await self._landed([attempt for _, attempt in attempts])]

    async def prove_dead(self, lane: str, attempts: Sequence[Attempt]) -> list[ask.Proof | None]:
        used = (await self.nonce(lane)).next_nonce  # read first: then what is unknown below it never landed
        found = zip(attempts, await self._landed(attempts), strict=True)
        dead = [(a.nonce, a.nonce < used and told is None) for a, told in found]
        return [ask.Proof("overtaken", {"final_nonce": str(nonce)}) if gone else None for nonce, gone in dead]

    async def close(self) -> None:
        await self._rpc.close()

    async def _landed(self, attempts: Sequence[Attempt]) -> list[dict[str, Any] | None]:
        return list(await asyncio.gather(*(self._rpc.call("toy_transaction", [one.hash]) for one in attempts)))


def account_of(lane: str) -> str:
    return lane.split(":", 2)[2]


def _reply(answer: object) -> SendReply:
    if isinstance(answer, RpcError):
        return SendReply(Verdict(answer.message), answer.message)  # the node says it in our own words
    return SendReply(Verdict.UNAVAILABLE if isinstance(answer, RpcFailure) else Verdict.ACCEPTED)


def _sighting(told: dict[str, Any] | None) -> Sighting:
    if told is None:
        return ask.UNSEEN
    status, result = Status.DONE if told["ok"] else Status.FAILED, {"height": str(told["height"])}
    error = None if told["ok"] else failure("refused", "the account is there, or is not", new_key_helps=False)
    return Sighting("final", Outcome(status, told["hash"], told["nonce"], result, error), told["height"])


class ToyNetwork(NetworkSettings):
    chain: Literal["toy"]


def load_keys(sources: KeySources, name: str, network: ToyNetwork, pool: PoolSettings) -> Iterator[tuple[str, Signer]]:
    for source in pool.keys:
        for found in sources.load(source, Asked(Curve.ED25519, pool.account)):
            yield f"toy:{name}:{found.signer.public_key}", found.signer


def open_chain(name: str, network: ToyNetwork, held: Mapping[str, Held[PoolSettings]]) -> ToyChain:
    signers = {lane: one.signer for lane, one in held.items() if one.signer is not None}
    return ToyChain(HttpRpc(endpoints(name, network)), signers)


FAMILY = ChainFamily(
    name="toy",
    title="the toy chain",
    unit=Unit("pebble"),
    network=ToyNetwork,
    pool=PoolSettings,
    kinds=KINDS,
    paths={"toy.create_account": KindPath("/v1/toy/accounts")},
    reading=lambda network, pool: reading,
    lanes=lambda name, network: f"toy:{name}",
    load_keys=load_keys,
    open_chain=open_chain,
    policy=lambda network, pool: Policy(window=pool.window, max_inflight=pool.max_inflight, include_within_ms=500),
    probe=NodeProbe("toy_status", "toy_status", lambda network, told: Finding("ok", f"height {told['height']}")),
)
