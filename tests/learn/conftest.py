"""A small workload to learn from, and what torch's tests need."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

#: Training is an extra of gigabytes, which not every user has; in CI nothing is skipped.
WITHOUT_TORCH = find_spec("torch") is None and os.environ.get("CI") != "true"
NEEDS_TORCH = pytest.mark.skipif(WITHOUT_TORCH, reason="needs torch: pip install -e '.[learn]'")

#: Four jobs on eight executors: an episode takes a twentieth of a second.
SCENARIO = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  seeds: [1]
  cluster:
    nodes: [{count: 8, capacity: {cpu: 1, memory: 2Gi}}]
    profile: events
    executors: {moving_delay: 2s, warmup: 1s}
  workload: {kind: tpch, jobs: 4, arrivals: batch, sizes: [2], queries: [2, 7, 14, 16], history: 0}
  policies: [{kind: fair}]
"""
CONFIG = """\
name: small
method: METHOD
network: released
iterations: 4
sequences: 2
rollouts: 2
workloads: [{scenario: small.yaml}]
cloning: {episodes: 2, epochs: 1}
evolution: {pairs: 2}
validation: {seeds: 1..2, every: 2}
"""

LACHESIS_SCENARIO = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  seeds: [1]
  cluster:
    nodes: [{count: 2, capacity: {cpu: 1}, speed: 2}, {count: 1, name: fast, capacity: {cpu: 1}, speed: 3}]
    profile: events
    links: {rate: 125M}
  workload: {kind: lachesis, jobs: 3, queries: [1, 4, 6]}
  copies: {max: 2}
  policies: [{kind: rank_up, predictor: {kind: oracle}, placement: {kind: deft, ahead: false}}]
"""
LACHESIS_CONFIG = """\
name: small
network: lachesis
objective: makespan
iterations: 2
sequences: 2
rollouts: 2
workloads: [{scenario: small.yaml}]
cloning: {teacher: longest_job, episodes: 2, epochs: 1}
validation: {seeds: 1..2, every: 2}
"""


@pytest.fixture
def lachesis(tmp_path: Path) -> Path:
    """A configuration of LACHESIS; its scenario is beside it."""
    (tmp_path / "small.yaml").write_text(LACHESIS_SCENARIO)
    (tmp_path / "lachesis.yaml").write_text(LACHESIS_CONFIG)
    return tmp_path / "lachesis.yaml"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration of PPO; its scenario is beside it."""
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "config.yaml").write_text(CONFIG.replace("METHOD", "ppo"))
    return tmp_path / "config.yaml"
