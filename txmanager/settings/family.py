"""`ChainFamily`: one value that names all parts of a chain, and how installed ones are found.

A package offers one under the entry point group `txmanager.chains`, named like `chain` of a network. Only what the
configuration names is loaded: a process with keys runs no other chain's code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel

from txmanager.core.chain import Chain
from txmanager.core.decide import Policy
from txmanager.core.doors import RelayerDoor
from txmanager.core.errors import InvalidSettings
from txmanager.core.findings import Finding
from txmanager.core.funds import PurseName
from txmanager.core.given import Counter
from txmanager.core.health import Reader
from txmanager.core.kinds import KindPath, Reading
from txmanager.core.models import Attempt, Intent, Json, Outcome
from txmanager.core.signing_policy import Effects
from txmanager.core.upstream import Upstream
from txmanager.extras import how_to_install
from txmanager.settings.gateway import GatewaySettings
from txmanager.settings.pools import NetworkSettings, PoolSettings

if TYPE_CHECKING:
    # Not at run time: a process without keys loads no library that signs.
    from txmanager.signing.signer import Signer
    from txmanager.signing.sources import KeySources

GROUP = "txmanager.chains"

N = TypeVar("N", bound=NetworkSettings)
P = TypeVar("P", bound=PoolSettings)
P_co = TypeVar("P_co", bound=PoolSettings, covariant=True)

ReadPayload = Callable[[str, Mapping[str, Json]], Reading]
CallLimits = tuple[str, tuple[str, ...], int | None]
"""What a key may call: the receiver, its methods (none: all of them), and what it may spend on fees."""


@dataclass(frozen=True, slots=True)
class GasKeys:
    """Keys with many nonce sequences and a balance of their own for gas."""

    lanes: int
    fund: int = 0
    """What the balance is filled up to, in the chain's smallest unit."""


class Clerk:
    """Who is told of what a chain does for `txmanager keys`: words for the terminal, and every transaction for the
    books. This one keeps both to itself."""

    def say(self, line: str) -> None: ...

    async def book(self, lane: str, intent: Intent, attempt: Attempt, outcome: Outcome) -> None: ...


class OpenReader(Reader, Protocol):
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Held(Generic[P_co]):
    """A lane to serve: its pool, and its key. Without one its callers sign."""

    pool_name: str
    pool: P_co
    signer: Signer | None


@dataclass(frozen=True, slots=True)
class Unit:
    """The chain's money, for people. Amounts are whole numbers of the smallest unit everywhere else."""

    smallest: str
    coin: str = ""
    decimals: int = 0
    low: int = 0
    """Below this a key can hardly do anything."""
    scales: Mapping[str, int] = field(default_factory=dict)
    """Other units that people write, and their decimals."""
    budget: int = 1
    """How much of the smallest unit budgets are counted in: sums of it stay below 2^53."""

    def words(self, amount: int) -> str:
        return f"{amount / 10**self.decimals:.2f} {self.coin}" if self.coin else f"{amount} {self.smallest}"

    def parse(self, text: str) -> int:
        """`10 NEAR`, or digits of the smallest unit; `ValueError` says what is wrong."""
        number, _, name = text.strip().partition(" ")
        known = {self.smallest: 0, "": 0, **self.scales, **({self.coin: self.decimals} if self.coin else {})}
        if name not in known:
            raise ValueError(f"{name} is not one of {', '.join(sorted(filter(None, known)))}")
        whole, _, rest = number.partition(".")
        rest = rest.rstrip("0")
        if len(rest) > known[name] or not (whole + rest).isdigit() or not number.isascii():
            raise ValueError(f"{text!r} is no whole number of {self.smallest}")
        return int(whole + rest.ljust(known[name], "0"))


@dataclass(frozen=True, slots=True)
class NodeProbe(Generic[N]):
    """Questions to one node, by the name of their JSON-RPC method."""

    alive: str
    """What any live node answers."""
    doctor: str
    describe: Callable[[N, Any], Finding]
    """What `doctor` says of the answer."""


@dataclass(frozen=True, slots=True)
class Numbers(Generic[N]):
    """For addresses whose callers sign: the nonce service's view of the chain."""

    raw_kind: str
    """The kind of an intent that carries bytes which its caller signed."""
    open: Callable[[str, N], Counter]
    adopt: Callable[[Chain, str], None]
    """Serve one more lane whose key the callers hold."""
    drop: Callable[[Chain, str], None] = lambda _chain, _lane: None
    """Remember nothing more of such a lane, until it is adopted again."""


@dataclass(frozen=True, slots=True)
class Watching(Generic[N]):
    """For the monitor: how lanes are read without a key."""

    open: Callable[[str, N], OpenReader]


