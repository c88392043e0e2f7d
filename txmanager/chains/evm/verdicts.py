"""What a node's refusal means. Clients agree on no codes and on few words, so rules read the message, in order.

The message alone counts, in any case and spelling (`OwnNonceAlreadyUsed`, `own nonce already used`), never a code:
-32005 is a gas limit to one client and a rate limit to another. What no rule knows is `UNKNOWN`: the outcome is
unknown, the hash is looked up, and the same bytes are sent again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from txmanager.core.chain import SendReply, Verdict
from txmanager.rpc.errors import BadAnswer, RateLimited, RpcError, RpcFailure


class Refusal(StrEnum):
    """Everything a node says about bytes it did not take as new."""

    ALREADY_KNOWN = "already_known"
    NONCE_TOO_LOW = "nonce_too_low"
    NONCE_GAP = "nonce_gap"
    NONCE_CONFLICT = "nonce_conflict"
    REPLACEMENT_UNDERPRICED = "replacement_underpriced"
    UNDERPRICED = "underpriced"
    INVALID_FEE = "invalid_fee"
    FEE_CAP_EXCEEDED = "fee_cap_exceeded"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    TYPE_CONFLICT = "type_conflict"
    DELEGATED_LIMIT = "delegated_limit"
    POOL_FULL = "pool_full"
    PERMANENT = "permanent"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    UNKNOWN = "unknown"


VERDICTS: Mapping[Refusal, Verdict] = {
    Refusal.ALREADY_KNOWN: Verdict.ALREADY_KNOWN,
    Refusal.NONCE_TOO_LOW: Verdict.NONCE_TOO_LOW,
    Refusal.NONCE_GAP: Verdict.NONCE_GAP,
    # Something else sits at our nonce in that pool, ours or not: only a look-up tells.
    Refusal.NONCE_CONFLICT: Verdict.UNKNOWN,
    Refusal.REPLACEMENT_UNDERPRICED: Verdict.REPLACEMENT_UNDERPRICED,
    Refusal.UNDERPRICED: Verdict.UNDERPRICED,
    Refusal.INVALID_FEE: Verdict.INVALID_FEE,
    Refusal.FEE_CAP_EXCEEDED: Verdict.FEE_CAP_EXCEEDED,
    Refusal.INSUFFICIENT_FUNDS: Verdict.INSUFFICIENT_FUNDS,
    Refusal.TYPE_CONFLICT: Verdict.BUSY,
    Refusal.DELEGATED_LIMIT: Verdict.ONE_AT_A_TIME,
    Refusal.POOL_FULL: Verdict.BUSY,
    Refusal.PERMANENT: Verdict.PERMANENT,
    Refusal.RATE_LIMITED: Verdict.RATE_LIMITED,
    Refusal.UNAVAILABLE: Verdict.UNAVAILABLE,
    Refusal.UNKNOWN: Verdict.UNKNOWN,
}

_TX = r"(?:tx|txn|txs|transaction|transactions)"
_FEE = r"(?:fees?|tip|gas prices?|gas tip cap|max fee per gas|gas fee cap|fee cap)"
_LESS = r"(?:too low|below|less than|under|not enough|insufficient|lower than)"
_MORE = r"(?:higher|greater|bigger|more|above|larger|exceeds?|over)"

# The first rule that matches decides. Each stands before those whose words it may contain.
_RULES: tuple[tuple[Refusal, tuple[str, ...]], ...] = (
    # A contract's own words may quote anything ("execution reverted: nonce too low"): they come first.
    (
        Refusal.PERMANENT,
        (
            r"\brevert(?:ed|s)?\b|invalid opcode|bad instruction|invalid jump|\bout of gas\b|stack (?:under|over)flow",
            r"gas required exceeds allowance|always failing transaction|failed to validate the transaction",
        ),
    ),
    (
        Refusal.RATE_LIMITED,
        (
            r"rate.?limit|too many requests|request limit|request (?:rate|count)|compute units|quota",
            r"\bthrottl|slow down|(?:^|http |status(?: code)? )429\b",
        ),
    ),
    # An endpoint that refuses to serve us says nothing about the bytes.
    (Refusal.UNAVAILABLE, (r"\bmethod\b|api.?key|unauthori[sz]ed|forbidden|access denied|took too long",)),
    # Delegated accounts and reservations, before "already" and before gaps.
    (
        Refusal.DELEGATED_LIMIT,
        (
            r"\bdelegat(?:ed|ion|or|ing)\b.*(?:gap|limit|pending|nonce|in.?flight)",
            r"(?:gap|limit|pending|nonce|in.?flight)\b.*\bdelegat(?:ed|ion|or|ing)\b",
        ),
    ),
    (
        Refusal.TYPE_CONFLICT,
        (r"already reserved|conflicting type|replace (?:a )?blob|(?:with|by) (?:a )?(?:non.?)?blob",),
    ),
    # Fees that contradict each other or a configured cap, before prices that are merely low.
    (
        Refusal.FEE_CAP_EXCEEDED,
        (r"exceeds the configured cap|fee ?cap exceeded|exceeds? (?:the )?(?:rpc )?(?:tx |transaction )?fee ?cap",),
    ),
    (
        Refusal.INVALID_FEE,
        (
            rf"(?:priority fee|\btip\b)[^,;]*?{_MORE}\b[^,;]*?(?:max fee|fee cap)",
            r"(?:max fee|fee cap)[^,;]*?(?:lower|less|smaller|below|under)\b[^,;]*?(?:priority fee|\btip\b)",
            r"(?:max fee|priority fee|\btip\b|gas price)[^,;]*(?:2\^256|bit length|overflow)",
        ),
    ),
    # Replacements, before plain prices; both before "already".
    (
        Refusal.REPLACEMENT_UNDERPRICED,
        (
            r"replacement.*(?:underpriced|not allowed|too low)|(?:could|can)(?:not| not|'t) replace|not replaced",
            rf"(?:another|existing) {_TX} with (?:the )?same nonce|same nonce.*too low|higher priority",
        ),
    ),
    (
        Refusal.ALREADY_KNOWN,
        (
            rf"\bknown {_TX}\b|already known|already (?:imported|exists)|same hash|duplicate {_TX}",
            r"already in (?:the )?(?:system|mem ?pool|tx ?pool|pool|cache|queue)",
            rf"{_TX} (?:was )?already (?:submitted|received|pending|added|mined|sent|there)",
        ),
    ),
    (
        Refusal.NONCE_CONFLICT,
        (
            r"own nonce already used",
            r"nonce (?:is )?already (?:used|taken|in use) (?:in|by) (?:the )?(?:pool|another|mem)",
        ),
    ),
    (Refusal.PERMANENT, (r"nonce (?:has|is|at) (?:the )?max|max(?:imum)? nonce|nonce overflow",)),
    (
        Refusal.NONCE_TOO_LOW,
        (
            r"nonce (?:is |was )?(?:too )?(?:low|old|stale|small)|nonce (?:is |has )?(?:already |been )+used",
            r"(?:\blow|old|stale|used) nonce|nonce (?:is )?(?:lower|less|smaller|below)",
        ),
    ),
    (
        Refusal.NONCE_GAP,
        (
            r"nonce (?:is |was )?(?:too )?(?:high|far|big|large|distant)|nonce.?gap|gapped.?nonce|missing nonce",
            r"future nonce|nonce.*in (?:the )?future|too distant|lower nonce|future transaction",
            r"nonce (?:is )?(?:higher|greater|bigger|above)",
        ),
    ),
    # Money. "insufficient gas" is not about money.
    (
        Refusal.INSUFFICIENT_FUNDS,
        (
            r"insufficient (?:\w+ )?(?:funds|balance)|not enough (?:funds|balance|money|ether)|overdraft|overshot",
            r"(?:doesn't|does not|don't) have enough (?:funds|balance|money)|exceeds (?:\w+ )?(?:account )?balance",
        ),
    ),
    # Gas limits, sizes, types, signatures: the bytes or the chain's rules decide, no retry helps.
    (
        Refusal.PERMANENT,
        (
            r"intrinsic ?gas|floor data gas|insufficient gas|not enough gas|requires at least \d+ gas|supplied gas",
            r"(?<!per )gas (?:limit )?(?:is )?(?:too high|too low|exceeded|reached|is above)|current gas limit",
            r"(?:exceeds?|above|beyond|over) (?:\w+ ){0,4}(?:gas (?:limit|cap|per)|limit)",
            r"gas (?:uint64 )?overflow|int256 overflow|negative value|value below",
            rf"oversized|too (?:large|long|short)\b|size (?:is )?(?:exceed|too)|max {_TX} size|init ?code",
            r"(?:invalid|wrong|incorrect|unexpected|unsupported) (?:\w+ )?chain ?id\b|signed for another chain",
            r"chain ?id\b.*(?:support|requir|mismatch|want|expect)|eip.?155|replay.?protected|wrong chain",
            r"(?:invalid|malformed|bad|missing) (?:\w+ )?(?:signature|sender|signer)|failed to (?:resolve|recover)",
            r"(?:failed|unable|could not|cannot|can't) (?:to )?(?:decode|parse|deserialize|unmarshal)",
            r"\brlp\b|decod(?:e|ing) error",
            rf"empty {_TX}|(?:unsupported|not supported|unknown|invalid) (?:{_TX} )?type|not supported tx",
            r"(?:type|version) (?:is )?(?:not supported|unsupported)",
            r"not an eoa|is contract|has (?:deployed |byte)?code|non.?account|\bbanned\b",
            r"not (?:authorized|whitelisted|allowed|permitted)|authori[sz]ation (?:list|tuple)|auth list",
            r"\bblobs?\b.*(?:missing|exceed|too many|empty)|(?:missing|empty|too many) (?:\w+ )?blobs?",
        ),
    ),
    (
        Refusal.UNDERPRICED,
        (
            rf"underpriced|{_FEE}[^;]*?{_LESS}",
            rf"(?:insufficient|low|minimum|min) (?:\w+ )?{_FEE}|below (?:\w+ ){{0,4}}(?:base ?fee|gas price|fee|tip)",
        ),
    ),
    (
        Refusal.POOL_FULL,
        (
            r"(?:pool|queue|slots?|mem ?pool)\b.*\bfull|full (?:tx|mem)?.?pool|pool size|pool (?:is )?overflow",
            rf"too many (?:pending )?{_TX}|account limit|{_TX} per (?:account|sender)",
        ),
    ),
    (
        Refusal.UNAVAILABLE,
        (
            r"\bsync(?:ing|hroni[sz]ing)?\b|unavailable|not available|not healthy|shutting down|try again",
            r"bad gateway|gateway time|time.?d? ?out|deadline exceeded|(?:^|http |status(?: code)? )5\d\d\b",
            r"connection (?:refused|reset|closed)|disconnect|upstream|no (?:backend|peers)",
        ),
    ),
)
_COMPILED = tuple((refusal, re.compile("|".join(patterns))) for refusal, patterns in _RULES)

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SPACES = re.compile(r"[\s_]+")
_TWO_NONCES = (
    # (what the chain wants, what we gave), in the words of several clients
    re.compile(r"next nonce:? '?(?P<next>\d+)'?,? (?:tx|transaction) nonce:? '?(?P<ours>\d+)"),
    re.compile(r"(?:tx|provided nonce):? '?(?P<ours>\d+)'?,? (?:state|current nonce):? '?(?P<next>\d+)"),
    re.compile(r"expected (?:nonce )?(?:to be )?'?(?P<next>\d+)'?,? (?:but )?got '?(?P<ours>\d+)"),
    re.compile(r"got '?(?P<ours>\d+)'?,? expected '?(?P<next>\d+)"),
)
_ABOUT_NONCES = re.compile(r"nonce|sequence")


def normalised(message: str) -> str:
    """Lower case with single spaces, camel case taken apart: `FeeTooLowToCompete` becomes `fee too low to compete`."""
    return _SPACES.sub(" ", _CAMEL.sub(" ", message[:2_000])).strip().lower()


def read_message(message: str) -> Refusal:
    text = normalised(message)
    for refusal, pattern in _COMPILED:
        if pattern.search(text):
            return refusal
    return _by_numbers(text)


def _by_numbers(text: str) -> Refusal:
    """Words that name no direction ("invalid nonce; got 3, expected 5") still name two numbers."""
    if _ABOUT_NONCES.search(text):
        for pattern in _TWO_NONCES:
            if match := pattern.search(text):
                ours, wanted = int(match["ours"]), int(match["next"])
                if ours != wanted:
                    return Refusal.NONCE_TOO_LOW if ours < wanted else Refusal.NONCE_GAP
    return Refusal.UNKNOWN


def read_failure(failure: RpcFailure) -> Refusal:
    if isinstance(failure, RateLimited):
        return Refusal.RATE_LIMITED
    if isinstance(failure, RpcError):
        for words in (failure.message, *_said_in(failure.data)):
            if (refusal := read_message(words)) is not Refusal.UNKNOWN:
                return refusal
        return Refusal.RATE_LIMITED if failure.status == 429 else Refusal.UNKNOWN
    if isinstance(failure, BadAnswer):
        return read_message(str(failure).partition(": ")[2])
    return Refusal.UNAVAILABLE


def _said_in(data: Any) -> list[str]:
    """Some clients put the reason into `data`, as text or inside an object; hex there is a contract's return value."""
    if isinstance(data, Mapping):
        data = data.get("message")
    return [data] if isinstance(data, str) and not data.startswith("0x") else []


def classify(failure: RpcFailure) -> SendReply:
    said = failure.message if isinstance(failure, RpcError) and failure.message else str(failure)
    return SendReply(VERDICTS[read_failure(failure)], said[:500])
