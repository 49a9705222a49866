"""M/M/c by its formulas: known answers."""

from __future__ import annotations

from math import fsum

import pytest

from studies.erlang import longest, relaxation, waits


def test_a_single_server_lets_wait_with_the_probability_of_its_load() -> None:
    assert waits(1, 0.8) == pytest.approx(0.8)


def test_erlang_s_c_of_two_servers() -> None:
    assert waits(2, 0.5) == pytest.approx(1 / 3)


@pytest.mark.parametrize("load", [-0.1, 1.0])
def test_no_queue_has_another_load(load: float) -> None:
    with pytest.raises(ValueError, match="at least 0 and below 1"):
        waits(4, load)


def test_one_task_of_one_server_takes_one_over_one_minus_the_load() -> None:
    assert longest(1, 0.75, 1) == pytest.approx(4, rel=1e-4)


def test_without_load_the_longest_of_many_is_the_harmonic_number() -> None:
    assert longest(4, 0.0, 50) == pytest.approx(fsum(1 / n for n in range(1, 51)), rel=1e-4)


def test_equal_rates_of_waiting_and_running_are_no_special_case() -> None:
    near = [longest(4, load, 50) for load in (0.7499, 0.75, 0.7501)]
    assert near == sorted(near)
    assert near[2] - near[0] < 0.01


def test_the_queues_of_sparrow_s_random_workers_at_both_loads_of_the_audit() -> None:
    assert [round(200 * longest(4, load, 50)) for load in (0.8, 0.95)] == [1347, 4607]


def test_one_server_relaxes_as_morse_has_it() -> None:
    assert relaxation(1, 0.25) == pytest.approx(4)
