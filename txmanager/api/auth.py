"""Who is calling and what they may do. Tokens are known by their SHA-256 alone and compared in constant time.

Quotas are in `quotas.py`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

import structlog

from txmanager.api.problems import Forbidden, QuotaUsed, Unauthorized
from txmanager.core.audit import ALL_TENANTS
from txmanager.core.errors import InvalidInput
from txmanager.core.kinds import CREATE, Reading
from txmanager.core.models import check_name
from txmanager.settings import TokenLimits, TokenSettings

Scope = Literal["submit", "read", "operate"]
SCOPES: frozenset[Scope] = frozenset({"submit", "read", "operate"})
Right = Literal["submit", "read", "operate", "cancel", "steer"]
"""What a route needs: a scope, or one of the two rights that follow from scopes. `cancel` is for whoever may submit or
operate. `steer` moves what all tenants share: `operate`, and `tenant = "*"` once there are several."""
_BAD_BURST, _BAD_PER_S = 20, 1.0
_ADDRESSES = 10_000
_HOW = "send the header Authorization: Bearer with a token (or Basic, with the token as password)"


class Bucket:
    """`burst` at once, `per_second` on average; answers the seconds to wait, 0 when admitted."""

    def __init__(self, per_second: float, burst: float, now: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._burst = max(1.0, burst)
        self._now = now
        self._left = self._burst
        self._at = now()

    def take(self) -> float:
        now = self._now()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return 0.0
        return (1 - self._left) / self._per_second


@dataclass(frozen=True, slots=True)
class Caller:
    """A token, seen from a request. Without any configured token everybody on this machine is `local`."""

    name: str = "local"
    tenant: str = "default"
    scopes: frozenset[Scope] = SCOPES
    limits: TokenLimits = field(default_factory=TokenLimits)
    tenants: frozenset[str] = frozenset()
    """All that the configuration's tokens belong to, `*` left out."""
    issuer: str = ""
    """What its sessions are kept under; another secret of the same name is another issuer."""
    session: str = ""
    """The session that it came with; empty for the token itself."""
    session_ends_ms: int = 0

    @property
    def shown(self) -> str:
        """Who it is, for the audit."""
        return f"{self.name} (session {self.session[:8]})" if self.session else self.name

    @property
    def operates(self) -> bool:
        return "operate" in self.scopes

    @property
    def whole(self) -> bool:
        """Whether nothing is hidden from it: it is of all tenants, or there is only one."""
        return self.tenant == ALL_TENANTS or len(self.tenants) <= 1

    def need(self, right: Right) -> None:
        wanted: tuple[Scope, ...] = ("submit", "operate") if right == "cancel" else ()
        if right != "cancel":
            wanted = ("operate",) if right == "steer" else (right,)
        if self.scopes.isdisjoint(wanted):
            names = " or ".join(repr(scope) for scope in wanted)
            raise Forbidden(f"token {self.name!r} lacks the scope {names}", field="Authorization")
        if right == "steer" and not self.whole:
            raise Forbidden(
                f'token {self.name!r} is of one tenant, and lanes serve several; use one with tenant = "*"',
                field="Authorization",
            )

    def submits_for(self, named: str | None) -> str:
        """As `tenant_for`; and a tenant that no token is of could never read what was accepted for it."""
        tenant = self.tenant_for(named)
        if self.tenants and tenant not in self.tenants:
            raise InvalidInput("tenant", f"no token is of {tenant!r}; there are {', '.join(sorted(self.tenants))}")
        return tenant

    def tenant_for(self, named: str | None) -> str:
        """Whose intents a request is about: the token's own tenant's; with `*`, those that the request names."""
        if self.tenant != ALL_TENANTS:
            if named not in (None, self.tenant):
                raise Forbidden(f"token {self.name!r} may not act for another tenant", field="tenant")
            return self.tenant
        if named is not None:
            return check_name("tenant", named)
        if len(self.tenants) > 1:
            raise InvalidInput(
                "tenant", f"is required with this token: ?tenant= one of {', '.join(sorted(self.tenants))}"
            )
        return next(iter(self.tenants), "default")

    def sees(self, tenant: str | None) -> bool:
        """Whether something of that tenant is shown to it; None is something whose tenant nobody noted."""
        return self.whole or tenant == self.tenant

    def may_use_pool(self, pool: str) -> bool:
        return self.limits.pools is None or pool in self.limits.pools

    def check_pool(self, pool: str) -> None:
        if not self.may_use_pool(pool):
            raise Forbidden(f"token {self.name!r} may not use pool {pool!r}", field="pool")

    def check_kind(self, kind: str) -> None:
        if self.limits.kinds is not None and kind not in self.limits.kinds:
            raise Forbidden(f"token {self.name!r} may not ask for {kind}", field="kind")

    def check_reading(self, reading: Reading) -> None:
        """Hold what the payload does against the token's own limits, before anything is accepted."""
        limits = self.limits
        if reading.own_account and "operate" not in self.scopes:
            effects = ", ".join(sorted(reading.own_account))
            raise Forbidden(
                f"{effects} on the pool's own account needs the scope 'operate', which token {self.name!r} lacks",
                field="Authorization",
            )
        if limits.receivers is not None:
            for receiver in reading.receivers:
                if not _listed(receiver, limits.receivers):
                    what = 'create contracts ("create" is not in its receivers)'
                    what = what if receiver == CREATE else f"act on {receiver}"
                    raise Forbidden(f"token {self.name!r} may not {what}", field="receiver_id")
        if limits.max_deposit is not None and reading.deposit > limits.max_deposit:
            raise Forbidden(
                f"{reading.spends} is more than the {limits.max_deposit} that token {self.name!r} may spend at once",
                field="deposit",
            )
        if limits.max_cost is not None and reading.cost > limits.max_cost:
            raise Forbidden(
                f"it costs {reading.cost} with fees; token {self.name!r} may spend {limits.max_cost} (max_cost)",
                field="max_cost",
            )


