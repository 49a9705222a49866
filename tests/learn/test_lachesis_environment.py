"""LACHESIS's environment: what it promises, and that it is the emulator itself that is stepped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rm_emulator.issues import InvalidInput
from rm_emulator.learn.agents import next_decided
from rm_emulator.learn.environment import SchedulingEnv, lachesis
from schedulers.learned import model_store
from schedulers.learned.order_network import OrderNetwork
from tests.learn.conftest import LACHESIS_SCENARIO


@pytest.fixture
def small(tmp_path: Path) -> str:
    """Three jobs on three unlike nodes."""
    (tmp_path / "small.yaml").write_text(LACHESIS_SCENARIO)
    return str(tmp_path / "small.yaml")


def made(small: str, **settings: Any) -> SchedulingEnv:
    return SchedulingEnv(small, agent="lachesis", objective="makespan", most_jobs=4, most_stages=40, **settings)


def test_it_is_an_environment_as_gymnasium_wants_it(small: str) -> None:
    check_env(made(small), skip_render_check=True)


def test_rewards_add_up_to_the_makespan_and_masks_allow_what_may_be_next(small: str) -> None:
    env = made(small)
    env.action_space.seed(3)
    observation, info = env.reset(seed=1)
    total, over = 0.0, False
    while not over:
        assert info["action_mask"].tolist() == observation["stage_mask"].tolist()
        assert not (observation["stage_mask"] & ~observation["left"] & 1).any()
        observation, reward, over, _, info = env.step(env.action_space.sample(info["action_mask"]))
        assert info["allowed"]
        total += reward
    assert total == pytest.approx(-info["time_s"] / 100)
    assert info["finished_jobs"] == 3


def test_stepped_as_the_policy_decides_it_is_the_log_of_its_run(small: str) -> None:
    entry = {"kind": "lachesis", "predictor": {"kind": "oracle"}, "placement": {"kind": "deft"}}
    env = made(small, keeps_log=True, changes={"spec.policies": [entry]})
    network, over = OrderNetwork(model_store.weights_of("lachesis", "lachesis")), False
    env.reset(seed=2)
    while not over:
        row, _ = next_decided(network, env.graph, None)
        _, _, over, _, _ = env.step(env.encode(row))
    assert env.episode.log == env.play("lachesis", seed=2).log


def test_several_are_stepped_together() -> None:
    changes = {"spec.workload.queries": [1, 4, 6]}
    many = gymnasium.make_vec(
        "rm_emulator/Lachesis-v0", 2, vectorization_mode="sync", jobs=2, interarrival_s=5.0, changes=changes
    )
    observation, _ = many.reset(seed=1)
    assert observation["nodes"].shape == (2, 1000, 6)
    rows = np.array([np.flatnonzero(mask)[0] for mask in observation["stage_mask"]])
    _, rewards, *_ = many.step(rows)
    assert (rewards <= 0).all()


def test_a_stage_may_be_its_tasks() -> None:
    env = lachesis(jobs=1, reading="tasks", changes={"spec.workload.queries": [6]})
    env.reset(seed=1)
    assert max(np.expm1(5 * env.graph.routes[0].nodes[:, 5])) > 1.5


def test_an_agent_that_there_is_not_is_said(small: str) -> None:
    with pytest.raises(InvalidInput, match="agent='decimo': expected decima or lachesis"):
        SchedulingEnv(small, agent="decimo")
