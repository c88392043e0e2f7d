"""A NEAR network in a process: a pure state machine, and a JSON-RPC front that real clients believe."""

from .errors import ActionFailure, DecodeError, InvalidTx, Unknown
from .faults import Fault, Faults
from .genesis import Genesis, GenesisAccount, KeyPair, key_pair
from .network import Config, Network, TxStatus, View

__all__ = [
    "ActionFailure",
    "Config",
    "DecodeError",
    "Fault",
    "Faults",
    "Genesis",
    "GenesisAccount",
    "InvalidTx",
    "KeyPair",
    "Network",
    "TxStatus",
    "Unknown",
    "View",
    "key_pair",
]
