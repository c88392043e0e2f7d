"""`evm.raw`: intents that carry bytes signed by the caller. They are checked, sent and tracked; nothing is signed.

`EvmCounter` is the chain as the nonce service sees it: an `EvmChain` without a key, which counts, quotes and reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txmanager.chains.evm.names import RAW_KIND, LaneId, check_address
from txmanager.chains.evm.raw import FIELD, read_given
from txmanager.core.chain import Impossible, Prepared
from txmanager.core.errors import InvalidInput
from txmanager.core.given import Given, Quote
from txmanager.core.models import Attempt, Intent, Purpose, failure

if TYPE_CHECKING:
    from txmanager.chains.evm.chain import EvmChain


def check_given(given: Given, lane: LaneId) -> Given:
    """The bytes must be of this address and this chain, or they would be somebody else's transaction."""
    if given.chain_id != lane.chain_id:
        raise InvalidInput(FIELD, f"is for chain {given.chain_id}, not for {lane.chain_id}; sign it with that chainId")
    if given.sender != lane.address:
        raise InvalidInput(FIELD, f"was signed by {given.sender}, not by {lane.address}")
    return given


def prepare_given(intent: Intent, lane: LaneId) -> Prepared | Impossible:
    """The API checked the same before it accepted; a lane believes nobody."""
    try:
        if intent.kind != RAW_KIND:
            raise InvalidInput("kind", f"must be {RAW_KIND}: the callers hold the key of this lane")
        return Prepared(intent, check_given(read_given(intent.payload.get("raw")), lane))
    except InvalidInput as error:
        return Impossible(failure("invalid_intent", str(error), new_key_helps=True, field=error.field))


def given_attempt(prepared: Prepared, now: int) -> Attempt:
    given = prepared.body
    assert isinstance(given, Given)
    terms = {
        "type": given.type,
        "gas": str(given.gas),
        "max_fee_per_gas": str(given.max_fee),
        "max_priority_fee_per_gas": str(given.tip),
    }
    return Attempt(given.nonce, given.hash, given.raw, Purpose.KEYLESS, now, terms=terms)


class EvmCounter:
    raw_kind = RAW_KIND
    signed_kind = "evm.transaction"

    def __init__(self, chain: EvmChain) -> None:
        self._chain = chain

    @property
    def chain_id(self) -> int:
        return self._chain.chain_id

    def address(self, field: str, text: object) -> str:
        return check_address(field, text)

    def lane(self, address: str) -> str:
        return str(LaneId(self.chain_id, address))

    def read(self, text: str) -> Given:
        given = read_given(text)
        check_given(given, LaneId(self.chain_id, given.sender))
        most = self._chain.settings.max_gas
        if most is not None and given.gas > most:
            raise InvalidInput("gasLimit", f"is {given.gas}; a transaction of this chain may use {most}")
        return given

    async def counts(self, address: str) -> tuple[int, int]:
        return await self._chain.counts(address)

    async def quote(self) -> Quote:
        return await self._chain.quote()

    async def close(self) -> None:
        await self._chain.close()
