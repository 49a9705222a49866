"""Small scenarios that lead through every profile and option of the engine, with every policy that can run there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_PREDICTED: Final = {
    "slearn": ("gs", {"first_threshold_ms": 60_000}),
    "slearn_dag": ("srpt", {}),
    "three_sigma": ("sjf", {}),
    "three_sigma_dag": ("gs", {}),
    "point_estimate": ("sjf", {}),
    "posterior": ("gs", {}),
}
_TRUTH: Final = ("sjf", "srpt", "gs", "tetris", "graphene", "cp", "sjf_cp", "weighted_fair", "capped_sjf", "curves")
_PLAIN: Final = ("fifo", "fair", "delay", "drf", "hdrf", "capacity", "fair_yarn", "las", "bfs", "random", "bounded")
_ON_EXECUTORS: Final = ("fifo", "fair", "sjf_cp", "weighted_fair", "capped_sjf", "curves", "srpt")


def _policies(*names: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in names:
        predictor = {"predictor": {"kind": "oracle"}} if name in _TRUTH else {}
        found.append({"label": name, "kind": name, "placement": {"kind": "best_fit"}, **predictor})
    return found


def _predicted() -> list[dict[str, Any]]:
    return [
        {"label": f"by_{name}", "kind": policy, "predictor": {"kind": name}, **settings}
        for name, (policy, settings) in _PREDICTED.items()
    ]


_NODES: Final = [
    {"count": 6, "name": "small", "capacity": {"cpu": 4, "memory": "16Gi"}, "racks": 2},
    {"count": 2, "name": "large", "capacity": {"cpu": 8, "memory": "48Gi"}, "speed": 1.5, "racks": 2},
]
_MIXED: Final = {"cpu": 1, "memory": "4Gi", "network": "1Gi", "disk": "1Gi"}
_QUEUES: Final = [
    {"name": "root"},
    {"name": "a", "parent": "root", "weight": 3, "max": "80%", "per_user": {"max_running": 4}},
    {"name": "b", "parent": "root", "guaranteed": {"cpu": 8}, "max_running": 3},
]


def _job(number: int) -> dict[str, Any]:
    """A diamond of stages, a chain, or one stage, in one of two queues; some stages are gangs."""
    width = 3 + number * 7 % 11
    times = {"kind": "lognormal", "mean": f"{5 + number * 5 % 23}s", "cov": 0.5}
    one = {"name": "one", "tasks": width, "demand": {"cpu": 1, "memory": "2Gi"}, "duration": times}
    two = {"name": "two", "tasks": 2, "demand": {"cpu": 2, "memory": "3Gi"}, "duration": times, "gang": number % 3 == 0}
    three = {"name": "three", "tasks": width, "demand": {"cpu": 1, "memory": "4Gi"}, "duration": times}
    four = {"name": "four", "tasks": 1, "demand": {"cpu": 1, "memory": "1Gi"}, "duration": "4s"}
    shapes: list[list[dict[str, Any]]] = [
        [one],
        [one, {**two, "parents": ["one"]}],
        [one, {**two, "parents": ["one"]}, {**three, "parents": ["one"]}, {**four, "parents": ["two", "three"]}],
    ]
    user = ("ann", "bob")[number % 2]
    queue = ("a", "b")[number // 2 % 2]
    stages = shapes[number % 3]
    return {
        "name": f"job-{number % 5}",
        "id": f"j{number}",
        "user": user,
        "queue": queue,
        "submit": f"{number * 4}s",
        "stages": stages,
    }


def _inline(**more: Any) -> dict[str, Any]:
    past = [
        {"name": f"job-{n}", "user": "ann", "ago": f"{n + 1}h", "stages": [{"tasks": 5, "duration": f"{8 + 3 * n}s"}]}
        for n in range(5)
        for _ in range(3)
    ]
    return {"kind": "jobs", "jobs": [_job(n) for n in range(18)], "history": past, **more}


def _tied() -> dict[str, Any]:
    """The same jobs, each as a pipeline of two stages, with stages behind a share and behind a barrier."""
    jobs = []
    for job in (_job(n) for n in range(18)):
        first = job["stages"][0]
        stages = [
            first,
            {**first, "name": "two", "parents": [{"stage": "one", "kind": "one_to_one"}]},
            {**first, "name": "three", "tasks": 3, "parents": [{"stage": "two", "share": 0.3}]},
            {**first, "name": "four", "tasks": 2, "parents": ["three", {"stage": "two", "share": 0.9}]},
        ]
        jobs.append({**job, "stages": stages})
    return {**_inline(), "jobs": jobs}


def _tpch(**more: Any) -> dict[str, Any]:
    return {"kind": "tpch", "jobs": 8, "load": 0.9, "sizes": [2], **more}


def _scenario(name: str, workload: Mapping[str, Any], policies: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    queues = more.pop("queues", None)
    spec: dict[str, Any] = {
        "seeds": [1, 2, 3],
        "cluster": {"nodes": _NODES, **more},
        "workload": dict(workload),
        "policies": policies,
        "log": "full",
    }
    if queues is not None:
        spec["queues"] = queues
    meta = {"name": name}
    return {"apiVersion": "rm-emulator.io/v1alpha1", "kind": "Scenario", "metadata": meta, "spec": spec}


#: By name; each is what a scenario file holds.
SCENARIOS: Final[dict[str, dict[str, Any]]] = {
    found["metadata"]["name"]: found
    for found in (
        _scenario("yarn", _inline(), [*_policies(*_PLAIN, *_TRUTH), *_predicted()], profile="yarn", queues=_QUEUES),
        _scenario(
            "yarn-masters",
            _inline(data={"replicas": 2, "remote": {"rack": 1.2, "off": 1.5}}),
            [
                {
                    "label": "monitor",
                    "kind": "capacity",
                    "preemption": {"enabled": True, "max_wait_before_kill_ms": 3000},
                },
                {"label": "in_time", "kind": "delay", "form": "time"},
                *_policies("fifo", "capacity", "fair_yarn", "delay", "drf", "graphene"),
            ],
            profile="yarn",
            queues=_QUEUES,
            heartbeat="700ms",
            application_master={"heartbeat": "1s", "container": {"cpu": 1, "memory": "1Gi"}},
            sizes={"minimum": {"cpu": 1, "memory": "1Gi"}},
            containers_per_heartbeat=2,
            startup={"kind": "lognormal", "mean": "2s", "cov": 0.5},
        ),
        _scenario(
            "sls",
            _inline(),
            [*_policies(*_PLAIN, "gs", "tetris"), *_predicted()],
            profile="sls",
            queues=_QUEUES,
            application_master={"heartbeat": "1s", "container": {"cpu": 1, "memory": "1Gi"}},
        ),
        _scenario("events", _inline(), [*_policies(*_PLAIN, *_TRUTH), *_predicted()], profile="events", queues=_QUEUES),
        _scenario(
            "tied",
            _tied(),
            [
                {
                    "label": "monitor",
                    "kind": "capacity",
                    "preemption": {"enabled": True, "max_wait_before_kill_ms": 3000},
                },
                *_policies("fifo", "fair", "gs", "graphene"),
            ],
            profile="yarn",
            queues=_QUEUES,
            startup="3s",
        ),
        _scenario(
            "dags",
            {"kind": "dags", "jobs": 8, "arrivals": "poisson", "interarrival": "100s"},
            _policies("fifo", "fair", "cp", "graphene"),
            profile="events",
            links={"rate": "125M", "in_rack": "1G"},
        ),
        _scenario("executors", _tpch(), _policies(*_ON_EXECUTORS), profile="events", executors={}),
        _scenario(
            "kubernetes", _inline(), [*_policies(*_PLAIN, *_TRUTH), *_predicted()], profile="kubernetes", queues=_QUEUES
        ),
        *(
            _scenario(
                f"disorder-{profile}",
                _inline(),
                _policies("fifo", "fair", "gs", "drf", "tetris"),
                profile=profile,
                disorder={"delay": 0.2, "duplicate": 0.2, "late": 0.2},
            )
            for profile in ("yarn", "sls", "events", "kubernetes")
        ),
        _scenario(
            "overbooked",
            _tpch(
                slots=20,
                durations="per_task",
                demand=_MIXED,
                drawn=_MIXED,
                asks={"error": [-0.3, 0.3], "without": ["disk"]},
            ),
            _policies("fifo", "graphene", "tetris", "fair"),
            profile="yarn",
            nodes=[{"count": 10, "capacity": {"cpu": 4, "memory": "16Gi", "network": "2Gi", "disk": "2Gi"}}],
            overbook={"network": 0.3},
        ),
    )
}
