"""Inside the ranges of training a learned policy decides as ever, outside its rule decides, and says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest

import rm_emulator
from schedulers.core.policy import ClusterView
from schedulers.learned import model_store
from schedulers.learned.graph import Graph
from schedulers.learned.orders import RULES
from schedulers.learned.ranges import FEATURES, Ranges, merged, outside, ranges_of, rounded
from schedulers.learned.weights import pack
from schedulers.policies.decima import Decima
from tests.learned.drawn import drawn_graph
from tests.policies.test_decima import Jobs, scenario

pytestmark = pytest.mark.usefixtures("no_report")

FEW = {"nodes": [{"count": 7, "capacity": {"cpu": 1, "memory": "2Gi"}}], "profile": "events", "executors": {}}


def drawn(seed: int) -> Graph:
    """A graph of a few jobs, all of whose stages have estimates."""
    generator = np.random.default_rng(seed)
    graph = drawn_graph(int(generator.integers(1, 9)), generator)
    for job in graph.jobs:
        job.nodes[:, 6] = 1
    return graph


def view_of(graph: Graph) -> ClusterView:
    return cast(ClusterView, Jobs(graph))


def chosen(policy: Decima, graph: Graph) -> Any:
    return policy.choose(graph, view_of(graph))


def within(ranges: Ranges, **settings: Any) -> Decima:
    """The policy, as if training had met these ranges."""
    policy = Decima(Decima.Params(**settings))
    policy.fallback.ranges = ranges
    return policy


def said(policy: Decima, graph: Graph) -> list[str]:
    """What the rule said of jobs."""
    return [about["said"] for job in graph.jobs if (about := policy.fallback.about(job.name))]


@pytest.mark.parametrize("seed", range(10))
def test_inside_the_ranges_the_choice_is_that_without_ranges(seed: int) -> None:
    graph = drawn(seed)
    ranged = within(ranges_of(graph))
    assert chosen(ranged, graph) == chosen(within({}), graph)
    assert not said(ranged, graph)


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("beyond", ["below", "above"])
def test_outside_of_any_range_the_choice_is_the_rules(feature: str, beyond: str) -> None:
    graph = drawn(3)
    ranges = ranges_of(graph)
    low, high = ranges[feature]
    policy = within(ranges | {feature: (low + 1, high + 1) if beyond == "below" else (low - 1, high - 1)})
    assert chosen(policy, graph) == RULES["priced"](graph, view_of(graph), 0)
    [words] = said(policy, graph)
    assert f" by the rule priced, as there are {low if beyond == 'below' else high:.4g} {FEATURES[feature]}, " in words


def test_where_no_job_has_an_estimate_the_rule_is_fair() -> None:
    jobs = tuple(
        msgspec.structs.replace(job, work_ms=None, nodes=job.nodes * (1, 0, 0, 1, 1, 1, 0)) for job in drawn(5).jobs
    )
    graph, policy = Graph(jobs, 50), Decima(Decima.Params())
    assert chosen(policy, graph) == RULES["fair"](graph, view_of(graph), 0)
    [words] = said(policy, graph)
    assert " by the rule fair, as there are " in words


def test_weights_for_the_makespan_have_the_rule_that_taught_them() -> None:
    graph, policy = drawn(4), within({"jobs": (1000, 1000)}, objective="makespan")
    assert chosen(policy, graph) == RULES["proportional"](graph, view_of(graph), 0)


def test_what_the_rule_said_is_forgotten_when_the_network_decides_for_the_job() -> None:
    graph, policy = drawn(6), within({"jobs": (1000, 1000)})
    job = graph.jobs[chosen(policy, graph).job]
    assert said(policy, graph)
    policy.fallback.ranges = {}
    chosen(policy, Graph((job,), 50))
    assert not said(policy, graph)


def test_merged_ranges_hold_all_observations_and_rounded_ones_hold_the_merged() -> None:
    graphs = [drawn(seed) for seed in range(20)]
    ranges = merged(map(ranges_of, graphs))
    for graph in graphs:
        assert outside(ranges, graph) is None
        assert outside(rounded(ranges), graph) is None
    assert rounded(rounded(ranges)) == rounded(ranges)
    assert rounded({"size": (12.34, 1234.0), "jobs": (1, 21)}) == {"size": (12, 1300), "jobs": (1, 21)}


@pytest.mark.parametrize("ms", [16.0, 5000.0])
def test_run_times_at_the_ends_of_a_range_are_inside_although_features_have_seven_digits(ms: float) -> None:
    graph = drawn(8)
    for job in graph.jobs:
        job.nodes[:, 2] = ms / 1e4
    assert outside({"task_time": (0.016, 5.0)}, graph) is None
    assert outside({"task_time": (0.0161, 4.999)}, graph) is not None


@pytest.mark.parametrize("name", ["decima", "containers", "makespan"])
def test_networks_that_ship_have_ranges_of_training(name: str) -> None:
    assert model_store.weights_of(name).ranges.keys() == FEATURES.keys()


def open_copy(folder: Path) -> str:
    """Plug-in `open`: the network that ships, without its ranges."""
    weights = model_store.weights_of("decima")
    about = {key: text for key, text in weights.about.items() if key != "ranges"}
    (folder / "open.safetensors").write_bytes(pack(msgspec.structs.replace(weights, about=about)))
    return str(folder / "open.safetensors")


def ran(folder: Path, *policies: dict[str, Any], **spec: Any) -> list[Any]:
    """Tasks of a run by policy: of which job and stage each was, where and when."""
    results = rm_emulator.run(scenario(*policies, **spec), out=folder / "out", jobs=1)
    columns = ["job", "stage", "task", "node", "started_ms", "ended_ms"]
    tasks = results.tasks
    return [tasks.filter(tasks["label"] == each["label"]).select(columns).rows() for each in policies]


@pytest.mark.slow
def test_a_run_inside_the_ranges_is_the_run_without_ranges(tmp_path: Path) -> None:
    decima, same = ran(
        tmp_path,
        {"kind": "decima", "label": "decima"},
        {"kind": "decima", "weights": "open", "label": "open"},
        plugins=[open_copy(tmp_path)],
    )
    assert decima == same


@pytest.mark.slow
def test_a_run_outside_of_the_ranges_is_the_rules_run(tmp_path: Path) -> None:
    rule, decima = ran(
        tmp_path,
        {"kind": "dispatch", "rule": "priced", "label": "priced"},
        {"kind": "decima", "label": "decima"},
        cluster=FEW,
    )
    assert decima == rule


def test_an_explanation_names_the_rule_and_what_lies_outside(tmp_path: Path) -> None:
    rm_emulator.run(scenario({"kind": "decima"}, cluster=FEW), out=tmp_path / "out", jobs=1)
    told = [
        each.text for each in rm_emulator.explain(tmp_path / "out", "tpch-0").story.moments if each.kind == "choice"
    ]
    assert told
    assert all(" by the rule priced, as there are 7 executors, in training 50 to 50; limit " in text for text in told)
