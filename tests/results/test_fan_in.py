"""Many cells into one summary: what one pass reads is what reading each cell gives, and little of it is in memory."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from rm_emulator.results import compare, fairness, metrics, report, statistics, summary
from rm_emulator.results.chart import Cells
from rm_emulator.results.charts import gantt
from rm_emulator.results.charts.sweep import best_label, over_axes
from rm_emulator.results.figures import Run, Spread, Summary

SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def run(tmp_path_factory, fabricate) -> Path:
    """Three labels of three seeds, in a folder with brackets in its name; some tables of tasks have a column more."""
    out = tmp_path_factory.mktemp("run[1]")
    labels = {"a": 0.2, "b": 0.9, "c": None}
    summary.build(out, fabricate.run_directory(out, labels=labels, seeds=SEEDS, jobs=25))
    copied = out / "runs/c/2/tasks.parquet"
    pl.read_parquet(copied, glob=False).with_columns(copy=pl.lit(False)).write_parquet(copied)
    return out


def places(run: Path) -> list[Path]:
    return [run / "runs" / label / str(seed) for label in ("a", "b", "c") for seed in SEEDS]


@pytest.mark.slow
@given(st.permutations(range(9)), st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=10, deadline=None)
def test_one_pass_gives_the_tables_of_each_cell(run, order, count, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "_AT_ONCE", at_once)
        chosen = [places(run)[index] for index in order[:count]]
        for cell, (jobs, tasks, nodes) in zip(chosen, summary.read_cells(chosen), strict=True):
            own, used = summary.read_for_figures(cell)
            alone = metrics.timed(summary.read_table(cell, "jobs"))
            assert_frame_equal(jobs, alone.sort("id"))
            assert_frame_equal(tasks.select(own.columns), own)
            assert metrics.figures(jobs, tasks, nodes) == metrics.figures(alone, own, used)


def test_a_missing_and_a_broken_table_are_named(run, tmp_path):
    shutil.copytree(run, tmp_path / "out")
    cells = places(tmp_path / "out")
    (cells[4] / "nodes.parquet").write_bytes(b"PAR1")
    with pytest.raises(summary.MissingCell, match=r"b/2/nodes\.parquet: not a readable Parquet file"):
        list(summary.read_cells(cells))
    (cells[2] / "jobs.parquet").unlink()
    with pytest.raises(summary.MissingCell, match=r"a/3/jobs\.parquet: not there"):
        list(summary.read_cells(cells))


TIMES = st.integers(0, 30)
ATTEMPT = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2), TIMES, TIMES, st.sampled_from([0, 0, 1]))
ATTEMPTS = st.lists(ATTEMPT, min_size=1, max_size=14)


def tables(attempts: list[tuple[int, ...]]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Jobs a to d of two queues; attempts: (job, stage, task, granted, lasts, code), numbered per task."""
    rows, counts = [], dict[tuple[int, ...], int]()
    for job, stage, task, granted, lasts, code in attempts:
        attempt = counts[job, stage, task] = counts.get((job, stage, task), -1) + 1
        times = {"granted_ms": granted, "started_ms": granted, "ended_ms": granted + lasts}
        row = {"job": "dbca"[job], "stage": stage, "task": task, "attempt": attempt, "code": code, **times}
        rows.append({**row, "node": "n", "demand_cpu": 1 + job, "demand_memory": 3 - stage})
    jobs = pl.DataFrame({"id": list("abcd"), "queue": list("xyxy"), "submit_ms": [0, 3, 5, 8], "finish_ms": [70] * 4})
    nodes = {"node": [None, None], "resource": ["cpu", "memory"], "capacity": [7, 5], "speed": [1.0, 1.0]}
    return jobs, pl.DataFrame(rows), pl.DataFrame(nodes)


@given(ATTEMPTS)
@settings(max_examples=100, deadline=None)
def test_shares_are_those_of_every_ms_by_itself(attempts):
    jobs, tasks, nodes = tables(attempts)
    queues = dict(jobs.select("id", "queue").iter_rows())
    slow = dict.fromkeys("xy", 0.0)
    for ms in range(70):
        held = {(queue, resource): 0 for queue in "xy" for resource in ("cpu", "memory")}
        for row in tasks.iter_rows(named=True):
            for resource in ("cpu", "memory"):
                if row["granted_ms"] <= ms < row["ended_ms"]:
                    held[queues[row["job"]], resource] += row[f"demand_{resource}"]
        for queue in "xy":
            slow[queue] += max(held[queue, "cpu"] / 7, held[queue, "memory"] / 5) / 70
    assert metrics.dominant_shares(jobs, tasks, nodes) == pytest.approx(slow)


