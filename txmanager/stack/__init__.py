"""The whole system on one machine: embedded Valkey, NEAR devnet, API, workers and sweeper under one supervisor."""

from txmanager.stack.folder import DataFolder
from txmanager.stack.supervisor import NearOptions, Stack, StackOptions

__all__ = ["DataFolder", "NearOptions", "Stack", "StackOptions"]
