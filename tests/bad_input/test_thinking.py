"""Schedulers that think, and services, in scenarios that make no sense: exit code 2, place, value, what is accepted."""

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
    architecture: {kind: shared_state, schedulers: [{name: a, users: [ann]}, {name: b}]}
  queues: [{name: default}]
  workload:
    kind: jobs
    jobs:
    - {name: a, user: ann, stages: [{name: m, tasks: 2, demand: {cpu: 1}, duration: 3s}]}
    - {name: b, user: bob, stages: [{name: m, tasks: 2, demand: {cpu: 1}, duration: 3s}]}
  policies:
  - {kind: fifo}
"""
AT: Final = "spec.cluster.architecture"
#: What is replaced, by what, and what is said of it.
ROWS: Final = [
    ("{name: b}", "{name: b, t_job: -1s}", f"{AT}.schedulers[1].t_job: negative duration: '-1s' (a duration is never"),
    ("{name: b}", "{name: b, t_task: .nan}", f"{AT}.schedulers[1].t_task: not a duration: nan"),
    ("{name: b}", "{name: b, count: 0}", f"{AT}.schedulers[1].count: 0 is not accepted (expected at least 1)"),
    (
        "{name: b}",
        "{name: b, count: 3}",
        f"{AT}.schedulers[1].count: scheduler 'b-2' gets no job: 1 jobs of this workload come to it and those like it",
    ),
    ("{name: b}", "{name: b, users: [zoe]}", f"{AT}.schedulers: job 'b' (batch, queue 'default', user 'bob') goes to"),
    ("[ann]", "[zoe]", f"{AT}.schedulers[0].name: scheduler 'a' gets no job: 0 jobs of this workload"),
    ("{name: b}", "{name: a}", f"{AT}.schedulers[1].name: two schedulers would be called 'a'"),
    ("{name: b}", "{name: b, policy: {kind: fifoo}}", f"{AT}.schedulers[1].policy.kind: unknown policy 'fifoo'"),
    (
        "{name: b}",
        "{name: b, policy: {kind: capacity}}",
        f"{AT}.schedulers[1].policy.kind: policy 'capacity': a scheduler that takes its time needs a policy that does",
    ),
    ("{kind: fifo}", "{kind: delay}", "spec.policies[0].kind: policy 'delay': a scheduler that takes its time needs a"),
    ("schedulers: [", "retry: 0s, schedulers: [", f"{AT}.retry: is 0: expected a duration above zero"),
    ("schedulers: [", "give_up: {attempts: 0}, schedulers: [", f"{AT}.give_up.attempts: 0 is not accepted"),
    ("shared_state", "shared_sate", f"{AT}.kind: unknown kind 'shared_sate' (accepted: central, two_level"),
    (
        "    architecture",
        "    profile: yarn\n    architecture",
        "8:14 spec.cluster.profile: 'yarn' is not accepted: architecture 'shared_state' has its own timing",
    ),
    (
        "    architecture",
        "    reserve_after: 5s\n    architecture",
        "spec.cluster.reserve_after: does not go with architecture 'shared_state': nobody there may keep nodes",
    ),
    (
        "{name: default}",
        "{name: default, max_running: 2}",
        "spec.queues[0]: has limits, which none of the 2 schedulers sees as a whole: take them out",
    ),
    ("kind: shared_state, schedulers", "kind: central, paths", f"{AT}.paths[0].name: unknown key 'name'"),
    ("tasks: 2, demand: {cpu: 1}, duration: 3s", "demand: {cpu: 1}", ".stages[0].duration: is missing: only what a"),
    (
        "{name: a, user: ann,",
        "{name: a, user: ann, service: {},",
        "spec.workload.jobs[0].stages[0].duration: a service runs until the run ends: leave the duration of its stages",
    ),
]


@pytest.mark.parametrize(("old", "new", "said"), ROWS, ids=[row[1].strip() for row in ROWS])
def test_what_makes_no_sense_is_said(old: str, new: str, said: str, refused: Refused, tmp_path: Path) -> None:
    assert old in GOOD
    (tmp_path / "s.yaml").write_text(GOOD.replace(old, new))
    assert said in refused("check", tmp_path / "s.yaml")


def test_services_alone_need_an_end_of_the_run(refused: Refused, tmp_path: Path) -> None:
    text = GOOD.replace(", duration: 3s", "").replace("user: ann,", "user: ann, service: {},")
    text = text.replace("user: bob,", "user: bob, service: {},")
    (tmp_path / "s.yaml").write_text(text)
    said = "spec.workload: service 'a' has no end, nor has the run: give it `until`, or a batch job to end with"
    assert said in refused("check", tmp_path / "s.yaml")
