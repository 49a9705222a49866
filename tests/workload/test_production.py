"""Large DAGs of unlike tasks: the figures that Graphene's paper prints, and those of the draws here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rm_emulator.workload.model import Drawn, WorkloadJob
from rm_emulator.workload.production import LONGEST_MS, SHORTEST_MS, ProductionSettings, generate
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Node
from schedulers.core.resources import Resources
from schedulers.kit.paths import depths, to_output
from schedulers.planning.dags.dag import Dag

KINDS = Resources().extended(ProductionSettings().drawn)
CAPACITY = (4000, 4096, 4096, 4096)
NODES = [Node(id=f"n{number}", capacity=CAPACITY) for number in range(100)]


def drawn(seed: int = 1, **settings: Any) -> tuple[WorkloadJob, ...]:
    return generate(ProductionSettings(**settings), KINDS, NODES, seed=seed).jobs


MANY = drawn(jobs=400, share=0.2)


def means(entry: WorkloadJob) -> list[float]:
    return [times.mean_ms for times in entry.runtimes if isinstance(times, Drawn)]


def test_half_of_the_dags_are_deeper_than_five_and_a_quarter_deeper_than_ten() -> None:
    deep = [max(depths(entry.job.stages)) for entry in MANY]
    assert np.median(deep) == 5
    assert np.mean([depth > 10 for depth in deep]) == pytest.approx(0.25, abs=0.03)


def test_a_job_has_tens_of_stages_and_on_twenty_machines_thousands_of_tasks() -> None:
    assert {len(entry.job.stages) for entry in MANY} == set(range(30, 61))
    assert np.mean([entry.job.tasks for entry in MANY]) == pytest.approx(2200, rel=0.1)


def test_work_on_the_share_takes_as_long_as_the_critical_path() -> None:
    for entry in MANY:
        path = max(to_output(entry.job.stages, means(entry).__getitem__))
        work = float(Dag(entry.job.stages, means(entry), CAPACITY, 20).work_ms(range(len(entry.runtimes))))
        assert work / path == pytest.approx(1, abs=0.03)


def test_most_edges_are_no_barriers() -> None:
    edges = [edge.kind for entry in MANY for stage in entry.job.stages for edge in stage.edges]
    assert edges.count("one_to_one") / len(edges) == pytest.approx(0.56, abs=0.02)
    assert {edge.kind for entry in drawn(one_to_one=0) for s in entry.job.stages for edge in s.edges} == {"barrier"}


def test_demands_vary_by_more_than_half_of_their_mean_and_each_resource_alone() -> None:
    demands = np.array([stage.demand for entry in MANY for stage in entry.job.stages], dtype=float)
    assert demands.std(axis=0) / demands.mean(axis=0) == pytest.approx([0.577] * 4, abs=0.01)
    assert np.abs(np.corrcoef(demands.T) - np.eye(4)).max() < 0.02


def test_tasks_take_from_below_a_second_to_hundreds_of_seconds() -> None:
    times = [ms for entry in MANY for ms in means(entry)]
    assert SHORTEST_MS <= min(times) < 1000
    assert 200_000 < max(times) <= LONGEST_MS


def test_a_load_stretches_arrivals_alone() -> None:
    at_once, once, twice = (drawn(jobs=30, load=load) for load in (None, 1.0, 2.0))
    assert [entry.job for entry in at_once] == [entry.job for entry in once]
    assert {entry.submit_ms for entry in at_once} == {0}
    assert once[-1].submit_ms == pytest.approx(2 * twice[-1].submit_ms, abs=1)
    work = sum(float(Dag(e.job.stages, means(e), CAPACITY, 100).work_ms(range(len(e.runtimes)))) for e in once)
    assert once[-1].submit_ms == pytest.approx(work, rel=1e-3)


def test_more_jobs_leave_the_first_as_they_are() -> None:
    assert [entry.job.stages for entry in drawn(jobs=12)[:10]] == [entry.job.stages for entry in drawn(jobs=10)]
    assert drawn(seed=1) != drawn(seed=2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stages": (60, 30)}, r"stages \[60, 30\] \(the least number first\)"),
        ({"drawn": {"cpu": 0}}, "asks for nothing"),
        ({"jobs": 1, "load": 1.0}, "load needs two jobs at least"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameters, match=message):
        drawn(**settings)


def test_a_resource_that_no_node_has_is_named() -> None:
    bare = [Node(id="n", capacity=(4000, 4096, 0, 4096))]
    with pytest.raises(InvalidParameters, match="tasks demand disk, of which the nodes have none"):
        generate(ProductionSettings(), KINDS, bare, seed=1)
