"""Who is logged in: a code works once and for a while, a session ends by itself or at once, each issuer has its own."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from txmanager.core.errors import InvalidInput
from txmanager.core.sessions import SESSION_MS
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import Stage
from txmanager.testing.waiting import until

ISSUER, OTHER = "a" * 16, "b" * 16
LONG_MS = 600_000


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


CODE = digest("code")


async def later(stage: Stage, ms: int) -> None:
    over = await stage.ledger.now_ms() + ms

    async def passed() -> bool:
        return await stage.ledger.now_ms() > over

    await until(passed, every=0.002)


async def opened(stage: Stage, name: str, issuer: str = ISSUER, lasts_ms: int = SESSION_MS) -> str:
    await stage.ledger.offer_code(issuer, digest(f"code of {name}"))
    session = await stage.ledger.open_session(issuer, digest(f"code of {name}"), digest(name), lasts_ms=lasts_ms)
    assert session is not None
    return session.id


@promise
async def code_buys_one_session_of_its_issuer(stage: Stage) -> None:
    ledger = stage.ledger
    await ledger.offer_code(ISSUER, CODE)
    assert await ledger.open_session(OTHER, CODE, digest("s")) is None, "a code is its issuer's"
    session = await ledger.open_session(ISSUER, CODE, digest("s"), "10.0.0.1")
    assert session is not None
    assert (session.id, session.origin) == (digest("s"), "10.0.0.1")
    assert session.ends_at - session.opened_at == SESSION_MS
    assert await stage.again().session(ISSUER, session.id) == session
    assert await ledger.sessions(ISSUER) == [session]
    assert await ledger.sessions(OTHER) == []
    assert await ledger.session(OTHER, session.id) is None


@promise
async def code_that_was_used_is_refused(stage: Stage) -> None:
    ledger = stage.ledger
    await ledger.offer_code(ISSUER, CODE, LONG_MS)
    first = await ledger.open_session(ISSUER, CODE, digest("s"))
    assert first is not None
    assert await ledger.open_session(ISSUER, CODE, digest("thief")) is None
    assert await ledger.sessions(ISSUER) == [first]


@promise
async def of_many_who_bring_one_code_one_gets_a_session(stage: Stage) -> None:
    other = stage.again()
    await stage.ledger.offer_code(ISSUER, CODE, LONG_MS)
    bringing = [(stage.ledger, other)[n % 2].open_session(ISSUER, CODE, digest(f"s{n}")) for n in range(8)]
    got = [session for session in await asyncio.gather(*bringing) if session is not None]
    assert len(got) == 1
    assert await stage.ledger.sessions(ISSUER) == got


@promise
async def opening_that_is_repeated_answers_the_same_session(stage: Stage) -> None:
    """The reply was lost: the code is used up, and the caller still gets what it bought."""
    await stage.ledger.offer_code(ISSUER, CODE)
    first = await stage.ledger.open_session(ISSUER, CODE, digest("s"), "here")
    assert first is not None
    assert await stage.ledger.open_session(ISSUER, CODE, digest("s"), "there") == first


@promise
async def code_that_is_too_old_is_refused(stage: Stage) -> None:
    ledger = stage.ledger
    await ledger.offer_code(ISSUER, digest("young"), LONG_MS)
    await ledger.offer_code(ISSUER, CODE, 1)
    await later(stage, 1)
    assert await ledger.open_session(ISSUER, CODE, digest("s")) is None
    assert await ledger.open_session(ISSUER, digest("young"), digest("s")) is not None
    assert await ledger.open_session(ISSUER, digest("never offered"), digest("t")) is None


@promise
async def session_ends_by_itself(stage: Stage) -> None:
    stays = await opened(stage, "stays")
    short = await opened(stage, "short", lasts_ms=1)
    await later(stage, 1)
    assert await stage.ledger.session(ISSUER, short) is None
    assert [session.id for session in await stage.ledger.sessions(ISSUER)] == [stays]


@promise
async def session_that_was_ended_is_over_for_everybody(stage: Stage) -> None:
    one, two = await opened(stage, "one"), await opened(stage, "two")
    assert not await stage.ledger.end_session(OTHER, one), "nobody ends another issuer's session"
    assert await stage.ledger.end_session(ISSUER, one)
    assert not await stage.ledger.end_session(ISSUER, one)
    assert await stage.again().session(ISSUER, one) is None
    assert [session.id for session in await stage.ledger.sessions(ISSUER)] == [two]


@promise
async def codes_and_sessions_are_bounded_and_the_next_to_end_goes_first(stage: Stage) -> None:
    """So what is over takes nobody's place."""
    ledger = stage.ledger
    for n in range(4):
        await ledger.offer_code(ISSUER, digest(f"c{n}"), LONG_MS + 1000 * n, keep=3)
    assert await ledger.open_session(ISSUER, digest("c0"), digest("s")) is None
    for n in range(1, 4):
        session = await ledger.open_session(ISSUER, digest(f"c{n}"), digest(f"s{n}"), "", LONG_MS - 1000 * n, keep=2)
        assert session is not None
    await opened(stage, "foreign", OTHER)
    assert {session.id for session in await ledger.sessions(ISSUER)} == {digest("s1"), digest("s3")}
    assert len(await ledger.sessions(OTHER)) == 1


@promise
async def only_digests_become_names(stage: Stage) -> None:
    for issuer, code in (("a}b:c" + "0" * 16, CODE), (ISSUER, "the code itself"), (ISSUER, "")):
        with pytest.raises(InvalidInput, match="digest"):
            await stage.ledger.offer_code(issuer, code)
    with pytest.raises(InvalidInput, match="digest"):
        await stage.ledger.open_session(ISSUER, CODE, "at")
    session = await stage.ledger.session(ISSUER, CODE)
    assert session is None
