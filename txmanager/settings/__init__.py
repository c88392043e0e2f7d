"""The configuration: one TOML file, overridden by the environment, checked as a whole, frozen.

Unknown keys are refused. Secrets are named, not written: `{ env = "NAME" }` or `{ file = "path" }`; nothing in here
prints one.
"""

from txmanager.settings.load import CONFIG_VARIABLE, ENVIRONMENT_PREFIX, find_file, load, problems
from txmanager.settings.models import (
    ApiSettings,
    DoorSettings,
    LedgerSettings,
    Settings,
    TokenLimits,
    TokenSettings,
    WorkerSettings,
)
from txmanager.settings.pools import (
    KeylessPoolSettings,
    NetworkSettings,
    PolicySettings,
    PoolSettings,
    RpcSettings,
    WebhookSettings,
)
from txmanager.settings.secrets import Reference, Url
from txmanager.settings.variables import PASSPHRASE_VARIABLE, environment_of, key_variables

__all__ = [
    "CONFIG_VARIABLE",
    "ENVIRONMENT_PREFIX",
    "PASSPHRASE_VARIABLE",
    "ApiSettings",
    "DoorSettings",
    "KeylessPoolSettings",
    "LedgerSettings",
    "NetworkSettings",
    "PolicySettings",
    "PoolSettings",
    "Reference",
    "RpcSettings",
    "Settings",
    "TokenLimits",
    "TokenSettings",
    "Url",
    "WebhookSettings",
    "WorkerSettings",
    "environment_of",
    "find_file",
    "key_variables",
    "load",
    "problems",
]