@dataclass(frozen=True, slots=True)
class PurseSide:
    """What lanes pay from, and how it is filled up."""

    names: frozenset[PurseName]
    """The purses that lanes of this chain may have."""
    of: Callable[[str, PurseName], str]
    """The id of a lane's purse of that name, equal for all lanes that share it."""
    pay: Callable[[str, int], tuple[str, Mapping[str, Json]]]
    """The kind and payload of a payment into a purse."""
    example: str
    """A purse, to see whether a treasury could pay into one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignerSide:
    """For a signer process: how it reads what it is asked to sign."""

    curve: Literal["ed25519", "secp256k1"]
    digest: Callable[[bytes], bytes]
    """What the chain checks a signature of these unsigned bytes against."""
    read: Callable[[bytes, str], Effects]
    """What unsigned bytes do when the key of this name signs them; `InvalidInput` for anything that is not a whole
    transaction."""
    receiver: Callable[[str], str]
    """An entry of `receivers` as `Effects` writes it; `InvalidInput` for one that can match nothing."""
    method: Callable[[str], str]
    """The same for `methods`."""
    actions: frozenset[str]
    """Every action that a policy can name."""
    usual: frozenset[str]
    """Those that a policy allows where it names none."""
    own_account: frozenset[str] = frozenset()
    """Effects on the signing account that a policy can allow."""
    names: Literal["account", "chain_id"]
    """What of it the bytes name, so that a key is bound to one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFamily(Generic[N, P]):
    name: str
    """What `chain` of a network says; kinds, routes and lane ids begin with it."""
    title: str
    unit: Unit
    network: type[N]
    pool: type[P]
    kinds: Mapping[str, type[BaseModel]]
    """What can be asked for, and the model of its payload."""
    paths: Mapping[str, KindPath] = field(default_factory=dict)
    """Kinds that have a path of their own."""
    reading: Callable[[N | None, P | None], ReadPayload]
    """How payloads are read by the rules of a pool on its network; None where their settings are elsewhere. Touches no
    key."""
    lanes: Callable[[str, N], str]
    """How the ids of a network's lanes begin."""
    load_keys: Callable[[KeySources, str, N, P], Iterable[tuple[str, Signer]]]
    """Every lane that the keys of a pool serve, with its key."""
    open_chain: Callable[[str, N, Mapping[str, Held[P]]], Chain]
    """A network as lane workers see it, with the lanes to serve."""
    policy: Callable[[N, P], Policy]
    probe: NodeProbe[N]
    numbers: Numbers[N] | None = None
    watching: Watching[N] | None = None
    purses: PurseSide | None = None
    upstream: Callable[[str, N, GatewaySettings], Upstream] | None = None
    """For the JSON-RPC gateway: the network's nodes as it asks them."""
    add_keys: Callable[[Chain, str, Sequence[str], CallLimits | None, Clerk], Awaitable[object]] | None = None
    """`keys provision`: put public keys on the account of a lane, signed by its key."""
    key_limits: Callable[[Chain, str], Awaitable[CallLimits | None]] | None = None
    """What the key of a lane may call, as the chain has it; None of a key that may do everything."""
    add_gas_keys: Callable[[Chain, str, Sequence[str], GasKeys, CallLimits | None, Clerk], Awaitable[object]] | None = (
        None
    )
    """The same with keys of many lanes, on chains that have such."""
    signer: SignerSide | None = None
    """For `txmanager signer`."""
    doors: Mapping[str, RelayerDoor] = field(default_factory=dict)
    """The routes of other relayers that can be opened, by the name of their settings."""

    @property
    def all_kinds(self) -> list[str]:
        """Every kind a token can be limited to."""
        return [*self.kinds, *([self.numbers.raw_kind] if self.numbers else [])]

    def __post_init__(self) -> None:
        # What begins with its family's name cannot be another family's.
        if not all(kind.startswith(f"{self.name}.") for kind in self.all_kinds):
            raise ValueError(f"every kind of chain {self.name} must begin with {self.name}.")
        if not all(path.path.startswith(f"/v1/{self.name}/") for path in self.paths.values()):
            raise ValueError(f"every path of chain {self.name} must begin with /v1/{self.name}/")


AnyFamily = ChainFamily[Any, Any]
AnyHeld = Held[Any]


def installed() -> list[str]:
    """The names of all chains there are, none of them loaded."""
    return sorted({point.name for point in _points()})


@cache
def find(name: str) -> AnyFamily:
    """The chain of that name; `InvalidSettings` where none, two, or a broken one is installed."""
    found = [point for point in _points() if point.name == name]
    if not found:
        raise InvalidSettings("chain", f"must be the name of an installed chain; there are: {', '.join(installed())}")
    if len(found) > 1:
        packages = " and ".join(sorted(_package(point) for point in found))
        raise InvalidSettings("chain", f"{name} is offered by {packages}; uninstall one of them")
    [point] = found
    try:
        family = point.load()
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        why = how_to_install(missing or "") or repr(error)
        raise InvalidSettings("chain", f"{name} of {_package(point)} cannot be loaded: {why}") from error
    if not isinstance(family, ChainFamily) or family.name != name:
        raise InvalidSettings("chain", f"{name} of {_package(point)} is no ChainFamily of that name")
    return family


def _points() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
