"""Users who try more than they may, on the real API server: other users' names, queues, labels and gates."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import MANIFESTS, dagjob, stage, wait

pytestmark = pytest.mark.controlplane

RBAC = "rbac.authorization.k8s.io"


def role(name: str, *rules: tuple[str, str, list[str], list[str]]) -> dict[str, Any]:
    """A ClusterRole; rules: (group, resource, verbs, names)."""
    given = [
        {"apiGroups": [group], "resources": [what], "verbs": verbs, **({"resourceNames": which} if which else {})}
        for group, what, verbs, which in rules
    ]
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": given}


def bound(user: str, to: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{user}-{to}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": to},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }


def queue(name: str, **namespaces: Any) -> dict[str, Any]:
    meta = {"name": name}
    return {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": meta, "spec": {"namespaces": namespaces}}


def team(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "team", "operator": operator, **({"values": values} if values else {})}]}


QUEUES = {
    "a-only": {"matchLabels": {"team": "a"}},
    "in-a": team("In", "a", "x"),
    "not-in-b": team("NotIn", "b"),
    "has-tier": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
    "no-test": {"matchExpressions": [{"key": "test", "operator": "DoesNotExist"}]},
}
#: Of team b alone.
OTHERS = {"b-only": {"matchLabels": {"team": "b"}}}
#: Of team a each queue is, of team b none.
LABELS = {"a": ("team=a", "tier=1"), "b": ("team=b", "test=1")}


class Tenants:
    """alice and bob may do all with pods and DagJobs in two namespaces; carol may act as bob, olga may open gates."""

    def __init__(self, cluster: Devcluster) -> None:
        self.cluster = cluster
        self.spaces = {name: cluster.namespace(f"team-{name}") for name in LABELS}
        for name, labels in LABELS.items():
            cluster.kubectl("label", "namespace", self.spaces[name], *labels)
        everything = ["get", "create", "patch", "update", "delete"]
        objects = [
            role("tenant", ("", "pods", everything, []), (names.GROUP, "dagjobs", everything, [])),
            role("as-bob", ("", "users", ["impersonate"], ["bob"])),
            role("opens", (names.GROUP, "queues", ["ungate"], ["default"])),
            *(bound(user, "tenant") for user in ("alice", "bob", "carol", "olga")),
            bound("carol", "as-bob"),
            bound("olga", "opens"),
            *(queue(name, **selector) for name, selector in (QUEUES | OTHERS).items()),
        ]
        cluster.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def create(self, user: str, team: str, body: dict[str, Any], *, keep: bool = False) -> dict[str, Any]:
        """Raises RuntimeError with what is said."""
        dry = () if keep else ("--dry-run=server",)
        asked = ("create", f"--as={user}", "-n", self.spaces[team], "-f", "-", "-o", "json", *dry)
        made: dict[str, Any] = json.loads(self.cluster.kubectl(*asked, input=json.dumps(body)))
        return made

    def refusal(self, user: str, team: str, body: dict[str, Any]) -> str:
        with pytest.raises(RuntimeError) as raised:
            self.create(user, team, body)
        return str(raised.value)

    def patch(self, user: str, pod: str, patch: list[dict[str, Any]]) -> None:
        """Raises RuntimeError with what is said."""
        asked = ("patch", "pod", pod, f"--as={user}", "-n", self.spaces["a"], "--type=json", "-p", json.dumps(patch))
        self.cluster.kubectl(*asked)


@pytest.fixture(scope="module")
def tenants(devcluster: Devcluster) -> Tenants:
    devcluster.apply(MANIFESTS / "overlays" / "dev")
    found = Tenants(devcluster)

    def in_force() -> bool:
        """The API server hears of policies and Queues a moment after they are applied."""
        try:
            found.create("alice", "b", job(user="bob"))
        except RuntimeError as error:
            if "spec.user is 'bob'" not in str(error):
                return False
        else:
            return False
        try:
            for name in QUEUES:
                found.create("alice", "b", job(queue=name))
                return False
        except RuntimeError as error:
            return "is not for namespace" in str(error)
        return False

    wait(in_force, 60)
    return found


def job(**spec: Any) -> dict[str, Any]:
    body = dagjob("j", "", [stage("only", 1, 1)], **spec)
    del body["metadata"]["namespace"]
    return body


def pod(*, gates: tuple[str, ...] = (), **labels: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{uuid.uuid4().hex[:6]}",
            "labels": {f"{names.GROUP}/{key}": value for key, value in ({"queue": "default"} | labels).items()},
        },
        "spec": {
            "schedulerName": names.SCHEDULER,
            "schedulingGates": [{"name": gate} for gate in gates],
            "containers": [container],
        },
    }


# -- users --------------------------------------------------------------------------------------


def test_a_dagjob_is_on_behalf_of_whoever_made_it(tenants: Tenants) -> None:
    assert tenants.create("alice", "a", job())["spec"]["user"] == "alice"


def test_a_user_may_name_herself(tenants: Tenants) -> None:
    tenants.create("alice", "a", job(user="alice"))


def test_a_user_cannot_submit_on_behalf_of_another(tenants: Tenants) -> None:
    assert "spec.user is 'bob' and would have to be 'alice'" in tenants.refusal("alice", "a", job(user="bob"))


def test_who_may_impersonate_a_user_may_submit_for_her(tenants: Tenants) -> None:
    assert tenants.create("carol", "a", job(user="bob"))["spec"]["user"] == "bob"


# -- queues -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUEUES)
def test_a_queue_is_for_the_namespaces_that_it_selects(tenants: Tenants, name: str) -> None:
    said = f"queue '{name}' is not for namespace '{tenants.spaces['b']}' (see spec.namespaces of the Queue)"
    assert said in tenants.refusal("alice", "b", job(queue=name))
    tenants.create("alice", "a", job(queue=name))


def test_a_pod_may_use_the_queues_of_its_namespace_alone(tenants: Tenants) -> None:
    tenants.create("alice", "a", pod(queue="a-only"))
    assert "queue 'a-only' is not for namespace" in tenants.refusal("alice", "b", pod(queue="a-only"))


def test_a_queue_of_the_same_apply_is_not_missed(tenants: Tenants) -> None:
    """README's first command; brain holds what names a queue that never comes."""
    name = f"new-{uuid.uuid4().hex[:6]}"
    both = {"apiVersion": "v1", "kind": "List", "items": [queue(name), job(queue=name)]}
    tenants.cluster.kubectl("apply", "-n", tenants.spaces["a"], "-f", "-", input=json.dumps(both))


