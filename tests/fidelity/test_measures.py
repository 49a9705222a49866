"""How far apart runs are."""

from __future__ import annotations

import pytest

from rm_emulator.fidelity.measures import Tolerances, accepted, compare, curve_distance, kolmogorov
from rm_emulator.fidelity.runs import MeasuredRun

BARS = Tolerances(5, 10)


def runs(*times: tuple[float, float]) -> list[MeasuredRun]:
    return [MeasuredRun(str(n), {"a": a, "b": b}) for n, (a, b) in enumerate(times)]


def test_the_mean_error_is_that_of_the_mean_job_completion() -> None:
    assert compare("f", runs((10, 30)), runs((11, 33)), BARS).mean_error_pct == pytest.approx(10)


def test_errors_of_two_jobs_may_cancel_in_the_mean_only() -> None:
    found = compare("f", runs((20, 20)), runs((15, 25)), BARS)
    assert found.mean_error_pct == pytest.approx(0)
    assert abs(found.worst_job_error_pct) == pytest.approx(25)


def test_the_worst_job_is_named() -> None:
    found = compare("f", runs((20, 20)), runs((21, 26)), BARS)
    assert (found.worst_job, found.worst_job_error_pct) == ("b", pytest.approx(30))


def test_figures_are_means_over_runs_and_seeds() -> None:
    found = compare("f", runs((9, 20), (11, 20)), runs((8, 20), (12, 20), (10, 20)), BARS)
    assert found.jobs[0].error_pct == pytest.approx(0)
    assert (found.real_runs, found.seeds) == (2, 3)


def test_equal_runs_hold() -> None:
    assert compare("f", runs((10, 20)), runs((10, 20)), BARS).holds


def test_faults_say_what_is_outside() -> None:
    found = compare("f", runs((10, 20)), runs((12, 20)), BARS)
    assert found.faults == ("mean +6.7 % (at most 5 %)", "job a +20.0 % (at most 10 %)")


@pytest.mark.parametrize(
    ("real", "emulated", "good"),
    [
        ([100, 100], [109], True),
        ([100, 100], [111], False),
        ([80, 120], [115], True),
        ([80, 120], [121], False),
        ([96, 104], [112], False),
    ],
)
def test_the_range_counts_where_real_runs_spread_more_than_the_bar(
    real: list[float], emulated: list[float], good: bool
) -> None:
    assert accepted(real, emulated, 10) is good


@pytest.mark.parametrize(
    ("one", "other", "distance"), [([1, 2], [1, 2], 0), ([1, 2], [3, 4], 1), ([1, 3], [2, 3], 0.5), ([1], [1, 2], 0.5)]
)
def test_kolmogorov(one: list[float], other: list[float], distance: float) -> None:
    assert kolmogorov(one, other) == distance


def test_equal_curves_are_no_distance_apart() -> None:
    assert curve_distance([[0, 1024, 1024, 0]], [[0, 1024, 1024, 0]]) == 0


def test_a_shifted_start_is_forgiven() -> None:
    assert curve_distance([[0, 0, 0, 1024, 2048]], [[1024, 2048]]) == 0
    assert curve_distance([[0.0] * 40 + [1024, 2048]], [[1024, 2048]]) == 0


def test_missing_memory_is_a_share_of_the_real_area() -> None:
    assert curve_distance([[100.0] * 10], [[50.0] * 10]) == pytest.approx(50)


@pytest.mark.parametrize(("real", "emulated"), [([[]], [[1.0]]), ([[1.0]], [[]]), ([[0.0]], [[1.0]])])
def test_without_curves_there_is_no_distance(real: list[list[float]], emulated: list[list[float]]) -> None:
    assert curve_distance(real, emulated) is None


def test_data_has_what_the_design_promises() -> None:
    data = compare("f", runs((10, 20)), runs((10, 20)), BARS).as_data()
    assert {"name", "mean_error_pct", "worst_job_error_pct", "ks", "jobs"} <= set(data)
    assert data["jobs"][0] == {"job": "a", "real_s": [10], "emulated_s": [10]}
