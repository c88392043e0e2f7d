"""The least that a gateway could be: the same server and the same connection to the node, and nothing in between.

python -m bench.peers.bare_proxy NODE_URL
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import uvloop
from prometheus_client import CollectorRegistry

from txmanager.api.metrics import ApiMetrics
from txmanager.api.server import ApiServer
from txmanager.rpc.endpoint import Endpoint
from txmanager.rpc.node import HttpNode
from txmanager.settings import ApiSettings


class Proxy:
    def __init__(self, url: str) -> None:
        self.metrics = ApiMetrics(CollectorRegistry())
        self._node = HttpNode(Endpoint(url), random.Random())

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        answer = await self.answer(body)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def answer(self, body: bytes) -> bytes:
        return (await self._node.forward(body, 60.0)).body

    def stop(self) -> None:
        pass

    close = stop


def serve(proxy: Proxy) -> None:
    server = ApiServer(proxy, ApiSettings(host="127.0.0.1", port=0, max_connections=2_000))
    uvloop.run(server.run(lambda: print(json.dumps({"url": f"http://127.0.0.1:{server.port}"}), flush=True)))


if __name__ == "__main__":
    serve(Proxy(sys.argv[1]))
