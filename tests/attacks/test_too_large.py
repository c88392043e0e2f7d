"""A transaction that no node takes over HTTP ends alone: its nonce is used up, its death proven, the next ones pass."""

from __future__ import annotations

import asyncio
import base64

import httpx
import orjson

from tests.attacks.liar import Liar
from tests.runtime.stage import POOL, Stage
from txmanager.core.models import new_intent
from txmanager.core.states import Status
from txmanager.rpc.endpoint import Endpoint

LIMIT = 20_000


class Narrow(Liar):
    """A provider in front of the node that takes small requests only, and says so in plain text."""

    refused = 0

    async def serve(self, http: httpx.AsyncClient, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                body = await reader.readexactly(size)
                if size > LIMIT:
                    self.refused += 1
                    words = b"Failed to buffer the request body: length limit exceeded"
                    writer.write(
                        b"HTTP/1.1 413 Payload Too Large\r\ncontent-length: %d\r\n\r\n%s" % (len(words), words)
                    )
                else:
                    told = orjson.dumps(await self._answer(http, orjson.loads(body)))
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(told), told))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, httpx.HTTPError):
            return
        finally:
            writer.transport.abort()


async def test_an_oversized_transaction_fails_alone_and_its_lane_goes_on(lanes: Stage):
    narrow = Narrow(lanes.devnet.url)
    async with httpx.AsyncClient(timeout=30.0) as http:
        server = await asyncio.start_server(lambda r, w: narrow.serve(http, r, w), "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            await lanes.start(url=[Endpoint(url, direct=True)])
            args = base64.b64encode(bytes(LIMIT)).decode()
            payload = {"contract_id": "counter.near", "method_name": "increment", "args_base64": args}
            large = new_intent(key="large", pool=POOL, kind="near.function_call", payload=payload)
            ids = await lanes.submit(lanes.transfer("before"), large, lanes.transfer("after", 2))
            before, failed, after = await lanes.finals(ids, timeout=40)
            assert (before.status, failed.status, after.status) == (Status.DONE, Status.FAILED, Status.DONE)
            assert narrow.refused
            assert failed.outcome is not None
            assert failed.outcome.tx_hash is None
            assert failed.attempts[0].proof is not None, "it failed without a proof of death"
            # alone on its lane, it needs a no-op of ours
            [lonely] = await lanes.submit(new_intent(key="lonely", pool=POOL, kind=large.kind, payload=payload))
            [failed] = await lanes.finals([lonely], timeout=40)
            assert failed.status is Status.FAILED
            assert [a.purpose.value for a in failed.attempts][-1] == "noop"
        finally:
            server.close()