@given(ATTEMPTS, st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_attempts_read_in_blocks_have_the_shares_of_all_together(attempts, block):
    jobs, tasks, nodes = tables(attempts)
    jobs = jobs.with_columns(tasks=pl.lit(2), user=pl.col("id"))
    shares = metrics.dominant_shares(jobs, tasks, nodes), metrics.dominant_shares(jobs, tasks, nodes, "user")
    course = fairness.queue_shares(jobs, tasks, nodes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "BLOCK", block)
        patch.setattr(metrics, "_FEW", block)
        for some in (tasks, tasks.lazy()):
            found = metrics.dominant_shares(jobs, some, nodes), metrics.dominant_shares(jobs, some, nodes, "user")
            assert found == shares
        again = fairness.queue_shares(jobs, tasks.lazy(), nodes)
    for name in ("held", "asked", "task", "state"):
        assert np.array_equal(getattr(again, name), getattr(course, name))


@pytest.mark.parametrize("block", [5, 40])
@pytest.mark.drawn(of=2)
def test_a_large_table_of_tasks_gives_the_same_figures_and_page_in_blocks(run, tmp_path, monkeypatch, block):
    def written(folder: Path) -> list[str]:
        report.write(folder)
        return [(folder / name).read_text() for name in ("summary.json", "report.html")]

    for name in ("whole", "blocks"):
        shutil.copytree(run, tmp_path / name / "out")
    spec = {"spec": {"policies": [{"label": label} for label in "abc"], "seeds": SEEDS}}
    summary.build(tmp_path / "whole/out", spec)
    whole = written(tmp_path / "whole/out")
    monkeypatch.setattr(metrics, "BLOCK", block)
    monkeypatch.setattr(gantt, "BLOCK", block)
    monkeypatch.setattr(summary, "_AT_ONCE_BYTES", 1)
    summary.build(tmp_path / "blocks/out", spec)
    assert written(tmp_path / "blocks/out") == whole


@given(ATTEMPTS)
@settings(max_examples=100, deadline=None)
def test_a_task_waits_since_its_last_attempt_or_the_latest_stage_before(attempts):
    jobs, tasks, _ = tables(attempts)
    submits, rows = dict(jobs.select("id", "submit_ms").iter_rows()), tasks.to_dicts()
    slow = []
    for row in rows:
        same = [each for each in rows if each["job"] == row["job"]]
        first = min(each["granted_ms"] for each in same if each["stage"] == row["stage"])
        ends = [
            max((e["ended_ms"] for e in same if e["stage"] == stage and not e["code"]), default=None)
            for stage in {each["stage"] for each in same}
        ]
        since = max([submits[row["job"]], *(end for end in ends if end is not None and end <= first)])
        for each in same:
            task = [each[name] for name in ("stage", "task", "attempt")]
            since = each["ended_ms"] if task == [row["stage"], row["task"], row["attempt"] - 1] else since
        slow.append(min(since, row["granted_ms"]))
    assert fairness.waiting_since(jobs, tasks, metrics.owners(jobs, tasks)).tolist() == slow


@given(st.lists(st.floats(0, 1e9) | st.none(), max_size=30))
@settings(max_examples=100, deadline=None)
def test_a_spread_has_the_quantiles_of_the_known_values(values):
    found, known = metrics.spread(pl.Series(values, dtype=pl.Float64), Spread), [v for v in values if v is not None]
    wanted = [metrics.figure(np.quantile(known, part)) if known else None for part in (0.5, 0.9, 0.99)]
    assert [found.p50, found.p90, found.p99] == wanted


JCTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9) | st.none(), max_size=8)


