"""NEAR: codec, intents, judge, proof of death, and `NearChain`, which makes them a `Chain`."""

from txmanager.chains.near.chain import NearChain
from txmanager.chains.near.intents import KINDS, derived_key, parse_payload
from txmanager.chains.near.names import LaneId, PublicKey
from txmanager.chains.near.policy import NETWORKS, HarmlessCall, NearNetwork, NearPolicy

__all__ = [
    "KINDS",
    "NETWORKS",
    "HarmlessCall",
    "LaneId",
    "NearChain",
    "NearNetwork",
    "NearPolicy",
    "PublicKey",
    "derived_key",
    "parse_payload",
]
