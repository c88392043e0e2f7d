"""What a caller is told about bytes that the mempool or a node did not take, in geth's words."""

from __future__ import annotations

from txmanager.core.admission import Admitted, Ended
from txmanager.core.chain import SendReply, Verdict
from txmanager.core.given import Given
from txmanager.core.upstream import Seen

ALREADY_KNOWN = "already known"


def not_admitted(given: Given, answer: Admitted) -> str:
    match answer.word:
        case "known":
            return ALREADY_KNOWN
        case "low" | "processing":
            return nonce_too_low(answer.base, given.nonce)
        case "gap":
            return f"nonce too high: tx nonce {given.nonce}, gapped nonce {answer.base}"
        case "replace_underpriced":
            return "replacement transaction underpriced"
        case "underpriced":
            return "transaction underpriced"
        case "sender_full":
            return "account limit exceeded"
        case "full":
            return "txpool is full"
        case _:
            raise AssertionError(f"{answer.word} is no refusal")


def nonce_too_low(next_nonce: int, nonce: int) -> str:
    return f"nonce too low: next nonce {next_nonce}, tx nonce {nonce}"


def below_floor(given: Given, floor: int) -> str:
    return f"transaction gas price below minimum: gas tip cap {given.max_fee}, minimum needed {floor}"


def cost(given: Given) -> int:
    return given.gas * given.max_fee + given.value


def too_dear(given: Given, seen: Seen) -> str | None:
    """The balance is held against this transaction alone: others of the sender may never be paid for."""
    if (asked := cost(given)) <= seen.balance:
        return None
    return (
        f"insufficient funds for gas * price + value: balance {seen.balance}, "
        f"tx cost {asked}, overshot {asked - seen.balance}"
    )


_BY_VERDICT = {
    Verdict.UNDERPRICED: "transaction underpriced",
    Verdict.REPLACEMENT_UNDERPRICED: "replacement transaction underpriced",
    Verdict.INSUFFICIENT_FUNDS: "insufficient funds for gas * price + value",
}


def refused_by_node(reply: SendReply) -> str:
    """The node's own words behind those that clients match, unless it used them itself."""
    said = " ".join(reply.message.split())[:300]
    known = _BY_VERDICT.get(reply.verdict)
    if known is None or said.lower().startswith(known):
        return said[:1].lower() + said[1:] if said else "transaction rejected"
    return f"{known}: {said}" if said else known


def ended(end: Ended) -> str:
    match end.reason:
        case "refused":
            return end.message or "transaction rejected"
        case "replaced":
            return "replacement transaction underpriced: a dearer transaction took its place"
        case "purged":
            return "transaction underpriced: removed to make room for a dearer one"
        case "overtaken":
            return f"nonce too low: another transaction used nonce {end.nonce}"
        case "expired":
            return "transaction expired: it waited too long"
        case "dropped":
            return "transaction dropped by an operator"
        case "final":
            return ALREADY_KNOWN
