"""Queue, DagJob and Node objects with mistakes: exit code 2, and a line that names the place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

Refused = Callable[..., str]
OBJECTS: Final = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 8, memory: 32Gi, pods: 99}}
---
apiVersion: rm-emulator.io/v1alpha1
kind: Queue
metadata: {name: q}
spec: {weight: 1}
---
apiVersion: rm-emulator.io/v1alpha1
kind: DagJob
metadata: {name: j}
spec:
  queue: q
  stages:
  - name: s
    tasks: 2
    template:
      metadata: {annotations: {rm-emulator.io/run-seconds: "3"}}
      spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""
#: What is replaced, by what, and what is said of it.
ROWS: Final = [
    ("weight: 1", "weight: -1", "obj.yaml (as a scenario):16:13 spec.queues[0].weight: -1.0 is not accepted (expe"),
    ("weight: 1", "weight: 0", "obj.yaml (as a scenario):16:13 spec.queues[0].weight: 0.0 is not accepted (expec"),
    ("weight: 1", "weight: heavy", "obj.yaml:9:16 spec.weight: expected `float`, got `str`"),
    ("weight: 1", "weight: .inf", "obj.yaml (as a scenario):16:13 spec.queues[0].weight: inf is not accepted (expec"),
    ("weight: 1", "parent: q", "obj.yaml (as a scenario):17:13 spec.queues[0].parent: queue 'q' is its own ancestor"),
    (
        "weight: 1",
        "parent: nosuch",
        "obj.yaml (as a scenario):17:13 spec.queues[0].parent: no queue 'nosuch' (queues: q)",
    ),
    ("weight: 1", "max: {cpu: -1}", "obj.yaml (as a scenario):18:12 spec.queues[0].max.cpu: negative quantity: -1 (a"),
    ("weight: 1", "max: 200%", "obj.yaml (as a scenario):17:10 spec.queues[0].max: '200%' is not a share of the"),
    ("weight: 1", "maxRunning: 0", "obj.yaml (as a scenario):17:18 spec.queues[0].max_running: 0 is not accepted (ex"),
    (
        "weight: 1",
        "wieght: 1",
        "obj.yaml:9:16 spec.wieght: there is no such field (accepted: parent, namespaces, weight, ",
    ),
    (
        "weight: 1",
        "max: {cpu: 1}, guaranteed: {cpu: 2}",
        "obj.yaml (as a scenario):20:7 spec.queues[0].max: max is below what is guarantee",
    ),
    ("tasks: 2", "tasks: 0", "obj.yaml:17:3 spec.stages: DagJob j: stage 's' has 0 tasks (1 to 100000)"),
    ("tasks: 2", "tasks: -1", "obj.yaml:17:3 spec.stages: DagJob j: stage 's' has -1 tasks (1 to 100000)"),
    (
        "tasks: 2",
        "tasks: 99999999999",
        "obj.yaml:17:3 spec.stages: DagJob j: stage 's' has 99999999999 tasks (1 to 100000)",
    ),
    ("tasks: 2", "tasks: two", "obj.yaml:18:12 spec.stages[0].tasks: expected `int`, got `str`"),
    ("queue: q", "queue: nosuch", "obj.yaml (as a scenario):23:14 spec.workload.jobs[0].queue: queue 'nosuch' is no"),
    ("  queue: q\n", "", "obj.yaml (as a scenario):23:14 spec.workload.jobs[0].queue: queue 'default' is n"),
    ("tasks: 2", "parents: [x]", "obj.yaml:17:3 spec.stages: DagJob j: stage 's' names parent 'x' (s)"),
    ("tasks: 2", "parents: [s]", "obj.yaml:17:3 spec.stages: DagJob j: the stages form a cycle: s"),
    ("queue: q", "queue: q\n  retries: -1", "obj.yaml:16:12 spec.retries: -1 is not accepted (expected at least 0)"),
    (
        "queue: q",
        "queue: q\n  ttlSecondsAfterFinished: x",
        "obj.yaml:16:28 spec.ttlSecondsAfterFinished: expected `int | null`, got `str`",
    ),
    ('"3"', '"-3"', 'obj.yaml:20:60 spec.stages[0].template.metadata.annotations["rm-emulator.io/run-'),
    ('"3"', '"0"', 'obj.yaml:20:60 spec.stages[0].template.metadata.annotations["rm-emulator.io/run-'),
    ('"3"', '"long"', 'obj.yaml:20:60 spec.stages[0].template.metadata.annotations["rm-emulator.io/run-'),
    ('"3"', "3", "obj.yaml:20:31 spec.stages[0].template.metadata.annotations: expected `str`, got"),
    ('"3"', '"weibull(3, 1)"', 'obj.yaml:20:60 spec.stages[0].template.metadata.annotations["rm-emulator.io/run-'),
    ('"3"', '"inf"', 'obj.yaml:20:60 spec.stages[0].template.metadata.annotations["rm-emulator.io/run-'),
    (
        '"3"',
        '"lognormal(3, 1e300)"',
        'obj.yaml:20:60 spec.stages[0].template.metadata.annotations["rm-emulator.io/run-',
    ),
    ('"3"', '"1e300"', 'obj.yaml:20:60 spec.stages[0].template.metadata.annotations["rm-emulator.io/run-'),
    ('"3"', '"uniform(9, 1)"', 'obj.yaml:20:60 spec.stages[0].template.metadata.annotations["rm-emulator.io/run-'),
    ('"3"', '"nan"', 'obj.yaml:20:60 spec.stages[0].template.metadata.annotations["rm-emulator.io/run-'),
    ('"3"', '"exponential(3, 9)"', "obj.yaml (as a scenario):33:11 spec.workload.jobs[0].stages[0].duration: cov 9:"),
    ("cpu: 1}", "cpu: one}", "obj.yaml:17:3 spec.stages: DagJob j: stage 's': cpu: not a quantity: 'one' (wri"),
    ("cpu: 1}", "cpu: -1}", "obj.yaml:17:3 spec.stages: DagJob j: stage 's': cpu: negative quantity: -1 (a r"),
    ("cpu: 1}", "cpu: 100}", "obj.yaml (as a scenario):30:11 spec.workload.jobs[0].stages[0].demand: a task of"),
    (
        "containers: [{name: c, resources: {requests: {cpu: 1}}}]",
        "containers: {a: 1}",
        "obj.yaml:21:26 spec.stages[0].template.spec.containers: expected `array`, got `o",
    ),
    (
        "tasks: 2",
        "tasks: 20\n    gang: true",
        "obj.yaml (as a scenario):27:16 spec.workload.jobs[0].stages[0].tasks: the 20 tas",
    ),
    (
        "metadata: {name: j}",
        "metadata: {}",
        "obj.yaml (as a scenario):20:13 spec.workload.jobs[0].name: '' is not accepted (e",
    ),
    (
        "status: {allocatable: {cpu: 8, memory: 32Gi, pods: 99}}",
        "status: {}",
        "obj.yaml:4:9 status: node n1 offers no cpu: expected status.allocatable (as `kub",
    ),
    ("cpu: 8,", "cpu: lots,", "obj.yaml:4:23 status.allocatable: not a quantity: 'lots' (write a number such as"),
    ("cpu: 8,", "cpu: -8,", "obj.yaml:4:23 status.allocatable: negative quantity: -8 (a resource is never bel"),
    ("pods: 99", "pods: 0", "obj.yaml (as a scenario):29:11 spec.workload.jobs[0].stages[0].demand: a task of"),
    (
        "memory: 32Gi",
        "memory: 999999Ei",
        "obj.yaml:4:23 status.allocatable: quantity out of range: '999999Ei' (2e21 at most)",
    ),
    (
        "metadata: {name: n1}",
        'metadata: {name: n1, labels: {rm-emulator.io/speed: "fast"}}',
        "obj.yaml:3:53 metadata.labels[\"rm-emulator.io/speed\"]: 'fast' is not a speed (e",
    ),
    (
        "metadata: {name: n1}",
        'metadata: {name: n1, labels: {rm-emulator.io/speed: "0"}}',
        "obj.yaml:3:53 metadata.labels[\"rm-emulator.io/speed\"]: '0' is not a speed (expe",
    ),
    (
        "kind: DagJob",
        "kind: DagJbo",
        "obj.yaml:12:7 kind: unknown kind 'DagJbo' of rm-emulator.io/v1alpha1, did you me",
    ),
    (
        "metadata: {name: j}",
        "metadata: {name: j, labels: {a: 1}}",
        "obj.yaml:13:29 metadata.labels: expected `str`, got `int`",
    ),
    (
        "metadata: {name: j}",
        "metadata: {name: j, namespace: 3}",
        "obj.yaml:13:32 metadata.namespace: expected `str`, got `int`",
    ),
    (
        "spec: {containers",
        "spec: {nodeSelector: {a: 1}, containers",
        "obj.yaml:21:28 spec.stages[0].template.spec.nodeSelector: expected `str`, got `int`",
    ),
    (
        "spec: {containers",
        "spec: {affinity: {nodeAffinity: 3}, containers",
        "obj.yaml:21:39 spec.stages[0].template.spec.affinity.nodeAffinity: expected `obj",
    ),
    (
        "tasks: 2",
        "tasks: 2\n    hints: {durationSeconds: -5}",
        "obj.yaml:17:3 spec.stages: DagJob j: stage 's': hint durationSeconds is -5.0 (0",
    ),
]
#: Whole files -> what is said.
FILES: Final = {
    "stages empty": (
        OBJECTS.split("  stages:")[0] + "  stages: []\n",
        "obj.yaml:16:11 spec.stages: DagJob j: job 'j' has no stages",
    ),
    "stages gone": (OBJECTS.split("  stages:")[0], "obj.yaml:15:3 spec: object missing required field `stages`"),
    "stages map": (
        OBJECTS.split("  stages:")[0] + "  stages: {a: 1}\n",
        "obj.yaml:16:11 spec.stages: expected `array`, got `object`",
    ),
    "dup job": (
        OBJECTS + "---\n" + OBJECTS.split("---\n")[2],
        "obj.yaml (as a scenario):34:11 spec.workload.jobs[1].id: id 'j' is given twice,",
    ),
    "dup queue": (
        OBJECTS + "---\n" + OBJECTS.split("---\n")[1],
        "obj.yaml (as a scenario):17:11 spec.queues[1].name: queue 'q' is declared twice",
    ),
    "dup node": (
        OBJECTS + "---\n" + OBJECTS.split("---\n")[0],
        "obj.yaml:25:18 metadata.name: node 'n1' is there already",
    ),
    "no node": (
        OBJECTS.split("---\n", 1)[1],
        "obj.yaml: no Node objects: add them (kubectl get nodes -o yaml), or begin with a",
    ),
    "list": (
        "apiVersion: v1\nkind: List\nitems: [3]\n",
        "obj.yaml:3:9 items[0]: 3 is not an object (a mapping with a kind)",
    ),
    "list items": ("apiVersion: v1\nkind: List\nitems: {a: 1}\n", "obj.yaml:3:8 items: expected a list of objects"),
    "list empty": (
        "apiVersion: v1\nkind: List\nitems: []\n",
        "obj.yaml: nothing to run: expected DagJobs, or Pods that join a queue",
    ),
    "spec list": (
        OBJECTS.replace("spec: {weight: 1}", "spec: [1]"),
        "obj.yaml:9:7 spec: expected `object`, got `array`",
    ),
    "metadata list": (
        OBJECTS.replace("metadata: {name: q}", "metadata: [q]"),
        "obj.yaml:8:11 metadata: expected `object`, got `array`",
    ),
    "api": (
        OBJECTS.replace("rm-emulator.io/v1alpha1", "rm-emulator.io/v1"),
        "obj.yaml:7:7 kind: unknown kind 'Queue' of rm-emulator.io/v1, apiVersion is rm-e",
    ),
}


@pytest.mark.parametrize(("old", "new", "says"), ROWS, ids=[repr(row[1].strip()[:40]) for row in ROWS])
def test_a_bad_object(refused: Refused, tmp_path: Path, old: str, new: str, says: str) -> None:
    assert OBJECTS.count(old) == 1
    (tmp_path / "obj.yaml").write_text(OBJECTS.replace(old, new))
    assert says in refused("check", "obj.yaml")


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_of_objects(refused: Refused, tmp_path: Path, name: str) -> None:
    text, says = FILES[name]
    (tmp_path / "obj.yaml").write_text(text)
    assert says in refused("check", "obj.yaml")
