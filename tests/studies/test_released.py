"""The released agent of spark-sched-sim: its file is read without being run, and its network is the one described."""

from __future__ import annotations

import importlib
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import studies
from rm_emulator.issues import InvalidInput
from rm_emulator.learn.environment import spark
from schedulers.learned.graph import Graph

#: Inputs and outputs of its parts, by name.
PARTS = {
    "encoder.node_encoder.mlp_prep": (5, 16),
    "encoder.node_encoder.mlp_msg": (16, 16),
    "encoder.node_encoder.mlp_update": (16, 16),
    "encoder.dag_encoder.mlp": (21, 16),
    "encoder.global_encoder.mlp": (16, 16),
    "stage_policy_network.mlp_score": (53, 1),
    "exec_policy_network.mlp_score": (36, 1),
}


@pytest.fixture
def released() -> Any:
    """The module; imported inside a test, so that its policy is not registered for others."""
    return importlib.import_module("studies.released")


def weights() -> dict[str, Any]:
    """Arrays of the right shapes, small and the same each time."""
    rng, made = np.random.default_rng(1), {}
    for name, (inputs, outputs) in PARTS.items():
        hidden = (64, 64) if "policy" in name else (32, 16)
        sizes = (inputs, *hidden, outputs)
        for layer in range(3):
            shape = (sizes[layer + 1], sizes[layer])
            made[f"{name}.{2 * layer}.weight"] = rng.normal(0, 0.3, shape).astype(np.float32)
            made[f"{name}.{2 * layer}.bias"] = rng.normal(0, 0.3, shape[:1]).astype(np.float32)
    return made


def a_graph() -> tuple[Graph, Any]:
    env = spark(num_executors=8, job_arrival_cap=3, job_arrival_rate=None)
    env.reset(seed=1)
    return env.graph, env


def test_a_file_of_pytorch_is_read_without_it(released: Any, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch comes with `pip install -e .[learn]`")
    path, made = tmp_path / "model.pt", weights()
    torch.save({name: torch.from_numpy(array) for name, array in made.items()}, path)
    found = released.read(path)
    assert list(found) == list(made)
    assert all(np.array_equal(found[name], made[name]) for name in made)


def test_a_file_that_would_run_something_is_refused(released: Any, tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "made"),)

    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps({"a": Hostile()}))
    with pytest.raises(InvalidInput, match=r"model\.pt: no weights of spark-sched-sim: posix\.mkdir has no place"):
        released.read(tmp_path / "model.pt")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("given", [b"", b"PK", b"no archive"])
def test_any_other_file_is_refused(released: Any, tmp_path: Path, given: bytes) -> None:
    (tmp_path / "model.pt").write_bytes(given)
    with pytest.raises(InvalidInput, match="no weights of spark-sched-sim"):
        released.read(tmp_path / "model.pt")


def test_a_stage_hears_of_its_children(released: Any) -> None:
    made = weights()
    prepared = np.random.default_rng(2).normal(size=(3, 16)).astype(np.float32)
    nodes = released._messages(made, prepared, np.array([[0, 1], [0, 2]]))

    def update(values: Any) -> Any:
        return released.mlp(made, "encoder.node_encoder.mlp_update", values)

    children = update(prepared[1:])
    heard = released.mlp(made, "encoder.node_encoder.mlp_msg", children).sum(axis=0)
    assert np.allclose(nodes[1:], children)
    assert np.allclose(nodes[0], prepared[0] + update(heard))


def test_depths_are_of_the_longest_way(released: Any) -> None:
    assert released._depths(np.array([[0, 1], [1, 2], [0, 2], [3, 2]]), 4).tolist() == [0, 1, 2, 0]


def test_features_are_those_of_its_wrapper(released: Any) -> None:
    graph, env = a_graph()
    seen = released.features(graph, env.view, {})
    assert np.allclose(seen[:, :3], [1, -1, 0])  # all 8 executors are free, and nobody's
    tasks = [env.view.jobs[job.name].stages[stage].waiting for job in graph.jobs for stage in job.stages]
    assert np.allclose(seen[:, 3] * 200, tasks)


@pytest.mark.parametrize(("uniform", "index"), [(0.0, 0), (0.2, 0), (0.3, 1), (0.99, 1)])
def test_scores_are_drawn_from_by_their_odds(released: Any, uniform: float, index: int) -> None:
    assert released.drawn(np.log(np.array([[1.0], [3.0]], dtype=np.float32)), uniform) == index


def test_it_plays_an_episode_to_its_end(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch comes with `pip install -e .[learn]`")
    torch.save({name: torch.from_numpy(array) for name, array in weights().items()}, tmp_path / "model.pt")
    policy = {"label": "released", "kind": "spark_sched_sim", "weights": str(tmp_path / "model.pt")}
    changes = {
        "spec.plugins": [str(Path(studies.__file__).with_name("released.py"))],
        "spec.policies[2]": {**policy, "predictor": {"kind": "oracle"}},
        "spec.workload.sizes": [2],
    }
    env = spark(num_executors=8, job_arrival_cap=3, job_arrival_rate=None, changes=changes)
    assert env.play("released", seed=1).mean_jct_s > 0
