"""`GET /v1/system`: the parts around the lanes, for the console. No secret, no path, no URL beyond its host.

Every reader gets what its pages need: networks, money units, explorers. Workers, nodes and signers are the
installation's own matter: operators of all tenants see them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from txmanager.api.auth import Caller
from txmanager.api.call import Call, Reply, json_reply
from txmanager.api.intents import Intents
from txmanager.api.records import View
from txmanager.core.models import Lane
from txmanager.runtime.manager import TxManager
from txmanager.settings import Settings
from txmanager.settings.pools import NetworkSettings, RpcSettings
from txmanager.settings.secrets import Url


class UnitView(View):
    """The chain's money."""

    smallest: str
    coin: str
    decimals: int


class EndpointView(View):
    host: str
    direct: bool = Field(description="Whether it is one node, and no balancer.")


class SystemNetworkView(View):
    name: str
    chain: str
    title: str
    lanes: str = Field(description="How the ids of its lanes begin.")
    unit: UnitView
    explorer: str | None = Field(description="The page of a transaction; `{hash}` stands for its hash.")
    pools: list[str]
    endpoints: list[EndpointView] | None = Field(description="null where the token may not see them.")


class WorkerView(View):
    name: str
    serves: int = Field(description="Lanes that it is able to serve.")
    holds: int = Field(description="Lanes that it owns now.")


class SignersView(View):
    pool: str
    sources: list[str] = Field(description="Where its keys are: `file`, `env`, or the name of a signer.")


class ArchiveView(View):
    database: str = Field(examples=["sqlite"])
    waiting: int | None = Field(description="Final records that it has not taken yet; null where they are not shown.")


class SystemView(View):
    """What the installation consists of."""

    version: str
    networks: list[SystemNetworkView]
    archive: ArchiveView | None = Field(description="null where there is none.")
    workers: list[WorkerView] | None = Field(description="null where the token may not see them.")
    signers: list[SignersView] | None = Field(description="null where the token may not see them.")


class System:
    def __init__(self, manager: TxManager, intents: Intents, settings: Settings) -> None:
        self._manager = manager
        self._intents = intents
        self._settings = settings

    async def get(self, call: Call) -> Reply:
        caller = call.caller
        insider = caller.operates and caller.whole
        lanes = await self._intents.within(self._manager.lanes()) if insider else []
        return json_reply(
            {
                "version": version("txmanager"),
                "networks": self._networks(caller, insider),
                "archive": self._archive(lanes, insider),
                "workers": await self._workers(lanes) if insider else None,
                "signers": self._signers(caller) if insider else None,
            }
        )

    def _networks(self, caller: Caller, insider: bool) -> list[dict[str, Any]]:
        shown = []
        for name, network in self._settings.networks.items():
            pools = [p for p, pool in self._settings.pools.items() if pool.network == name and caller.may_use_pool(p)]
            if pools or insider:
                shown.append(self._network(name, network, pools, insider))
        return shown

    def _network(self, name: str, network: NetworkSettings, pools: list[str], insider: bool) -> dict[str, Any]:
        family = self._settings.family(name)
        unit = family.unit
        return {
            "name": name,
            "chain": family.name,
            "title": family.title,
            "lanes": family.lanes(name, network),
            "unit": {"smallest": unit.smallest, "coin": unit.coin, "decimals": unit.decimals},
            "explorer": network.explorer,
            "pools": sorted(pools),
            "endpoints": [_endpoint(rpc) for rpc in network.rpc] if insider else None,
        }

    def _archive(self, lanes: Sequence[Lane], insider: bool) -> dict[str, Any] | None:
        archive = self._settings.archive
        if archive is None:
            return None
        database = archive.url.scheme if isinstance(archive.url, Url) else "named by a reference"
        return {"database": database, "waiting": sum(lane.unretired for lane in lanes) if insider else None}

    async def _workers(self, lanes: Sequence[Lane]) -> list[dict[str, Any]]:
        members = await self._intents.within(self._manager.members())
        owned = Counter(lane.owner for lane in lanes if lane.lease_ms)
        named = sorted(members, key=lambda member: member.name)
        return [{"name": one.name, "serves": len(one.lanes), "holds": owned[one.name]} for one in named]

    def _signers(self, caller: Caller) -> list[dict[str, Any]]:
        pools = {name: pool for name, pool in self._settings.pools.items() if caller.may_use_pool(name)}
        return [
            {"pool": name, "sources": sorted({source.partition(":")[0] for source in pool.keys})}
            for name, pool in sorted(pools.items())
        ]


def _endpoint(rpc: RpcSettings) -> dict[str, Any]:
    host = urlsplit(rpc.url.reveal()).hostname if isinstance(rpc.url, Url) else None
    return {"host": host or "named by a reference", "direct": rpc.direct}
