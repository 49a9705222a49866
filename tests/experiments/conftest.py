"""A grid of tiny cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rm_emulator.scenario.load import Loaded, load

TINY = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: tiny}
spec:
  seeds: [1, 2]
  cluster: {nodes: [{count: 2, capacity: {cpu: 2, memory: 4Gi}}]}
  workload:
    kind: jobs
    jobs:
    - name: a
      stages: [{name: m, tasks: 6, demand: {cpu: 1}, duration: {kind: lognormal, mean: 30s, cov: 1}}]
    - name: b
      submit: 5s
      stages: [{name: m, tasks: 2, demand: {cpu: 1}, duration: 10s}]
  policies:
  - {kind: fifo}
  - {kind: fair}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Loaded]:
    """Loads the scenario, with changes as in `--set`."""
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return lambda *changes: load(path, overrides=changes)
