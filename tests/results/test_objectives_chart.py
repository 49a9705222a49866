"""The chart of objectives: when it is shown, and what its panels hold."""

from __future__ import annotations

from types import SimpleNamespace

import polars as pl

from rm_emulator.results.chart import Chart
from rm_emulator.results.charts.objectives import objectives

#: Node, job, granted, ended (ms).
TASKS = [("n1", "a", 0, 4_000), ("n1", "a", 4_000, 9_000), ("n1", "b", 9_000, 20_000), ("n2", "b", 0, 10_000)]


def shown(**wanted: str) -> Chart | None:
    """By label the objective; the same went on under all of them."""
    tasks = pl.DataFrame(TASKS, schema=["node", "job", "granted_ms", "ended_ms"], orient="row")
    jobs = pl.DataFrame({"id": ["a", "b"], "submit_ms": [0, 2_000], "finish_ms": [9_000, 20_000]})
    cells = SimpleNamespace(
        labels=tuple(wanted),
        seeds=(3,),
        objectives=wanted,
        jobs=dict.fromkeys(((label, 3) for label in wanted), jobs),
        tasks=lambda _: tasks,
    )
    return objectives(cells)


def test_it_is_shown_where_objectives_differ() -> None:
    assert shown(x="mean_jct", y="mean_jct") is None
    assert shown(x="", y="makespan") is not None


def test_tasks_of_one_job_that_follow_each_other_are_one_bar() -> None:
    found = shown(x="", y="makespan")
    assert found is not None
    traces = found.variants[0][1]["data"]
    bars = sorted(
        (job, lane, start, start + length)
        for trace in traces
        if trace["yaxis"] == "y2"
        for job, lane, start, length in zip(trace["text"], trace["y"], trace["base"], trace["x"], strict=True)
    )
    assert bars == [("a", 0, 0.0, 9.0), ("b", 0, 9.0, 20.0), ("b", 1, 0.0, 10.0)]


def test_each_panel_says_its_objective_mean_jct_and_makespan() -> None:
    found = shown(x="", y="makespan")
    assert found is not None
    assert [note["text"] for note in found.variants[0][1]["layout"]["annotations"]] == [
        "<b>x</b>: mean JCT 13.50 s, makespan 20.00 s",
        "<b>y</b> (objective makespan): mean JCT 13.50 s, makespan 20.00 s",
    ]
    assert found.rows == (("x", "", "13.50", "20.00"), ("y", "makespan", "13.50", "20.00"))


def test_lines_stand_at_mean_jct_and_makespan_of_each_panel() -> None:
    found = shown(x="", y="makespan")
    assert found is not None
    lines = found.variants[0][1]["layout"]["shapes"]
    assert [(each["x0"], each["yref"]) for each in lines] == [
        (13.5, "y domain"),
        (20.0, "y domain"),
        (13.5, "y2 domain"),
        (20.0, "y2 domain"),
    ]
