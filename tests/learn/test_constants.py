"""Training of the constants of `curves`: what comes of it, and that a run goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from rm_emulator.issues import InvalidInput
from rm_emulator.learn.config import find, read
from rm_emulator.learn.constants import BEST, CURVE, STATE, ConstantsState, ConstantsTraining, rounded
from rm_emulator.learn.rollouts import playable
from schedulers.kit.curves import Constants
from tests.learn.conftest import SCENARIO
from tests.learn.test_fast import FULL

# Numba compiles the kernel for ten seconds, once on a machine.
pytestmark = pytest.mark.slow

CONFIG = """\
name: small
method: cma
iterations: 4
workloads: [{scenario: small.yaml, plays: 2, seeds: 1..4}]
validation: {seeds: 5..6, every: 2}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "recipe.yaml").write_text(CONFIG)
    return tmp_path / "recipe.yaml"


def training(recipe: Path, folder: Path, **how: Any) -> ConstantsTraining:
    return ConstantsTraining(read(recipe), folder, report=lambda _: None, **how)


def same(one: ConstantsState, other: ConstantsState) -> bool:
    fields = ("config", "search", "best", "best_score", "best_generation")
    return all(getattr(one, name) == getattr(other, name) for name in fields)


def test_the_best_validated_constants_are_told_in_a_file(recipe: Path, tmp_path: Path) -> None:
    state = training(recipe, tmp_path / "out").run()
    found = yaml.safe_load((tmp_path / "out" / BEST).read_text())
    assert Constants(**found) == state.best == rounded(state.best)
    rows = [json.loads(line) for line in (tmp_path / "out" / CURVE).read_text().splitlines()]
    assert [row["generation"] for row in rows] == [1, 2, 3, 4]
    assert min(row["validation"] for row in rows if "validation" in row) == state.best_score


@pytest.mark.drawn(of=4)
def test_several_processes_find_what_one_finds(recipe: Path, tmp_path: Path) -> None:
    assert same(training(recipe, tmp_path / "one").run(), training(recipe, tmp_path / "two", jobs=2).run())


@pytest.mark.drawn(of=4)
def test_a_run_that_was_killed_goes_on_without_a_difference(recipe: Path, tmp_path: Path) -> None:
    recipe.write_text(CONFIG.replace("iterations: 4", "iterations: 20"))
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "rm_emulator", "train", str(recipe), "--out", str(folder), "--jobs", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (folder / STATE).exists():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    goes_on = training(recipe, folder, resume=True)
    assert 0 < goes_on.search.generation < 20
    whole = training(recipe, tmp_path / "whole")
    assert same(goes_on.run(), whole.run())
    rows = [[json.loads(line) for line in (run.folder / CURVE).read_text().splitlines()] for run in (goes_on, whole)]
    assert rows[0] == rows[1]


def test_another_recipe_is_not_gone_on_with(recipe: Path, tmp_path: Path) -> None:
    training(recipe, tmp_path / "out").run()
    with pytest.raises(InvalidInput, match="--resume goes on with it"):
        training(recipe, tmp_path / "out")
    recipe.write_text(CONFIG.replace("plays: 2", "plays: 3"))
    with pytest.raises(InvalidInput, match="holds a run of another configuration"):
        training(recipe, tmp_path / "out", resume=True)
    with pytest.raises(InvalidInput, match="holds no training run to go on with"):
        training(recipe, tmp_path / "none", resume=True)


def test_a_scenario_beyond_the_fast_simulator_is_bad_input(recipe: Path, tmp_path: Path) -> None:
    recipe.write_text(CONFIG.replace("small.yaml", "demo"))
    with pytest.raises(InvalidInput, match="not for the fast simulator"):
        training(recipe, tmp_path / "out").run()


def test_no_seed_of_the_packaged_recipe_has_two_uses() -> None:
    packaged = read(find("curves"))
    for each in packaged.workloads:
        assert not {*each.numbers} & {*packaged.validation.numbers, *range(1000, 1100)}


@pytest.mark.skipif(not FULL.exists(), reason=f"needs the measured profiles of Decima's release at {FULL}")
def test_full_profiles_stand_in_every_workload_of_a_recipe() -> None:
    for name in ("curves", "decima"):
        recipe = read(find(name), FULL)
        found = [each["spec"]["workload"]["profiles"] for each in playable(recipe.workloads, recipe.profiles)]
        assert found == [str(FULL.resolve())] * 2
