"""What a run is compared with: known answers, keys, resuming, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from rm_emulator.engine.config import Decentralised, EngineConfig
from rm_emulator.experiments import baselines, grid, pool
from rm_emulator.issues import InvalidInput
from rm_emulator.results.figures import MACHINE_FIGURES, Costs, Summary
from rm_emulator.scenario.check import check
from rm_emulator.scenario.cluster import engine_config
from rm_emulator.scenario.load import Loaded, load
from rm_emulator.scenario.workload import build
from rm_emulator.workload.model import PerTask
from schedulers.core.model import Node
from schedulers.core.resources import Resources

#: Two nodes of 3 CPUs, no heartbeats: starts and ends are those of the schedule itself.
SHARED = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: shared}
spec:
  seeds: [1]
  cluster: {nodes: [{count: 2, capacity: {cpu: 3}}], profile: events}
  queues: [{name: a}, {name: b}]
  workload:
    kind: jobs
    jobs:
    - {name: first, queue: a, stages: [{name: m, tasks: 4, demand: {cpu: 2}, duration: 30s}]}
    - {name: second, queue: b, submit: 1s, stages: [{name: m, tasks: 2, demand: {cpu: 2}, duration: 30s}]}
  policies:
  - {kind: fifo}
  baselines: [alone, one_node, ideal]
"""
Make = Callable[..., Loaded]


@pytest.fixture
def shared(tmp_path: Path) -> Make:
    """Loads the scenario, with changes as in `--set`."""
    path = tmp_path / "shared.yaml"
    path.write_text(SHARED)
    return lambda *changes: load(path, overrides=changes)


pytestmark = pytest.mark.usefixtures("no_report")


def finished(out: Path, *place: str) -> dict[str, float]:
    """When the job of each queue was done, in s."""
    jobs = pl.read_parquet(out.joinpath(*place, "jobs.parquet"))
    return {queue: ms / 1000 for queue, ms in jobs.select("queue", "finish_ms").iter_rows()}


def without_machine_figures(summary: Summary) -> Summary:
    same = dict.fromkeys(MACHINE_FIGURES)
    return replace(summary, runs=[replace(run, **same) for run in summary.runs])


