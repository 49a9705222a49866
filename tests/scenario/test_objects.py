"""Files of Kubernetes objects: what they amount to, and what is wrong with them, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.issues import InvalidInput
from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import load
from rm_emulator.scenario.objects import read_run_seconds
from rm_emulator.scenario.workload import build
from schedulers.core.model import Edge, Service, Wish, Wishes
from schedulers.core.refusals import NodeCode, NodeRefusal

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: a}}
spec: {taints: [{key: gpu, effect: NoSchedule}]}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
"""
JOB = """\
apiVersion: rm-emulator.io/v1alpha1
kind: DagJob
metadata: {name: etl, namespace: data, creationTimestamp: "2026-01-01T00:00:05Z"}
spec:
  queue: prod
  stages:
  - name: map
    tasks: 4
    template:
      metadata: {annotations: {rm-emulator.io/run-seconds: "30"}}
      spec:
        nodeSelector: {zone: a}
        tolerations: [{key: gpu, operator: Exists}]
        containers: [{name: c, image: x, resources: {requests: {cpu: 500m, memory: 1Gi}}}]
  - name: reduce
    parents: [map]
    gang: true
    template:
      metadata: {annotations: {rm-emulator.io/run-seconds: "lognormal(20, 0.5)"}}
      spec:
        tolerations: [{operator: Exists}]
        containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]
"""
QUEUE = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Queue
metadata: {name: prod}
spec: {weight: 3}
"""


def write(folder: Path, *documents: str) -> Path:
    path = folder / "cluster.yaml"
    path.write_text("---\n".join(documents))
    return path


def mistakes(path: Path) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        load(path)
    return [line.replace(f"{path}", "c.yaml") for line in caught.value.lines]


def test_objects_without_a_scenario_run_on_their_own_nodes(tmp_path: Path) -> None:
    spec = load(write(tmp_path, NODE, QUEUE, JOB)).scenario.spec
    assert spec.cluster.profile == "kubernetes"
    assert [group.name for group in spec.cluster.nodes] == ["n1"]
    assert [(queue.name, queue.weight) for queue in spec.queues] == [("prod", 3.0)]
    assert [policy.label for policy in spec.policies] == ["gs"]


def test_a_node_is_as_fast_as_its_label_says(tmp_path: Path) -> None:
    labelled = NODE.replace("zone: a", 'zone: a, rm-emulator.io/speed: "2.5"')
    assert [group.speed for group in load(write(tmp_path, labelled, JOB)).scenario.spec.cluster.nodes] == [2.5]


def test_a_dagjob_keeps_its_stages_places_and_gangs(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, NODE, JOB))
    (job,) = build(loaded.scenario, tmp_path, 1).workload.jobs
    first, second = job.job.stages
    assert (job.job.id, job.job.queue, first.tasks, first.demand) == ("data/etl", "prod", 4, (500, 1024, 1))
    assert first.places.bars("n1", {"zone": "a"}, ()) is None
    assert first.places.bars("n1", {"zone": "b"}, ()) == NodeRefusal(NodeCode.LABELS, "labels")
    assert (second.gang, second.parents) == (True, (0,))


def test_a_dagjob_keeps_its_wishes(tmp_path: Path) -> None:
    gpu = NODE.replace("zone: a}", "zone: a, node.kubernetes.io/instance-type: gpu}")
    wishes = "spec:\n  wishes: {prefer: [{device: gpu, worth: 8}, {spread: true}], value: 2, budgetSeconds: 90}\n"
    loaded = load(write(tmp_path, gpu, JOB.replace("spec:\n", wishes, 1)))
    (job,) = build(loaded.scenario, tmp_path, 1).workload.jobs
    ways = (Wish(device="gpu", worth=8.0), Wish(spread=True))
    assert job.job.wishes == Wishes(prefer=ways, value=2.0, budget_ms=90_000)


def test_wishes_for_nodes_that_are_not_there_are_noted_and_no_mistake(tmp_path: Path) -> None:
    wishes = "spec:\n  wishes: {prefer: [{device: gpu}, {rack: r9}, {sameRack: true}]}\n"
    loaded = load(write(tmp_path, NODE, JOB.replace("spec:\n", wishes, 1)))
    check(loaded)
    assert [note.partition(": ")[2] for note in loaded.notes] == [
        f"no node has the label {label} that data/etl wishes for; that way is left out"
        for label in ("node.kubernetes.io/instance-type: gpu", "topology.kubernetes.io/zone: r9")
    ]


def test_arrivals_follow_the_creation_times(tmp_path: Path) -> None:
    later = JOB.replace("00:00:05Z", "00:01:05Z").replace("name: etl", "name: late")
    jobs = build(load(write(tmp_path, NODE, later, JOB)).scenario, tmp_path, 1).workload.jobs
    assert [(job.job.id, job.submit_ms) for job in jobs] == [("data/etl", 0), ("data/late", 60_000)]


@pytest.mark.parametrize(("deadline", "after"), [("2026-01-01T00:10:05Z", 600_000), ("2025-12-31T00:00:00Z", 1)])
def test_a_deadline_counts_from_the_creation_time(tmp_path: Path, deadline: str, after: int) -> None:
    due = JOB.replace("queue: prod", f"queue: prod\n  deadline: {deadline}")
    (job,) = build(load(write(tmp_path, NODE, due)).scenario, tmp_path, 1).workload.jobs
    assert job.job.deadline == after


def test_a_deadline_of_an_object_without_creation_time_is_left_out(tmp_path: Path) -> None:
    due = JOB.replace("queue: prod", 'queue: prod\n  deadline: "2026-01-01T00:10:05Z"')
    due = due.replace(', creationTimestamp: "2026-01-01T00:00:05Z"', "")
    (job,) = build(load(write(tmp_path, NODE, due)).scenario, tmp_path, 1).workload.jobs
    assert not isinstance(job.job.deadline, int)


def test_what_is_done_already_is_not_done_again(tmp_path: Path) -> None:
    done = JOB + "status: {stages: [{name: map, succeeded: 3}]}\n"
    (job,) = build(load(write(tmp_path, NODE, done)).scenario, tmp_path, 1).workload.jobs
    assert [stage.tasks for stage in job.job.stages] == [1, 1]


def test_a_list_of_nodes_as_kubectl_prints_it(tmp_path: Path) -> None:
    item = "\n".join("  " + line for line in NODE.splitlines())
    listed = "apiVersion: v1\nkind: List\nitems:\n-" + item[1:] + "\n"
    assert len(load(write(tmp_path, listed, JOB)).scenario.spec.cluster.nodes) == 1


def test_pods_of_other_schedulers_take_from_their_nodes(tmp_path: Path) -> None:
    other = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: daemon, namespace: kube-system}\n"
        "spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 2}}}]}\n"
    )
    (node,) = load(write(tmp_path, NODE, other, JOB)).scenario.spec.cluster.nodes
    assert node.capacity == {"cpu": "6", "memory": "32Gi", "pods": "109"}


def test_a_scenario_in_front_says_how_and_the_objects_what(tmp_path: Path) -> None:
    scenario = (
        "apiVersion: rm-emulator.io/v1alpha1\nkind: Scenario\nmetadata: {name: mine}\n"
        "spec: {cluster: {profile: events, nodes: [{count: 2, capacity: {cpu: 4, memory: 8Gi, pods: 10}}]},"
        " policies: [{label: f, kind: fifo}]}\n"
    )
    loaded = load(write(tmp_path, scenario, JOB))
    assert (loaded.scenario.metadata.name, loaded.scenario.spec.policies[0].label) == ("mine", "f")
    assert len(build(loaded.scenario, tmp_path, 1).workload.jobs) == 1


def test_other_kinds_are_left_out_with_a_note(tmp_path: Path) -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
    (note,) = load(write(tmp_path, NODE, config, JOB)).notes
    assert note.endswith("objects of kind ConfigMap say nothing about scheduling and are left out")


def test_a_stage_without_a_run_time_is_named_with_its_line(tmp_path: Path) -> None:
    bad = JOB.replace('metadata: {annotations: {rm-emulator.io/run-seconds: "30"}}', "metadata: {}")
    (line,) = mistakes(write(tmp_path, NODE, bad))
    assert line.startswith(
        "c.yaml:16:17 spec.stages[0].template.metadata: annotation rm-emulator.io/run-seconds is missing"
    )


@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        ("parents: [map]", "parents: [mop]", "stage 'reduce' names parent 'mop' (map, reduce)"),
        ("kind: DagJob", "kind: DagJop", "unknown kind 'DagJop' of rm-emulator.io/v1alpha1, did you mean 'DagJob'?"),
        ("tasks: 4", "tasks: none", "spec.stages[0].tasks: expected `int`, got `str`"),
        ("lognormal(20, 0.5)", "soon", "'soon' is not a run time: expected seconds above 0 such as 30"),
    ],
)
def test_a_mistake_says_what_and_where(tmp_path: Path, good: str, bad: str, says: str) -> None:
    (line,) = mistakes(write(tmp_path, NODE, JOB.replace(good, bad)))
    assert says in line
    assert line.startswith("c.yaml:")


def test_without_nodes_there_is_nothing_to_run_on(tmp_path: Path) -> None:
    (line,) = mistakes(write(tmp_path, JOB))
    assert "no Node objects" in line


def test_without_jobs_there_is_nothing_to_run(tmp_path: Path) -> None:
    (line,) = mistakes(write(tmp_path, NODE))
    assert "nothing to run" in line


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("30", "30000ms"),
        ("0.5", "500ms"),
        ("lognormal(30, 0.5)", {"kind": "lognormal", "mean": "30000ms", "cov": 0.5}),
        ("normal(mean=30, cov=0.2)", {"kind": "normal", "mean": "30000ms", "cov": 0.2}),
    ],
)
def test_run_seconds_are_a_number_or_a_distribution(text: str, means: object) -> None:
    assert read_run_seconds(text) == means


def test_a_uniform_run_time_is_given_by_its_ends() -> None:
    found = read_run_seconds("uniform(20, 40)")
    assert (found["mean"], round(found["cov"], 4)) == ("30000ms", 0.1925)


@pytest.mark.parametrize("text", ["", "0", "-3", "ten", "uniform(40, 20)", "weibull(1, 2)", "normal(0, 1)"])
def test_what_is_no_run_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a run time"):
        read_run_seconds(text)


def test_data_that_a_dagjob_says_its_parents_hand_over_moves_in_the_emulator(tmp_path: Path) -> None:
    job = JOB.replace("parents: [map]", "parents: [map]\n    hints: {data: {map: 3Mi}}")
    assert job != JOB
    loaded = load(write(tmp_path, NODE, job))
    assert build(loaded.scenario, tmp_path, 1).workload.jobs[0].job.stages[1].parents == (
        Edge(parent=0, data=3 * 2**20),
    )


DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  template:
    metadata:
      labels: {rm-emulator.io/queue: prod, rm-emulator.io/user: ann}
      annotations: {rm-emulator.io/start-within-seconds: "30", rm-emulator.io/preemptible: "false"}
    spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}
"""


