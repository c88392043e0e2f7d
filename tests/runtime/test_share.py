"""Which lanes belong to which worker: everybody agrees, and nobody chooses twice for what did not change."""

from __future__ import annotations

from txmanager.core.ledger import Member
from txmanager.core.router import Router
from txmanager.runtime.lane.share import Share

LANES = frozenset(f"near:net:{n}:1" for n in range(1_200))


async def shares(members: list[Member], lanes: frozenset[str] = LANES) -> dict[str, frozenset[str]]:
    return {member.name: await Share(member.name).of(lanes, members) for member in members}


async def test_every_lane_belongs_to_one_of_those_that_offer_it() -> None:
    few = frozenset(sorted(LANES)[:100])
    members = [Member("w1", LANES), Member("w2", LANES - few), Member("w3", few), Member("w4", frozenset())]
    found = await shares(members)
    for lane in LANES:
        wanted = Router((m.name, 1) for m in members if lane in m.lanes).choose(lane)
        assert [name for name, mine in found.items() if lane in mine] == [wanted]
    assert not found["w3"] - few
    assert found["w3"]
    assert not found["w4"]


async def test_a_lane_that_nobody_offers_belongs_to_nobody() -> None:
    assert await shares([Member("w1", frozenset())]) == {"w1": frozenset()}
    assert await Share("w1").of(LANES, []) == frozenset()


async def test_owners_are_chosen_again_only_when_something_changed() -> None:
    members = [Member("w1", LANES), Member("w2", LANES)]
    share = Share("w1")
    before = await share.of(LANES, members)
    assert await share.of(set(LANES), [Member("w1", frozenset(LANES)), members[1]]) is before
    assert share.chosen == len(LANES)
    alone = await share.of(LANES, members[:1])
    assert (alone, share.chosen) == (LANES, 2 * len(LANES))
    assert await share.of(LANES | {"near:net:x:1"}, members[:1]) == LANES, "the new one is not offered yet"
    assert share.chosen == 3 * len(LANES) + 1


async def test_a_worker_that_dies_moves_its_own_lanes_alone() -> None:
    members = [Member(f"w{n}", LANES) for n in range(5)]
    before, after = await shares(members), await shares(members[1:])
    assert all(before[name] <= mine for name, mine in after.items())
