"""The settings of the study of policies that learn: workloads, clusters, and the rules beside what was learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from studies.decima import ORACLE

_FAIR: Final = {"kind": "weighted_fair", "alpha": 0.0}
_CAPPED: Final = {"kind": "capped_sjf"}
_PRICED: Final = {"kind": "dispatch", "rule": "priced"}
_CURVES: Final = {"kind": "curves"}
_BY_EVOLUTION: Final = {"curves_learned": {**_CURVES, "learned": True}}
_RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "priced": _PRICED,
    "fair": _FAIR,
    "capped_sjf": _CAPPED,
    "curves": _CURVES,
}
_BATCH: Final = {"kind": "tpch", "arrivals": "batch", "draws": "released", "sizes": [2, 5, 10, 20, 50, 100]}
_STREAM: Final = {"kind": "tpch", "jobs": 200, "draws": "released"}
#: What is read where it is there: Decima's release as a whole, and real DAGs.
PROFILES: Final = "tpch-spark-profiles.json.gz"
ALIBABA: Final = "alibaba-2018-dags-batch_task.csv.gz"


def _executors(count: int, **settings: bool) -> dict[str, Any]:
    """A cluster of so many Spark executors."""
    return {
        "nodes": [{"count": count, "capacity": {"cpu": 1, "memory": "2Gi"}}],
        "profile": "events",
        "executors": {"moving_delay": "2s", "warmup": "1s", **settings},
    }


#: Four executor classes of one core each, a quarter of the executors each (Decima, section 7.3).
_CLASSES: Final = {
    "nodes": [
        {"count": count, "name": f"m{gib}", "capacity": {"cpu": 1, "memory": f"{gib}Gi"}}
        for gib, count in ((2, 12), (4, 12), (6, 13), (8, 13))
    ],
    "profile": "events",
}
_BEST_FIT: Final = {"placement": {"kind": "best_fit"}}
#: Where containers end with their tasks.
_CONTAINERS: Final[Mapping[str, Any]] = {
    **_BATCH, "jobs": 20, "durations": "per_task", "demand": {"cpu": 1}, "drawn": {"memory": "8Gi"}
}  # fmt: skip
_FITTED: Final[Mapping[str, Mapping[str, Any]]] = {
    "priced": {**_PRICED, **_BEST_FIT},
    "tetris": {"kind": "tetris"},
    "srpt": {"kind": "srpt", **_BEST_FIT},
    "fair": {**_FAIR, **_BEST_FIT},
    "tuned": {**_FAIR, **_BEST_FIT, "alpha": -1.0},
    "capped_sjf": {**_CAPPED, **_BEST_FIT},
    "curves": {**_CURVES, **_BEST_FIT},
    "curves_learned": {**_CURVES, **_BEST_FIT, "learned": True},
}


#: Decima's batch: the mean JCT of re-planning with 300 candidates, relative to `capped_sjf` (a study on four seeds).
REPLANNED: Final = -0.063
#: The part of the way from `capped_sjf` to REPLANNED that a policy goes.
WAY: Final = "of the way, %"


def of_the_way(jct: float, capped: float) -> str:
    """A cell of WAY, from mean JCTs of a policy and of `capped_sjf`."""
    return f"{100 * (jct / capped - 1) / REPLANNED + 0.0:.0f}"


class Setting(NamedTuple):
    """One workload on a cluster, and what is compared in it.

    workload: its path, if it has one, is the name of a file in the folder of data. rules: policies that do not learn,
    by label; the first one, from which the others learned, is what they are held against. predictor: of policies
    without a predictor of their own; the oracle knows the mean run time of each stage, without a predictor nobody knows
    any. fewer: labels for which so many seeds are enough. longer: factor of all measured run times.
    """

    name: str
    seeds: int
    workload: Mapping[str, Any]
    rules: Mapping[str, Mapping[str, Any]]
    cluster: Mapping[str, Any] = _executors(50)
    predictor: Mapping[str, Any] = ORACLE
    fewer: Mapping[str, int] = {}
    longer: int = 1


#: The exponent of weighted fair sharing for all settings, and the best for each (`python -m studies.alphas`).
_ONE_FOR_ALL: Final = {"one_alpha": {**_FAIR, "alpha": -0.6}}


def _tuned(alpha: float) -> dict[str, Any]:
    """Weighted fair sharing with the exponent of the setting, and with the one for all."""
    return {"tuned": {**_FAIR, "alpha": alpha}, **_ONE_FOR_ALL}


_IN_BATCH: Final[Mapping[str, Mapping[str, Any]]] = {**_RULES, **_BY_EVOLUTION, **_tuned(-1.1)}
#: Where jobs arrive one after another the best exponent is 0, `fair`, but for a job each 45 s.
_IN_STREAM: Final[Mapping[str, Mapping[str, Any]]] = {
    **_RULES,
    "capped_sjf": {**_CAPPED, "containers": 10.0},
    **_BY_EVOLUTION,
    **_ONE_FOR_ALL,
}
#: Widths and T(n) for executors without decima-sim's slip.
_MENDED: Final = {"curves": {**_CURVES, "inverted_levels": False}}
_RECURRING: Final[Mapping[str, Mapping[str, Any]]] = {
    "priced": _PRICED,
    "fair": _FAIR,
    "curves": _CURVES,
    "curves_history": {**_CURVES, "predictor": {"kind": "three_sigma_dag"}},
    "capped_sjf_history": {**_CAPPED, "predictor": {"kind": "three_sigma_dag"}},
}


SETTINGS: Final = (
    Setting("batch", 100, {**_BATCH, "jobs": 20}, _IN_BATCH),
    Setting(
        "stream",
        30,
        {**_STREAM, "interarrival": "25s"},
        _IN_STREAM,
        fewer={"spark_sched_sim": 10},
    ),
    Setting(
        "batch-mended",
        20,
        {**_BATCH, "jobs": 20},
        {**_RULES, **_MENDED, "tuned": {**_FAIR, "alpha": -1.1}},
        _executors(50, inverted_levels=False),
    ),
    Setting(
        "stream-mended",
        4,
        {**_STREAM, "interarrival": "25s"},
        {**_RULES, **_MENDED, "capped_sjf": {**_CAPPED, "containers": 10.0}},
        _executors(50, inverted_levels=False),
    ),
    Setting("recurring", 4, {**_STREAM, "sizes": [50], "interarrival": "30s"}, _RECURRING),
    Setting(
        "stream-45",
        20,
        {**_STREAM, "interarrival": "45s"},
        {**_RULES, **_BY_EVOLUTION, **_tuned(0.4)},
        fewer={"decima": 10},
    ),
    Setting(
        "stream-20",
        30,
        {**_STREAM, "interarrival": "20s"},
        {**_RULES, **_BY_EVOLUTION, **_ONE_FOR_ALL},
        fewer={"decima": 10},
    ),
    Setting(
        "large",
        30,
        {**_BATCH, "jobs": 60},
        {**_RULES, **_BY_EVOLUTION, **_tuned(-1.1)},
        _executors(100),
        fewer={"decima": 4},
    ),
    Setting(
        "dags",
        10,
        {"kind": "trace", "format": "alibaba2018", "path": ALIBABA, "load": 0.9, "extract": {"jobs": 200}},
        _RULES,
        {"nodes": [{"count": 20, "capacity": {"cpu": 8, "memory": "32Gi"}}], "profile": "events"},
    ),
    Setting(
        "makespan",
        20,
        {**_BATCH, "jobs": 20},
        {
            "proportional": {"kind": "dispatch", "rule": "proportional"},
            "capped_sjf": _CAPPED,
            "decima": {"kind": "decima"},
            "decima_makespan": {"kind": "decima", "objective": "makespan"},
        },
    ),
    Setting("classes", 10, _CONTAINERS, {**_FITTED, "graphene": {"kind": "graphene"}}, _CLASSES),
    Setting(
        "containers",
        10,
        _CONTAINERS,
        _FITTED,
        {"nodes": [{"count": 50, "capacity": {"cpu": 1, "memory": "8Gi"}}], "profile": "events"},
    ),
)
#: The same batch or stream, otherwise than in training. The rule `fair` of `dispatch` answers where nobody is told.
_HARD: Final[Mapping[str, Mapping[str, Any]]] = {
    "capped_sjf": _CAPPED, "priced": _PRICED, "curves": _CURVES, **_BY_EVOLUTION
}  # fmt: skip
_WRONG: Final = {**ORACLE, "error": [-0.5, 0.5]}
ROBUST: Final = (
    Setting(
        "untold", 30, {**_BATCH, "jobs": 20},
        {"fair": {"kind": "fair"}, "fair_rule": {"kind": "dispatch", "rule": "fair"}}, predictor={},
    ),
    Setting("pilots", 10, {**_BATCH, "jobs": 20}, _HARD, predictor={"kind": "slearn_dag"}),
    Setting("wrong", 10, {**_BATCH, "jobs": 20}, _HARD, predictor=_WRONG),
    Setting("half", 10, {**_STREAM, "jobs": 40, "interarrival": "50s"}, _HARD),
    Setting("twice", 10, {**_STREAM, "jobs": 40, "interarrival": "12.5s"}, _HARD),
    Setting("longer", 10, {**_BATCH, "jobs": 20}, _HARD, longer=10),
    Setting("wide", 10, {**_BATCH, "jobs": 40}, _HARD, _executors(500)),
)  # fmt: skip
#: What each policy is to be no worse than; where nobody is told any run time, the rule that asks for none.
RULE_OF: Final[Mapping[str, str]] = {
    "curves": "capped_sjf", "curves_learned": "curves", "priced": "capped_sjf", "decima": "priced",
}  # fmt: skip
