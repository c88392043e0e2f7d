"""The ledger of one process: complete, correct, and the reference the Redis ledger is compared with."""

from txmanager.ledger.memory.ledger import MemoryLedger

__all__ = ["MemoryLedger"]
