"""The world of the clients' promises with resident lanes under workerd in place of the Python stack."""

from __future__ import annotations

import httpx

from tests.api.stage import next_relayer
from tests.client.leaky import CountingProxy
from tests.client.world import World
from tests.devnet.process import Devnet
from tests.servers.processes import make_folder, remove_folder
from tests.servers.resident import Resident


class ResidentStage:
    """Where resident lanes listen: what `Stage` is for the Python stack."""

    def __init__(self, devnet: Devnet, lanes: int) -> None:
        self.account = next_relayer(devnet)
        self.account_id = str(self.account["account_id"])
        self.folder = make_folder("relays")
        self.resident = Resident(self.account_id, self.account["keys"][:lanes], [devnet.url])
        self.port, self.url = self.resident.port, self.resident.url
        self.client = self.resident.client()

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path)

    def close(self) -> None:
        self.client.close()
        self.resident.close()
        remove_folder(self.folder)


class ResidentWorld(World):
    """Resident lanes under workerd. Its answers are counted on the way out: a Worker keeps no counters."""

    stage: ResidentStage

    def _build(self) -> None:
        self.stage = ResidentStage(self.devnet, lanes=8)
        self._counting = self._on_loop(CountingProxy(self.stage.port).start())
        self._more.append(self._counting)
        self._entrance = self._counting.port

    def ledger_away(self, seconds: float) -> None:
        door = f"http://127.0.0.1:{self.stage.resident.door}"
        httpx.post(f"{door}/testing/silent", params={"ms": int(seconds * 1000)}).raise_for_status()

    def restart_api(self) -> None:
        self.stage.resident.restart()

    def answers(self) -> dict[str, int]:
        return dict(self._counting.statuses)
