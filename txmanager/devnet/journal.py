"""State on disk: a snapshot and what happened since. A killed process loses nothing it had answered for.

Every event is one checked frame, handed to the kernel before the answer leaves; a frame torn by a kill
ends the file and is cut off. Power loss may lose the last moments: this is a development network.
Files belong to one version of this code and one genesis; anything else is refused in words.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

from .genesis import Genesis
from .model import Tx
from .network import Delivery, Network
from .pool import Pool

FORMAT = 1
SNAPSHOT_AFTER = 32 * 1024 * 1024
_HEAD = struct.Struct("<II")  # length, crc32


class JournalError(Exception):
    """The folder cannot be used as it is; the message says what to do."""


class Journal:
    """The open journal of one network; a `Recorder`."""

    def __init__(self, folder: Path, genesis: Genesis) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._identity = (FORMAT, genesis.hash, tuple(genesis.accounts))
        self._number = 0
        self._size = 0
        self._file = -1
        self._lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise JournalError(f"{folder} is in use by another devnet") from None

    def open(self, network: Network) -> None:
        """Bring `network` to where the folder's last one stopped, then record what it does."""
        numbers = sorted(int(p.suffix[1:]) for p in self._folder.glob("snapshot.*") if p.suffix[1:].isdecimal())
        if numbers:
            self._number = numbers[-1]
            self._load(network)
            self._replay(network)
            network.recorder = self
            self._open_file()
            if self._adopt_config(network):
                self._snapshot(network)
        else:
            network.recorder = self
            self._snapshot(network)

    def compact(self, network: Network) -> None:
        """Start over from a snapshot when replaying would take long."""
        if self._size > SNAPSHOT_AFTER:
            self._snapshot(network)

    def close(self) -> None:
        os.close(self._file)
        os.close(self._lock)

    # Recorder

    def routed(self, deliveries: list[Delivery]) -> None:
        self._append(("routed", deliveries))

    def pooled(self, tx: Tx) -> None:
        self._append(("pooled", tx))

    def produced(self, now: float) -> None:
        self._append(("produced", now))

    def orphaned(self, depth: int) -> None:
        self._append(("orphaned", depth))

    # files

    def _path(self, kind: str, number: int) -> Path:
        return self._folder / f"{kind}.{number}"

    def _append(self, event: tuple[str, Any]) -> None:
        payload = pickle.dumps(event, protocol=5)
        frame = _HEAD.pack(len(payload), zlib.crc32(payload)) + payload
        try:
            whole = os.write(self._file, frame) == len(frame)
        except OSError:
            whole = False
        if not whole:
            # A torn frame would hide every later one from the next start.
            os.ftruncate(self._file, self._size)
            raise JournalError(f"cannot write to {self._folder}: is the disk full?")
        self._size += len(frame)

    def _open_file(self) -> None:
        path = self._path("journal", self._number)
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._size = path.stat().st_size

    def _snapshot(self, network: Network) -> None:
        """Written aside and renamed: a kill leaves the old snapshot with its journal, or the new one."""
        number = self._number + 1
        aside = self._path("unfinished", number)
        chain, pools = network.chain, network.pools
        kept = (chain, pools, network.in_transit, network.now, network.next_block_at)
        with aside.open("wb") as file:
            pickle.dump(self._identity, file, protocol=5)
            pickle.dump(kept, file, protocol=5)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(self._path("snapshot", number))
        if self._file >= 0:
            os.close(self._file)
        old, self._number = self._number, number
        self._open_file()
        self._path("snapshot", old).unlink(missing_ok=True)
        self._path("journal", old).unlink(missing_ok=True)

    def _load(self, network: Network) -> None:
        path = self._path("snapshot", self._number)
        try:
            with path.open("rb") as file:
                identity = pickle.load(file)
                if identity != self._identity:
                    raise JournalError(
                        f"{self._folder} holds another network (other seed, accounts or version); "
                        "use its settings again, or another folder"
                    )
                chain, pools, transit, now, next_block_at = pickle.load(file)
        except (OSError, EOFError, pickle.UnpicklingError, AttributeError) as cause:
            raise JournalError(f"{path} cannot be read ({cause}); move the folder away to start anew") from cause
        network.chain, network.pools, network.in_transit = chain, pools, transit
        network.now, network.next_block_at = now, next_block_at

    @staticmethod
    def _adopt_config(network: Network) -> bool:
        """Replaying needs the settings of then; from here on the new ones hold. Answers if they differ."""
        changed = network.chain.config != network.config
        network.chain.config = network.config
        count = network.config.producers
        network.pools = (network.pools + [Pool() for _ in range(count)])[:count]
        network.in_transit = [delivery for delivery in network.in_transit if delivery[2] < count]
        return changed

    def _replay(self, network: Network) -> None:
        path = self._path("journal", self._number)
        raw = path.read_bytes() if path.exists() else b""
        at = 0
        while at + _HEAD.size <= len(raw):
            length, crc = _HEAD.unpack_from(raw, at)
            payload = raw[at + _HEAD.size : at + _HEAD.size + length]
            if len(payload) < length or zlib.crc32(payload) != crc:
                break
            network.replay(pickle.loads(payload))
            at += _HEAD.size + length
        if at < len(raw):
            os.truncate(path, at)
