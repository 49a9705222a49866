"""Admission on the real API server, with the real tokens: what our parts do passes, and nothing else does."""

from __future__ import annotations

import copy
import json
import uuid
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

from devcluster.cluster import Devcluster
from operators.client import ApiError
from operators.extender.releases import release_patch
from schedulers.objects import names
from schedulers.objects.pod import Pod
from tests.kubernetes.account import Account
from tests.kubernetes.installed import MANIFESTS, dagjob, stage, submit, wait

pytestmark = pytest.mark.controlplane

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = {"key": "zone", "operator": "In", "values": ["a", "b"]}
NAME = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


@pytest.fixture(scope="module")
def cluster(devcluster: Devcluster) -> Devcluster:
    """With our rules in force, and none of our processes."""
    devcluster.apply(MANIFESTS / "overlays" / "dev")
    space = devcluster.namespace()
    brain = Account(devcluster, "rm-brain")

    def hears_of_queues() -> str:
        """A pod's path; until then all that joins is refused: the CRDs are new, and parameters not synced."""
        try:
            submit(devcluster, dagjob(f"probe-{uuid.uuid4().hex[:6]}", space, [stage("only", 1, 1)]))
            return new_pod(devcluster, space)
        except RuntimeError as error:
            if "not yet synced" not in str(error) and "There can be a delay" not in str(error):
                raise
        return ""

    path = wait(hears_of_queues, 30)

    def in_force() -> bool:
        """The API server hears of policies a moment after they are applied."""
        try:
            brain.patch(path, {"metadata": {"annotations": {"probe": uuid.uuid4().hex}}}, "merge")
        except ApiError as error:
            return "rm-brain may" in error.message
        return False

    wait(in_force, 30)
    return devcluster


@pytest.fixture(scope="module")
def brain(cluster: Devcluster) -> Account:
    return Account(cluster, "rm-brain")


@pytest.fixture(scope="module")
def controllers(cluster: Devcluster) -> Account:
    return Account(cluster, "rm-controllers")


@pytest.fixture(scope="module")
def space(cluster: Devcluster) -> str:
    return cluster.namespace()


def pod_of(name: str, space: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": space, "labels": {names.QUEUE_LABEL: "default"}},
        "spec": {"schedulerName": names.SCHEDULER, "containers": [container], **spec},
    }


def new_pod(cluster: Devcluster, space: str, **spec: Any) -> str:
    """Creates a gated pod; returns its path."""
    spec = {"schedulingGates": [{"name": names.GATE}], **spec}
    body = pod_of("unnamed", space, **spec)
    del body["metadata"]["name"]
    body["metadata"]["generateName"] = "pod-"
    made = json.loads(cluster.kubectl("create", "-f", "-", "-o", "json", input=json.dumps(body)))
    return f"/api/v1/namespaces/{space}/pods/{made['metadata']['name']}"


def read(cluster: Devcluster, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(cluster.kubectl("get", "--raw", path))
    return answer


def terms(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


PREFERRED = [{"weight": 1, "preference": {"matchExpressions": [ZONE]}}]
APART = {REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}]}

#: Whatever affinity a pod may come with.
FORMS: dict[str, dict[str, Any]] = {
    "none": {},
    "empty": {"affinity": {}},
    "empty node affinity": {"affinity": {"nodeAffinity": {}}},
    "preferred only": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED}}},
    "apart from others": {"affinity": {"podAntiAffinity": APART}},
    "one term of labels": terms({"matchExpressions": [ZONE]}),
    "two terms of labels": terms({"matchExpressions": [ZONE]}, {"matchExpressions": [{**ZONE, "values": ["c"]}]}),
    "a term of fields": terms({"matchFields": [NAME]}),
    "labels and fields": terms({"matchExpressions": [ZONE], "matchFields": [NAME]}),
    "a term that matches nothing": terms({"matchExpressions": [ZONE]}, {}),
    "another gate before ours": {"schedulingGates": [{"name": "example.com/quota"}, {"name": names.GATE}]},
    "tolerations": {"tolerations": [{"key": "a", "operator": "Exists"}]},
}


@pytest.mark.parametrize("node", ["n1", "n2", None])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.drawn(of=4)
def test_brain_releases_a_pod_of_any_form(
    cluster: Devcluster, brain: Account, space: str, form: str, node: str | None
) -> None:
    path = new_pod(cluster, space, **FORMS[form])
    patch = release_patch(msgspec.convert(read(cluster, path), Pod), node)
    brain.patch(path, patch)
    left = [gate["name"] for gate in read(cluster, path)["spec"].get("schedulingGates", ())]
    assert names.GATE not in left


def test_brain_annotates_a_pod_with_its_node(cluster: Devcluster, brain: Account, space: str) -> None:
    path = new_pod(cluster, space)
    brain.patch(path, {"metadata": {"annotations": {names.RESERVED_NODE: "n1"}}}, "merge")
    assert read(cluster, path)["metadata"]["annotations"][names.RESERVED_NODE] == "n1"


