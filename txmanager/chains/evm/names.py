"""Addresses, hashes and lane ids: `evm:{chain_id}:{0x lower-case address}`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from txmanager.core.errors import InvalidInput
from txmanager.signing.evm import keccak256

RAW_KIND = "evm.raw"
"""The kind of intent that carries bytes which its caller signed."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}\Z")
_LANE = re.compile(r"evm:(?P<chain_id>[1-9][0-9]{0,18}):(?P<address>0x[0-9a-f]{40})\Z")


def checksummed(address: str) -> str:
    """EIP-55: the case of each letter is a bit of the address's own hash."""
    plain = address.lower().removeprefix("0x")
    digest = keccak256(plain.encode()).hex()
    return "0x" + "".join(c.upper() if int(h, 16) >= 8 else c for c, h in zip(plain, digest, strict=False))


def check_address(field: str, value: object) -> str:
    """Lower case of a well-formed address; mixed case must be its checksum, or a digit was mistyped."""
    if not isinstance(value, str) or not _ADDRESS.match(value):
        raise InvalidInput(field, "must be an address: 0x and 40 hex digits")
    digits = value[2:]
    if digits not in (digits.lower(), digits.upper()) and value != checksummed(value):
        raise InvalidInput(field, "has a wrong checksum (EIP-55); copy it again, or write it in lower case")
    return value.lower()


@dataclass(frozen=True, slots=True)
class LaneId:
    chain_id: int
    address: str

    @classmethod
    def parse(cls, lane: str) -> LaneId:
        match = _LANE.match(lane)
        if match is None:
            raise InvalidInput("lane", "must look like evm:1:0x and 40 lower-case hex digits")
        return cls(int(match["chain_id"]), match["address"])

    def __str__(self) -> str:
        return f"evm:{self.chain_id}:{self.address}"
