"""The JSON-RPC surface: what wallets and SDKs talk to instead of their node."""

from txmanager.gateway.app import GatewayApp

__all__ = ["GatewayApp"]
