"""Figures 5 and 11 of the SLearn paper are drawn from the jobs of a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from studies import timelines

HOUR_MS = 3_600_000


def runs(rows: list[dict[str, Any]]) -> Any:
    """Results of seed 1 with these jobs."""
    return SimpleNamespace(jobs=pl.DataFrame([{"seed": 1, **row} for row in rows]))


def job(label: str, at: int, jct_ms: int = 1000, **more: Any) -> dict[str, Any]:
    row = {"label": label, "id": f"j{at}", "submit_ms": at, "finish_ms": at + jct_ms, "work_ms": 0}
    return {**row, "width": 50, "pilots": 1, **more}


def test_the_part_of_pilots_is_of_wide_sampled_jobs_in_order_of_arrival() -> None:
    found = timelines.pilots(
        runs(
            [
                job("slearn", 12 * HOUR_MS, pilots=3),
                job("slearn", 0),
                job("slearn", 1, width=timelines.WIDE - 1),
                job("slearn", 2, pilots=0),
                job("three_sigma", 3),
            ]
        ),
        "any",
        1,
    )
    assert (found.days.tolist(), found.values.tolist()) == ([0.0, 0.5], [2.0, 4.0])  # the median of 2 and 6


def test_load_and_gain_are_by_window() -> None:
    second = timelines.WINDOW_MS
    mine = [job("slearn", 0, work_ms=3 * second), job("slearn", second, 2000, work_ms=second)]
    other = [job("three_sigma", 0, 500), job("three_sigma", second, 6000)]
    load, gain = timelines.load_and_gain(runs([*mine, *other]), 2, 1)
    assert load.values.tolist() == [1.5, 0.5]
    assert gain.values.tolist() == [0.5, 3.0]


@pytest.mark.parametrize("log", [False, True])
def test_a_picture_has_a_line_for_each_panel_inside_its_sheet(log: bool) -> None:
    panel = timelines.Panel("title", pl.Series([0.0, 3.0]).to_numpy(), pl.Series([1.0, 20.0]).to_numpy(), (2, 10), log)
    drawn = timelines.picture([panel, panel], "two")
    assert drawn.count("<polyline") == drawn.count(">title<") == 2
    lines = [part.split('"')[0].split() for part in drawn.split('points="')[1:]]
    heights = [float(point.split(",")[1]) for points in lines for point in points]
    assert min(heights) > 0
    assert max(heights) < 2 * timelines.HEIGHT
