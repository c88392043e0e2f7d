"""What to offer: the market as `eth_feeHistory` tells it, between a floor and a cap; and how much a replacement adds.

The arithmetic is pure. A replacement raises both fees by at least the pool's minimum, reaches the market, and stays
below the cap, or there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from txmanager.chains.evm.jumps import Level, after, believed, limit
from txmanager.chains.evm.network import EvmNetwork
from txmanager.chains.evm.transaction import DYNAMIC, Fees
from txmanager.chains.panel import origin
from txmanager.rpc.errors import BadAnswer, RpcError, shown
from txmanager.rpc.protocol import JsonRpc, Node
from txmanager.rpc.reading import on_one

Ask = Callable[[str, Any], Awaitable[Any]]
_log = structlog.get_logger("fees")
_NO_SUCH_METHOD = -32601
_WORD = len("0x") + 64
"""No quantity of the machine is larger than its word."""


def raised(value: int, percent: int) -> int:
    """At least `percent` more, rounded up, and always more."""
    return max(-(-value * (100 + percent) // 100), value + 1)


def bump(previous: Sequence[Fees], market: Fees, cap: int, percent: int) -> Fees | None:
    """Better than every earlier price of the nonce, by both fees; None when that would pass the cap."""
    fee = raised(max(p.max_fee for p in previous), percent)
    tip = raised(max(p.tip for p in previous), percent)
    if max(fee, tip) > cap:
        return None
    fee = min(cap, max(fee, market.max_fee, tip))
    return Fees(fee, min(fee, max(tip, market.tip)))


def market_fees(base_fee: int, tip: int, network: EvmNetwork) -> Fees:
    """Twice the base fee: room for six full blocks in a row."""
    fee = min(network.max_fee, 2 * base_fee + max(tip, network.min_tip))
    return Fees(fee, min(fee, max(tip, network.min_tip)))


def capped(fees: Fees, limit: int | None) -> Fees:
    if limit is None or fees.max_fee <= limit:
        return fees
    return Fees(limit, min(fees.tip, limit))


def price_for(fees: Fees, base_fee: int, type: int) -> Fees:
    """A gas price is paid in full, so it leaves less room above the base fee than a fee cap does."""
    if type >= DYNAMIC:
        return fees
    price = min(fees.max_fee, base_fee + base_fee // 4 + fees.tip)
    return Fees(max(price, 1), max(price, 1))


def number(value: Any, what: str) -> int:
    """A quantity as nodes write it (0x...)."""
    try:
        if isinstance(value, str) and value.startswith("0x") and len(value) <= _WORD:
            return int(value, 16)
    except ValueError:
        pass
    raise BadAnswer(f"{what} is not a number: {shown(value, 40)!r}")


class FeeOracle:
    """The market now; asked once for all lanes, kept for a moment. One node alone is believed within `jumps`."""

    def __init__(self, ask: Ask, network: EvmNetwork, rpc: JsonRpc | None = None) -> None:
        """`rpc` are the nodes behind `ask`: when the answer of one cannot be read, the next one is asked; when it is a
        jump, the others are asked, too."""
        self._ask = ask
        self._rpc = rpc
        self._network = network
        self._known: tuple[float, int, int] | None = None
        self._levels: tuple[Level, Level] | None = None
        """What the base fee and the tip were when they were last believed."""
        self._lock = asyncio.Lock()
        self._history = True

    async def read(self) -> tuple[int, Fees]:
        """(base fee of the next block, market fees)."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._known is None or now - self._known[0] > self._network.fees_fresh_s:
                base_fee, tip = await self._believed(now)
                self._known = (now, base_fee, tip)
            _, base_fee, tip = self._known
        return base_fee, market_fees(base_fee, tip, self._network)

    async def _believed(self, now: float) -> tuple[int, int]:
        quoted, who = await self._ask_nodes()
        network, levels = self._network, self._levels or (None, None)
        nodes = self._rpc.nodes if self._rpc is not None else ()
        rivals = [node for node in nodes if origin(node.name) != origin(who)]
        jump = any(price > limit(level, now, network, alone=False) for price, level in zip(quoted, levels, strict=True))
        answers = [await self._second(node) for node in rivals] if jump else []
        others = [answer for answer in answers if answer is not None]
        alone = not rivals or (jump and not others)
        prices, kept = [], []
        for n, (price, level) in enumerate(zip(quoted, levels, strict=True)):
            most = limit(level, now, network, alone=alone)
            kept_price = believed(price, [other[n] for other in others], most)
            if kept_price < price:
                _log.warning("price not believed", told=str(price), believed=str(kept_price), node=who, alone=alone)
            prices.append(kept_price)
            kept.append(after(level, kept_price, now, network, alone=alone, confirmed=bool(others)))
        self._levels = (kept[0], kept[1])
        return prices[0], prices[1]

    async def _second(self, node: Node) -> tuple[int, int] | None:
        if not node.ready:
            return None
        try:
            return await self._ask_node(lambda method, params: node.call(method, params, group="questions"))
        except Exception:  # absent, refusing or unreadable: it confirms nothing
            return None

    async def _ask_nodes(self) -> tuple[tuple[int, int], str]:
        """What the first node that can be read says, and which one that is."""
        if self._rpc is None:
            return await self._ask_node(self._ask), ""

        async def run(one: JsonRpc) -> tuple[tuple[int, int], str]:
            quoted = await self._ask_node(lambda method, params: one.call(method, params, group="questions"))
            return quoted, one.nodes[0].name

        return await on_one(self._rpc, run)

    async def _ask_node(self, ask: Ask) -> tuple[int, int]:
        if self._history:
            try:
                params = [hex(self._network.history_blocks), "latest", [self._network.percentile]]
                return read_history(await ask("eth_feeHistory", params))
            except RpcError as error:
                # Only a node that does not know the question is not asked again; any other trouble passes.
                self._history = error.number != _NO_SUCH_METHOD
        price = number(await ask("eth_gasPrice", []), "eth_gasPrice")
        try:
            tip = number(await ask("eth_maxPriorityFeePerGas", []), "eth_maxPriorityFeePerGas")
        except RpcError:
            tip = 0
        return max(0, price - tip), tip


def read_history(history: Any) -> tuple[int, int]:
    """(base fee of the next block, the median over the blocks of the tip at the percentile)."""
    if (
        not isinstance(history, dict)
        or not isinstance(history.get("baseFeePerGas"), list)
        or not history["baseFeePerGas"]
    ):
        raise BadAnswer("eth_feeHistory answered without baseFeePerGas")
    base_fee = number(history["baseFeePerGas"][-1], "a base fee")
    ratios, rewards = history.get("gasUsedRatio"), history.get("reward")
    # Empty blocks report a tip of 0, which is nobody's price.
    tips = sorted(
        number(row[0], "a reward")
        for row, used in zip(_list(rewards), _list(ratios), strict=False)
        if isinstance(row, list) and row and used
    )
    return base_fee, tips[len(tips) // 2] if tips else 0


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
