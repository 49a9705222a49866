"""The presets beside the paper: the rows, and what is taken from a run."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from rm_emulator.api import PRESETS
from studies import presets
from studies.presets import PAPER, RAN, Ran, figures_of, table

DOCS = Path(__file__).parents[2] / "docs"


def jobs(sizes: list[float], jct_s: list[float]) -> pl.DataFrame:
    """Two wide jobs of 1,000 s and a thin one, by their estimates and completion times."""
    bins = ["wide_small", "wide_large", "thin_small"]
    columns = {"width": [10, 10, 1], "work_ms": [1e6, 1e6, 1e4], "size_ms": sizes, "bin": bins, "jct_s": jct_s}
    return pl.DataFrame(columns)


def found() -> Ran:
    made = {label: jobs([1.1e6, 0.8e6, 1e9], [10.0, 20.0, 30.0]) for label in RAN}
    made["three_sigma"] = jobs([5e6, 0.5e6, 1e9], [20.0, 20.0, 80.0])
    right = {"correct": 0.5, "over": 0.25, "under": 0.25}
    return figures_of(made, dict.fromkeys(RAN, right))


def test_errors_are_those_of_wide_jobs() -> None:
    assert found().errors == pytest.approx((225.0, 365.0))
    assert found().estimates == pytest.approx((50.0, 400.0, 400.0, -50.0, -50.0))


def test_a_bin_s_speedup_is_the_ratio_of_its_means() -> None:
    assert dict(zip(presets.BINS, found().by_bin, strict=True))["thin_small"] == pytest.approx(80 / 30)


def test_speedups_are_ratios_of_means() -> None:
    assert found().speedups == pytest.approx((2.0, 1.0, 1.0))


@pytest.mark.drawn(of=4)
def test_bins_stand_before_all_jobs_and_beside_the_paper() -> None:
    lines = table("2sigma-like", [1], {1: found()})
    by_bin = [line.startswith("| SLearn over 3Sigma: thin and small | 10.54 | 2.67 |") for line in lines].index(True)
    in_all = [line.startswith("| SLearn over 3Sigma: all jobs | 1.28 | 2 |") for line in lines].index(True)
    assert by_bin < in_all


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_has_the_paper_s_figures_of_its_trace(preset: str) -> None:
    assert {"windows", "errors", "queues", "speedups"} <= set(PAPER[preset])


@pytest.mark.parametrize("preset", PRESETS)
def test_the_page_has_a_table_for_each_preset(preset: str) -> None:
    assert f"| {preset} | paper | measured |" in (DOCS / presets.PAGE).read_text(encoding="utf-8")
