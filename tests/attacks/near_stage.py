"""The API, a worker and a devnet, with tokens and rules of the test's own, which it may change as an operator would."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

from tests.api.stage import Stage, token
from tests.devnet.process import Devnet


def token_lines(name: str, scopes: list[str], limits: dict[str, Any] | None = None, tenant: str = "default") -> str:
    lines = [
        "[[api.tokens]]",
        f'name = "{name}"',
        f'sha256 = "{hashlib.sha256(token(name).encode()).hexdigest()}"',
        f"scopes = {json.dumps(scopes)}",
        f'tenant = "{tenant}"',
    ]
    if limits is not None:
        lines += ["[api.tokens.limits]", *(f"{field} = {json.dumps(value)}" for field, value in limits.items())]
    return "\n".join(lines) + "\n"


class Attacked(Stage):
    """A stage whose rules the operator changes: a pool's policy, and tokens beside the stage's own."""

    def __init__(self, redis_url: str, devnet: Devnet, policy: str = "", tokens: str = "", lanes: int = 2) -> None:
        super().__init__(redis_url, f"t{secrets.token_hex(6)}", devnet, lanes=lanes, spare=True)
        self._plain = self.config.read_text()
        self.set_rules(policy, tokens)

    def set_rules(self, policy: str = "", tokens: str = "") -> None:
        before, pool, after = self._plain.partition("\n[pools.spare]")
        self.config.write_text(f"{before}\n[pools.main.policy]\n{policy}\n{pool}{after}\n{tokens}")

    def change_rules(self, policy: str = "", tokens: str = "") -> None:
        self.set_rules(policy, tokens)
        assert self.api.stop() == 0
        self.start_api()

    def post_intent(self, kind: str, payload: dict[str, Any], *, key: str, by: str, wait: float = 0) -> Any:
        body = {"pool": "main", "kind": kind, "payload": payload}
        return self.post(f"/v1/intents?wait={wait}" if wait else "/v1/intents", body, key=key, by=by)

    def view(self, request: str, **more: Any) -> Any:
        told = {"request_type": request, "finality": "optimistic", "account_id": self.account_id, **more}
        return self.devnet.rpc("query", told)

    def standing(self) -> tuple[int, str, frozenset[str]]:
        """(balance, code, keys) of the relayer's account: what an attacker wants to change."""
        account = self.view("view_account")
        keys = frozenset(key["public_key"] for key in self.view("view_access_key_list")["keys"])
        return int(account["amount"]), account["code_hash"], keys

    def queued(self) -> int:
        return sum(int(lane["depth"]) for lane in self.get("/v1/lanes").json()["lanes"])
