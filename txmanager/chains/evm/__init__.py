"""EVM: codec, intents, fees, verdicts, presets, and `EvmChain`, which makes them a `Chain`."""

from txmanager.chains.evm.chain import EvmChain
from txmanager.chains.evm.intents import KINDS, parse_payload
from txmanager.chains.evm.names import LaneId
from txmanager.chains.evm.network import PRESETS, EvmNetwork, preset

__all__ = ["KINDS", "PRESETS", "EvmChain", "EvmNetwork", "LaneId", "parse_payload", "preset"]
