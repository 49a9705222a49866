"""The chart of a plan: which job it shows, and where its bars and the bound are."""

from __future__ import annotations

from types import SimpleNamespace

import polars as pl
import pytest

from rm_emulator.results.chart import Chart
from rm_emulator.results.charts import plan
from rm_emulator.results.record import PLAN_SCHEMA

#: By job: submission, start and end per stage as it went (ms).
WENT = {"a": (0, [(5_000, 15_000), (15_000, 40_000)]), "b": (1_000, [(2_000, 6_000)])}


def row(job: str, stage: int, start_ms: int, end_ms: int, running: float, **changes: object) -> dict:
    """A row of plans.parquet, of a stage `sSTAGE` with two tasks."""
    of_job = {"job": job, "made_ms": WENT[job][0], "machines": 3, "bound_ms": 18_000, "makespan_ms": 20_000}
    of_stage = {"stage": stage, "name": f"s{stage}", "tasks": 2, "task_ms": 10_000, "troublesome": False}
    return {**of_job, **of_stage, "start_ms": start_ms, "end_ms": end_ms, "running": running, **changes}


TWO = [row("a", 0, 0, 10_000, 2.0), row("a", 1, 10_000, 20_000, 2.0)]
ONE = [row("b", 0, 0, 10_000, 2.0)]


def shown(plans: dict[str, list[dict]], *, finished: str = "ab", job: str = "") -> Chart | None:
    """The chart of these plans by label; under every label the jobs went as WENT says, two tasks per stage."""
    jobs = pl.DataFrame(
        {
            "id": list(WENT),
            "submit_ms": [submit for submit, _ in WENT.values()],
            "finish_ms": [stages[-1][1] if name in finished else None for name, (_, stages) in WENT.items()],
        },
        schema_overrides={"finish_ms": pl.Int64},
    )
    tasks = pl.DataFrame(
        [
            {"job": name, "stage": stage, "started_ms": start, "ended_ms": end}
            for name, (_, stages) in WENT.items()
            for stage, (start, end) in enumerate(stages)
            for _ in range(2)
        ],
        schema_overrides={"stage": pl.Int32},
    )
    frames = {label: pl.DataFrame(rows, schema=PLAN_SCHEMA) for label, rows in plans.items()}
    jobs_of = {(label, 7): jobs for label in plans}
    cells = SimpleNamespace(seeds=[7], jobs=jobs_of, tasks=lambda _: tasks, plans=frames)
    return plan.plan(cells, plan.PlanParams(job=job))


def bars(found: Chart | None, axis: str, variant: int = 0) -> list[tuple[int, float, float]]:
    """(row, start, end) of each bar of one panel."""
    assert found is not None
    traces = [t for t in found.variants[variant][1]["data"] if t["type"] == "bar" and t["yaxis"] == axis]
    return sorted((y, b, b + x) for t in traces for y, b, x in zip(t["y"], t["base"], t["x"], strict=True))


def legend(found: Chart | None) -> list[str]:
    assert found is not None
    return [trace["name"] for trace in found.variants[0][1]["data"] if trace["showlegend"]]


def test_the_plan_is_above() -> None:
    assert bars(shown({"x": TWO}), "y") == [(0, 0.0, 10.0), (1, 10.0, 20.0)]


def test_what_happened_is_below_from_the_first_start() -> None:
    assert bars(shown({"x": TWO}), "y2") == [(0, 0.0, 10.0), (1, 10.0, 35.0)]


def test_the_line_is_at_the_bound_in_both_panels() -> None:
    found = shown({"x": TWO})
    assert found is not None
    lines = [trace for trace in found.variants[0][1]["data"] if trace["type"] == "scatter"]
    assert [(line["x"], line["yaxis"]) for line in lines] == [([18.0, 18.0], "y"), ([18.0, 18.0], "y2")]


def test_troublesome_stages_are_named_in_the_legend() -> None:
    found = shown({"x": [TWO[0], {**TWO[1], "troublesome": True}]})
    assert legend(found) == ["stages", "troublesome: s1", "lower bound, 18.0 s"]


def test_without_troublesome_stages_the_legend_has_none() -> None:
    assert legend(shown({"x": TWO})) == ["stages", "lower bound, 18.0 s"]


def test_a_job_with_troublesome_stages_is_shown_before_one_with_more_stages() -> None:
    found = shown({"x": [*TWO, {**ONE[0], "troublesome": True}]})
    assert bars(found, "y") == [(0, 0.0, 10.0)]


def test_the_job_of_the_setting_is_shown_where_it_has_finished() -> None:
    assert "Job b " in shown({"g": TWO + ONE}, job="b").caption
    assert "Job a " in shown({"g": TWO + ONE}, job="b", finished="a").caption


def test_a_job_that_has_not_finished_is_not_shown() -> None:
    assert shown({"x": TWO}, finished="b") is None


def test_without_plans_there_is_no_chart() -> None:
    assert shown({}) is None


def test_all_labels_show_the_same_job() -> None:
    found = shown({"x": ONE, "y": [*TWO, *ONE]})
    assert bars(found, "y", 1) == [(0, 0.0, 10.0)]


def test_a_label_that_has_not_planned_that_job_shows_another() -> None:
    found = shown({"x": ONE, "y": TWO})
    assert bars(found, "y", 1) == [(0, 0.0, 10.0), (1, 10.0, 20.0)]


def test_bars_are_as_high_as_the_part_of_the_stage_that_runs() -> None:
    found = shown({"x": [row("a", 0, 0, 10_000, 1.0), TWO[1]]})
    assert found is not None
    half, full = found.variants[0][1]["data"][0]["width"]
    assert (half, full) == pytest.approx((0.22 + 0.32, 0.22 + 0.64))


def test_the_titles_say_how_long_it_was_to_take_and_took() -> None:
    found = shown({"x": TWO})
    assert found is not None
    assert [note["text"] for note in found.variants[0][1]["layout"]["annotations"]] == [
        "<b>Planned</b>: 20.0 s on 3 machines",
        "<b>What happened</b>: 35.0 s, after 5.00 s of waiting",
    ]


def test_a_plan_that_was_made_late_says_so() -> None:
    found = shown({"x": [{**each, "made_ms": 2_000} for each in TWO]})
    assert found is not None
    assert "made 2.00 s after submission" in found.variants[0][1]["layout"]["annotations"][0]["text"]


def test_the_table_has_a_row_per_stage() -> None:
    found = shown({"x": [TWO[0], {**TWO[1], "troublesome": True}]})
    assert found is not None
    assert found.rows == (
        ("x", "s0", "2", "0", "10.00", "0", "10.00", ""),
        ("x", "s1", "2", "10.00", "20.00", "10.00", "35.00", "yes"),
    )


def test_many_changes_are_drawn_as_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "BARS", 8)
    monkeypatch.setitem(WENT, "b", (0, [(start, start + 50) for start in range(0, 1000, 10)]))
    assert len(bars(shown({"x": ONE}), "y2")) <= 8
