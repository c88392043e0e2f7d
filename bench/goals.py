"""What the figures should be, and whether they are. Ratios are of medians of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.figures import BATCHES, RTT_MS, Series
from bench.report import Goal

WINDOW, _LANES = 16, 8
_PYTHON = ("arq", "saq", "taskiq", "streaq", "rq")
_SERVER = dict(zip(BATCHES, (0.60, 0.65, 0.80), strict=True))
Results = Mapping[str, Mapping[str, Series]]


def found(results: Results, part: str, name: str) -> Series | None:
    one = results.get(part, {}).get(name)
    return one if one is not None and one.samples else None


class Goals(list[Goal]):
    def __init__(self, results: Results) -> None:
        super().__init__()
        self._results = results

    def of(self, part: str, name: str = "txmanager") -> Series | None:
        return found(self._results, part, name)

    def before(self, part: str, durability: str = "") -> Series | None:
        """The commit that was measured in turn, if any."""
        for name, one in self._results.get(part, {}).items():
            if name.startswith("commit ") and name.partition(",")[2].strip() == durability and one.samples:
                return one
        return None

    def best(self, part: str, names: tuple[str, ...], pick: Callable[..., Series]) -> Series | None:
        there = [one for name in names if (one := self.of(part, name)) is not None]
        return pick(there, key=lambda one: one.middle) if there else None

    def names(self, part: str) -> list[str]:
        return list(self._results.get(part, {}))

    def ratio(
        self, what: str, sign: str, must: float, above: Series | None, below: Series | None, unit: str = "x"
    ) -> None:
        if above is None or below is None or not below.middle:
            return
        is_now = above.middle / below.middle
        met = is_now >= must if sign == ">=" else is_now <= must
        shown, wanted = (f"{is_now:.2f}x", f"{must:g}x") if unit == "x" else (f"{is_now:.0%}", f"{must:.0%}")
        self.append(Goal(what, f"{sign} {wanted}", shown, met))

    def at_most(self, what: str, must: float, series: Series | None, unit: str) -> None:
        if series is not None:
            self.append(Goal(what, f"<= {must:g} {unit}", f"{series.middle:,.4g} {unit}", series.middle <= must))


def goals(results: Results) -> list[Goal]:
    all_of_them = Goals(results)
    _drained(all_of_them)
    _far_away(all_of_them)
    _waiting(all_of_them)
    _grown(all_of_them)
    return all_of_them


def _drained(goals: Goals) -> None:
    ours = goals.of("drain")
    best = goals.best("drain", _PYTHON, max)
    goals.ratio(f"drained, against the best Python queue ({best.name if best else ''})", ">=", 6, ours, best)
    goals.ratio("drained, against BullMQ", ">=", 3.5, ours, goals.of("drain", "bullmq"))
    goals.ratio("drained, against bare sign + POST + look-up", ">=", 0.7, ours, goals.of("drain", "limit: raw"), "%")
    durable = goals.of("drain", "txmanager, fsync")
    goals.ratio("drained, fsync against everysec", ">=", 0.7, durable, ours, "%")
    goals.ratio("drained with fsync, against before", ">=", 1.0, durable, goals.before("drain", "fsync"))
    for batch, must in _SERVER.items():
        part = f"server, {batch}"
        what = f"the server's processor time, batches of {batch}, against before"
        goals.ratio(what, "<=", must, goals.of(part), goals.before(part))


def _far_away(goals: Goals) -> None:
    def bound(lanes: int) -> Series:
        return Series("bound", [WINDOW * lanes / RTT_MS * 1000])

    far = goals.of("network")
    if far is not None:
        goals.ratio("20 ms network, against before", ">=", 1.2, far, goals.before("network"))
        goals.ratio("20 ms network, 8 lanes against window x lanes / RTT", ">=", 0.7, far, bound(_LANES), "%")
        for lanes, name in ((1, "1 lane"), (2, "2 lanes")):
            what = f"20 ms network, {name} against window x lanes / RTT"
            goals.ratio(what, ">=", 0.75, goals.of("few lanes", name), bound(lanes), "%")
        peers = tuple(name for name in goals.names("network") if not name.startswith(("txmanager", "commit ")))
        goals.ratio("20 ms network, against the best peer", ">=", 10, far, goals.best("network", peers, max))
        goals.append(Goal("20 ms network, order violations", "0", str(far.violations), far.violations == 0))


def _waiting(goals: Goals) -> None:
    for part, must in (("p50", 0.8), ("p99", 1.0)):
        goals.ratio(f"latency at 200/s, {part}, against before", "<=", must, goals.of(part), goals.before(part))
    best = goals.best("p50", _PYTHON, min)
    goals.ratio(
        f"latency at 200/s, p50, against the best Python queue ({best.name if best else ''})",
        "<=",
        1.1,
        goals.of("p50"),
        best,
    )
    goals.at_most("latency at 200/s, p50", 1.5, goals.of("p50"), "ms")
    goals.at_most("latency at 200/s, p99", 5, goals.of("p99"), "ms")
    goals.ratio("submit with fsync, alone, p50, against before", "<=", 0.55, goals.of("submit"), goals.before("submit"))
    goals.ratio(
        "submit with fsync, 64 callers, against before", ">=", 1.4, goals.of("callers"), goals.before("callers")
    )
    durable = goals.of("accept", "txmanager, fsync")
    goals.ratio("HTTP accept with fsync, against before", ">=", 1.2, durable, goals.before("accept", "fsync"))
    alone = goals.of("accept", "without Redis")
    goals.ratio("HTTP accept, against the same application without Redis", ">=", 0.5, goals.of("accept"), alone, "%")
    wide, narrow = goals.of("blocks", "window 32"), goals.of("blocks", "window 1")
    goals.ratio("600 ms blocks: window 32 against window 1", ">=", 20, wide, narrow)


def _grown(goals: Goals) -> None:
    goals.at_most("Redis memory per live intent", 1_500, goals.of("memory", "live"), "B")
    goals.at_most("Redis memory per final record", 1_000, goals.of("memory", "final"), "B")
    many, few = goals.of("growth", "1,000 lanes"), goals.of("growth", "8 lanes")
    goals.ratio("cost per intent, 1,000 lanes", "<=", 1.3, many, few)
    if many is not None:
        memory = Series("memory", [many.more.get("rss_mb", 0.0)])
        goals.at_most("memory of a worker, 1,000 lanes with a full window", 150, memory, "MB")
    queued = goals.of("million", "queued")
    if queued is not None:
        long, short = goals.of("million", "long"), goals.of("million", "short")
        goals.ratio(f"cost per intent, {queued.middle:,.0f} queued", "<=", 1.1, long, short)
        late, early = goals.of("million", "late_mb"), goals.of("million", "early_mb")
        goals.ratio(
            f"worker memory after {queued.middle:,.0f} intents, against a tenth of them", "<=", 1.1, late, early
        )
    goals.at_most("recovery of every lane after a kill -9", 2, goals.of("recovery"), "leases")
