"""What studies have beyond `rm_emulator.run`: one run in memory, workloads, comparisons, intervals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rm_emulator
from rm_emulator import api
from rm_emulator.issues import InvalidInput
from rm_emulator.results.summary import MissingCell
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.decisions import Decision
from schedulers.core.events import Event, Tick
from schedulers.core.model import Job, Stage
from schedulers.core.policy import ClusterView
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, Ordered

pytestmark = pytest.mark.usefixtures("no_report")

OWN = Workload(
    name="own",
    resources=("cpu",),
    jobs=tuple(
        WorkloadJob(
            job=Job(id=f"j{n}", stages=(Stage(name="s", tasks=3, demand=(1000,)),)),
            submit_ms=1000 * n,
            runtimes=(Fixed(4000 - 500 * n),),
        )
        for n in range(4)
    ),
)
TPCH = {"kind": "tpch", "jobs": 3, "sizes": [2], "queries": [2, 14], "history": 0, "durations": "per_task"}


def scenario(workload: Any, *, seeds: tuple[int, ...] = (1, 2), log: str = "hash", **cluster: Any) -> dict[str, Any]:
    nodes = {"nodes": [{"count": 2, "capacity": {"cpu": 2}}], "profile": "events", **cluster}
    return {
        "apiVersion": api.API_VERSION,
        "kind": "Scenario",
        "metadata": {"name": "study"},
        "spec": {
            "cluster": nodes,
            "workload": workload,
            "policies": [
                {"label": "fifo", "kind": "fifo"},
                {"label": "sjf", "kind": "sjf", "predictor": {"kind": "oracle"}},
            ],
            "seeds": list(seeds),
            "baseline": "fifo",
            "log": log,
        },
    }


@pytest.fixture(scope="module")
def results() -> api.Results:
    return rm_emulator.run(scenario(TPCH, log="full", nodes=[{"count": 2, "capacity": {"cpu": 2, "memory": "8Gi"}}]))


def in_memory(**chosen: Any) -> api.Played:
    return api.play(scenario(TPCH, nodes=[{"count": 2, "capacity": {"cpu": 2, "memory": "8Gi"}}]), **chosen)


@pytest.mark.parametrize("label", ["fifo", "sjf"])
def test_what_is_played_is_what_a_run_stores(results: api.Results, label: str) -> None:
    played = in_memory(label=label, seed=2)
    stored = results.jobs.filter((pl.col("label") == label) & (pl.col("seed") == 2))
    same = [name for name in stored.columns if name in played.jobs.columns]
    assert {"id", "submit_ms", "finish_ms", "tasks"} <= set(same)
    assert played.jobs.select(same).sort("id").equals(stored.select(same).sort("id"))
    tasks = results.tasks.filter((pl.col("label") == label) & (pl.col("seed") == 2))
    assert len(played.tasks) == len(tasks)
    assert played.tasks["ended_ms"].max() == tasks["ended_ms"].max()


def test_a_workload_made_in_python_is_played() -> None:
    played = api.play(scenario(OWN, seeds=(1,)))
    assert played.jobs.sort("id")["id"].to_list() == ["j0", "j1", "j2", "j3"]
    assert len(played.tasks) == 12
    assert played.end_ms == max(played.jobs["finish_ms"])
    assert (played.schedulers, played.messages) == ({}, None)


def test_who_watches_hears_every_fact_and_changes_nothing() -> None:
    heard: list[Event] = []
    decided = 0

    def watch(scheduler: Scheduler, event: Event, decide: Callable[[Event], list[Decision]]) -> list[Decision]:
        nonlocal decided
        heard.append(event)
        made = decide(event)
        decided += len(made)
        return made

    watched, alone = api.play(scenario(OWN), watch=watch), api.play(scenario(OWN))
    assert any(isinstance(event, Tick) for event in heard)
    assert decided > 0
    assert watched.jobs.equals(alone.jobs)


SEVERAL = {"kind": "shared_state", "schedulers": [{"name": "one"}, {"name": "two"}]}


def test_schedulers_that_take_their_time_have_figures() -> None:
    played = api.play(scenario(OWN, architecture=SEVERAL))
    assert {name: figures.jobs for name, figures in played.schedulers.items()} == {"one": 2, "two": 2}


def test_attempts_of_schedulers_are_told_one_by_one() -> None:
    played = api.play(scenario(OWN, architecture=SEVERAL))
    assert played.tries["job"].unique().sort().to_list() == ["j0", "j1", "j2", "j3"]
    assert len(played.tries) == sum(each.attempts for each in played.schedulers.values())


def test_one_scheduler_can_be_watched_several_cannot() -> None:
    with pytest.raises(ValueError, match="2 schedulers decide: one can be watched"):
        api.play(scenario(OWN, architecture=SEVERAL), watch=lambda _, event, decide: decide(event))


def test_messages_are_counted_where_there_are_any() -> None:
    made = scenario(OWN, architecture={"kind": "decentralised", "method": "random"})
    played = api.play({**made, "spec": {**made["spec"], "policies": [{"kind": "fifo"}], "baseline": None}})
    assert played.messages == 12


def test_a_label_that_is_not_there_is_named_beside_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"no policy has the label 'drf' \(labels: fifo, sjf\)"):
        api.play(scenario(OWN), label="drf")


def test_a_sweep_is_not_played() -> None:
    made = scenario(OWN)
    made["spec"]["sweep"] = {"cluster.nodes[0].count": [1, 2]}
    with pytest.raises(InvalidInput, match="a sweep is for `run`: one of its points is played"):
        api.play(made)


class NewestFirst(Ordered):
    """Serves the job that came last."""

    def key(self, job: JobState, view: ClusterView) -> Key:
        return (-job.submitted,)


def test_a_policy_s_class_stands_for_its_name() -> None:
    made = scenario(OWN, seeds=(1,), nodes=[{"capacity": {"cpu": 1}}])
    made["spec"] |= {"policies": [{"kind": NewestFirst}], "baseline": None}
    first_come = api.play(scenario(OWN, seeds=(1,), nodes=[{"capacity": {"cpu": 1}}])).jobs
    assert not api.play(made).jobs.sort("id").equals(first_come.sort("id"))


def test_a_scenario_with_mistakes_is_not_played() -> None:
    with pytest.raises(InvalidInput, match="'fif'"):
        api.play({**scenario(OWN), "spec": {**scenario(OWN)["spec"], "policies": [{"kind": "fif"}]}})


def test_a_workload_is_generated_by_name_as_for_a_run(results: api.Results) -> None:
    made = api.generated(TPCH, seed=2)
    run = results.jobs.filter((pl.col("label") == "fifo") & (pl.col("seed") == 2)).sort("submit_ms", "id")
    assert sorted((entry.job.id, entry.submit_ms) for entry in made.jobs) == sorted(
        run.select("id", "submit_ms").rows()
    )


def test_a_workload_that_was_stored_is_there_again(tmp_path: Path) -> None:
    assert not api.is_workload(tmp_path / "own")
    api.save_workload(OWN, tmp_path / "own")
    assert api.is_workload(tmp_path / "own")
    assert api.load_workload(tmp_path / "own") == OWN


def test_a_part_of_the_jobs_gets_deadlines() -> None:
    # The first takes 4 s, and has 12 s of work for four cores: twice 7 s.
    due = api.with_deadlines(OWN, (4000,), part=1.0, factor=(2.0, 2.0), seed=1)
    assert [entry.job.deadline - entry.submit_ms for entry in due.jobs] == [14000, 12250, 10500, 8750]


def test_a_packaged_scenario_is_a_dict() -> None:
    assert api.example("lachesis")["kind"] == "Scenario"
    with pytest.raises(InvalidInput):
        api.example("lachesiss")


def test_speedups_are_those_of_the_summary(results: api.Results) -> None:
    [compared] = results.summary["comparisons"]
    versus = results.versus("sjf", "fifo")
    assert versus.ratio_of_means.value == compared["speedup"]["ratio_of_means"]["value"]
    assert versus.p50_of_ratios.ci95 == compared["speedup"]["p50_of_ratios"]["ci95"]
    assert results.versus("sjf", "fifo", of=results) == versus
    with pytest.raises(MissingCell, match="no runs of 'drf'"):
        results.versus("drf", "fifo")


def test_figures_are_by_label_and_seed(results: api.Results) -> None:
    assert {label: list(runs) for label, runs in results.by_label.items()} == {"fifo": [1, 2], "sjf": [1, 2]}


def test_a_log_is_decided_on_anew(results: api.Results) -> None:
    replay = results.replayed("sjf", 1)
    assert sum(1 for _ in replay) > 3
    assert replay.scheduler.state.jobs == {}


def test_without_a_log_there_is_nothing_to_go_through(tmp_path: Path) -> None:
    out = rm_emulator.run(
        scenario(
            {
                "kind": "jobs",
                "jobs": [{"name": "j", "stages": [{"name": "s", "tasks": 1, "duration": "1s", "demand": {"cpu": 1}}]}],
            }
        ),
        out=tmp_path / "o",
    )
    with pytest.raises(InvalidInput, match="0 logs of 'fifo' with seed 1: expected one, which `log: full` keeps"):
        out.replayed("fifo", 1)


def test_an_interval_is_student_s() -> None:
    made = api.interval([1.0, 2.0, 3.0])
    assert made.value == 2.0
    assert made.ci95 == pytest.approx([-0.4841, 4.4841], abs=1e-4)
    assert (api.interval([5.0]).value, api.interval([5.0]).ci95) == (5.0, None)
    assert api.interval([]).value is None


def test_a_resampled_statistic_holds_its_value_and_is_the_same_again() -> None:
    values = np.arange(1.0, 101.0)
    made = api.resampled(values, lambda drawn: np.asarray(np.median(drawn, axis=-1)))
    assert made == api.resampled(values, lambda drawn: np.asarray(np.median(drawn, axis=-1)))
    assert made.ci95 is not None
    assert made.ci95[0] < 50.5 < made.ci95[1]
    assert made.value == 50.5


def test_there_is_nothing_to_adopt_in_an_empty_folder(tmp_path: Path) -> None:
    assert not api.adopt(scenario(TPCH), tmp_path)
