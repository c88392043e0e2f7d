"""Every call of the API, once, without I/O: a generator that says what to send and when to pause.

Retries are safe by construction: a submit carries one idempotency key, chosen before the first try and never changed,
and every other call may be repeated anyway. `Client` and `AsyncClient` only carry the effects out.
"""

from __future__ import annotations

import builtins
import random
import uuid
from collections.abc import Mapping
from time import monotonic
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from txmanager.client import models
from txmanager.client.answers import read_json, read_problem, read_sse
from txmanager.client.effects import Call, Open, Pause, Read, Send, Stream
from txmanager.client.errors import IntentFailed, StillWaiting, Unreachable, refusal
from txmanager.client.http import Reply, Request, TransportFailed
from txmanager.client.models import Execution, IntentPage, Lane, Record

AGAIN = (408, 429, 502, 503, 504)
_LONGEST_WAIT_S = 30.0
DERIVED = ("near.create_account", "near.recovery", "near.delegate")


class Calls:
    """`retry_for_s` bounds how long a call is repeated; `timeout_s` how long one try may take beyond its wait."""

    def __init__(self, *, pool: str | None = None, retry_for_s: float = 30.0, timeout_s: float = 10.0) -> None:
        self.pool = pool
        self._retry_for_s = retry_for_s
        self._timeout_s = timeout_s
        self._rng = random.Random()

    # -- submitting

    def submit(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        key: str | None = None,
        pool: str | None = None,
        wait_s: float = 0.0,
        partition_key: str | None = None,
        max_age_s: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Call[Record]:
        """Submit an intent; the record says where it stands. Without a key, and where the payload implies none, this
        call makes one up: pass your own to make a retry after a restart of *your* process safe, too."""
        if key is None and kind not in DERIVED:
            key = str(uuid.uuid4())
        body: dict[str, Any] = {"kind": kind, "payload": payload}
        more = {"pool": pool or self.pool, "partition_key": partition_key, "max_age_s": max_age_s}
        body |= {name: value for name, value in more.items() if value is not None}
        if metadata:
            body["metadata"] = metadata
        reply = yield from self._exchange(
            "POST",
            "/v1/intents",
            query={"wait": wait_s} if wait_s else {},
            headers={"Idempotency-Key": key} if key is not None else {},
            body=body,
            wait_s=wait_s,
        )
        return models.record(read_json(reply), reply.headers.get("idempotency-replayed") == "true")

    def create_account(
        self,
        new_account_id: str,
        public_key: str,
        *,
        initial_balance: int | None = None,
        root_contract: str | None = None,
        key: str | None = None,
        pool: str | None = None,
        wait_s: float = 0.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Call[Record]:
        """Create a NEAR account. Without a key, name and public key are the key: a retry never creates two."""
        payload: dict[str, Any] = {"new_account_id": new_account_id, "public_key": public_key}
        if initial_balance is not None:
            payload["initial_balance"] = str(initial_balance)
        if root_contract is not None:
            payload["root_contract"] = root_contract
        return self.submit("near.create_account", payload, key=key, pool=pool, wait_s=wait_s, metadata=metadata)

    def relay(
        self,
        signed_delegate: str | Mapping[str, Any],
        *,
        key: str | None = None,
        pool: str | None = None,
        wait_s: float = 0.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Call[Record]:
        """Relay a user's signed delegate action, once, whoever asks and under whatever key."""
        payload = {"signed_delegate": signed_delegate}
        return self.submit("near.delegate", payload, key=key, pool=pool, wait_s=wait_s, metadata=metadata)

    def recover(
        self,
        account_id: str,
        message_id: str,
        contract_id: str,
        method_name: str,
        args: Any = None,
        *,
        gas: int | None = None,
        deposit: int | None = None,
        key: str | None = None,
        pool: str | None = None,
        wait_s: float = 0.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Call[Record]:
        """Recover an account by one function call, tried once per (account, message)."""
        payload: dict[str, Any] = {"account_id": account_id, "message_id": message_id, "contract_id": contract_id}
        payload |= {"method_name": method_name} | ({} if args is None else {"args": args})
        payload |= {name: str(value) for name, value in {"gas": gas, "deposit": deposit}.items() if value is not None}
        return self.submit("near.recovery", payload, key=key, pool=pool, wait_s=wait_s, metadata=metadata)

    def execute(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        key: str,
        pool: str | None = None,
        timeout_s: float = 60.0,
        partition_key: str | None = None,
        max_age_s: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Call[Execution]:
        """Submit and wait for the end: the transaction's hash and what the chain said of it. `IntentFailed` when it
        ended otherwise; `StillWaiting` when the time is over first, and then it goes on."""
        until = monotonic() + timeout_s
        record = yield from self.submit(
            kind,
            payload,
            key=key,
            pool=pool,
            wait_s=min(timeout_s, _LONGEST_WAIT_S),
            partition_key=partition_key,
            max_age_s=max_age_s,
            metadata=metadata,
        )
        if not record.final:
            left = max(until - monotonic(), 0.0)
            record = yield from self.wait(record.idempotency_key, pool=record.pool, timeout_s=left)
        if not record.done or record.tx_hash is None:
            raise IntentFailed(record)
        return Execution(record.tx_hash, record.result, record)

    # -- reading

    def get(self, key: str, *, pool: str | None = None, wait_s: float = 0.0) -> Call[Record]:
        query = self._in_pool(pool) | ({"wait": wait_s} if wait_s else {})
        reply = yield from self._exchange("GET", f"/v1/intents/{quote(key, safe='')}", query=query, wait_s=wait_s)
        return models.record(read_json(reply))

    def wait(self, key: str, *, pool: str | None = None, timeout_s: float = 60.0) -> Call[Record]:
        """The final record; `StillWaiting` when the time is over first."""
        until = monotonic() + timeout_s
        while True:
            left = until - monotonic()
            record = yield from self.get(key, pool=pool, wait_s=round(min(max(left, 0.0), _LONGEST_WAIT_S), 3))
            if record.final:
                return record
            if until - monotonic() <= 0:
                raise StillWaiting(record)

    def list(
        self, /, *, pool: str | None = None, limit: int = 50, cursor: str | None = None, **filters: str
    ) -> Call[IntentPage]:
        """One page, newest first; `cursor` of the page before goes on. Filters are those of the API: `status`, `kind`,
        `lane`, `key_prefix`, `hash`, `receiver`, `error`, `since`, `until`, `tenant`, `**{"metadata.order": "7"}`."""
        query = self._in_pool(pool) | {"limit": limit, **filters} | ({"cursor": cursor} if cursor else {})
        reply = yield from self._exchange("GET", "/v1/intents", query=query)
        return models.page(read_json(reply))

    def usage(self, /, *by: str, pool: str | None = None, **filters: str) -> Call[builtins.list[Mapping[str, Any]]]:
        """Exact sums of what ended, by tenant, token, pool, kind or day; `since` and `until` are days."""
        query = self._in_pool(pool) | filters | ({"by": ",".join(by)} if by else {})
        reply = yield from self._exchange("GET", "/v1/usage", query=query)
        return models.usage(read_json(reply))

    def cancel(self, key: str, *, pool: str | None = None) -> Call[Record]:
        path = f"/v1/intents/{quote(key, safe='')}/cancel"
        reply = yield from self._exchange("POST", path, query=self._in_pool(pool))
        return models.record(read_json(reply))

    def resolve(self, key: str, verb: str, *, pool: str | None = None) -> Call[Record]:
        """An operator's word on a held intent: track, kill, resign or fail."""
        path = f"/v1/intents/{quote(key, safe='')}/resolve"
        reply = yield from self._exchange("POST", path, query=self._in_pool(pool), body={"verb": verb})
        return models.record(read_json(reply))

    # -- lanes

    def lanes(self, *, pool: str | None = None) -> Call[builtins.list[Lane]]:
        reply = yield from self._exchange("GET", "/v1/lanes", query=self._in_pool(pool))
        return [models.lane(fields) for fields in read_json(reply)["lanes"]]

    def lane(self, lane: str) -> Call[Lane]:
        reply = yield from self._exchange("GET", f"/v1/lanes/{quote(lane, safe='')}")
        return models.lane(read_json(reply))

    def steer(self, lane: str, verb: str) -> Call[Lane]:
        """pause, resume, drain, close or rebaseline."""
        reply = yield from self._exchange("POST", f"/v1/lanes/{quote(lane, safe='')}/{verb}")
        return models.lane(read_json(reply))

    # -- following

    def follow(self, key: str, *, pool: str | None = None, last_id: str | None = None) -> Stream:
        """The intent's transitions up to the final one, through lost connections."""
        query = self._in_pool(pool)
        path = f"/v1/intents/{quote(key, safe='')}/events" + (f"?{urlencode(query)}" if query else "")
        return self._follow(path, last_id, ends=True)

    def follow_pool(self, pool: str, *, last_id: str | None = None) -> Stream:
        """Every transition in a pool from now on, for ever."""
        return self._follow(f"/v1/pools/{quote(pool, safe='')}/events", last_id, ends=False)

    def _follow(self, path: str, last_id: str | None, *, ends: bool) -> Stream:
        seen: list[str] = []
        failing_since: float | None = None
        tries = 0
        while True:
            headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
            try:
                reply: Reply = yield Open(Request("GET", path, headers, timeout_s=self._timeout_s))
                if reply.status == 204:
                    return
                if reply.status != 200:
                    if reply.status not in AGAIN:
                        raise refusal(reply.status, read_problem(reply))
                    raise TransportFailed(f"answered {reply.status}")
                failing_since, tries, buffer = None, 0, b""
                while chunk := (yield Read(60.0)):
                    *blocks, buffer = (buffer + chunk).split(b"\n\n")
                    for block in blocks:
                        id, data = read_sse(block)
                        last_id = id or last_id
                        if data is None or data["id"] in seen:
                            continue
                        seen = [*seen[-63:], data["id"]]
                        event = models.event(data)
                        yield event
                        if ends and event.status.final:
                            return
            except TransportFailed as failed:
                failing_since = monotonic() if failing_since is None else failing_since
                if monotonic() - failing_since > self._retry_for_s:
                    raise Unreachable(f"the stream could not be taken up again: {failed}") from None
            tries += 1
            yield Pause(self._backoff(tries))

    # -- one exchange, repeated

    def _in_pool(self, pool: str | None) -> dict[str, Any]:
        named = pool or self.pool
        return {"pool": named} if named is not None else {}

    def _exchange(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        wait_s: float = 0.0,
    ) -> Call[Reply]:
        if query:
            path += "?" + urlencode(query)
        all_headers = {"Accept": "application/json", **(headers or {})}
        data = b""
        if body is not None:
            all_headers["Content-Type"] = "application/json"
            data = orjson.dumps(body)
        request = Request(method, path, all_headers, data, self._timeout_s + wait_s)
        until = monotonic() + self._retry_for_s
        tries = 0
        while True:
            tries += 1
            pause_s = self._backoff(tries)
            try:
                reply: Reply = yield Send(request)
            except TransportFailed as failed:
                if monotonic() + pause_s > until:
                    raise Unreachable(
                        f"no answer after {tries} tries: {failed}; the same call may be made again"
                    ) from None
            else:
                if reply.status < 400:
                    return reply
                retry_after = reply.headers.get("retry-after", "")
                pause_s = max(pause_s, float(retry_after)) if retry_after.isdigit() else pause_s
                if reply.status not in AGAIN or monotonic() + pause_s > until:
                    raise refusal(reply.status, read_problem(reply))
            yield Pause(pause_s)

    def _backoff(self, tries: int) -> float:
        return min(5.0, 0.05 * 2.0 ** min(tries - 1, 10)) * self._rng.uniform(0.5, 1.0)
