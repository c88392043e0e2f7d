"""A client process: asks for accounts over HTTP like any backend would, and retries what it got no answer to.

`python -m txmanager.demo.client` reads one JSON line (URL, token, threads, asks) and prints a JSON line per answer.
"""

from __future__ import annotations

import http.client
import json
import queue
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit

_WAIT_S = 60
_GIVE_UP_S = 110.0
_RETRY_S = 0.2


def main() -> None:
    job: dict[str, Any] = json.loads(sys.stdin.readline())
    asks: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
    for ask in job["asks"]:
        asks.put(ask)
    printing = threading.Lock()

    def work() -> None:
        connection = _connect(job["url"])
        while True:
            try:
                ask = asks.get_nowait()
            except queue.Empty:
                return
            connection, answer = _ask(connection, job["url"], job["token"], ask)
            with printing:
                print(json.dumps(answer), flush=True)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(job["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _connect(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=_WAIT_S + 10)


def _ask(
    connection: http.client.HTTPConnection, url: str, token: str, ask: dict[str, str]
) -> tuple[http.client.HTTPConnection, dict[str, Any]]:
    """The same request until it has a final answer: that is all a client needs to do to be safe."""
    body = json.dumps({"new_account_id": ask["name"], "new_public_key": ask["public_key"]})
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    began = time.monotonic()
    tries, why = 0, ""
    while time.monotonic() - began < _GIVE_UP_S:
        tries += 1
        try:
            connection.request("POST", f"/v1/near/accounts?wait={_WAIT_S}", body, headers)
            reply = connection.getresponse()
            record = json.loads(reply.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = repr(error)
            connection.close()
            connection = _connect(url)
            time.sleep(_RETRY_S)
            continue
        if reply.status < 300 and record["status"] in ("done", "failed", "cancelled"):
            return connection, {
                "name": ask["name"],
                "key": record["idempotency_key"],
                "status": record["status"],
                "tx_hash": record["tx_hash"],
                "replayed": reply.getheader("Idempotency-Replayed") == "true",
                "seconds": time.monotonic() - began,
                "tries": tries,
            }
        why = f"status {reply.status}: {record.get('detail') or record.get('status')}"
        time.sleep(_RETRY_S)
    return connection, {"name": ask["name"], "status": "unanswered", "why": why, "tries": tries}


if __name__ == "__main__":
    main()
