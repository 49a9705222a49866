"""Axes and curves of charts."""

from __future__ import annotations

import numpy as np
import pytest

import rm_emulator
from rm_emulator.results.chart import Cells
from rm_emulator.results.charts.bins import bins
from rm_emulator.results.charts.distributions import error
from rm_emulator.results.charts.placement import placement
from rm_emulator.results.charts.utilisation import utilisation
from rm_emulator.results.drawing import curves, log_axis


@pytest.mark.parametrize(("high", "dtick"), [(5.0, None), (20.0, "D2"), (1000.0, 1), (1e7, 2)])
def test_the_wider_a_logarithmic_axis_the_fewer_ticks_it_has(high, dtick):
    assert log_axis("", 1.0, high).get("dtick") == dtick


def test_a_curve_goes_from_nothing_to_all_jobs_over_the_whole_axis():
    figure = curves({"same": (0, np.array([2.0, 2.0])), "far": (1, np.array([1.0, 8.0]))}, "", "")
    assert [(line["x"][0], line["y"][0]) for line in figure["data"]] == [(2.0, 0.0), (1.0, 0.0)]
    assert [(line["x"][-1], line["y"][-1]) for line in figure["data"]] == [(8.0, 1.0), (8.0, 1.0)]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """A run of three labels, of which one knows the run times and none estimates them."""
    out = tmp_path_factory.mktemp("hello") / "out"
    rm_emulator.run("hello", out=out, jobs=1)
    return Cells.of(out)


@pytest.mark.parametrize("draw", [error, placement])
def test_where_all_estimates_are_true_there_is_no_chart_of_them(draw, cells):
    assert draw(cells) is None


def test_jobs_of_one_bin_have_no_chart_of_bins(cells):
    assert bins(cells) is None


def test_the_use_of_the_cluster_is_drawn_to_its_last_moment(cells):
    (_, figure), *_ = utilisation(cells).variants
    for label, line in zip(cells.labels, figure["data"], strict=True):
        assert line["x"][-1] == pytest.approx(cells.nodes(label)["end_ms"].max() / 1000)
        assert line["y"][-1] == line["y"][-2]
