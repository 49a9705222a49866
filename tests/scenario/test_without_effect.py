"""Settings without effect are noted by `check`, and the same settings where they have one are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import load
from rm_emulator.scenario.without_effect import notes

CENTRAL = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  cluster: {nodes: [{count: 2, capacity: {cpu: 2, memory: 4Gi}}]}
  workload:
    kind: jobs
    jobs: [{name: a, submit: 1s, stages: [{name: m, tasks: 2, demand: {cpu: 1}, duration: 3s}]}]
  policies: [{kind: fifo}, {kind: drf}]
"""
SHARED = "spec.cluster.architecture={kind: shared_state, schedulers: [{name: all}]}"
JOCKEY = "spec.policies[1]={kind: jockey, predictor: {kind: oracle}}"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([], []),
        (["spec.cluster.heartbeat=2s"], []),
        (
            [SHARED, "spec.cluster.heartbeat=2s"],
            ["`heartbeat` means nothing beside architecture 'shared_state', where nodes do not beat"],
        ),
        ([SHARED], []),
        (
            ["spec.workload.jobs[0].deadline=1h"],
            [
                "deadlines are measured, but mean nothing to fifo, drf "
                "(policies that follow them: alsched, jockey, rayon, tetrisched)"
            ],
        ),
        (["spec.workload.jobs[0].deadline=1h", JOCKEY], []),
        (["spec.until=1ms"], ["`until: 1ms` ends the run before any task can end"]),
        (["spec.until=3999ms"], ["`until: 3999ms` ends the run before any task can end"]),
        (["spec.until=4s"], []),
    ],
)
def test_settings_without_effect(tmp_path: Path, changes: list[str], said: list[str]) -> None:
    (tmp_path / "s.yaml").write_text(CENTRAL)
    loaded = load(tmp_path / "s.yaml", overrides=changes)
    assert list(notes(loaded, check(loaded).workload)) == said