@given(st.lists(st.tuples(JCTS, JCTS), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_extremes_seed_by_seed_are_those_of_all_jobs_together(seeds):
    def jobs(jcts: dict[str, int | None]) -> statistics.FinishedJobs:
        known = sorted(job for job, jct in jcts.items() if jct is not None)
        times = np.array([float(jcts[job] or 0) for job in known])
        return statistics.FinishedJobs(pl.Series("id", known, pl.String), times, np.zeros(len(known), np.int8))

    pairs = [(s, statistics.matched(jobs(a), jobs(b), with_ids=True)) for s, (a, b) in enumerate(seeds)]
    ratios = [(a[job] / b[job], job, s) for s, (a, b) in enumerate(seeds) for job in a if a[job] and b.get(job)]
    up = sorted((-metrics.figure(ratio), job, seed) for ratio, job, seed in ratios if ratio > 1)[: compare.SHOWN]
    down = sorted((metrics.figure(ratio), job, seed) for ratio, job, seed in ratios if ratio < 1)[: compare.SHOWN]
    found = compare.extremes(iter(pairs))
    assert [(-each["ratio"], each["job"], each["seed"]) for each in found["winners"]] == up
    assert [(each["ratio"], each["job"], each["seed"]) for each in found["losers"]] == down


@pytest.fixture(scope="module")
def thousand(tmp_path_factory, fabricate) -> Path:
    """Two labels of 500 seeds: links to two cells."""
    out = tmp_path_factory.mktemp("thousand")
    for label, noise in (("fifo", None), ("gs", 0.5)):
        fabricate.cell(out / label, label, noise, 1, 8, 2, 2)
        (out / "runs" / label).mkdir(parents=True)
        for seed in range(1, 501):
            (out / "runs" / label / str(seed)).symlink_to(out / label)
    return out


def alive() -> int:
    """Tables in memory."""
    return sum(isinstance(each, pl.DataFrame) for each in gc.get_objects())


@pytest.mark.slow
def test_of_a_thousand_cells_those_of_one_pass_are_in_memory(thousand):
    before, cells = (
        alive(),
        [thousand / "runs" / label / str(seed) for seed in range(1, 501) for label in ("fifo", "gs")],
    )
    most = max(alive() - before for number, _ in enumerate(summary.read_cells(cells)) if number % 200 == 100)
    assert most <= 3 * (summary._AT_ONCE + 2)


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_charts_of_a_thousand_cells_keep_the_jobs_of_few(thousand):
    runs = [Run(label=label, seed=seed) for label in ("fifo", "gs") for seed in range(1, 501)]
    of_runs = Summary(scenario="s", version="", workload=None, baseline="fifo", runs=runs, comparisons=[])
    cells, before = Cells(thousand, of_runs, {}), alive()
    assert len(cells.pooled("gs", "jct_s")) == sum(len(pair.ids) for _, pair in cells.pairs("gs")) == 500 * 8
    for cell in cells.jobs:
        assert len(cells.jobs[cell]) == 8
    assert alive() - before <= 64 + 2


def swept(counts: int, loads: int, labels: tuple[str, ...] = ("fifo",)) -> Cells:
    """A sweep of two settings, or of one, with figures made up."""
    axes = {"count": [*range(1, counts + 1)], **({"load": [*range(1, loads + 1)]} if loads else {})}
    points = [{"count": n, **({"load": m} if loads else {})} for n in axes["count"] for m in axes.get("load", [0])]
    runs = [
        Run(sweep=point, label=label, seed=1, jct_s=Spread(mean=1.0 + index), makespan_s=2.0)
        for point in points
        for index, label in enumerate(labels)
    ]
    whole = Summary(scenario="s", version="", workload=None, baseline="fifo", sweep=axes, runs=runs, comparisons=[])
    return Cells(Path(), whole, {})


@pytest.mark.drawn(of=4)
def test_a_long_axis_is_drawn_to_a_bound_and_says_so():
    chart = over_axes(swept(2500, 0))
    assert "Shown: the first 2,000 of 2,500 values of count; all are in summary.json." in chart.caption
    assert "In the table: the first 2,000 of 2,500 points; all are in summary.json." in chart.caption
    assert (len(chart.variants[0][1]["data"][0]["x"]), len(chart.rows)) == (2000, 2000)


def test_panels_left_out_are_counted():
    chart = over_axes(swept(2, 12))
    assert "Shown: the first 9 of 12 combinations of the other settings; all are in summary.json." in chart.caption


def test_the_best_labels_of_a_large_grid_are_drawn_to_a_bound_and_the_chart_says_so():
    chart = best_label(swept(50, 3, ("fifo", "fair")))
    assert "Shown: the first 40 of 50 values of count; all are in summary.json." in chart.caption
    assert len(chart.rows) == 40 * 3


def test_what_is_shown_whole_says_nothing():
    assert "Shown" not in over_axes(swept(3, 3)).caption
