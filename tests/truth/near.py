"""Stories of `make truth` that need a whole stack before the NEAR node: delegates, and an account with many keys.

    python -m tests.truth.near delegates|provision --rpc URL --network NAME --account ID --keys file:PATH

Each makes accounts of its own below ACCOUNT (about 0.1 NEAR for the delegates, 2 NEAR for 105 keys, which stay there).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from txmanager.chains.near import PublicKey
from txmanager.chains.near import actions as act
from txmanager.chains.near.transaction import sign_delegate
from txmanager.client import Client, IntentFailed, Record
from txmanager.signing import Ed25519Signer
from txmanager.stack import NearOptions, Stack, StackOptions
from txmanager.stack.folder import write_private
from txmanager.stack.parts import free_port

NEAR = 10**24
KEYS = 105
"""More than a node lists in one answer."""
AT_ONCE = 8


@dataclass(frozen=True)
class Node:
    url: str

    def query(self, **params: Any) -> Any:
        asked = {"finality": "final", **params}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "query", "params": asked}).encode()
        with urlopen(Request(self.url, body, {"Content-Type": "application/json"}), timeout=30) as reply:
            answer = json.load(reply)
        assert "result" in answer, answer
        return answer["result"]

    def key(self, account: str, public_key: str) -> Any:
        return self.query(request_type="view_access_key", account_id=account, public_key=public_key)


@dataclass(frozen=True)
class Story:
    client: Client
    node: Node
    account: str
    folder: Path
    near: NearOptions

    def new_user(self, balance: int) -> tuple[str, Ed25519Signer]:
        name, signer = f"truth-{secrets.token_hex(5)}.{self.account}", Ed25519Signer.generate()
        made = self.client.create_account(name, signer.public_key, initial_balance=balance, wait_s=60)
        assert made.status == "done", made
        return name, signer

    def delegate(self, name: str, signer: Ed25519Signer, nonce: int, *, blocks: int, amount: int = 1) -> str:
        seen = self.node.key(name, signer.public_key)
        inner = act.DelegateAction(
            name,
            self.account,
            (act.Transfer(amount),),
            seen["nonce"] + nonce,
            seen["block_height"] + blocks,
            PublicKey.parse(signer.public_key),
        )
        return base64.b64encode(sign_delegate(inner, signer).encode()).decode()


def delegates(story: Story) -> list[str]:
    """What runs, what is replayed, and what must not be paid for."""
    name, signer = story.new_user(NEAR // 20)
    relay = story.client.relay
    first = story.delegate(name, signer, 1, blocks=1_000)
    done = _ended(lambda: relay(first, wait_s=60))
    again = _ended(lambda: relay(first, wait_s=60))
    assert done.status == "done", done
    assert again.tx_hash == done.tx_hash, "a retry was answered with another transaction"
    expired = _ended(lambda: relay(story.delegate(name, signer, 2, blocks=1), wait_s=60))
    assert (expired.status, expired.tx_hash) == ("failed", None), f"an expired delegate was paid for: {expired}"
    # One nonce, several delegates: one may run, no other may cost anything.
    rivals = [story.delegate(name, signer, 3, blocks=1_000, amount=2 + n) for n in range(AT_ONCE)]
    for text in rivals:
        relay(text)
    ends = [_ended(lambda text=text: relay(text, wait_s=60)) for text in rivals]
    paid = [end for end in ends if end.tx_hash is not None]
    assert [end.status for end in paid] == ["done"], f"{len(paid)} of {AT_ONCE} delegates of one nonce were paid for"
    used = int(story.node.key(name, signer.public_key)["nonce"])
    return [f"1 of {AT_ONCE} delegates of one nonce ran, {AT_ONCE} others cost nothing; the key is at {used}"]


def _ended(call: Callable[[], Record]) -> Record:
    try:
        return call()
    except IntentFailed as error:
        return error.record


def provision(story: Story) -> list[str]:
    """An account with more keys than a node lists at once: interrupted, resumed, listed."""
    name, signer = story.new_user(2 * NEAR)
    keys, config, vault = story.folder / "owner.json", story.folder / "provision.toml", story.folder / "keys.vault"
    owner = [{"account_id": name, "private_key": signer.export().reveal().decode()}]
    write_private(keys, json.dumps(owner))
    network, url = story.near.network, json.dumps(story.near.rpc)
    config.write_text(
        f'[networks.{network}]\nchain = "near"\nrpc = [{{ url = {url}, direct = true }}]\n'
        f'[pools.many]\nnetwork = "{network}"\naccount = "{name}"\nkeys = ["file:{keys}"]\n'
    )
    words = ["keys", "provision", "many", "--vault", str(vault), "--signer", f"file:{keys}", "--config", str(config)]
    for count in (KEYS // 2, KEYS, KEYS):
        _run([*words, "--count", str(count)])
    listed, after = 0, None
    while True:
        page = story.node.query(request_type="view_access_key_list", account_id=name, **_page(after))
        listed += len(page["keys"])
        after = page.get("last_key")
        if not after or not page["keys"]:
            break
    assert listed == KEYS + 1, f"{listed} keys are on the chain, not {KEYS + 1}"
    return [f"{KEYS} keys added in two runs, a third changed nothing"]


def _page(after: str | None) -> dict[str, Any]:
    return {"limit": 100, **({"after_key": after} if after else {})}


def _run(words: list[str]) -> None:
    command = [sys.executable, "-m", "txmanager", *words]
    passphrase = {"TXMANAGER_PASSPHRASE": secrets.token_hex(8)} if "TXMANAGER_PASSPHRASE" not in os.environ else {}
    os.environ |= passphrase  # the same for the next run
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert said.returncode == 0, said.stdout[-2_000:] + said.stderr[-2_000:]


STORIES = {"delegates": delegates, "provision": provision}


async def tell(name: str, near: NearOptions) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="txmanager-truth-") as folder:
        stack = Stack(StackOptions(data=Path(folder) / "data", port=free_port(), workers=1, near=near), print)
        try:
            await stack.start()
            client = Client(stack.url, token=stack.folder.token())
            story = Story(client, Node(near.rpc), stack.account, Path(folder), near)
            return await asyncio.to_thread(STORIES[name], story)
        finally:
            await stack.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("story", choices=STORIES)
    for option in ("rpc", "network", "account", "keys"):
        parser.add_argument(f"--{option}", required=True)
    told = parser.parse_args()
    near = NearOptions(told.rpc, told.network, told.account, told.keys)
    for line in asyncio.run(tell(told.story, near)):
        print(line)
    print("every promise held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
