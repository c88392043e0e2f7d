"""The nodes of a network, as its settings name them. Secrets are read here, when they are needed."""

from __future__ import annotations

from txmanager.rpc.endpoint import Endpoint
from txmanager.settings.pools import NetworkSettings
from txmanager.settings.secrets import reveal


def endpoints(name: str, network: NetworkSettings) -> list[Endpoint]:
    return [
        Endpoint(
            reveal(f"networks.{name}.rpc[{n}].url", rpc.url),
            direct=rpc.direct,
            max_request_bytes=rpc.max_request_bytes,
        )
        for n, rpc in enumerate(network.rpc)
    ]