def test_a_deployment_is_a_service_for_each_replica(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, NODE, QUEUE, JOB, DEPLOYMENT))
    jobs = {source.job.id: source.job for source in build(loaded.scenario, tmp_path, 1).workload.jobs}
    assert sorted(jobs) == ["data/etl", "shop/web-0", "shop/web-1", "shop/web-2"]
    web = jobs["shop/web-1"]
    assert (web.name, web.queue, web.user, web.tasks) == ("web", "prod", "ann", 1)
    assert web.service == Service(start_within_ms=30_000, preemptible=False)
    assert jobs["data/etl"].kind == "batch"


def test_a_pod_of_a_replica_set_stands_for_its_replica(tmp_path: Path) -> None:
    pod = """\
apiVersion: v1
kind: Pod
metadata:
  name: web-5b7-x1
  namespace: shop
  labels: {rm-emulator.io/queue: prod}
  ownerReferences: [{kind: ReplicaSet, name: web-5b7, uid: u, controller: true}]
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}
"""
    loaded = load(write(tmp_path, NODE, QUEUE, JOB, DEPLOYMENT, pod))
    jobs = {source.job.id: source.job.kind for source in build(loaded.scenario, tmp_path, 1).workload.jobs}
    assert jobs == {"data/etl": "batch", "shop/web-5b7-x1": "service"}


def test_a_deployment_that_joins_no_queue_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, NODE, QUEUE, JOB, DEPLOYMENT.replace("rm-emulator.io/queue: prod, ", ""))
    loaded = load(path)
    assert f"{path}: Deployments whose pods join no queue are left out" in loaded.notes
