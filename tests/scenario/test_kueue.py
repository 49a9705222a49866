"""Kueue's objects, as its documentation shows them, as a scenario: quotas, running pods, times, omissions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import rm_emulator
from rm_emulator.issues import InvalidInput
from rm_emulator.scenario import live
from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import load
from rm_emulator.scenario.observed import age_s, stem

NODES = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n1, labels: {pool: spot}}
  status: {allocatable: {cpu: "16", memory: 64Gi, pods: "110"}}
- apiVersion: v1
  kind: Node
  metadata: {name: n2, labels: {pool: spot}}
  status: {allocatable: {cpu: "16", memory: 64Gi, pods: "110"}}
"""
QUEUES = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: spot}
spec: {nodeLabels: {pool: spot}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-a}
spec:
  cohortName: all
  namespaceSelector: {}
  queueingStrategy: StrictFIFO
  fairSharing: {weight: "2"}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: spot, resources: [{name: cpu, nominalQuota: "9", borrowingLimit: "1"}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-b}
spec:
  cohortName: all
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: spot, resources: [{name: cpu, nominalQuota: "12", lendingLimit: "1"}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: mine, namespace: a}
spec: {clusterQueue: team-a}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 100
"""
TRAINING = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  name: job-train-1-ab12c
  namespace: a
  creationTimestamp: "2026-01-01T00:00:00Z"
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train-1, uid: u1, controller: true}]
spec:
  queueName: mine
  podSets:
  - name: main
    count: 2
    template: {spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 4}}}]}}
status:
  admission: {clusterQueue: team-a, podSetAssignments: [{name: main, flavors: {cpu: spot}, count: 2}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  name: job-train-2-cd34f
  namespace: a
  creationTimestamp: "2026-01-01T00:00:30Z"
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train-2, uid: u2, controller: true}]
spec:
  queueName: mine
  podSets:
  - name: main
    count: 1
    template: {spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 4}}}]}}
"""


def pod(name: str, owner: str, node: str, *, started: str, finished: str | None = None) -> str:
    state = {"running": {"startedAt": started}}
    if finished is not None:
        state = {"terminated": {"startedAt": started, "finishedAt": finished}}
    item = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "a",
            "ownerReferences": [{"kind": "Job", "name": owner, "uid": owner, "controller": True}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": 4}}}]},
        "status": {"phase": "Running" if finished is None else "Succeeded", "containerStatuses": [{"state": state}]},
    }
    return yaml.safe_dump(item)


PODS = "---\n".join(
    [
        pod("train-0-x", "train-0", "n1", started="2026-01-01T00:00:00Z", finished="2026-01-01T00:01:40Z"),
        pod("train-1-x", "train-1", "n1", started="2026-01-01T00:01:00Z"),
        pod("train-1-y", "train-1", "n2", started="2026-01-01T00:01:20Z"),
    ]
)


def taken(folder: Path, *texts: str) -> live.Snapshot:
    paths = []
    for number, text in enumerate(texts):
        paths.append(folder / f"{number}.yaml")
        paths[-1].write_text(text)
    return live.from_files(paths)


def queues(snapshot: live.Snapshot) -> dict[str, dict[str, object]]:
    return {item["metadata"]["name"]: item["spec"] for item in snapshot.objects if item["kind"] == "Queue"}


def test_a_queue_may_use_its_quota_and_what_others_lend_within_its_borrowing_limit(tmp_path: Path) -> None:
    found = queues(taken(tmp_path, NODES, QUEUES))
    # 9 and 1 of 1 lent; 12 and all 9 of the other; 21 together.
    assert found["team-a"] == {"weight": 2.0, "parent": "all", "guaranteed": {"cpu": "9"}, "max": {"cpu": "10"}}
    assert found["team-b"] == {"weight": 1.0, "parent": "all", "guaranteed": {"cpu": "12"}, "max": {"cpu": "21"}}
    assert found["all"]["max"] == {"cpu": "21"}


def test_both_versions_of_the_api_name_the_same_cohort(tmp_path: Path) -> None:
    older = QUEUES.replace("v1beta2", "v1beta1").replace("cohortName", "cohort")
    assert queues(taken(tmp_path, NODES, QUEUES)) == queues(taken(tmp_path, NODES, older))


def test_a_cohort_below_another_borrows_from_it(tmp_path: Path) -> None:
    group = "resourceGroups: [{coveredResources: [cpu], flavors: [{name: spot, resources: [QUOTA]}]}]"
    upper = f"apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {{name: top}}\nspec: {{{group}}}\n"
    lower = upper.replace("name: top", "name: all").replace("spec: {", "spec: {parentName: top, ")
    quota = "{name: cpu, nominalQuota: 4}"
    limited = "{name: cpu, nominalQuota: 0, borrowingLimit: 3}"
    found = queues(taken(tmp_path, NODES, QUEUES, upper.replace("QUOTA", quota), lower.replace("QUOTA", limited)))
    assert found["top"]["max"] == {"cpu": "25"}
    assert found["all"] == {"weight": 1.0, "parent": "top", "guaranteed": {"cpu": "21"}, "max": {"cpu": "24"}}


