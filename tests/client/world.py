"""What a client meets: the real stack behind proxies that lose answers, and a receiver of webhooks.

`World` is driven from Python by its methods and from other languages by `POST {control}/{method}` with a JSON object of
arguments: both clients are held to the same promises in the same world.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Coroutine
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from tests.api.stage import Stage
from tests.client.leaky import LeakyProxy
from tests.devnet.process import Devnet
from tests.servers.proxy import FaultProxy
from tests.waiting import until_sync

T = TypeVar("T")
SECRET = "hook-secret"
_HOOK = """
[[pools.main.webhooks]]
name = "backend"
url = "{url}"
secret = {{ env = "HOOK_SECRET" }}
statuses = ["done"]
timeout_s = 2.0
"""


class World:
    """What both worlds have: an API on the devnet, behind proxies that fail. `with PythonWorld(...) as world`."""

    stage: Any
    """The stack: where it listens, whose account it spends."""
    _entrance: int
    """The port at which its API is reached."""

    def __init__(self, devnet: Devnet) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._calls: list[tuple[str, bytes]] = []
        self._control = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._control.daemon_threads = True
        threading.Thread(target=self._control.serve_forever, daemon=True).start()
        self.control = f"http://127.0.0.1:{self._control.server_port}"
        self.devnet = devnet
        self._more: list[FaultProxy | LeakyProxy] = []
        self._build()
        self._front = self._on_loop(FaultProxy("127.0.0.1", self._entrance, resp=False).start())
        self._leaky = self._on_loop(LeakyProxy(self._entrance).start())
        self._node = self._on_loop(LeakyProxy(devnet.port).start())
        self._reads = self._on_loop(LeakyProxy(devnet.port, every=10).start())

    def _build(self) -> None:
        """Make the stack, and name its entrance."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stage.close()
        for proxy in (self._front, self._leaky, self._node, self._reads, *self._more):
            self._on_loop(proxy.close())
        self._control.shutdown()
        self._control.server_close()
        self._loop.call_soon_threadsafe(self._loop.stop)

    # -- what a client is told

    def places(self) -> dict[str, str]:
        """URLs of the API: `direct`; `front`, which fails when told to; `leaky`, which loses every third answer. `node`
        is the devnet's, and loses every third answer, too; `reads` is the same node, and loses every tenth."""
        return {
            "direct": f"http://127.0.0.1:{self._entrance}",
            "front": f"http://127.0.0.1:{self._front.port}",
            "leaky": f"http://127.0.0.1:{self._leaky.port}",
            "node": f"http://127.0.0.1:{self._node.port}",
            "reads": f"http://127.0.0.1:{self._reads.port}",
            "account": self.stage.account_id,
            "secret": SECRET,
        }

    # -- what goes wrong

    def lose_answer(self) -> None:
        """The next request at the front is carried out; its answer is lost."""
        self._soon(self._front.cut_reply)

    def cut(self) -> None:
        """Every connection of the front breaks."""
        self._soon(self._front.disconnect)

    def silence(self) -> None:
        """What the front is asked is carried out; nothing is answered."""
        self._soon(lambda: self._front.blackhole(to_server=False))

    def heal(self) -> None:
        self._soon(lambda: self._front.heal(drop=True))

    def ledger_away(self, seconds: float) -> None:
        """The ledger does what it is told and does not answer, for so long."""
        raise NotImplementedError

    def stall(self) -> None:
        """No block is made: what is submitted stays unfinished."""
        self.devnet.fault("stall")

    def unstall(self) -> None:
        self.devnet.clear_faults()

    def restart_api(self) -> None:
        """kill -9, and a new process at the same address."""
        raise NotImplementedError

    # -- what is true

    def answers(self) -> dict[str, int]:
        """How many requests this API process answered, by status."""
        raise NotImplementedError

    def balance(self, account_id: str) -> str | None:
        """In yoctoNEAR; None for an account that does not exist."""
        params = {"request_type": "view_account", "finality": "optimistic", "account_id": account_id}
        result = self.devnet.post("query", params).json().get("result")
        return None if result is None else str(result["amount"])

    # -- running

    def _soon(self, act: Callable[[], object]) -> None:
        async def run() -> None:
            act()

        self._on_loop(run())

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        world = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path == "/hook":
                    world._calls.append((self.headers["Txmanager-Signature"], body))
                    return self._answer(200, None)
                name = self.path.strip("/")
                if name.startswith("_") or not hasattr(type(world), name):
                    return self._answer(404, f"no {name}")
                try:
                    return self._answer(200, getattr(world, name)(**json.loads(body or b"{}")))
                except Exception as error:  # the other side has to learn of it
                    return self._answer(500, repr(error))

            def _answer(self, status: int, told: object) -> None:
                data = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


class PythonWorld(World):
    """The programs of the Python stack, on a ledger behind a proxy."""

    def __init__(self, ledger_url: str, prefix: str, devnet: Devnet, *, lanes: int = 2) -> None:
        self._ledger_url, self._prefix, self._lanes = ledger_url, prefix, lanes
        super().__init__(devnet)

    def _build(self) -> None:
        place = urlsplit(self._ledger_url)
        assert place.hostname is not None
        assert place.port is not None
        self._ledger = self._on_loop(FaultProxy(place.hostname, place.port).start())
        self._more.append(self._ledger)
        url = f"redis://127.0.0.1:{self._ledger.port}{place.path or '/0'}"
        more = _HOOK.format(url=f"{self.control}/hook")
        self.stage = Stage(url, self._prefix, self.devnet, pool_more=more, lanes=self._lanes, spare=False)
        self._entrance = self.stage.port

    def __enter__(self) -> Self:
        self.stage.start()
        self.stage.webhooks.start()
        return self

    def ledger_away(self, seconds: float) -> None:
        self._soon(lambda: self._ledger.blackhole(to_server=False))
        self._soon(lambda: self._loop.call_later(seconds, lambda: self._ledger.heal(drop=True)))

    def restart_api(self) -> None:
        self.stage.api.kill()
        self.stage.start_api()

    def answers(self) -> dict[str, int]:
        found: dict[str, int] = {}
        pattern = r'^txmanager_http_requests_total\{.*status="(\d+)"\} ([0-9.]+)$'
        for status, count in re.findall(pattern, self.stage.client.get("/metrics").text, re.MULTILINE):
            found[status] = found.get(status, 0) + int(float(count))
        return found

    def delivery(self, key: str) -> dict[str, str]:
        """The webhook call about an intent that is done, as it arrived: header and raw body."""

        def arrived() -> dict[str, str] | None:
            for signature, body in list(self._calls):
                if json.loads(body)["idempotency_key"] == key:
                    return {"signature": signature, "body": body.decode()}
            return None

        log = self.stage.webhooks.log_file
        found = until_sync(arrived, 60, what=f"the webhook of {key} (log: {log.read_text()[-1000:]})")
        assert found is not None
        return found
