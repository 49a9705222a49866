"""Students of `curves`: evolution, what a student says, and that the shipped constants are a student's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rm_emulator.learn.fast_jobs import FastSetting, setting_of
from schedulers.kit.curves import CONSTANTS
from schedulers.planning.replan import kernel
from studies import student
from studies.student import WAYS, Facts, Student, told
from tests.learn.test_fast import BATCH, rule, scenario


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
    ends = setting.play.ends(made.rule(made.begin(found), setting), setting.draws)
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
