"""Rollouts on the workers of a Dask cluster: those of this process, whatever becomes of processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")
from rm_emulator.experiments.call import CallFailed
from rm_emulator.experiments.engines import engine_of
from rm_emulator.learn import checkpoints
from rm_emulator.learn.agents import DECIMA
from rm_emulator.learn.config import read
from rm_emulator.learn.remote import RemoteRollouts
from rm_emulator.learn.rollouts import Rollout, RolloutTask, RolloutWorker, WorkerDied, playable
from schedulers.learned.weights import ARCHITECTURES, initial, pack
from tests.learn.conftest import NEEDS_TORCH

WEIGHTS = pack(initial(ARCHITECTURES["released"], np.random.default_rng(1)))
TASKS = [RolloutTask(0, seed, seed, WEIGHTS, keep_fraction=1.0) for seed in (3, 4, 5)]
#: A plug-in is imported by the process that plays, and by the process that asks.
DIES = """\
import os, sys
from pathlib import Path
if "rm_emulator.experiments.worker" in sys.orig_argv:
    again = Path(__file__).with_suffix(".once")
    if {always} or not again.exists():
        again.touch()
        os._exit(9)
"""


def remote(config: Path) -> RemoteRollouts:
    scenarios = playable(read(config).workloads)
    return RemoteRollouts(engine_of("dask:local", 1), scenarios, DECIMA.kind, name="small", note=print)


def with_plugin(config: Path, text: str) -> Path:
    """The configuration with a plug-in beside its scenario."""
    (config.parent / "dies.py").write_text(text)
    scenario = config.parent / "small.yaml"
    scenario.write_text(scenario.read_text() + "  plugins: [dies.py]\n")
    return config


def same(left: list[Rollout], right: list[Rollout]) -> bool:
    def seen(rollout: Rollout) -> Any:
        chances = [decision.log_prob for decision in rollout.decisions]
        return rollout.outcome.ends.tolist(), rollout.decision_count, chances

    return list(map(seen, left)) == list(map(seen, right))


@pytest.mark.slow
def test_a_process_that_dies_once_is_replaced_and_rollouts_come_in_their_order(config: Path) -> None:
    rollouts = remote(with_plugin(config, DIES.format(always=False)))
    try:
        first, second = rollouts.begin(TASKS), rollouts.begin(TASKS[::-1])
        here = RolloutWorker(playable(read(config).workloads))
        wanted = [here.play(task) for task in TASKS]
        assert same(second(), wanted[::-1])
        assert same(first(), wanted)
    finally:
        rollouts.close()
    assert (config.parent / "dies.once").exists()


@pytest.mark.slow
def test_a_rollout_over_which_processes_die_is_named_after_three_attempts(config: Path) -> None:
    rollouts = remote(with_plugin(config, DIES.format(always=True)))
    try:
        says = r"^small rollout of small seed 4: the worker process ended with exit code 9 .*\(attempts: \S+ \S+, \S+ "
        with pytest.raises(WorkerDied, match=says) as caught:
            rollouts.play(TASKS[1:2])
        assert str(caught.value).endswith("; go on with --resume")
    finally:
        rollouts.close()


@pytest.mark.slow
def test_an_error_in_a_rollout_names_configuration_scenario_and_seed_and_keeps_its_traceback(config: Path) -> None:
    rollouts = remote(config)
    try:
        with pytest.raises(CallFailed, match=r"^small rollout of small seed 7 failed on \S+ \S+: .*weights") as caught:
            rollouts.play([RolloutTask(0, 7, 7, b"no weights")])
        assert "in unpack" in str(caught.value.__cause__)
        assert rollouts.play([]) == []
    finally:
        rollouts.close()


@NEEDS_TORCH
@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_training_gives_the_same_bytes_with_dask_and_without(config: Path, tmp_path: Path) -> None:
    from rm_emulator.learn.train import Training

    config.write_text(config.read_text().replace("iterations: 4", "iterations: 2"))
    files, states, logs = [], [], []
    for name, engine in (("here", None), ("dask", engine_of("dask:local", 2))):
        log = list[str]()
        states.append(Training(read(config), tmp_path / name, engine=engine, report=log.append).run())
        files.append((tmp_path / name / "best.safetensors").read_bytes())
        rows = [json.loads(line) for line in (tmp_path / name / "curve.jsonl").read_text().splitlines()]
        logs.append(
            [{k: v for k, v in row.items() if not k.startswith(("time/", "elapsed"))} for row in rows] + log[:1]
        )
    assert files[0] == files[1]
    assert logs[0] == logs[1]
    assert len(logs[0]) == 4
    assert states[0].weights == states[1].weights == checkpoints.load(tmp_path / "dask").weights
