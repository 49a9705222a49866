"""The settings of the study of policies that learn: workloads, clusters, and the rules beside what was learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_FAIR: Final = {"kind": "weighted_fair", "alpha": 0.0}
_CAPPED: Final = {"kind": "capped_sjf"}
_PRICED: Final = {"kind": "dispatch", "rule": "priced"}
_CURVES: Final = {"kind": "curves"}
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
}


class Setting(NamedTuple):
    """One workload on a cluster, and what is compared in it.

    workload: its path, if it has one, is the name of a file in the folder of data. rules: policies that do not learn,
    by label; the first one, from which the others learned, is what they are held against. is_told: policies without a
    predictor of their own know the mean run time of each stage; else nobody knows any. fewer: labels for which so
    many seeds are enough.
    """

    name: str
    seeds: int
    workload: Mapping[str, Any]
    rules: Mapping[str, Mapping[str, Any]]
    cluster: Mapping[str, Any] = _executors(50)
    is_told: bool = True
    fewer: Mapping[str, int] = {}


_IN_BATCH: Final[Mapping[str, Mapping[str, Any]]] = {**_RULES, "tuned": {**_FAIR, "alpha": -1.1}}
_IN_STREAM: Final[Mapping[str, Mapping[str, Any]]] = {
    **_RULES,
    "capped_sjf": {**_CAPPED, "containers": 10.0},
    "tuned": {**_FAIR, "alpha": -0.4},
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
        fewer={"capped_sjf": 10, "tuned": 10, "spark_sched_sim": 10},
    ),
    Setting(
        "batch-mended", 20, {**_BATCH, "jobs": 20}, {**_IN_BATCH, **_MENDED}, _executors(50, inverted_levels=False)
    ),
    Setting(
        "stream-mended",
        4,
        {**_STREAM, "interarrival": "25s"},
        {**_IN_STREAM, **_MENDED},
        _executors(50, inverted_levels=False),
    ),
    Setting("recurring", 4, {**_STREAM, "sizes": [50], "interarrival": "30s"}, _RECURRING),
    Setting("stream-45", 10, {**_STREAM, "interarrival": "45s"}, _RULES, fewer={"curves": 4}),
    Setting("stream-20", 10, {**_STREAM, "interarrival": "20s"}, _RULES, fewer={"curves": 4}),
    Setting("large", 10, {**_BATCH, "jobs": 60}, _RULES, _executors(100), fewer={"curves": 4}),
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
    Setting("untold", 30, {**_BATCH, "jobs": 20}, {"fair": {"kind": "fair"}}, is_told=False),
)
