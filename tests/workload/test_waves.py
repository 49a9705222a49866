"""Run times from measured waves: the released rules of Decima's simulator, and where ours go on."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.workload.waves import StageWaves, TaskDraws, TaskDurations, filled, mean_of, without_fresh
from schedulers.core.waves import LEVELS, Wave

FULL = Path(__file__).parents[2] / "../shared/data/tpch-spark-profiles.json.gz"


def one_per_level(offset: int, levels: tuple[int, ...] = LEVELS) -> dict[int, list[int]]:
    """A single duration per level that tells which level it came from."""
    return {level: [offset + level] for level in levels}


def waves(**options: Any) -> StageWaves:
    return StageWaves(one_per_level(10_000), one_per_level(20_000), one_per_level(30_000), **options)


@pytest.mark.parametrize(("executors", "level"), [(1, 5), (4, 5), (5, 5), (10, 10), (40, 40), (100, 100), (250, 100)])
def test_a_level_of_the_data_is_taken_as_it_is(executors: int, level: int) -> None:
    assert {waves().duration(u, 0.0, executors, "first") for u in (0.0, 0.5, 0.999)} == {20_000 + level}


def share_of_lower(stage: StageWaves, executors: int, lower: int) -> float:
    draws = [(n + 0.5) / 1000 for n in range(1000)]
    return sum(stage.duration(u, 0.0, executors, "first") == 20_000 + lower for u in draws) / 1000


def test_between_levels_the_released_choice_is_inverted() -> None:
    assert share_of_lower(waves(), 6, 5) == pytest.approx(0.2)


def test_between_levels_the_corrected_choice_interpolates() -> None:
    assert share_of_lower(waves(inverted=False), 6, 5) == pytest.approx(0.8)


def test_a_level_that_was_not_measured_takes_the_largest_stored_one() -> None:
    stage = StageWaves({}, one_per_level(0, (2, 5, 10, 12)), {})
    assert [stage.duration(0.0, 0.0, k, "first") for k in (10, 20, 100)] == [10, 12, 12]


def test_a_fresh_executor_draws_a_fresh_duration() -> None:
    assert waves().duration(0.0, 0.0, 5, "fresh") == 10_005


def test_without_fresh_durations_a_new_executor_takes_a_first_one_and_the_warm_up() -> None:
    assert StageWaves({5: []}, {5: [40]}, {5: [3]}, warmup_ms=700).duration(0.0, 0.0, 5, "fresh") == 740


def test_a_later_task_draws_from_the_rest_wave() -> None:
    assert waves().duration(0.0, 0.0, 5, "rest") == 30_005


def test_a_later_task_without_rest_wave_draws_a_first_duration() -> None:
    assert StageWaves({5: [9]}, {5: [40]}, {5: []}).duration(0.0, 0.0, 5, "rest") == 40


def test_a_first_task_without_first_wave_draws_a_fresh_duration_without_warm_up() -> None:
    assert StageWaves({5: [9]}, {5: []}, {5: []}).duration(0.0, 0.0, 5, "first") == 9


def test_a_level_that_kept_nothing_takes_the_next_lower_one() -> None:
    stage = StageWaves({5: [9], 10: []}, {5: [], 10: []}, {5: [], 10: []})
    assert stage.duration(0.0, 0.0, 10, "first") == 9


def test_a_stage_without_a_duration_is_refused() -> None:
    with pytest.raises(ValueError, match="without a single measured duration"):
        StageWaves({5: []}, {5: []}, {})


def test_every_fresh_duration_removes_one_equal_first_duration() -> None:
    assert without_fresh([4, 7, 4, 4, 9], [4, 9, 1]) == [7, 4, 4]


def test_an_empty_level_is_filled_from_the_next_lower_one() -> None:
    assert filled({10: [], 5: [1], 20: [], 2: []}) == {2: (), 5: [1], 10: [1], 20: [1]}


def test_the_rough_duration_is_the_mean_of_all_waves_and_levels_after_cleaning() -> None:
    stage = StageWaves({5: [10], 10: []}, {5: [2], 10: []}, {5: [3], 10: [4]})
    assert stage.rough_ms == pytest.approx((10 + 2 + 2 + 3 + 4) / 5)


def test_scale_multiplies_durations_and_the_rough_one() -> None:
    stage = StageWaves({5: [10]}, {5: [20]}, {5: [1]}, scale=0.25)
    assert (stage.duration(0, 0, 5, "first"), stage.duration(0, 0, 5, "rest"), stage.rough_ms) == (5, 1, 8 / 3)


def test_the_second_number_picks_the_element() -> None:
    stage = StageWaves({}, {5: [1, 2, 3, 4]}, {})
    assert [stage.duration(0.0, u, 5, "first") for u in (0.0, 0.26, 0.5, 0.999999)] == [1, 2, 3, 4]


def released_duration(
    stage: dict[str, dict[int, list[int]]], u_level: float, u_pick: float, executors: int, wave: Wave
) -> int:
    """The rules as decima-sim states them, one after the other, on cleaned data (spark_env/node.py)."""
    level = next((x for x in LEVELS if x >= executors), LEVELS[-1])
    if level != executors and LEVELS[0] < executors < LEVELS[-1]:
        left, right = LEVELS[LEVELS.index(level) - 1], level
        point = 1 + int(u_level * (right - left))  # randint(1, right - left + 1)
        level = left if point <= executors - left else right
    if level not in stage["first_wave"]:
        level = max(stage["first_wave"])
    fresh, first, rest = (stage[name][level] for name in ("fresh_durations", "first_wave", "rest_wave"))
    warm_up = 0
    if wave == "fresh":
        durations, warm_up = (fresh, 0) if fresh else (first, 1000)
    elif wave == "rest" and rest:
        durations = rest
    else:
        durations = first or fresh
    return durations[int(u_pick * len(durations))] + warm_up


unit = st.floats(0, 1, exclude_max=True)


@settings(max_examples=100)
@given(st.data(), unit, unit, st.integers(1, 120), st.sampled_from(("fresh", "first", "rest")))
def test_draws_are_the_released_ones(data: Any, u_level: float, u_pick: float, executors: int, wave: Wave) -> None:
    levels = sorted({2, 5} | set(data.draw(st.lists(st.sampled_from((*LEVELS, 12))))))
    some = st.lists(st.integers(0, 9999), max_size=5)
    fresh = {level: data.draw(some) for level in levels}
    rest = {level: data.draw(some) for level in levels}
    # The released data has something for the lowest level, and its first waves contain the fresh durations.
    first = {level: fresh[level] + data.draw(some) for level in levels}
    first[2].append(10_000)
    cleaned = {level: without_fresh(first[level], fresh[level]) for level in levels}
    released = {"fresh_durations": fresh, "first_wave": dict(filled(cleaned)), "rest_wave": rest}
    ours = StageWaves(fresh, cleaned, rest).duration(u_level, u_pick, executors, wave)
    assert ours == released_duration(released, u_level, u_pick, executors, wave)


def test_draws_depend_on_seed_job_stage_and_index_only() -> None:
    assert TaskDraws(1, "a", 0, 5).of(3) == TaskDraws(1, "a", 0, 5).of(3)
    assert TaskDraws(1, "a", 0, 5).of(3) != TaskDraws(1, "a", 1, 5).of(3)
    assert TaskDraws(1, "a", 0, 5).of(3) != TaskDraws(2, "a", 0, 5).of(3)


def test_another_attempt_draws_anew_and_always_the_same() -> None:
    draws = TaskDraws(1, "a", 0, 5)
    assert draws.of(3, 1) != draws.of(3, 0)
    assert draws.of(3, 1) == TaskDraws(1, "a", 0, 5).of(3, 1)


def test_a_task_has_one_duration_whatever_the_order_of_asking() -> None:
    one = TaskDurations(waves(), TaskDraws(1, "a", 0, 5))
    other = TaskDurations(waves(), TaskDraws(1, "a", 0, 5))
    forward = [one.ms(index, 7, "first") for index in range(5)]
    assert [other.ms(index, 7, "first") for index in reversed(range(5))] == forward[::-1]


@given(st.integers(0, 99), st.integers(1, 120), st.sampled_from(("fresh", "first", "rest")), st.integers(0, 2))
def test_a_task_draws_what_its_stage_draws_for_its_numbers(
    index: int, executors: int, wave: Wave, attempt: int
) -> None:
    draws = TaskDraws(1, "a", 0, 100)
    expected = waves().duration(*draws.of(index, attempt), executors, wave)
    assert TaskDurations(waves(), draws).ms(index, executors, wave, attempt) == expected


def test_the_mean_is_over_durations_and_not_over_levels() -> None:
    assert mean_of({5: [1, 1, 1], 10: [5]}, {5: []}) == 2


@pytest.mark.skipif(not FULL.exists(), reason=f"needs the measured profiles at {FULL}")
def test_the_rules_reach_every_measured_stage() -> None:
    for query in json.loads(gzip.decompress(FULL.read_bytes()))["queries"]:
        for stage in query["stages"]:
            fresh, first, rest = (
                {int(level): durations for level, durations in stage[wave].items()}
                for wave in ("fresh_durations", "first_wave", "rest_wave")
            )
            cleaned = {level: without_fresh(first[level], fresh[level]) for level in first}
            ours = StageWaves(fresh, cleaned, rest)
            released = {"fresh_durations": fresh, "first_wave": dict(filled(cleaned)), "rest_wave": rest}
            for executors in (3, 17, 50, 73, 100):
                for wave in ("fresh", "first", "rest"):
                    there = ours.duration(0.3, 0.7, executors, wave)
                    try:
                        wanted = released_duration(released, 0.3, 0.7, executors, wave)
                    except IndexError:  # nothing measured: the released code stops, ours goes on
                        assert there > 0
                    else:
                        assert there == wanted
