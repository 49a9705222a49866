"""Tables from YARN's own tests: sizes, shares, comparators, orders of service, levels of locality, preemption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rm_emulator.known_answers.checks import Case, Check, Checks, Malformed, kind
from schedulers.yarn.fair import FairConfig, FairScheduler
from schedulers.yarn.fair_queues import ROOT, FairQueueConfig
from schedulers.yarn.locality import LocalityLevels
from schedulers.yarn.preemption import Holder, Monitor, MonitorConfig, PreemptionCandidate, QueueUse, Verdict
from schedulers.yarn.queues import Utilization, fair_order, in_order
from schedulers.yarn.records import Level
from schedulers.yarn.shares import Claim, Contender, compare_drf, compute_fair_shares, ratios
from schedulers.yarn.vectors import MEMORY, normalise, normalised

_GB: Final = 1024
_LEVEL_NAMES: Final = {Level.NODE: "node", Level.RACK: "rack", Level.OFF_SWITCH: "offswitch"}
_RESET: Final = "then_reset_to_node_at_6000"
#: testPreemptCycle, which the timeline's test repeats.
_CYCLE: Final = [["A", 40, 100, 0, 10], ["B", 40, 100, 60, 0], ["C", 20, 100, 40, 0]]


@kind("normalise_mem", {"rows"})
def normalise_mem(case: Case) -> Checks:
    """Rows of [ask, minimum, maximum, size] in MB; the step is the minimum, as in the capacity scheduler."""
    rows = case["rows"]
    got = [[ask, low, high, normalised(ask, low, low, high)] for ask, low, high, _ in rows]
    yield Check("", rows, got)


@kind("normalise_drc", {"rows", "min", "max"})
def normalise_drc(case: Case) -> Checks:
    """Rows of [ask, size], each [memory, vcores]; both resources are normalised (DominantResourceCalculator)."""
    low, high = tuple(case["min"]), tuple(case["max"])
    yield Check("", case["rows"], [[ask, list(normalise(tuple(ask), low, low, high))] for ask, _ in case["rows"]])


@kind("compute_fair_shares", {"total", "rows", "expect"})
def fair_shares(case: Case) -> Checks:
    """Rows of [minimum, maximum, weight] of one resource."""
    claims = [Claim(minimum, maximum, weight) for minimum, maximum, weight in case["rows"]]
    yield Check("", case["expect"], compute_fair_shares(claims, case["total"]))


@kind("fs_share_tree", {"total", "tree", "active", "expect", "expect_percent"})
def share_tree(case: Case) -> Checks:
    """Fair shares of queues of which some have an application; in percent of the total where the case says so."""
    (name, kids), *rest = case["tree"].items()
    if name != ROOT or rest:
        raise Malformed("a tree begins with root alone")
    scheduler = FairScheduler(FairConfig(root=_share_tree(ROOT, kids)))
    scheduler.add_node("node", (case["total"], 1))
    for queue in case["active"]:
        scheduler.add_app(queue, queue)
    scheduler.update(0)
    if "expect" in case:
        yield Check("", case["expect"], {queue: scheduler.leaf(queue).share[0] for queue in case["expect"]})
    percent = dict(case.get("expect_percent", {}))
    tolerance = percent.pop("tol", 0.0)
    got = {queue: 100 * scheduler.leaf(queue).share[0] / case["total"] for queue in percent}
    if percent:
        yield Check("percent" if "expect" in case else "", percent, got, tolerance)


def _share_tree(name: str, node: float | Mapping[str, Any]) -> FairQueueConfig:
    if not isinstance(node, Mapping):
        return FairQueueConfig(name=name, weight=node)
    kids = tuple(_share_tree(kid, below) for kid, below in node.items() if kid != "w")
    return FairQueueConfig(name=name, weight=node.get("w", 1), kids=kids)


@kind("drf_compare", {"cluster", "s1", "s2", "expect", "expect_n_resources"})
def drf(case: Case) -> Checks:
    """Who is served first of two, by the comparator of two resources and by that of any number."""
    cluster = tuple(case["cluster"])
    one, other = (_contender(name, case[name]) for name in ("s1", "s2"))
    yield Check("", case["expect"], _sign(compare_drf(one, other, cluster)))
    if "expect_n_resources" in case:
        yield Check("n_resources", case["expect_n_resources"], _sign(compare_drf(one, other, cluster, bug=False)))


def _contender(name: str, row: Sequence[Any]) -> Contender:
    memory, vcores, weight, least_memory, least_vcores = row
    used = (memory, vcores)
    return Contender(name, used, used, (least_memory, least_vcores), weight)


def _sign(order: int) -> str:
    return "<=>"[order + 1]


@kind("drf_ratios", {"used", "cluster", "weight", "expect"})
def drf_ratios(case: Case) -> Checks:
    """Shares of the cluster and which resource is dominant."""
    shares, dominant = ratios(tuple(case["used"]), case["weight"], tuple(case["cluster"]))
    yield Check("", case["expect"], {"usage_ratio": shares, "dominant": dominant}, tolerance=1e-6)


@kind("cs_queue_order", {"respect_priority", "queues", "expect"})
def queue_order(case: Case) -> Checks:
    """Sibling queues of [name, priority, used, capacity]."""
    utilizations = [Utilization(name, used, capacity, priority) for name, priority, used, capacity in case["queues"]]
    order = in_order(utilizations, respect_priority=case["respect_priority"])
    yield Check("", case["expect"], [queue.name for queue in order])


@kind("cs_parent_order", {"unit", "cluster", "capacity", "rows"})
def parent_order(case: Case) -> Checks:
    """Rows of [use of each queue], queue that is offered the next node."""
    capacity: Mapping[str, float] = case["capacity"]
    got = []
    for used, _ in case["rows"]:
        utilizations = [
            Utilization(name, use / (share * case["cluster"]), share)
            for (name, share), use in zip(capacity.items(), used, strict=True)
        ]
        got.append([used, in_order(utilizations, respect_priority=False)[0].name])
    yield Check("", case["rows"], got)


@kind("cs_leaf_order_fair", {"unit", "rows"})
def leaf_order(case: Case) -> Checks:
    """Pairs of applications of [used, pending] memory."""
    scale = _GB if case.get("unit") == "GB" else 1
    got = []
    for row in case["rows"]:
        a, b = (
            fair_order(row[name][0] * scale, row[name][1] * scale, 0, size_based=row["size_based"]) for name in "ab"
        )
        got.append({**row, "expect": _sign((a > b) - (a < b))})
    yield Check("", case["rows"], got)


@kind("fs_locality_level", {"nodes", "thresholds", "levels_after_misses"})
def level_by_count(case: Case) -> Checks:
    """The level allowed after so many opportunities, asked for after each."""
    levels, expected = LocalityLevels(), case["levels_after_misses"]
    seen = {}
    for missed in range(max(map(int, expected)) + 1):
        if missed:
            levels.missed(1)
        seen[str(missed)] = _LEVEL_NAMES[levels.by_count(1, case["nodes"], *case["thresholds"])]
    yield Check("", expected, {missed: seen[missed] for missed in expected})


@kind("fs_locality_level_time", {"delays_ms", "level_at_ms", _RESET})
def level_by_time(case: Case) -> Checks:
    """The level allowed at these times; a container on its node between the two lists."""
    levels = LocalityLevels()
    node_ms, rack_ms = case["delays_ms"]

    def at(times: Mapping[str, str]) -> dict[str, str]:
        return {time: _LEVEL_NAMES[levels.by_time(1, node_ms, rack_ms, int(time))] for time in times}

    yield Check("", case["level_at_ms"], at(case["level_at_ms"]))
    if _RESET in case:
        levels.granted(1, Level.NODE)
        yield Check("reset", case[_RESET], at(case[_RESET]))


@kind("cs_preempt", {"cluster", "rows", "expect", "disable", "natural_termination_factor", "tree"})
def preempt(case: Case) -> Checks:
    """What one round of the monitor takes of each queue, all containers being of size 1."""
    config = MonitorConfig(budget=1.0, natural_end=case.get("natural_termination_factor", 1.0))
    verdict, owner = _Cluster(case, case["cluster"], case["rows"]).round(Monitor(), config, 0)
    taken = [owner[container] for container in verdict.marked]
    yield Check("", case["expect"], {queue: taken.count(queue) for queue in case["expect"]})


@kind("cs_preempt_timeline", {"cluster", "rows", "max_wait_before_kill_ms", "rounds"})
def preempt_timeline(case: Case) -> Checks:
    """Marks and kills of each round, nothing else changing in between."""
    config = MonitorConfig(budget=1.0, natural_end=1.0, wait_before_kill=case["max_wait_before_kill_ms"])
    cluster, monitor, got = _Cluster(case, case.get("cluster", 100), case.get("rows", _CYCLE)), Monitor(), []
    for each in case["rounds"]:
        verdict, _ = cluster.round(monitor, config, each["t_ms"])
        got.append({**each, "new_events": len(verdict.marked) + len(verdict.killed)})
    yield Check("", case["rounds"], got)


class _Cluster:
    """Queues of rows [name, guaranteed, maximum, used, pending], one application in each leaf."""

    def __init__(self, case: Case, total: int, rows: Sequence[Sequence[Any]]) -> None:
        self._total, self._rows = (total,), {row[0]: row for row in rows}
        self._tree: Mapping[str, Sequence[str]] = case.get("tree", {})
        self._disabled = case.get("disable", ())
        below = {kid for kids in self._tree.values() for kid in kids}
        self._top = [name for name in self._rows if name not in below]
        names = [name for name in self._rows if name not in self._tree for _ in range(self._rows[name][3])]
        self._owner = dict(enumerate(names))

    def round(self, monitor: Monitor, config: MonitorConfig, now: int) -> tuple[Verdict, Mapping[int, str]]:
        """One round on a fresh copy of the queues."""
        kids = [self._use_of(name) for name in self._top]
        root = QueueUse(name=ROOT, guaranteed=self._total, most=self._total, used=self._sum(3), kids=kids)
        return monitor.round(root, self._total, MEMORY, config, now, self._holders), self._owner

    def _sum(self, column: int) -> tuple[int]:
        return (sum(self._rows[name][column] for name in self._top),)

    def _use_of(self, name: str) -> QueueUse:
        _, guaranteed, maximum, used, pending = self._rows[name]
        return QueueUse(
            name=name, guaranteed=(guaranteed,), most=(maximum,), used=(used,), pending=(pending,),
            pending_less_reserved=(pending,), am_share=(0,), disabled=name in self._disabled,
            kids=[self._use_of(kid) for kid in self._tree.get(name, ())],
        )  # fmt: skip

    def _holders(self, queue: str) -> Iterator[Holder]:
        yield Holder(queue, [PreemptionCandidate(c, 1, (1,)) for c, owner in self._owner.items() if owner == queue])