def test_whatever_has_no_counterpart_is_listed_once_with_its_number(tmp_path: Path) -> None:
    notes = taken(tmp_path, NODES, QUEUES).notes
    assert "queueingStrategy of ClusterQueues: no counterpart, left out (1)" in notes
    assert "WorkloadPriorityClass objects (jobs have no priorities): no counterpart, left out (1)" in notes


def test_the_rest_of_running_pods_runs_on_their_nodes_and_the_waiting_job_after_them(tmp_path: Path) -> None:
    """Pods of 100 s run for 40 s and 20 s; a queue of 10 cores lets a third pod of 4 in after the first ends."""
    snapshot = taken(tmp_path, NODES, QUEUES, TRAINING, PODS)
    assert "a/train-1 stage main: run time 100.000 s from 1 ended pod of 'train'" in snapshot.notes
    path = tmp_path / "live.yaml"
    path.write_text(snapshot.text())
    loaded = load(path, overrides=["spec.cluster.profile=events"])
    assert any("queueingStrategy" in note for note in loaded.notes)
    first, second = check(loaded).workload.jobs
    assert [(each.node, each.elapsed_ms) for each in first.running] == [("n1", 40_000), ("n2", 20_000)]
    assert (first.submit_ms, second.submit_ms, second.running) == (0, 1, ())
    assert (first.job.queue, first.job.stages[0].gang) == ("team-a", True)
    change = {"spec.cluster.profile": "events", "spec.policies": [{"kind": "fifo"}]}
    ran = rm_emulator.run(path, out=tmp_path / "out", set=change).jobs
    assert ran.select("id", "first_start_ms", "finish_ms").rows() == [
        ("a/train-1", 0, 80_000),
        ("a/train-2", 60_000, 160_000),
    ]


def test_a_start_after_the_snapshot_counts_as_now_and_is_noted() -> None:
    running = yaml.safe_load(pod("late", "job", "n1", started="2026-01-01T00:00:09Z"))
    notes: list[str] = []
    assert age_s(running, 1_767_225_600_000, notes) == 0
    assert notes == ["pod a/late started 9 s after the snapshot: clocks differ, and its run time so far is 0"]


def test_files_without_nodes_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no file has Node objects"):
        taken(tmp_path, QUEUES)
    with pytest.raises(InvalidInput, match="expected an object with kind and metadata"):
        taken(tmp_path, NODES, "kind: Pod\n")


def test_the_policy_and_the_memory_of_a_brain_come_along(tmp_path: Path) -> None:
    config = "policy: {kind: drf}\nreserveAfter: 30s\n"
    brain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rm-brain"}, "data": {"config.yaml": config}}
    memory = brain | {"metadata": {"name": "rm-brain-snapshot", "namespace": "rm-system"}, "data": {"index": "{}"}}
    snapshot = taken(tmp_path, NODES, QUEUES, TRAINING, PODS, yaml.safe_dump_all([brain, memory]))
    assert memory in snapshot.objects
    assert "policy drf is the cluster's own policy" in snapshot.notes
    path = tmp_path / "live.yaml"
    path.write_text(snapshot.text())
    loaded = load(path)
    assert [each.kind for each in loaded.scenario.spec.policies] == ["drf"]
    assert loaded.scenario.spec.cluster.reserve_after == 30_000
    assert not any("ConfigMap" in note for note in loaded.notes)


def test_the_parts_of_several_runs_have_one_stem() -> None:
    assert {stem(name) for name in ("report-29384756-x7k2p", "report-1", "report")} == {"report"}


def test_a_scenario_in_front_of_a_snapshot_takes_the_place_of_the_clusters_own_policy(tmp_path: Path) -> None:
    config = {"config.yaml": "policy: {kind: drf}\n"}
    brain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rm-brain"}, "data": config}
    own = taken(tmp_path, NODES, QUEUES, TRAINING, PODS, yaml.safe_dump(brain)).text()
    front = {"apiVersion": "rm-emulator.io/v1alpha1", "kind": "Scenario", "metadata": {"name": "candidates"}}
    path = tmp_path / "rehearsal.yaml"
    path.write_text(yaml.safe_dump(front | {"spec": {"policies": [{"kind": "fair"}]}}) + "---\n" + own)
    loaded = load(path)
    assert [each.kind for each in loaded.scenario.spec.policies] == ["fair"]
    assert any("the cluster's own policy is left out" in note for note in loaded.notes)


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_the_command_takes_files_and_its_file_is_checked_and_run(tmp_path: Path) -> None:
    objects = tmp_path / "objects.yaml"
    objects.write_text("---\n".join((NODES, QUEUES, TRAINING, PODS)))

    def rm(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "rm_emulator", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert "queueingStrategy of ClusterQueues: no counterpart" in rm(
        "snapshot", "--from-files", "objects.yaml", "--out", "live.yaml"
    )
    assert "queueingStrategy of ClusterQueues: no counterpart" in rm("check", "live.yaml")
    rm("run", "live.yaml", "--quiet")
    assert (tmp_path / "out" / "live" / "report.html").exists()
