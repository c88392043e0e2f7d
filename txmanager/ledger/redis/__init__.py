"""The ledger on Redis and Valkey: single server, Sentinel, Cluster."""

from txmanager.ledger.redis.ledger import RedisLedger

__all__ = ["RedisLedger"]
