"""The ledger on Cloudflare Durable Objects."""

from txmanager.ledger.durable.ledger import DurableObjectLedger

__all__ = ["DurableObjectLedger"]