def test_every_baseline_is_as_worked_out_by_hand(shared: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = grid.run(shared(), out, jobs=1).summary
    # One task of 2 CPUs fits on each node of 3: two at a time, a's four until 60 s, then b's two
    assert finished(out, "runs", "fifo", "1") == {"a": 60.0, "b": 90.0}
    # alone: b's two at once
    assert finished(out, "baselines", "alone", "fifo", "1") == {"a": 60.0, "b": 31.0}
    # one node of 6 CPUs: three at a time; a's fourth and b's two from 30 s on
    assert finished(out, "baselines", "one_node", "fifo", "1") == {"a": 60.0, "b": 60.0}
    # ideal: a has 6 of its 8 CPUs for 1 s, then each 3 CPUs: a at 3/8, b at 3/4 until b is done at 41 s;
    # a then has run 0.75 + 15 of its 30 s, and 14.25 s at 3/4 take 19 s
    assert finished(out, "baselines", "ideal", "1") == {"a": 60.0, "b": 41.0}
    assert {queue: to_builtins(costs) for queue, costs in summary.runs[0].costs.items()} == {
        "a": pytest.approx({"sharing": 1.0, "fragmentation": 1.0, "unfairness": 1.0}),
        "b": pytest.approx({"sharing": 89 / 30, "fragmentation": 89 / 59, "unfairness": 89 / 40}),
    }


def test_costs_are_null_without_baselines(shared: Make, tmp_path: Path) -> None:
    summary = grid.run(shared("spec.baselines=[one_node]"), tmp_path / "out", jobs=1).summary
    assert summary.runs[0].costs["b"] == Costs(fragmentation=pytest.approx(89 / 59))
    assert not (tmp_path / "out" / "baselines" / "alone").exists()


def test_an_expectation_may_speak_of_costs(shared: Make, tmp_path: Path) -> None:
    loaded = shared('spec.expect=["fifo.costs[\\"b\\"].sharing > 2.9"]')
    check(loaded)
    assert grid.run(loaded, tmp_path / "out", jobs=1).summary.expect[0].holds is True


def test_baselines_can_be_asked_for_later(shared: Make, tmp_path: Path) -> None:
    grid.run(shared("spec.baselines=[]"), tmp_path / "out", jobs=1)
    again = grid.run(shared(), tmp_path / "out", jobs=1)
    assert (again.computed, again.reused) == (3, 1)


def test_baselines_that_are_not_asked_for_any_more_stay(shared: Make, tmp_path: Path) -> None:
    grid.run(shared(), tmp_path / "out", jobs=1)
    without = grid.run(shared("spec.baselines=[]"), tmp_path / "out", jobs=1)
    assert (without.computed, without.reused) == (0, 1)
    assert without.summary.runs[0].costs["a"].sharing is None
    assert grid.run(shared(), tmp_path / "out", jobs=1).computed == 0


def test_the_ideal_is_the_same_for_every_policy(shared: Make) -> None:
    more = "spec.policies=[{kind: fair}, {kind: fifo}]"
    cells = [cell for cell in grid.cells(shared(more)) if cell.baseline == "ideal"]
    assert [(cell.label, cell.place.as_posix()) for cell in cells] == [("", "baselines/ideal/1")]
    assert [cell.key for cell in grid.cells(shared()) if cell.baseline == "ideal"] == [cells[0].key]


def test_a_run_resumed_after_an_interruption_gives_the_same_summary(
    shared: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = grid.run(shared(), tmp_path / "whole", jobs=1).summary
    compute, seen = pool.compute, []

    def interrupted(cell, directory, progress):
        compute(cell, directory, progress)
        seen.append(cell.title)
        if cell.baseline == "one_node":
            (directory / "cell.json").unlink()  # as if it had not come to its end
            raise KeyboardInterrupt

    monkeypatch.setattr(pool, "compute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grid.run(shared(), tmp_path / "out", jobs=1)
    assert seen == ["fifo", "fifo alone", "fifo one_node"]
    assert not (tmp_path / "out" / "baselines" / "one_node").exists()
    monkeypatch.setattr(pool, "compute", compute)
    again = grid.run(shared(), tmp_path / "out", jobs=1)
    assert (again.computed, again.reused) == (2, 2)
    assert without_machine_figures(again.summary) == without_machine_figures(whole)


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_processes(shared: Make, tmp_path: Path) -> None:
    one = grid.run(shared(), tmp_path / "one", jobs=1).summary
    two = grid.run(shared(), tmp_path / "two", jobs=2).summary
    assert without_machine_figures(one) == without_machine_figures(two)


def test_a_stored_baseline_of_other_settings_is_refused(shared: Make, tmp_path: Path) -> None:
    grid.run(shared(), tmp_path / "out", jobs=1)
    path = tmp_path / "out/baselines/alone/fifo/1/cell.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "key": "x", "settings": "y"}))
    with pytest.raises(InvalidInput, match="fifo alone seed 1 was computed from other settings"):
        grid.run(shared(), tmp_path / "out", jobs=1)


def test_a_failing_baseline_is_named(shared: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no fluid today")

    monkeypatch.setattr(baselines, "_ideal", broken)
    done = grid.run(shared(), tmp_path / "out", jobs=1)
    assert done.summary is None
    assert [(f.label, f.seed, f.traceback.name) for f in done.failures] == [("ideal", 1, "ideal-1.txt")]


@pytest.mark.parametrize(
    ("written", "line", "says"),
    [
        ("[alone, one-node]", "shared.yaml:15:", "did you mean 'one_node'"),
        ("[alnoe]", "shared.yaml:15:", "expected 'alone', 'one_node' or 'ideal'"),
        ("[alone, alone]", "shared.yaml:15:", "baseline 'alone' is named twice"),
        ("alone", "shared.yaml:15:", "expected a list"),
    ],
)
def test_a_wrong_name_is_one_mistake_with_its_place(tmp_path: Path, written: str, line: str, says: str) -> None:
    path = tmp_path / "shared.yaml"
    path.write_text(SHARED.replace("[alone, one_node, ideal]", written))
    with pytest.raises(InvalidInput) as refused:
        check(load(path))
    assert len(refused.value.issues) == 1
    assert line in str(refused.value)
    assert says in str(refused.value)


def test_the_example_of_the_docs_holds_what_it_expects(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "queues.md").read_text(encoding="utf-8")
    path = tmp_path / "two-teams.yaml"
    path.write_text(text.partition("```yaml\n")[2].partition("```")[0])
    loaded = load(path)
    check(loaded)
    summary = grid.run(loaded, tmp_path / "out", jobs=1).summary
    assert [outcome.holds for outcome in summary.expect] == [True]


def test_the_one_node_is_the_sum_of_all() -> None:
    nodes = (Node(id="x", capacity=(4, 10)), Node(id="y", capacity=(12, 10), speed=2.0))
    found = baselines.one_node(EngineConfig(nodes=nodes, heartbeat_ms=1000))
    assert found.nodes == (Node(id="one", capacity=(16, 20), speed=1.75),)
    assert found.heartbeat_ms == 500


def test_the_one_node_has_the_slots_of_all_workers() -> None:
    nodes = tuple(Node(id=name, capacity=(4, 8)) for name in ("a", "b", "c"))
    found = baselines.one_node(EngineConfig(nodes=nodes, architecture=Decentralised(slots_per_worker=4)))
    assert found.architecture == Decentralised(slots_per_worker=12)


def test_wishes_for_nodes_are_dropped_on_the_one_node(shared: Make, tmp_path: Path) -> None:
    stage = "spec.workload.jobs[0].stages[0]"
    places = f"{stage}.places={{terms: [[{{key: disk, operator: In, values: [ssd]}}]]}}"
    labels = "spec.cluster.nodes[0].labels={disk: ssd}"
    summary = grid.run(shared(places, labels, f"{stage}.hosts=[node-1]"), tmp_path / "out", jobs=1).summary
    assert summary.runs[0].costs["a"].fragmentation == 1.0


def test_times_by_node_are_their_mean_on_the_one_node(shared: Make, tmp_path: Path) -> None:
    nodes = [node.id for node in engine_config(shared().scenario, Resources()).nodes]
    times = ", ".join(f"{name}: {2 * number + 1}s" for number, name in enumerate(nodes))
    one = shared(f"spec.workload.jobs[0].stages[0].duration={{by_node: {{{times}}}}}", "spec.baselines=[one_node]")
    built = baselines.anywhere(build(one.scenario, tmp_path, 1))
    stage = next(entry for entry in built.workload.jobs if isinstance(entry.runtimes[0], PerTask))
    assert stage.runtimes[0] == PerTask((1000 * len(nodes),) * 4)
    grid.run(one, tmp_path / "out", jobs=1)


def test_the_ideal_goes_by_what_tasks_use(shared: Make, tmp_path: Path) -> None:
    grid.run(shared("spec.workload.asks={error: [0.5, 0.5]}"), tmp_path / "out", jobs=1)
    assert finished(tmp_path / "out", "baselines", "ideal", "1") == {"a": 60.0, "b": 41.0}
