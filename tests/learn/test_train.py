"""A training run: what comes of it, and that it goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rm_emulator.issues import InvalidInput
from rm_emulator.learn import checkpoints
from rm_emulator.learn.checkpoints import State
from rm_emulator.learn.config import read
from tests.learn.conftest import NEEDS_TORCH

if TYPE_CHECKING:
    from rm_emulator.learn.train import Training

pytestmark = NEEDS_TORCH


def training(config: Path, folder: Path, **how: Any) -> Training:
    from rm_emulator.learn.train import Training

    return Training(read(config), folder, report=lambda _: None, **how)


def same(left: State, right: State) -> bool:
    moments = all(np.array_equal(left.moments[name], right.moments[name]) for name in left.moments | right.moments)
    fields = ("iteration", "weights", "behind", "average", "best", "best_score", "steps", "area_s", "time_s")
    return moments and all(getattr(left, name) == getattr(right, name) for name in fields)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ppo", "reinforce", "evolution"])
@pytest.mark.drawn(of=8)
def test_a_run_that_was_stopped_goes_on_bit_by_bit_and_its_weights_say_what_they_met(
    config: Path, tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(config.read_text().replace("ppo", method))
    whole = training(config, tmp_path / "whole").run()
    begun = training(config, tmp_path / "parts")
    keep, left = begun._save_checkpoint, iter([True] * 3)

    def stop() -> None:
        keep()
        if not next(left, False):
            raise KeyboardInterrupt

    monkeypatch.setattr(begun, "_save_checkpoint", stop)
    with pytest.raises(KeyboardInterrupt):
        begun.run()
    assert checkpoints.load(tmp_path / "parts").iteration == 3
    assert same(training(config, tmp_path / "parts", resume=True).run(), whole)
    from schedulers.learned.ranges import FEATURES
    from schedulers.learned.weights import unpack

    weights = unpack(whole.weights, "kept")
    assert (weights.ranges.keys(), weights.rule) == (FEATURES.keys(), "priced")
    assert weights.ranges["jobs"][1] == weights.most["jobs"]


@pytest.mark.slow
@pytest.mark.nightly
def test_a_run_that_was_killed_goes_on_bit_by_bit(config: Path, tmp_path: Path) -> None:
    # By the command, whose arithmetic is that of every processor.
    train = [sys.executable, "-m", "rm_emulator", "train", str(config), "--out"]
    subprocess.run([*train, str(tmp_path / "whole"), "--jobs", "1"], check=True, capture_output=True)
    folder = tmp_path / "killed"
    command = [*train, str(folder), "--jobs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None and (
        not (folder / checkpoints.NAME).exists() or checkpoints.load(folder).iteration < 1
    ):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert checkpoints.load(folder).iteration >= 1
    subprocess.run([*command, "--resume"], check=True, capture_output=True)
    assert same(checkpoints.load(folder), checkpoints.load(tmp_path / "whole"))


@pytest.mark.slow
def test_the_curve_has_a_row_for_each_iteration(config: Path, tmp_path: Path) -> None:
    state = training(config, tmp_path / "out").run()
    rows = [json.loads(line) for line in (tmp_path / "out" / "curve.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [0, 1, 2, 3, 4]
    scores = [row["validation/score"] for row in rows if "validation/score" in row]
    assert len(scores) == 3
    assert min(scores) == state.best_score


def test_another_configuration_is_not_gone_on_with(config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text().replace("iterations: 4", "iterations: 0"))
    training(config, tmp_path / "out").run()
    with pytest.raises(InvalidInput, match="--resume goes on with it"):
        training(config, tmp_path / "out")
    config.write_text(config.read_text().replace("sequences: 2", "sequences: 3"))
    with pytest.raises(InvalidInput, match="holds a run of another configuration"):
        training(config, tmp_path / "out", resume=True)


def test_a_loss_that_is_no_number_ends_the_run_and_keeps_the_state(config: Path, tmp_path: Path) -> None:
    from rm_emulator.learn.samples import Diverged

    config.write_text(config.read_text() + "ppo: {learning_rate: 1e30}\n")
    with pytest.raises(Diverged, match="no step is taken"):
        training(config, tmp_path / "out").run()
    weights = checkpoints.load(tmp_path / "out").weights
    from schedulers.learned.weights import unpack

    assert unpack(weights, "kept").arrays


@pytest.mark.slow
@pytest.mark.nightly
def test_the_smoke_run_beats_chance(tmp_path: Path) -> None:
    from rm_emulator.learn.config import find
    from rm_emulator.learn.train import Training, smoke

    run = Training(smoke(read(find("decima"))), tmp_path / "out", jobs=2, report=lambda _: None)
    state = run.run()
    references = dict(zip(run.agent.references, state.references, strict=True))
    assert state.best_score * references["capped_sjf"][0] < 0.8 * references["random"][0]


def test_lachesis_goes_on_bit_by_bit_and_its_weights_say_what_they_met(
    lachesis: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = training(lachesis, tmp_path / "whole").run()
    text = lachesis.read_text()
    assert read(lachesis).objective == "makespan"
    parts = training(lachesis, tmp_path / "parts")
    keep = parts._save_checkpoint

    def stop() -> None:
        keep()
        if parts.state.iteration:
            raise KeyboardInterrupt

    monkeypatch.setattr(parts, "_save_checkpoint", stop)
    with pytest.raises(KeyboardInterrupt):
        parts.run()
    assert lachesis.read_text() == text
    assert same(training(lachesis, tmp_path / "parts", resume=True).run(), whole)
    from schedulers.learned.weights import unpack

    assert unpack(whole.weights, "kept").most["jobs"] == 3


def test_a_teacher_of_another_agent_is_refused(lachesis: Path, tmp_path: Path) -> None:
    lachesis.write_text(lachesis.read_text().replace("longest_job", "capped_sjf"))
    with pytest.raises(
        InvalidInput, match="lachesis cannot learn from 'capped_sjf' \\(rank_up, longest_job, random\\)"
    ):
        training(lachesis, tmp_path / "out")
    assert not (tmp_path / "out").exists()