def test_a_pod_cannot_move_to_a_queue_that_it_could_not_join(tenants: Tenants) -> None:
    name = tenants.create("alice", "a", pod(gates=(names.GATE,)), keep=True)["metadata"]["name"]
    move = {"op": "replace", "path": "/metadata/labels/rm-emulator.io~1queue"}
    with pytest.raises(RuntimeError, match="queue 'b-only' is not for namespace"):
        tenants.patch("alice", name, [{**move, "value": "b-only"}])
    tenants.patch("alice", name, [{**move, "value": "in-a"}])


# -- labels and gates ---------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["dagjob", "stage", "index", "attempt"])
def test_nobody_but_the_controllers_makes_a_task(tenants: Tenants, label: str) -> None:
    assert "are set by rm-controllers" in tenants.refusal("alice", "a", pod(**{label: "1"}))


def test_no_pod_becomes_a_task_later(tenants: Tenants) -> None:
    name = tenants.create("alice", "a", pod(gates=(names.GATE,)), keep=True)["metadata"]["name"]
    with pytest.raises(RuntimeError, match="are set by rm-controllers"):
        tenants.patch("alice", name, [{"op": "add", "path": "/metadata/labels/rm-emulator.io~1index", "value": "3"}])
    tenants.patch("alice", name, [{"op": "add", "path": "/metadata/labels/app", "value": "mine"}])


def test_a_gate_is_opened_by_who_may_ungate_its_queue(tenants: Tenants) -> None:
    gates = ("example.com/quota", names.GATE)
    opening = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    name = tenants.create("alice", "a", pod(gates=gates), keep=True)["metadata"]["name"]
    tenants.patch("alice", name, opening)  # one that is not ours
    with pytest.raises(RuntimeError, match="who has the verb ungate on queue 'default'"):
        tenants.patch("alice", name, opening)
    tenants.patch("olga", name, opening)


def test_an_administrator_may_open_gates(tenants: Tenants) -> None:
    name = tenants.create("alice", "a", pod(gates=(names.GATE,)), keep=True)["metadata"]["name"]
    test_and_remove = [
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": names.GATE},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]
    space = tenants.spaces["a"]
    tenants.cluster.kubectl("patch", "pod", name, "-n", space, "--type=json", "-p", json.dumps(test_and_remove))