GATE = {"op": "remove", "path": "/spec/schedulingGates/0"}
NARROW = {"op": "add", "path": "/spec/affinity", "value": terms({"matchFields": [NAME]})["affinity"]}

#: Changes that the API server itself would let anybody with `patch pods` make.
REFUSED: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "image": ({}, [{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}]),
    "image with the release": ({}, [GATE, {"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}]),
    "init image": (
        {"initContainers": [{"name": "i", "image": "good"}]},
        [{"op": "replace", "path": "/spec/initContainers/0/image", "value": "evil"}],
    ),
    "label": ({}, [{"op": "add", "path": "/metadata/labels/app", "value": "bank"}]),
    "label taken away": ({}, [{"op": "remove", "path": "/metadata/labels"}]),
    "queue": ({}, [{"op": "replace", "path": "/metadata/labels/rm-emulator.io~1queue", "value": "other"}]),
    "annotation": ({}, [{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]),
    "finalizer": ({}, [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/keep"]}]),
    "owner": (
        {},
        [
            {
                "op": "add",
                "path": "/metadata/ownerReferences",
                "value": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}],
            }
        ],
    ),
    "toleration": ({}, [{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]),
    "deadline": ({}, [{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1}]),
    "node selector": ({}, [{"op": "add", "path": "/spec/nodeSelector", "value": {"a": "b"}}]),
    "foreign gate": (
        {"schedulingGates": [{"name": "example.com/quota"}, {"name": names.GATE}]},
        [{"op": "remove", "path": "/spec/schedulingGates/0"}],
    ),
    "all gates": (
        {"schedulingGates": [{"name": "example.com/quota"}, {"name": names.GATE}]},
        [{"op": "remove", "path": "/spec/schedulingGates"}],
    ),
    "narrowed without release": ({}, [NARROW]),
    "labels of nodes": (
        {},
        [GATE, {**NARROW, "value": terms({"matchExpressions": [ZONE]})["affinity"]}],
    ),
    "not in": (
        {},
        [GATE, {**NARROW, "value": terms({"matchFields": [{**NAME, "operator": "NotIn"}]})["affinity"]}],
    ),
    "preferred": (
        {},
        [
            GATE,
            {
                **NARROW,
                "value": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED}},
            },
        ],
    ),
    "labels in a term": (
        terms({"matchExpressions": [ZONE]}),
        [
            GATE,
            {
                "op": "add",
                "path": f"/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms/0/matchExpressions/-",
                "value": {"key": "disk", "operator": "Exists"},
            },
        ],
    ),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.drawn(of=4)
def test_brain_cannot_change_anything_else_of_a_pod(cluster: Devcluster, brain: Account, space: str, what: str) -> None:
    spec, patch = REFUSED[what]
    path = new_pod(cluster, space, **spec)
    before = read(cluster, path)
    assert "rm-brain may" in brain.patch_refusal(path, patch)
    assert read(cluster, path) == before


def test_others_may_still_change_pods(cluster: Devcluster, space: str) -> None:
    path = new_pod(cluster, space)
    cluster.kubectl("label", "pod", path.rpartition("/")[2], "-n", space, "app=bank")
    assert read(cluster, path)["metadata"]["labels"]["app"] == "bank"


# -- status -------------------------------------------------------------------------------------


def said(type: str, status: str = "True") -> dict[str, Any]:  # noqa: A002
    return {"type": type, "status": status, "reason": "Because", "message": "why", "lastTransitionTime": None}


def test_brain_says_why_a_pod_waits(cluster: Devcluster, brain: Account, space: str) -> None:
    path = new_pod(cluster, space)
    condition = {**said(names.WAITING_CONDITION), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": path.rpartition("/")[2], "namespace": space},
        "status": {"conditions": [condition]},
    }
    brain.patch(f"{path}/status", body, "apply")
    assert names.WAITING_CONDITION in [c["type"] for c in read(cluster, path)["status"]["conditions"]]


def test_kube_scheduler_says_that_a_pod_does_not_fit(cluster: Devcluster, brain: Account, space: str) -> None:
    path = new_pod(cluster, space)
    body = {"status": {"conditions": [said("PodScheduled", "False")], "nominatedNodeName": "n1"}}
    brain.patch(f"{path}/status", body, "strategic")
    assert read(cluster, path)["status"]["nominatedNodeName"] == "n1"


def test_kube_scheduler_binds(cluster: Devcluster, brain: Account, space: str) -> None:
    path = new_pod(cluster, space)
    brain.patch(path, [GATE])
    brain(lambda client: client.create(f"{path}/binding", binding(path)))
    assert read(cluster, path)["spec"]["nodeName"] == "n1"


def binding(path: str) -> dict[str, Any]:
    *_, space, _, name = path.split("/")
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": space}, "target": target}


@pytest.mark.parametrize("where", ["kube-system", names.NAMESPACE])
def test_nothing_of_the_system_is_bound_by_us(brain: Account, where: str) -> None:
    path = f"/api/v1/namespaces/{where}/pods/any"
    for at in (f"{path}/binding", f"/api/v1/namespaces/{where}/bindings"):
        said = brain.refusal(lambda client, at=at: client.create(at, binding(path)))
        assert "rm-brain may bind no pods of" in said


def test_brain_deletes_no_pod(cluster: Devcluster, brain: Account, space: str) -> None:
    path = new_pod(cluster, space)
    assert "rm-brain may delete no pods" in brain.refusal(lambda client: client.delete(path))


def test_brain_touches_no_pod_of_another_scheduler(cluster: Devcluster, brain: Account, space: str) -> None:
    path = new_pod(cluster, space, schedulerName="default-scheduler")
    only = "rm-brain may change no pods but those of rm-scheduler"
    assert only in brain.patch_refusal(path, [GATE])
    assert only in brain.patch_refusal(path, {"metadata": {"annotations": {names.RESERVED_NODE: "n1"}}}, "merge")
    status = {"status": {"nominatedNodeName": "n1"}}
    assert only in brain.patch_refusal(f"{path}/status", status, "strategic")


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Succeeded"},
        {"message": "all is well"},
        {"podIPs": [{"ip": "10.0.0.9"}]},
        {"conditions": [said("Ready")]},
        {"conditions": [said("example.com/approved")]},
        {"conditions": [said("DisruptionTarget")]},
        {"containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "image": "x", "imageID": "y"}]},
    ],
    ids="-".join,
)
def test_brain_cannot_change_anything_else_of_a_status(
    cluster: Devcluster, brain: Account, space: str, status: dict[str, Any]
) -> None:
    path = new_pod(cluster, space)
    assert "rm-brain may" in brain.patch_refusal(f"{path}/status", {"status": status}, "strategic")


def test_brain_cannot_label_a_pod_through_its_status(cluster: Devcluster, brain: Account, space: str) -> None:
    path = new_pod(cluster, space)
    body = {"metadata": {"labels": {"app": "bank"}}}
    assert "metadata" in brain.patch_refusal(f"{path}/status", body, "merge")


# -- the gate -----------------------------------------------------------------------------------


def gates(cluster: Devcluster, space: str, name: str) -> list[str]:
    spec = cluster.get("pod", name, "-n", space)["spec"]
    return [gate["name"] for gate in spec.get("schedulingGates", ())]


def test_a_pod_that_joins_gets_the_gate(cluster: Devcluster, space: str) -> None:
    submit(cluster, pod_of("joins", space))
    assert gates(cluster, space, "joins") == [names.GATE]


def test_a_pod_keeps_its_other_gates(cluster: Devcluster, space: str) -> None:
    submit(cluster, pod_of("two", space, schedulingGates=[{"name": "example.com/quota"}]))
    assert sorted(gates(cluster, space, "two")) == ["example.com/quota", names.GATE]


def test_a_pod_that_has_the_gate_gets_no_second(cluster: Devcluster, space: str) -> None:
    submit(cluster, pod_of("has", space, schedulingGates=[{"name": names.GATE}]))
    assert gates(cluster, space, "has") == [names.GATE]


def test_a_pod_may_decline_the_gate(cluster: Devcluster, space: str) -> None:
    pod = pod_of("declines", space)
    pod["metadata"]["annotations"] = {f"{names.GROUP}/gate": "false"}
    submit(cluster, pod)
    assert gates(cluster, space, "declines") == []


def test_a_pod_of_another_scheduler_gets_no_gate(cluster: Devcluster, space: str) -> None:
    submit(cluster, pod_of("other", space, schedulerName="default-scheduler"))
    assert gates(cluster, space, "other") == []


def test_a_pod_without_a_queue_gets_no_gate(cluster: Devcluster, space: str) -> None:
    pod = pod_of("free", space)
    pod["metadata"]["labels"] = {"app": "x"}
    submit(cluster, pod)
    assert gates(cluster, space, "free") == []


def test_a_pod_that_names_its_node_gets_no_gate(cluster: Devcluster, space: str) -> None:
    submit(cluster, pod_of("placed", space, nodeName="n0"))
    assert gates(cluster, space, "placed") == []


def test_the_pods_of_a_batch_job_get_the_gate(cluster: Devcluster) -> None:
    space = cluster.namespace()
    sample = (MANIFESTS / "samples" / "batch-job.yaml").read_text().replace("queue: analytics", "queue: default")
    cluster.kubectl("apply", "-n", space, "-f", "-", input=sample)
    pods = wait(lambda: cluster.get("pods", "-n", space)["items"])
    assert [gate["name"] for gate in pods[0]["spec"]["schedulingGates"]] == [names.GATE]


# -- queues -------------------------------------------------------------------------------------


def test_a_dagjob_that_names_no_queue_is_accepted(cluster: Devcluster, space: str) -> None:
    submit(cluster, dagjob("plain", space, [stage("only", 1, 1)]))
    assert cluster.get("dagjob", "plain", "-n", space)["spec"]["queue"] == "default"


# -- DagJobs, ConfigMaps, the controllers' pods ---------------------------------------------------


@pytest.fixture(scope="module")
def job(cluster: Devcluster, space: str) -> dict[str, Any]:
    submit(cluster, dagjob("mine", space, [stage("only", 1, 1)]))
    mine: dict[str, Any] = cluster.get("dagjob", "mine", "-n", space)
    return mine


def dagjob_path(job: dict[str, Any]) -> str:
    return f"/apis/{names.API_VERSION}/namespaces/{job['metadata']['namespace']}/dagjobs/{job['metadata']['name']}"


def test_brain_plans_a_gang_on_the_dagjob(brain: Account, job: dict[str, Any]) -> None:
    body = {"metadata": {"uid": job["metadata"]["uid"], "annotations": {names.GANG_PLAN: '{"only":{"0":"n1"}}'}}}
    brain.patch(dagjob_path(job), body, "merge")
    body["metadata"]["annotations"][names.GANG_PLAN] = None
    brain.patch(dagjob_path(job), body, "merge")


def test_brain_says_on_the_dagjob_why_it_waits(brain: Account, job: dict[str, Any]) -> None:
    fields = {"reason": "NoRoom", "message": "why", "position": 3, "estimateSeconds": 1.5, "plan": {"machines": 2}}
    brain.patch(f"{dagjob_path(job)}/status", {"status": fields}, "merge")
    brain.patch(f"{dagjob_path(job)}/status", {"status": dict.fromkeys(fields)}, "merge")


@pytest.mark.parametrize(
    ("sub", "body"),
    [
        ("", {"metadata": {"annotations": {"a": "b"}}}),
        ("", {"metadata": {"labels": {"a": "b"}}}),
        ("", {"metadata": {"finalizers": ["example.com/keep"]}}),
        ("/status", {"status": {"phase": "Succeeded"}}),
        ("/status", {"status": {"tasks": 5}}),
    ],
)
def test_brain_cannot_change_anything_else_of_a_dagjob(
    brain: Account, job: dict[str, Any], sub: str, body: dict[str, Any]
) -> None:
    assert "rm-brain may change nothing" in brain.patch_refusal(dagjob_path(job) + sub, body, "merge")


def test_brain_writes_no_configmap_but_its_memory(cluster: Devcluster, brain: Account) -> None:
    path = "/api/v1/namespaces/rm-system/configmaps"

    def body(name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}

    for chunk in ("rm-brain-snapshot-1-abcd-0", "rm-brain-history-1-abcd-0"):
        brain(lambda client, name=chunk: client.create(path, body(name)))
        brain(lambda client, name=chunk: client.delete(f"{path}/{name}"))
    for name in ("rm-evil", "rm-brain-historyevil"):
        assert "rm-brain may write" in brain.refusal(lambda client, name=name: client.create(path, body(name)))
    assert "rm-brain may write" in brain.refusal(lambda client: client.delete(f"{path}/rm-controllers"))


def task_of(job: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod as the controllers make it."""
    name, space = job["metadata"]["name"], job["metadata"]["namespace"]
    body = pod_of(f"{name}-only-0-0", space, **{"schedulingGates": [{"name": names.GATE}], **spec})
    owner = {"apiVersion": names.API_VERSION, "kind": "DagJob", "name": name, "uid": job["metadata"]["uid"]}
    body["metadata"]["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    labels = {names.DAGJOB_LABEL: name, names.STAGE_LABEL: "only", names.INDEX_LABEL: "0", names.ATTEMPT_LABEL: "0"}
    body["metadata"]["labels"] |= labels
    return body


def pods_of(job: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{job['metadata']['namespace']}/pods"


def test_the_controllers_create_and_delete_pods_of_dagjobs(controllers: Account, job: dict[str, Any]) -> None:
    controllers(lambda client: client.create(pods_of(job), task_of(job)))
    controllers(lambda client: client.delete(f"{pods_of(job)}/mine-only-0-0"))


def test_the_controllers_create_no_other_pods(controllers: Account, space: str) -> None:
    body = pod_of("evil", space, schedulingGates=[{"name": names.GATE}])
    path = f"/api/v1/namespaces/{space}/pods"
    assert "rm-controllers may create" in controllers.refusal(lambda client: client.create(path, body))


def test_the_controllers_delete_no_other_pods(cluster: Devcluster, controllers: Account, space: str) -> None:
    path = new_pod(cluster, space)
    assert "rm-controllers may create and delete" in controllers.refusal(lambda client: client.delete(path))


@pytest.mark.parametrize("where", ["kube-system", "kube-public"])  # rm-system has Pod Security before that
def test_the_controllers_create_nothing_in_namespaces_of_the_system(controllers: Account, where: str) -> None:
    invented = {"metadata": {"name": "invented", "namespace": where, "uid": str(uuid.uuid4())}}
    said = controllers.refusal(lambda client: client.create(pods_of(invented), task_of(invented)))
    assert "rm-controllers may create no pod of kube-system" in said


def test_a_pod_of_an_invented_dagjob_does_not_stay(cluster: Devcluster, controllers: Account, space: str) -> None:
    invented = {"metadata": {"name": "invented", "namespace": space, "uid": str(uuid.uuid4())}}
    controllers(lambda client: client.create(pods_of(invented), task_of(invented)))
    wait(lambda: not cluster.kubectl("get", "pod", "-n", space, "invented-only-0-0", "--ignore-not-found"), 30)


@pytest.mark.parametrize("label", [names.DAGJOB_LABEL, names.STAGE_LABEL, names.INDEX_LABEL, names.QUEUE_LABEL])
def test_the_controllers_label_a_task_as_its_dagjobs(controllers: Account, job: dict[str, Any], label: str) -> None:
    body = task_of(job)
    body["metadata"]["labels"].pop(label)
    if label == names.DAGJOB_LABEL:
        body["metadata"]["labels"][label] = "another"
    said = controllers.refusal(lambda client: client.create(pods_of(job), body))
    assert "rm-controllers may create no pod that is not labelled as a task" in said


def inside(**context: Any) -> dict[str, Any]:
    return {"name": "main", "image": "busybox", "securityContext": context}


#: What gives a container power over its node.
POWERS: dict[str, dict[str, Any]] = {
    "privileged": {"containers": [inside(privileged=True)]},
    "privileged init": {"containers": [inside()], "initContainers": [{**inside(privileged=True), "name": "i"}]},
    "capability": {"containers": [inside(capabilities={"add": ["SYS_ADMIN"]})]},
    "host network": {"hostNetwork": True},
    "host processes": {"hostPID": True},
    "host IPC": {"hostIPC": True},
    "host path": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
}


@pytest.mark.parametrize("power", POWERS)
def test_a_task_has_no_power_over_its_node(controllers: Account, job: dict[str, Any], power: str) -> None:
    said = controllers.refusal(lambda client: client.create(pods_of(job), task_of(job, **POWERS[power])))
    assert "a DagJob may have no privileged containers" in said


def test_a_namespace_may_be_labelled_for_privileged_tasks(cluster: Devcluster, controllers: Account) -> None:
    space = cluster.namespace()
    cluster.kubectl("label", "namespace", space, "pod-security.kubernetes.io/enforce=privileged")
    submit(cluster, dagjob("mine", space, [stage("only", 1, 1)]))
    job = cluster.get("dagjob", "mine", "-n", space)
    wait(lambda: is_accepted(controllers, job), 20)


def is_accepted(controllers: Account, job: dict[str, Any]) -> bool:
    """Admission hears of a namespace's labels a moment after they are set."""
    try:
        controllers(lambda client: client.create(pods_of(job), task_of(job, **POWERS["privileged"])))
    except ApiError as error:
        if "privileged" not in error.message:
            raise
        return False
    return True


def test_the_controllers_delete_no_dagjob_before_its_end(
    cluster: Devcluster, controllers: Account, job: dict[str, Any]
) -> None:
    said = "rm-controllers may delete no DagJob but one that has ended"
    assert said in controllers.refusal(lambda client: client.delete(dagjob_path(job)))
    space = job["metadata"]["namespace"]
    for name, ttl in (("kept", {}), ("expires", {"ttlSecondsAfterFinished": 0})):
        submit(cluster, dagjob(name, space, [stage("only", 1, 1)], **ttl))
        done = cluster.get("dagjob", name, "-n", space)
        controllers.patch(f"{dagjob_path(done)}/status", {"status": {"phase": "Succeeded"}}, "merge")
        if not ttl:
            assert said in controllers.refusal(lambda client, done=done: client.delete(dagjob_path(done)))
        else:
            controllers(lambda client, done=done: client.delete(dagjob_path(done)))


# -- Queues -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def queue(cluster: Devcluster) -> str:
    """The path of one."""
    name = f"queue-{uuid.uuid4().hex[:6]}"
    submit(cluster, {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": {}})
    return f"/apis/{names.API_VERSION}/queues/{name}"


def test_brain_says_on_a_queue_what_it_counts(cluster: Devcluster, brain: Account, queue: str) -> None:
    counts = {"jobs": 3, "pending": 2, "running": 1, "share": "5.0%"}
    brain.patch(f"{queue}/status", {"status": counts}, "merge")
    status = read(cluster, queue)["status"]
    assert {name: status[name] for name in counts} == counts


def test_brain_cannot_say_anything_else_of_a_queue(brain: Account, queue: str) -> None:
    condition = {**said("Ready"), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    refused = brain.patch_refusal(f"{queue}/status", {"status": {"conditions": [condition]}}, "merge")
    assert "rm-brain may change nothing of a Queue's status but" in refused
    assert "cannot patch" in brain.patch_refusal(queue, {"spec": {"weight": 9}}, "merge")


def test_the_controllers_say_of_a_queue_whether_it_is_sound(controllers: Account, queue: str) -> None:
    condition = {**said("Ready"), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    controllers.patch(f"{queue}/status", {"status": {"conditions": [condition]}}, "merge")
    refused = controllers.patch_refusal(f"{queue}/status", {"status": {"running": 9}}, "merge")
    assert "rm-controllers may change nothing of a Queue's status but conditions" in refused


LONG = "9" * 5000


@pytest.mark.parametrize(
    "spec",
    [
        {"max": {"cpu": LONG}},
        {"guaranteed": {"memory": f"{LONG}Gi"}},
        {"perUser": {"limit": {"cpu": f"0.{LONG}"}}},
        {"max": f"0.{LONG}"},
        {"max": f"9.{LONG}%"},
        {"max": {"cpu": 1e300}},
    ],
    ids=["max", "guaranteed", "per user", "share", "percent", "number"],
)
def test_a_limit_is_no_longer_than_a_quantity_may_be(cluster: Devcluster, spec: dict[str, Any]) -> None:
    body = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "long"}, "spec": spec}
    with pytest.raises(RuntimeError, match=r"longer than any quantity|neither a share|Too long|too long"):
        submit(cluster, body)


# -- annotations that are brain's alone ---------------------------------------------------------

ONLY_BRAIN = "are written and removed by brain alone"


#: What Kubernetes' role edit is made of, which a devcluster has no controller to put together.
EDIT = ("system:aggregate-to-edit", "system:aggregate-to-view", "rm-user", "rm-view")


@pytest.fixture(scope="module")
def hers(cluster: Devcluster) -> str:
    space = cluster.namespace("hers")
    for role in EDIT:
        name = role.replace(":", "-")
        cluster.kubectl("create", "rolebinding", name, f"--clusterrole={role}", "--user=alice", "-n", space)
    submit(cluster, dagjob("job", space, [stage("only", 1, 1)]))
    submit(cluster, pod_of("pod", space, schedulingGates=[{"name": names.GATE}]))
    return space


def as_alice(cluster: Devcluster, *asked: str, body: dict[str, Any] | None = None) -> None:
    """Raises RuntimeError with what is said."""
    cluster.kubectl(*asked, "--as=alice", input=json.dumps(body) if body is not None else None)


@pytest.mark.parametrize(
    ("kind", "name", "annotation"),
    [("dagjob", "job", names.GANG_PLAN), ("pod", "pod", names.RESERVED_NODE)],
)
def test_a_tenant_writes_no_annotation_that_is_brains(
    cluster: Devcluster, brain: Account, hers: str, kind: str, name: str, annotation: str
) -> None:
    with pytest.raises(RuntimeError, match=ONLY_BRAIN):
        as_alice(cluster, "annotate", kind, name, "-n", hers, f'{annotation}={{"a":{{"abc":"n0"}}}}')
    prefix = f"apis/{names.API_VERSION}" if kind == "dagjob" else "api/v1"
    brain.patch(
        f"/{prefix}/namespaces/{hers}/{kind}s/{name}", {"metadata": {"annotations": {annotation: "{}"}}}, "merge"
    )
    with pytest.raises(RuntimeError, match=ONLY_BRAIN):
        as_alice(cluster, "annotate", kind, name, "-n", hers, f"{annotation}-")
    as_alice(cluster, "annotate", kind, name, "-n", hers, "example.com/note=mine", "--overwrite")


def test_a_tenant_makes_nothing_with_an_annotation_that_is_brains(cluster: Devcluster, hers: str) -> None:
    job, pod = dagjob("made", hers, [stage("only", 1, 1)]), pod_of("made", hers)
    for body, annotation in ((job, names.GANG_PLAN), (pod, names.RESERVED_NODE)):
        body["metadata"]["annotations"] = {annotation: "{}"}
        with pytest.raises(RuntimeError, match=ONLY_BRAIN):
            as_alice(cluster, "create", "-f", "-", body=body)


# -- the leader's label --------------------------------------------------------------------------


class Brain(NamedTuple):
    """One of two replicas: its pod, and its account with the token that a kubelet gives to that pod."""

    path: str
    account: Account


def label(value: str | None, name: str = names.LEADER_LABEL) -> dict[str, Any]:
    return {"metadata": {"labels": {name: value}}}


@pytest.fixture(scope="module")
def brains(cluster: Devcluster) -> list[Brain]:
    """Of the Deployment that was applied; the devcluster runs none of their processes."""
    cluster.kubectl("scale", "deployment", "rm-brain", "-n", names.NAMESPACE, "--replicas=2")
    asked = ("pods", "-n", names.NAMESPACE, "-l", "app=rm-brain")
    wait(lambda: len(cluster.get(*asked)["items"]) == 2)
    return [
        Brain(
            f"/api/v1/namespaces/{names.NAMESPACE}/pods/{pod['metadata']['name']}",
            Account(cluster, "rm-brain", pod=(pod["metadata"]["name"], pod["metadata"]["uid"])),
        )
        for pod in cluster.get(*asked)["items"]
    ]


def labels(cluster: Devcluster, pod: str) -> dict[str, str]:
    found: dict[str, str] = read(cluster, pod)["metadata"]["labels"]
    return found


def test_a_brain_sets_the_label_on_its_own_pod_and_takes_it_off_another(
    cluster: Devcluster, brains: list[Brain]
) -> None:
    first, second = brains
    first.account.patch(first.path, label("true"), "merge")
    assert labels(cluster, first.path)[names.LEADER_LABEL] == "true"
    second.account.patch(first.path, label(None), "merge")
    assert names.LEADER_LABEL not in labels(cluster, first.path)


def test_a_brain_does_not_set_the_label_on_another_pod(cluster: Devcluster, brains: list[Brain]) -> None:
    first, second = brains
    assert "on its own pod alone" in first.account.patch_refusal(second.path, label("true"), "merge")


def test_a_token_that_is_bound_to_no_pod_sets_no_label(brain: Account, brains: list[Brain]) -> None:
    assert "on its own pod alone" in brain.patch_refusal(brains[0].path, label("true"), "merge")


def test_a_brain_sets_no_other_value_of_the_label(brains: list[Brain]) -> None:
    first, _ = brains
    assert "on its own pod alone" in first.account.patch_refusal(first.path, label("maybe"), "merge")


@pytest.mark.parametrize(
    "change",
    [
        label("x", "app"),
        label(None, "app"),
        label("x", names.QUEUE_LABEL),
        {"metadata": {"annotations": {"rm-emulator.io/x": "y"}}},
        {"metadata": {"finalizers": ["example.com/x"]}},
        {"metadata": {"ownerReferences": None}},
        {"spec": {"activeDeadlineSeconds": 1}},
        {"spec": {"containers": [{"name": "brain", "image": "another"}]}},
    ],
    ids=lambda change: str(change)[:60],
)
def test_a_brain_changes_nothing_else_of_its_own_pod(brains: list[Brain], change: dict[str, Any]) -> None:
    first, _ = brains
    said = first.account.patch_refusal(first.path, change, "strategic")
    assert "nothing of the pods of its own namespace but the label" in said


def test_a_brain_labels_no_pod_elsewhere(cluster: Devcluster, brains: list[Brain], space: str) -> None:
    path = new_pod(cluster, space)
    assert "nothing of a pod's metadata but annotations" in brains[0].account.patch_refusal(
        path, label("true"), "merge"
    )


# -- ways round queue and gate ------------------------------------------------------------------

TAINT = {"key": names.RESERVED_TAINT, "operator": "Exists"}
DAEMONSETS = "system:serviceaccount:kube-system:daemon-set-controller"


@pytest.fixture(scope="module")
def shared_node(cluster: Devcluster) -> str:
    """One that is not reserved."""
    (name,) = cluster.add_nodes(1, prefix="shared")
    return name


def foreign(name: str, space: str, **spec: Any) -> dict[str, Any]:
    """A pod that does not join."""
    body = pod_of(name, space, **{"schedulerName": "default-scheduler", **spec})
    del body["metadata"]["labels"]
    return body


def test_a_tenant_names_no_node_of_a_pod_that_joins(cluster: Devcluster, hers: str, shared_node: str) -> None:
    by_brain = "chosen by brain, and by who has the verb ungate on queue 'default'"
    # Of a reserved node two policies refuse, and either may be heard.
    for node, said in (("n0", f"{by_brain}|node 'n0' is reserved"), (shared_node, by_brain)):
        with pytest.raises(RuntimeError, match=said):
            as_alice(cluster, "create", "-f", "-", body=pod_of("joins", hers, nodeName=node))


def test_a_tenant_names_no_reserved_node_of_any_pod(cluster: Devcluster, hers: str) -> None:
    with pytest.raises(RuntimeError, match=r"node 'n0' is reserved \(taint rm-emulator.io/reserved\)"):
        as_alice(cluster, "create", "-f", "-", body=foreign("names", hers, nodeName="n0"))


def test_a_tenant_names_a_node_that_is_not_reserved(cluster: Devcluster, hers: str, shared_node: str) -> None:
    as_alice(cluster, "create", "--dry-run=server", "-f", "-", body=foreign("names", hers, nodeName=shared_node))


def test_controllers_of_the_system_name_no_node_for_a_tenant(cluster: Devcluster, hers: str) -> None:
    """The Job is hers, and the pod is made by who has no verb ungate."""
    template = {"spec": {**foreign("", hers, nodeName="n0")["spec"], "restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "names", "namespace": hers}}
    as_alice(cluster, "create", "-f", "-", body={**job, "spec": {"template": template}})
    wait(lambda: "is reserved" in cluster.kubectl("get", "events", "-n", hers), 20)
    as_alice(cluster, "delete", "job", "names", "-n", hers)


def test_an_administrator_names_a_reserved_node(cluster: Devcluster, hers: str) -> None:
    submit(cluster, foreign("debug", hers, nodeName="n0"))
    cluster.kubectl("delete", "pod", "debug", "-n", hers, "--now")


def test_a_kubelet_shows_its_static_pods(cluster: Devcluster) -> None:
    body = foreign("static-n0", "kube-system", nodeName="n0")
    body["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "0", "kubernetes.io/config.source": "file"}
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n0", "controller": True}
    body["metadata"]["ownerReferences"] = [{**owner, "uid": cluster.get("node", "n0")["metadata"]["uid"]}]
    # Rights of kubelets come from the node authorizer, which a devcluster has not.
    cluster.kubectl("create", "clusterrolebinding", "nodes", "--clusterrole=system:node", "--group=system:nodes")
    kubelet = ("--as=system:node:n0", "--as-group=system:nodes", "--as-group=system:authenticated")
    cluster.kubectl("create", "--dry-run=server", *kubelet, "-f", "-", input=json.dumps(body))


def test_a_tenant_tolerates_the_taint_for_no_other_scheduler(cluster: Devcluster, hers: str) -> None:
    with pytest.raises(RuntimeError, match="is tolerated by pods of schedulerName rm-scheduler"):
        as_alice(cluster, "create", "-f", "-", body=foreign("tolerates", hers, tolerations=[TAINT]))
    as_alice(cluster, "create", "--dry-run=server", "-f", "-", body=pod_of("tolerates", hers, tolerations=[TAINT]))


def test_a_tenant_tolerates_the_taint_later_for_no_other_scheduler(cluster: Devcluster, hers: str) -> None:
    submit(cluster, foreign("later", hers))
    toleration = json.dumps([{"op": "add", "path": "/spec/tolerations", "value": [TAINT]}])
    with pytest.raises(RuntimeError, match="is tolerated by pods of schedulerName rm-scheduler"):
        as_alice(cluster, "patch", "pod", "later", "-n", hers, "--type=json", "-p", toleration)


def daemonset(space: str) -> dict[str, Any]:
    labels = {"app": "agent"}
    spec = {"tolerations": [TAINT], "containers": [{"name": "main", "image": "busybox"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": space},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def test_a_daemonset_on_reserved_nodes_is_made_by_administrators(cluster: Devcluster, hers: str) -> None:
    with pytest.raises(RuntimeError, match="is tolerated by pods of schedulerName rm-scheduler"):
        as_alice(cluster, "create", "-f", "-", body=daemonset(hers))
    cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(daemonset(hers)))
    pod = json.dumps(foreign("agent-x", hers, tolerations=[TAINT]))
    cluster.kubectl("create", "--dry-run=server", f"--as={DAEMONSETS}", "-f", "-", input=pod)


def test_dagjobs_are_let_in_while_the_api_server_has_not_found_the_kind_of_a_parameter(
    cluster: Devcluster, space: str
) -> None:
    """As for up to 30 s after its start: what is not judged then, brain judges. A policy that fails closed refuses."""
    texts = yaml.safe_load_all((MANIFESTS / "base" / "tenants.yaml").read_text(encoding="utf-8"))
    policy, binding = (one for one in texts if one["metadata"]["name"] == "rm-queue-namespaces")
    policy["spec"]["paramKind"]["kind"] = "Unheard"
    closed = copy.deepcopy(policy)
    closed["spec"]["failurePolicy"] = "Fail"

    def refusal() -> str:
        try:
            submit(cluster, dagjob(f"probe-{uuid.uuid4().hex[:6]}", space, [stage("only", 1, 1)]))
        except RuntimeError as error:
            return str(error)
        return ""

    submit(cluster, *(renamed(one, "open") for one in (policy, binding)))
    try:
        submit(cluster, *(renamed(one, "closed") for one in (closed, binding)))
        try:
            wait(lambda: "Kind=Unheard" in refusal(), 30)  # so both are in force
        finally:
            delete(cluster, policy, binding, name="closed")
        wait(lambda: not refusal(), 30)
    finally:
        delete(cluster, policy, binding, name="open")


def delete(cluster: Devcluster, *made: dict[str, Any], name: str) -> None:
    for one in made:
        cluster.kubectl("delete", one["kind"], renamed(one, name)["metadata"]["name"])


def renamed(one: dict[str, Any], name: str) -> dict[str, Any]:
    """A policy, or its binding, as another one."""
    copied = copy.deepcopy(one)
    copied["metadata"]["name"] = f"test-{name}"
    if "policyName" in copied["spec"]:
        copied["spec"]["policyName"] = f"test-{name}"
    return copied
