"""The configuration: one TOML file, overridden by the environment, checked as a whole, frozen.

Unknown keys are refused. Secrets are named, not written: `{ env = "NAME" }` or `{ file = "path" }`; nothing in here
prints one.
"""

from txmanager.settings.load import CONFIG_VARIABLE, ENVIRONMENT_PREFIX, find_file, load, problems
from txmanager.settings.models import (
    ApiSettings,
    LedgerSettings,
    NetworkSettings,
    PolicySettings,
    PoolSettings,
    RpcSettings,
    Settings,
    TokenLimits,
    TokenSettings,
    WebhookSettings,
    WorkerSettings,
)
from txmanager.settings.secrets import Reference, Url

__all__ = [
    "CONFIG_VARIABLE",
    "ENVIRONMENT_PREFIX",
    "ApiSettings",
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
    "find_file",
    "load",
    "problems",
]
