"""What a policy says it follows of a queue's settings, it does; what it does not say changes none of its decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import rm_emulator
from rm_emulator.results.unused import unused_settings
from schedulers.core.abilities import PlaysExecutors, uses_of_queues
from schedulers.core.policy import policies

SCENARIO: Final = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {{name: small}}
spec:
  cluster: {{nodes: [{{count: 4, capacity: {{cpu: 4, memory: 16Gi}}}}]}}
  queues: [{{name: a, {setting}}}, {{name: b}}]
  workload:
    kind: jobs
    jobs:
    - {{name: first, queue: b, stages: [{{name: m, tasks: 60, demand: {{cpu: 1, memory: 1Gi}}, duration: 9s}}]}}
    - name: second
      queue: a
      submit: 5s
      stages: [{{name: m, tasks: 50, demand: {{cpu: 1, memory: 2Gi}}, duration: 5s}}]
    - name: third
      queue: b
      submit: 6s
      stages: [{{name: m, tasks: 20, demand: {{cpu: 1, memory: 1Gi}}, duration: 8s}}]
  policies: [{policies}]
"""
# A scenario without executors refuses policies that play executors.
LABELS: Final = {
    entry.name: f"{{kind: {entry.name}, label: {entry.name}, predictor: {{kind: oracle}}}}"
    for entry in policies
    if not issubclass(entry.cls, PlaysExecutors)
}
PREEMPTS: Final = "{kind: capacity, label: preempts, preemption: {enabled: true, max_wait_before_kill_ms: 1000}}"


def finish(folder: Path, setting: str) -> dict[str, list[int]]:
    """When the jobs are over under each policy, in ms."""
    (folder / "s.yaml").write_text(SCENARIO.format(setting=setting, policies=", ".join([*LABELS.values(), PREEMPTS])))
    found = rm_emulator.run(folder / "s.yaml", out=folder / setting.partition(":")[0], jobs=1).jobs
    return {label[0]: part.sort("id")["finish_ms"].to_list() for label, part in found.group_by("label")}


@pytest.fixture(scope="module")
def usual(no_report: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    return finish(tmp_path_factory.mktemp("usual"), "weight: 1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "setting"),
    [("weight", "weight: 9"), ("guaranteed", "guaranteed: 90%"), ("preemptible", "preemptible: false")],
)
@pytest.mark.drawn(of=4)
def test_a_setting_changes_what_a_policy_does_only_if_it_says_so(
    usual: dict[str, list[int]], tmp_path: Path, name: str, setting: str
) -> None:
    other = finish(tmp_path, setting)
    says = {label: uses_of_queues(*policies.parse({"kind": label})) for label in LABELS}
    changed = {label for label in LABELS if other[label] != usual[label]}
    assert changed <= {label for label, used in says.items() if name in used}


@pytest.mark.parametrize("policy", [*policies.names, "preempts"])
@pytest.mark.parametrize("name", ["weight", "guaranteed", "preemptible"])
def test_what_a_policy_does_not_use_is_said(policy: str, name: str) -> None:
    spec = {"kind": "capacity", "preemption": {"enabled": True}} if policy == "preempts" else {"kind": policy}
    given = {"weight": 2.0, "guaranteed": 0.5, "preemptible": False}[name]
    cls, params = policies.parse(spec)
    said = unused_settings({"queues": [{"name": "a", name: given}], "policies": [{**spec, "label": policy}]})
    assert bool(said) == (name not in uses_of_queues(cls, params))
