"""JobSets (jobset.x-k8s.io/v1alpha2), as JobSet's and Kueue's documentation show these, in a snapshot.

Kueue's Workload of a JobSet has a pod set for each replicated Job, of replicas times the smaller of parallelism and
completions (Kueue, pkg/controller/jobs/jobset). JobSet owns Jobs, and Jobs own the pods, which have the labels of
JobSet's api/jobset/v1alpha2.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

import rm_emulator
from rm_emulator.scenario import live
from tests.scenario.test_kueue import NODES, QUEUES

SET = "jobset.x-k8s.io/v1alpha2"
#: Replicated Jobs: name, replicas, pods of each.
PARTS = (("driver", 1, 1), ("workers", 2, 2))
Item = dict[str, Any]


def owned(kind: str, version: str, name: str) -> list[Item]:
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": f"u-{name}", "controller": True}]


def template(part: str) -> Item:
    requests = {"cpu": "1" if part == "driver" else "2", "memory": "200Mi"}
    return {"spec": {"containers": [{"name": "sleep", "image": "busybox", "resources": {"requests": requests}}]}}


def jobset(name: str, *, suspend: bool = False, queued: bool = True, **of_workers: Any) -> Item:
    parts = [
        {
            "name": part,
            "replicas": replicas,
            "template": {
                "spec": {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template(part)}
            },
            **(of_workers if part == "workers" else {}),
        }
        for part, replicas, pods in PARTS
    ]
    labels = {"kueue.x-k8s.io/queue-name": "mine"} if queued else {}
    meta = {"name": name, "namespace": "a", "uid": f"u-{name}", "labels": labels}
    return {
        "apiVersion": SET,
        "kind": "JobSet",
        "metadata": meta,
        "spec": {"suspend": suspend, "replicatedJobs": parts},
    }


def jobs(name: str) -> list[Item]:
    """The Jobs that the controller of JobSets makes of a set that is not suspended."""
    made = []
    for part, replicas, pods in PARTS:
        for index in range(replicas):
            labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": part}
            meta = {"name": f"{name}-{part}-{index}", "namespace": "a", "labels": labels}
            meta["ownerReferences"] = owned("JobSet", SET, name)
            spec = {"parallelism": pods, "completions": pods, "suspend": False, "template": template(part)}
            made.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    return made


def pod(name: str, part: str, index: int, number: int, node: str, *, ended: bool = False) -> Item:
    """A pod that began at 00:00:00 and, where ended, ran 100 s."""
    job = f"{name}-{part}-{index}"
    labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": part}
    meta = {"name": f"{job}-{number}-x7k2p", "namespace": "a", "labels": labels}
    meta["ownerReferences"] = owned("Job", "batch/v1", job)
    state: Item = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    if ended:
        state = {"terminated": {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:40Z"}}
    status = {"phase": "Succeeded" if ended else "Running", "containerStatuses": [{"state": state}]}
    spec = {"nodeName": node, **template(part)["spec"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def workload(name: str, created: str, *, admitted: bool) -> Item:
    pod_sets = [{"name": part, "count": replicas * pods, "template": template(part)} for part, replicas, pods in PARTS]
    meta = {"name": f"jobset-{name}-ab12c", "namespace": "a", "creationTimestamp": created}
    meta["ownerReferences"] = owned("JobSet", SET, name)
    status: Item = {}
    if admitted:
        flavors = [{"name": part, "flavors": {"cpu": "spot"}, "count": n * pods} for part, n, pods in PARTS]
        status = {"admission": {"clusterQueue": "team-a", "podSetAssignments": flavors}}
    spec = {"queueName": "mine", "podSets": pod_sets}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": meta,
        "spec": spec,
        "status": status,
    }


TRAIN = [
    jobset("train-1"),
    *jobs("train-1"),
    workload("train-1", "2026-01-01T00:00:00Z", admitted=True),
    pod("train-1", "driver", 0, 0, "n1"),
    pod("train-1", "workers", 0, 0, "n1", ended=True),
    pod("train-1", "workers", 0, 1, "n1"),
    pod("train-1", "workers", 1, 0, "n2"),
    pod("train-1", "workers", 1, 1, "n2"),
    jobset("train-2", suspend=True, dependsOn=[{"name": "driver", "status": "Ready"}]),
    workload("train-2", "2026-01-01T00:00:30Z", admitted=False),
]


def taken(folder: Path, items: Sequence[Item]) -> live.Snapshot:
    path = folder / "objects.yaml"
    path.write_text("---\n".join((NODES, QUEUES, yaml.safe_dump_all(items))))
    return live.from_files([path])


def dagjobs(snapshot: live.Snapshot) -> dict[str, list[tuple[str, int, bool, str | None]]]:
    """By DagJob its stages: name, tasks, whether a gang, run time."""
    return {
        item["metadata"]["name"]: [
            (
                stage["name"],
                stage["tasks"],
                stage.get("gang", False),
                stage["template"]["metadata"]["annotations"].get("rm-emulator.io/run-seconds"),
            )
            for stage in item["spec"]["stages"]
        ]
        for item in snapshot.objects
        if item["kind"] == "DagJob"
    }


def test_a_jobset_with_a_workload_is_one_job_with_a_gang_for_each_replicated_job(tmp_path: Path) -> None:
    snapshot = taken(tmp_path, TRAIN)
    # Worker pods of the set before tell of those to come; nothing ended tells of drivers.
    stages = [("driver", 1, False, None), ("workers", 4, True, "100.000")]
    assert dagjobs(snapshot) == {"train-1": stages, "train-2": stages}
    notes = "\n".join(snapshot.notes)
    assert "a/train-2 stage workers: run time 100.000 s from 1 ended pod of 'train'" in notes
    assert "a/train-1 stage driver: nothing says how long a task runs" in notes
    assert "the order in which a JobSet starts its Jobs: no counterpart, left out (1)" in notes


def test_pods_of_a_jobset_are_tasks_of_their_part_on_their_nodes_and_ended_ones_are_done(tmp_path: Path) -> None:
    snapshot = taken(tmp_path, TRAIN)
    running = [
        (item["metadata"]["labels"]["rm-emulator.io/stage"], item["spec"]["nodeName"])
        for item in snapshot.objects
        if item["kind"] == "Pod"
    ]
    assert sorted(running) == [("driver", "n1"), ("workers", "n1"), ("workers", "n2"), ("workers", "n2")]
    (first,) = (item for item in snapshot.objects if item["metadata"]["name"] == "train-1")
    assert first["status"]["stages"] == [{"name": "driver", "succeeded": 0}, {"name": "workers", "succeeded": 1}]
    assert first["spec"]["queue"] == "team-a"


def test_the_jobs_of_a_jobset_without_a_workload_stand_alone_and_are_listed(tmp_path: Path) -> None:
    over = jobset("over", queued=False) | {"status": {"terminalState": "Completed"}}
    snapshot = taken(tmp_path, [jobset("alone", queued=False), *jobs("alone"), over])
    assert {*dagjobs(snapshot)} == {"alone-driver-0", "alone-workers-0", "alone-workers-1"}
    assert (
        "JobSets without a Workload (each of their Jobs stands alone): no counterpart, left out (1)" in snapshot.notes
    )


def test_the_rest_of_a_jobset_runs_in_the_emulator_before_the_waiting_gang_of_the_next(tmp_path: Path) -> None:
    """Of 10 CPUs of the queue train-1 holds 7 for 50 s more, and the workers of train-2 want 8 at once for 150 s."""
    items = copy.deepcopy(TRAIN)
    for item in items:
        for part in item["spec"].get("podSets", ()):
            part["template"]["metadata"] = {"annotations": {"rm-emulator.io/run-seconds": "150"}}
    path = tmp_path / "live.yaml"
    path.write_text(taken(tmp_path, items).text())
    results = rm_emulator.run(path, out=tmp_path / "out", jobs=1)
    ends = dict(results.jobs.select("id", "finish_ms").iter_rows())
    # Ends are seen in whole seconds.
    assert 49_000 < ends["a/train-1"] < 60_000
    assert 199_000 < ends["a/train-2"] < 220_000
