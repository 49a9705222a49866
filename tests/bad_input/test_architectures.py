"""Architectures that make no sense: exit code 2, and a line with place, value, and what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

Refused = Callable[..., str]
GOOD: Final = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  seeds: [1]
  cluster:
    nodes: [{count: 2, capacity: {cpu: 2, memory: 4Gi}}]
    architecture: {kind: decentralised, schedulers: 1}
  queues: [{name: default}]
  workload:
    kind: jobs
    jobs:
    - name: a
      stages: [{name: m, tasks: 2, demand: {cpu: 1}, duration: 3s}]
  policies:
  - {kind: fifo}
"""
#: What is replaced, by what, and what is said of it.
DECENTRALISED: Final = [
    (
        "schedulers: 1",
        "message_delay: 1h",
        "8:56 spec.cluster.architecture.message_delay: a message takes 1h, and the whole run 3s on an empty "
        "cluster (expected at most that)",
    ),
    ("schedulers: 1", "message_delay: -1s", "8:56 spec.cluster.architecture.message_delay: negative duration: '-1s'"),
    ("schedulers: 1", "message_delay: .nan", "8:56 spec.cluster.architecture.message_delay: not a duration: nan"),
    ("schedulers: 1", "probe_ratio: 0.9", "8:54 spec.cluster.architecture.probe_ratio: 0.9 is not accepted"),
    (
        "schedulers: 1",
        "probe_ratio: 1e9",
        "8:54 spec.cluster.architecture.probe_ratio: 1e+09 probes a task for 2 workers (expected at most one a worker)",
    ),
    ("schedulers: 1", "probe_ratio: .nan", "8:54 spec.cluster.architecture.probe_ratio: nan is not accepted"),
    ("schedulers: 1", "probe_ratio: .inf", "8:54 spec.cluster.architecture.probe_ratio: inf is not accepted"),
    (
        "schedulers: 1",
        "schedulers: 2",
        "8:53 spec.cluster.architecture.schedulers: 2 schedulers for 1 jobs (expected at most one a job)",
    ),
    ("schedulers: 1", "schedulers: 0", "8:53 spec.cluster.architecture.schedulers: 0 is not accepted"),
    (
        "schedulers: 1",
        "slots_per_worker: 3",
        "8:59 spec.cluster.architecture.slots_per_worker: 3 slots per worker, but node 'n1' has room for 2 tasks of "
        "job 'a' stage 'm'",
    ),
    (
        "schedulers: 1",
        "method: batch, constraints: true",
        "spec.cluster.architecture.constraints: probes of a stage are answered together, which tasks bound to "
        "different nodes cannot share (expected false, or method per_task or late_binding)",
    ),
    ("schedulers: 1", "method: sample", "8:49 spec.cluster.architecture.method: 'sample' is not accepted"),
    (
        "    architecture",
        "    executors: {}\n    architecture",
        "8:5 spec.cluster.executors: does not go with architecture decentralised: a worker keeps no containers between "
        "tasks (take it out)",
    ),
    (
        "    architecture",
        "    reserve_after: 5s\n    architecture",
        "8:5 spec.cluster.reserve_after: does not go with architecture decentralised: no scheduler can keep nodes for "
        "a job (take it out)",
    ),
    (
        "{name: default}",
        "{name: default, max_running: 2}",
        "9:28 spec.queues[0].max_running: no scheduler of architecture decentralised sees what a queue holds, so none "
        "keeps its limits (take it out)",
    ),
    (
        "{kind: fifo}",
        "{kind: fair}",
        "16:5 spec.policies[0]: with architecture decentralised no policy, predictor or placement has a say: workers "
        "go by `worker_order` (expected {kind: fifo} alone, which names the results)",
    ),
    (
        "{name: m, tasks: 2,",
        "{name: m, tasks: 2, gang: true,",
        "spec.workload: job 'a' stage 'm' is a gang: no scheduler of architecture decentralised can start "
        "tasks together",
    ),
]


@pytest.mark.parametrize(("old", "new", "said"), DECENTRALISED, ids=[row[1].strip() for row in DECENTRALISED])
def test_decentralised_says_what_makes_no_sense(
    old: str, new: str, said: str, refused: Refused, tmp_path: Path
) -> None:
    assert old in GOOD
    (tmp_path / "s.yaml").write_text(GOOD.replace(old, new))
    assert said in refused("check", tmp_path / "s.yaml")
