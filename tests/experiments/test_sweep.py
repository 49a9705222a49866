"""A sweep: its cells, its figures, how a point of it is reached."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import rm_emulator
from rm_emulator.experiments import grid
from rm_emulator.experiments.api import Results
from rm_emulator.issues import InvalidInput
from rm_emulator.results import compare, report, sweep
from rm_emulator.results.figures import Summary
from rm_emulator.results.replay import event_log
from rm_emulator.results.summary import MissingCell, read_summary
from rm_emulator.scenario.load import load

AXES = {"cluster.nodes[0].count": [1, 2, 4], "policies[1].placement": [{"kind": "first_fit"}, {"kind": "worst_fit"}]}
CHANGES = {
    "spec.sweep": AXES,
    "spec.seeds": [1, 2],
    "spec.cluster.nodes[0].capacity": {"cpu": 2, "memory": "4Gi"},
    "spec.expect": ["fifo.makespan_s < 200"],
    "spec.baselines": ["ideal"],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return rm_emulator.run("hello", out=tmp_path_factory.mktemp("sweep") / "out", set=CHANGES, jobs=1)


@pytest.fixture(scope="module")
def summary(results: Results) -> Summary:
    return read_summary(results.path)


def test_cells_lie_by_point_label_and_seed(results: Results) -> None:
    assert {str(p.relative_to(results.path)) for p in results.path.glob("points/6/runs/*/*")} == {
        f"points/6/runs/{label}/{seed}" for label in ("fifo", "fair", "sjf") for seed in (1, 2)
    }
    assert (results.path / "points/6/baselines/ideal/2/jobs.parquet").is_file()
    assert not (results.path / "runs").exists()


def test_each_run_says_its_values(results: Results) -> None:
    runs = results.summary["runs"]
    assert len(runs) == 6 * 3 * 2
    assert runs[-1]["sweep"] == {"cluster.nodes[0].count": 4, "policies[1].placement": {"kind": "worst_fit"}}
    assert results.summary["sweep"] == AXES


def test_without_a_sweep_the_summary_says_nothing_of_one() -> None:
    plain = rm_emulator.run("hello").summary
    assert "sweep" not in plain
    assert "sweep" not in plain["runs"][0]


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_point_has_the_figures_of_the_scenario_with_its_values(results: Results, summary: Summary) -> None:
    changes = {
        **CHANGES,
        "spec.sweep": None,
        "spec.cluster.nodes[0].count": 2,
        "spec.policies[1].placement.kind": "first_fit",
    }
    alone = rm_emulator.run("hello", set=changes)
    hashes = [run.log_sha256 for run in summary.points[2][1].runs]
    assert hashes == [run["log_sha256"] for run in alone.summary["runs"]]
    assert [e["speedup"] for e in results.summary["comparisons"][4:6]] == [
        e["speedup"] for e in alone.summary["comparisons"]
    ]


def test_an_expectation_holds_at_every_point_or_says_where_it_fails(summary: Summary) -> None:
    failed = [outcome.sweep for outcome in summary.expect if not outcome.holds]
    assert len(summary.expect) == 6
    assert [values["cluster.nodes[0].count"] for values in failed if isinstance(values, dict)] == [1, 1]


def test_frames_have_a_column_for_each_axis(results: Results) -> None:
    for frame in (results.runs, results.comparisons, results.jobs, results.tasks, results.nodes):
        assert frame["sweep.cluster.nodes[0].count"].dtype == pl.Int64
        assert set(frame["sweep.policies[1].placement"]) == {'{"kind": "first_fit"}', '{"kind": "worst_fit"}'}
    by_count = results.jobs.filter(pl.col("label") == "fifo").group_by("sweep.cluster.nodes[0].count").len()
    assert dict(by_count.iter_rows()) == {1: 12, 2: 12, 4: 12}


def test_a_point_is_a_run_directory_of_its_own(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    first, last = results.path / "points/1", results.path / "points/6"
    assert event_log(last, "fair", 2) == last / "runs/fair/2/events.jsonl"
    assert compare.main([first, last]) == 0
    assert "relative to A" in capsys.readouterr().out
    assert len(rm_emulator.load(last).jobs) == 18
    assert (last / "report.html").is_file()


def test_a_command_about_one_run_asks_for_the_point(results: Results) -> None:
    says = r"is a sweep of 6 points: name one, such as .*points/1 \(cluster.nodes\[0\].count=1"
    with pytest.raises(InvalidInput, match=says):
        event_log(results.path)
    with pytest.raises(compare.CompareError, match=says):
        compare.sides([results.path], [])


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_finished_cells_are_kept_and_missing_ones_computed(results: Results, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(results.path, out)
    shutil.rmtree(out / "points/2/runs/fair/1")
    again = grid.run(load("hello", changes=CHANGES), out, jobs=1)
    assert (again.computed, again.reused) == (1, 6 * (3 * 2 + 2) - 1)


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_more_values_of_the_first_axis_add_to_what_is_there(results: Results, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(results.path, out)
    more = {**CHANGES, "spec.sweep": {**AXES, "cluster.nodes[0].count": [1, 2, 4, 8]}}
    assert grid.run(load("hello", changes=more), out, jobs=1).computed == 2 * (3 * 2 + 2)
    fewer = {**CHANGES, "spec.sweep": {**AXES, "cluster.nodes[0].count": [1]}}
    with pytest.raises(InvalidInput, match="point 3 fair seed 1 is there, which this scenario does not have"):
        grid.run(load("hello", changes=fewer), out, jobs=1)


def test_what_no_run_wrote_among_the_points_is_never_replaced(results: Results, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(results.path, out)
    (out / "points/1/notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"'points/1/notes.txt' in it was not written by a run"):
        grid.run(load("hello", changes=CHANGES), out, jobs=1, overwrite=True)


def test_a_point_that_is_gone_is_missed(results: Results, tmp_path: Path) -> None:
    shutil.copytree(results.path, tmp_path / "out")
    shutil.rmtree(tmp_path / "out/points/3")
    with pytest.raises(MissingCell, match="points/3"):
        _ = rm_emulator.load(tmp_path / "out").jobs


def test_the_table_has_a_row_for_each_point_and_label(summary: Summary) -> None:
    columns = {column.heading: [cell.plain for cell in column.cells] for column in sweep.columns(summary)}
    assert columns["point"] == [str(n) for n in range(1, 7) for _ in range(3)]
    assert columns["count"] == ["1"] * 6 + ["2"] * 6 + ["4"] * 6
    assert columns["label"] == ["fifo", "fair", "sjf"] * 6


def test_axes_of_the_same_name_are_shown_in_full() -> None:
    assert sweep.names({"a.count": [1], "b.count": [1], "b.load": [1]}) == {
        "a.count": "a.count",
        "b.count": "b.count",
        "b.load": "load",
    }


def test_a_mean_over_seeds_has_its_interval(summary: Summary) -> None:
    point = summary.points[0][1]
    estimate = sweep.estimate(point, "fifo", "jct_s", "mean")
    values = [run.jct_s.mean for run in point.of("fifo")]
    assert estimate is not None
    assert estimate.interval is not None
    assert estimate.value == pytest.approx(sum(value or 0 for value in values) / 2)
    assert estimate.interval[0] < min(value or 0 for value in values)


def test_the_page_of_a_sweep_has_its_charts_and_leads_to_the_points(results: Results) -> None:
    page = report.render(results.path)
    figures = json.loads(page.split('id="figures">')[1].split("</script>")[0])
    assert set(figures) == {"over_axes", "best_label"}
    assert 'href="points/6/report.html"' in page
    assert "at 2 of 6 points" in page
    panels = figures["over_axes"][0]
    # Two panels, one for each value of the other axis, each with a line for each label.
    assert [trace["xaxis"] for trace in panels["data"]] == ["x"] * 3 + ["x2"] * 3
    assert panels["data"][0]["customdata"] == [["1", 1], ["2", 3], ["4", 5]]  # the value and the point


def test_a_point_s_page_has_no_charts_of_the_sweep(results: Results) -> None:
    page = (results.path / "points/1/report.html").read_text()
    assert 'id="over_axes"' not in page
    assert 'id="jct"' in page