def _listed(account: str, allowed: frozenset[str]) -> bool:
    """An entry is an account or `*.suffix`, as in a pool's policy."""
    if account in allowed:
        return True
    _, dot, rest = account.partition(".")
    while dot:
        if f"*.{rest}" in allowed:
            return True
        _, dot, rest = rest.partition(".")
    return False


def bearer(headers: Mapping[bytes, bytes]) -> bytes:
    """A bearer token, or the password of Basic; the user's name means nothing."""
    header = headers.get(b"authorization", b"")
    scheme, _, secret = header.partition(b" ")
    if scheme.lower() == b"bearer":
        return secret.strip()
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(secret.strip(), validate=True).partition(b":")[2]
    except ValueError:
        return b""


class Gate:
    def __init__(self, tokens: Sequence[TokenSettings], now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._tenants = frozenset(token.tenant for token in tokens) - {ALL_TENANTS}
        self._known = [(bytes.fromhex(token.sha256), self._caller(token)) for token in tokens]
        self._issuers = {caller.issuer: caller for _, caller in self._known}
        self._local = Caller(tenant=ALL_TENANTS)
        self._bad: OrderedDict[str, Bucket] = OrderedDict()
        self._log = structlog.get_logger("api")
        self.refusals = 0

    def _caller(self, token: TokenSettings) -> Caller:
        issuer = hashlib.sha256(f"issuer {token.name} {token.sha256}".encode()).hexdigest()[:16]
        return Caller(token.name, token.tenant, token.scopes, token.limits, self._tenants, issuer)

    @property
    def issuers(self) -> Sequence[Caller]:
        """The configured tokens."""
        return list(self._issuers.values())

    def issuer(self, id: str) -> Caller | None:
        """The configured token of that id."""
        return self._issuers.get(id)

    def admit(self, headers: Mapping[bytes, bytes], address: str) -> Caller:
        return self.admit_token(bearer(headers), address)

    def admit_token(self, token: bytes, address: str) -> Caller:
        if not self._known:
            return self._local
        if token:
            digest = hashlib.sha256(token).digest()
            found = None
            for known, caller in self._known:  # all of them, always: the time tells nothing
                if hmac.compare_digest(known, digest):
                    found = caller
            if found is not None:
                return found
            self.refuse(address)
            raise Unauthorized(f"the token is not known; {_HOW} that is", field="Authorization")
        raise Unauthorized(f"no token; {_HOW}", field="Authorization")

    def refuse(self, address: str) -> None:
        """A bad token is answered and logged a few times; then its address is told to slow down, in silence."""
        self.refusals += 1
        bucket = self._bad.get(address)
        if bucket is None:
            bucket = self._bad[address] = Bucket(_BAD_PER_S, _BAD_BURST, self._now)
            if len(self._bad) > _ADDRESSES:
                self._bad.popitem(last=False)
        if wait_s := bucket.take():
            raise QuotaUsed("too many unknown tokens from this address", retry_after_s=math.ceil(wait_s))
        self._log.warning("unknown token", address=address)
