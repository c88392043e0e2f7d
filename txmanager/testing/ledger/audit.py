"""Who asked for what: written once and for all, by tenant, bounded, refused calls apart."""

from __future__ import annotations

import pytest

from txmanager.core.audit import AuditEntry
from txmanager.core.errors import InvalidInput
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import Stage


@promise
async def audit_entries_come_back_newest_first_and_whole(stage: Stage) -> None:
    first = await stage.ledger.note(AuditEntry("alice", "default", "pause", "near:a:b", "10.0.0.1", "why=x"))
    second = await stage.ledger.note(AuditEntry("bob", "default", "resume", "near:a:b", "10.0.0.2", "", "forbidden"))
    assert first.at > 0
    assert first.id
    found = await stage.ledger.audit("default")
    assert found == sorted([first, second], key=lambda e: tuple(map(int, e.id.split("-"))), reverse=True)
    assert {(e.who, e.refused) for e in found} == {("alice", ""), ("bob", "forbidden")}


@promise
async def audit_of_one_tenant_shows_nothing_of_another(stage: Stage) -> None:
    for tenant in ("one", "two", "*"):
        await stage.ledger.note(AuditEntry(f"by-{tenant}", tenant, "pause"))
    assert [e.who for e in await stage.ledger.audit("one")] == ["by-one"]
    assert {e.who for e in await stage.ledger.audit()} == {"by-one", "by-two", "by-*"}


@promise
async def audit_texts_are_bounded_and_a_tenant_is_a_name(stage: Stage) -> None:
    stored = await stage.ledger.note(AuditEntry("x" * 10_000, "default", "pause", told="y" * 10_000))
    assert (len(stored.who), len(stored.told)) == (500, 500)
    assert await stage.ledger.audit("default") == [stored]
    with pytest.raises(InvalidInput, match="tenant"):
        await stage.ledger.note(AuditEntry("x", "a}b:c", "pause"))


@promise
async def refused_calls_never_push_out_what_was_done(stage: Stage) -> None:
    done = await stage.ledger.note(AuditEntry("alice", "default", "pause"))
    for _ in range(5):
        await stage.ledger.note(AuditEntry("mallory", "default", "pause", refused="forbidden"), keep=3)
    found = await stage.ledger.audit("default")
    assert done in found
    assert len(found) == 4
