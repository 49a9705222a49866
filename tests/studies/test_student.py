"""Students of `curves`: evolution, what a student says, and that the shipped constants are a student's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rm_emulator.learn.fast_jobs import FastSetting, setting_of
from schedulers.kit.curves import CONSTANTS
from schedulers.planning.replan import kernel
from studies import student
from studies.cma import Evolution
from studies.student import WAYS, Facts, Student, told
from tests.learn.test_fast import BATCH, rule, scenario


def bowl(numbers: student.Doubles) -> student.Doubles:
    """A long valley whose least is at 1, 2, 3."""
    off = numbers - np.array([1.0, 2.0, 3.0])
    return np.asarray((off**2) @ np.array([1.0, 30.0, 1000.0]))


def test_evolution_finds_the_least_of_a_long_valley() -> None:
    state = Evolution.begin(np.zeros(3), 0.5, np.ones(3))
    while state.generation < 120:
        numbers = state.candidates(8, 1)
        state.select(numbers, bowl(numbers))
    assert state.mean == pytest.approx([1.0, 2.0, 3.0], abs=1e-3)


def test_a_stopped_evolution_goes_on_without_a_difference() -> None:
    one = Evolution.begin(np.zeros(3), 0.5, np.ones(3))
    for generation in range(10):
        if generation == 5:
            kept = {name: np.asarray(value).tolist() for name, value in vars(one).items()}
            other, spent = student.restored(json.loads(json.dumps({**kept, "cpu_min": 1.5})))
            assert spent == 1.5
        for state in (one, other) if generation >= 5 else (one,):
            numbers = state.candidates(8, 1)
            state.select(numbers, bowl(numbers))
    assert np.array_equal(one.mean, other.mean)
    assert np.array_equal(one.covariance, other.covariance)


def test_no_seed_has_two_uses() -> None:
    for name in ("batch", "stream"):
        ranges = [range(first, first + count) for first, count in (of[name] for of in student.SEEDS.values())]
        assert len({seed for seeds in ranges for seed in seeds}) == sum(map(len, ranges))


def test_ways_begin_with_ways_that_there_are(tmp_path: Path) -> None:
    study = student.Study(tmp_path, tmp_path)
    for label, way in WAYS.items():
        assert study.student(label).size > 0
        assert not way.cloned or way.cloned in WAYS


@pytest.fixture(scope="module")
def setting() -> FastSetting:
    return setting_of(scenario({**BATCH, "jobs": 6, "sizes": [2, 5]}, 13), 1)


@pytest.mark.slow
def test_a_student_with_the_constants_of_curves_is_learned_curves(setting: FastSetting) -> None:
    made, found = Student(WAYS["constants"], Facts(0, 0, student._none)), CONSTANTS[True]
    weights = made.begin()
    weights[: student.PRICES], weights[-made.columns] = (
        [np.log(found.price), found.fall, found.growth],
        np.log(found.warm),
    )
    ends = setting.play.ends(made.rule(weights, setting), setting.draws)
    assert np.array_equal(ends, setting.play.ends(rule(setting, "learned"), setting.draws))


@pytest.mark.slow
def test_a_student_says_for_each_job_what_its_layers_come_to(setting: FastSetting) -> None:
    made = Student(WAYS["8 units"], Facts(4, 2, told))
    weights = np.random.default_rng(1).normal(0, 0.2, made.size)
    found, state = made.rule(weights, setting), setting.play.begin()
    setting.play.go_on(state, found, setting.draws, until_ms=20_000)
    kernel.ask(setting.play.jobs, found, state)
    split, inputs = student.PRICES + made.facts.stages, found.facts[:, : made.inputs]
    first, last = np.split(weights[split:], [made.units * made.inputs])
    units = np.tanh(inputs @ first.reshape(made.units, made.inputs).T)
    outputs = np.exp(np.hstack([inputs, units]) @ last.reshape(kernel.OUTPUTS, made.columns).T)
    for name, values in zip(("price", "factor", "over", "warm"), outputs.T, strict=True):
        assert found.jobs[name] == pytest.approx(values)
