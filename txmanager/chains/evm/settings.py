"""What the configuration says of an EVM network and of a pool on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from txmanager.core.errors import InvalidSettings
from txmanager.settings.parts import Money, Part
from txmanager.settings.pools import KeylessPoolSettings, NetworkSettings, PolicySettings


def _finality(value: str | int) -> str | int:
    if value != "finalized" and (isinstance(value, str) or value < 1):
        raise ValueError('must be "finalized" or a number of blocks, at least 1')
    return value


def _address(value: str) -> str:
    if not re.fullmatch(r"0x[0-9a-fA-F]{40}", value):
        raise ValueError('must be addresses (0x and 40 hex digits), or the word "any"')
    return value.lower()


class FeeSettings(Part):
    """What a preset's numbers are overridden by. Wei per unit of gas."""

    max_fee: Money | None = None
    min_tip: Money | None = None
    bump_percent: int | None = Field(default=None, ge=10, le=1000)
    replace_after_s: float | None = Field(default=None, gt=0)
    resend_after_s: float | None = Field(default=None, gt=0)
    doubles_within_s: float | None = Field(default=None, gt=0)


class EvmNetworkSettings(NetworkSettings):
    chain: Literal["evm"]
    finality: Annotated[str | int, AfterValidator(_finality)] | None = None
    chain_id: int = Field(ge=1)
    preset: Literal["ethereum", "polygon", "arbitrum", "optimism", "base", "hedera", "anvil"] | None = None
    fees: FeeSettings = FeeSettings()

    def contradictions(self, where: str) -> Iterator[InvalidSettings]:
        fees = self.fees
        if fees.max_fee is not None and fees.max_fee < max(1, fees.min_tip or 0):
            yield InvalidSettings(f"{where}.fees.max_fee", "must be at least min_tip, and not 0")
        yield from super().contradictions(where)


class EvmPolicySettings(PolicySettings):
    """... and what a lane does about what is late."""

    bump_after_s: float | None = Field(default=None, gt=0)
    bump_percent: int | None = Field(default=None, ge=10, le=1000)
    cancel_after_s: float | None = Field(default=None, gt=0)
    fill_after_s: float | None = Field(default=None, ge=1)


class EvmPoolSettings(KeylessPoolSettings):
    keyless: tuple[Annotated[str, AfterValidator(_address)], ...] | Literal["any"] = ()
    keep_final_bytes_s: float = Field(default=3600.0, ge=0, le=7 * 86_400)
    """For how long signed bytes are kept after they were final: what `lanes replay` can send again."""
    policy: EvmPolicySettings = EvmPolicySettings()
    max_window: int = Field(default=1_024, ge=1, le=10_000)
    """How far the window grows by itself while nodes take more; `window` alone is fixed."""

    @property
    def windows(self) -> tuple[int, int]:
        """Where the window begins, and how far it may grow."""
        fixed = "window" in self.model_fields_set and "max_window" not in self.model_fields_set
        return min(self.window, self.max_window), self.window if fixed else self.max_window

    @property
    def inflight(self) -> int:
        """Room for what waits for finality behind a whole window, unless the configuration says how much."""
        if "max_inflight" in self.model_fields_set:
            return self.max_inflight
        return max(self.max_inflight, 2 * self.windows[1])

    def contradictions(self, where: str) -> Iterator[InvalidSettings]:
        if self.account is not None:
            yield InvalidSettings(f"{where}.account", "must not be set: an EVM key is its own address")
        set_here = self.model_fields_set
        if {"window", "max_window"} <= set_here and self.max_window < self.window:
            yield InvalidSettings(f"{where}.max_window", f"must not be below window, which is {self.window}")
        if {"max_window", "max_inflight"} <= set_here and self.max_window > self.max_inflight:
            yield InvalidSettings(f"{where}.max_window", f"must not exceed max_inflight, which is {self.max_inflight}")
        if self.callers_sign and "max_window" in set_here:
            yield InvalidSettings(f"{where}.max_window", "belongs to pools with keys: callers choose their nonces here")
        yield from super().contradictions(where)
