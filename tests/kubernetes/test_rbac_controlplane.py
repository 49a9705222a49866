"""Rights on the real API server: all that our parts do is allowed, and nothing beyond it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from devcluster.cluster import Devcluster
from operators.client import ApiError, Client
from operators.lease import Lease
from schedulers.objects import names
from tests.kubernetes.account import Account
from tests.kubernetes.installed import MANIFESTS, dagjob, stage, submit

pytestmark = pytest.mark.controlplane

OURS = ("rm-brain", "rm-controllers")
SYSTEM = "/api/v1/namespaces/rm-system"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/rm-system/leases"


@pytest.fixture(scope="module")
def cluster(devcluster: Devcluster) -> Devcluster:
    devcluster.apply(MANIFESTS / "overlays" / "dev")
    return devcluster


@pytest.fixture(scope="module")
def accounts(cluster: Devcluster) -> dict[str, Account]:
    return {name: Account(cluster, name) for name in OURS}


@pytest.fixture(scope="module")
def space(cluster: Devcluster) -> str:
    namespace = cluster.namespace()
    submit(cluster, dagjob("job", namespace, [stage("only", 1, 1)]))
    return namespace


def granted() -> Iterator[tuple[str, str, str, str, str]]:
    """Account, verb, resource.group, name, namespace of every right in rbac.yaml."""
    for role in yaml.safe_load_all((MANIFESTS / "base" / "rbac.yaml").read_text()):
        if role["kind"] not in ("Role", "ClusterRole") or role["metadata"]["name"] not in OURS:
            continue
        for rule in role["rules"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        what, _, sub = resource.partition("/")
                        group = f".{rule['apiGroups'][0]}" if rule["apiGroups"][0] else ""
                        where = role["metadata"].get("namespace", "")
                        yield role["metadata"]["name"], verb, f"{what}{group}/{sub}", name, where


def can(cluster: Devcluster, account: str, verb: str, resource: str, name: str = "", where: str = "") -> bool:
    """As `kubectl auth can-i`, which cannot ask of a group that is not served."""
    whole, _, sub = resource.partition("/")
    what, _, group = whole.partition(".")
    asked = {"verb": verb, "group": group, "resource": what, "subresource": sub, "name": name, "namespace": where}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:{names.NAMESPACE}:{account}", "resourceAttributes": asked},
    }
    answer = json.loads(cluster.kubectl("create", "-f", "-", "-o", "json", input=json.dumps(review)))
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize(("account", "verb", "resource", "name", "where"), list(granted()))
@pytest.mark.drawn(of=4)
def test_a_right_of_the_manifests_is_in_force(
    cluster: Devcluster, account: str, verb: str, resource: str, name: str, where: str
) -> None:
    assert can(cluster, account, verb, resource, name, where)


# -- used: each with the real token -------------------------------------------------------------


@pytest.mark.parametrize("account", OURS)
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nodes",
        "/api/v1/pods",
        f"/apis/{names.API_VERSION}/queues",
        f"/apis/{names.API_VERSION}/dagjobs",
    ],
)
def test_an_account_lists_and_watches(accounts: dict[str, Account], account: str, path: str) -> None:
    async def look(client: Client) -> None:
        version = (await client.get(path, limit="1"))["metadata"]["resourceVersion"]
        async for _ in client.watch(path, read_timeout_s=5, resourceVersion=version, timeoutSeconds="1"):
            break

    accounts[account](look)


@pytest.mark.parametrize("account", OURS)
def test_an_account_leads_by_its_lease(accounts: dict[str, Account], account: str) -> None:
    async def lead(client: Client) -> None:
        lease = Lease(client, name=f"{account}-leader", namespace=names.NAMESPACE, identity="test")
        await lease._try()
        assert lease.leads or lease.holder
        if lease.leads:
            await lease._release()

    accounts[account](lead)


def test_the_controllers_write_statuses_and_events(accounts: dict[str, Account], space: str) -> None:
    async def write(client: Client) -> None:
        path = f"/apis/{names.API_VERSION}/namespaces/{space}/dagjobs/job/status"
        await client.patch(path, {"status": {"phase": "Pending"}}, kind="merge")
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": "job-", "namespace": space},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "rm-emulator.io/rm-controllers",
            "reportingInstance": "test",
            "action": "Reconcile",
            "reason": "Test",
            "type": "Normal",
            "regarding": {"apiVersion": names.API_VERSION, "kind": "DagJob", "namespace": space, "name": "job"},
        }
        await client.create(f"/apis/events.k8s.io/v1/namespaces/{space}/events", event)

    accounts["rm-controllers"](write)


# -- denied: each with the real token -----------------------------------------------------------

BODY: dict[str, Any] = {"metadata": {"name": "x"}}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DENIED = [
    ("rm-brain", "GET", "/api/v1/secrets"),
    ("rm-brain", "GET", f"{SYSTEM}/secrets"),
    ("rm-brain", "GET", "/api/v1/configmaps"),
    ("rm-brain", "GET", "/api/v1/namespaces/kube-system/configmaps"),
    ("rm-brain", "POST", "/api/v1/namespaces/default/configmaps"),
    ("rm-brain", "PUT", f"{SYSTEM}/configmaps/rm-controllers"),
    ("rm-brain", "POST", "/api/v1/namespaces/default/pods"),
    ("rm-brain", "POST", "/api/v1/namespaces/default/pods/x/eviction"),
    ("rm-brain", "POST", "/api/v1/namespaces/default/pods/x/exec"),
    ("rm-brain", "POST", "/api/v1/nodes"),
    ("rm-brain", "DELETE", "/api/v1/nodes/n0"),
    ("rm-brain", "PATCH", "/api/v1/nodes/n0"),
    ("rm-brain", "POST", f"/apis/{names.API_VERSION}/queues"),
    ("rm-brain", "DELETE", f"/apis/{names.API_VERSION}/namespaces/default/dagjobs/x"),
    ("rm-brain", "PATCH", f"/apis/{names.API_VERSION}/queues/x"),
    ("rm-brain", "PUT", f"{LEASES}/rm-controllers-leader"),
    ("rm-brain", "DELETE", f"{LEASES}/rm-brain-leader"),
    ("rm-brain", "POST", f"{SYSTEM}/serviceaccounts/rm-controllers/token"),
    ("rm-brain", "POST", f"{RBAC}/clusterrolebindings"),
    ("rm-brain", "POST", f"{RBAC}/namespaces/rm-system/rolebindings"),
    ("rm-brain", "DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/rm-brain-pods"),
    ("rm-controllers", "GET", "/api/v1/secrets"),
    ("rm-controllers", "GET", f"{SYSTEM}/secrets"),
    ("rm-controllers", "GET", "/api/v1/configmaps"),
    ("rm-controllers", "GET", f"{SYSTEM}/configmaps"),
    ("rm-controllers", "GET", f"{SYSTEM}/configmaps/rm-brain"),
    ("rm-controllers", "PATCH", f"{SYSTEM}/configmaps/rm-brain"),
    ("rm-controllers", "POST", "/api/v1/namespaces/default/pods/x/binding"),
    ("rm-controllers", "POST", "/api/v1/namespaces/default/bindings"),
    ("rm-controllers", "PATCH", "/api/v1/namespaces/default/pods/x"),
    ("rm-controllers", "PATCH", "/api/v1/namespaces/default/pods/x/status"),
    ("rm-controllers", "DELETE", "/api/v1/namespaces/default/pods"),
    ("rm-controllers", "POST", "/api/v1/namespaces/default/pods/x/exec"),
    ("rm-controllers", "DELETE", "/api/v1/nodes/n0"),
    ("rm-controllers", "PATCH", "/api/v1/nodes/n0"),
    ("rm-controllers", "POST", f"/apis/{names.API_VERSION}/namespaces/default/dagjobs"),
    ("rm-controllers", "PATCH", f"/apis/{names.API_VERSION}/namespaces/default/dagjobs/x"),
    ("rm-controllers", "POST", f"/apis/{names.API_VERSION}/queues"),
    ("rm-controllers", "DELETE", f"/apis/{names.API_VERSION}/queues/x"),
    ("rm-controllers", "PUT", f"{LEASES}/rm-brain-leader"),
    ("rm-controllers", "POST", f"{SYSTEM}/serviceaccounts/rm-brain/token"),
    ("rm-controllers", "POST", f"{RBAC}/clusterroles"),
    ("rm-controllers", "POST", f"{RBAC}/clusterrolebindings"),
]


@pytest.mark.parametrize(("account", "method", "path"), DENIED)
def test_an_account_may_not(accounts: dict[str, Account], account: str, method: str, path: str) -> None:
    async def call(client: Client) -> None:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        body = None if method == "GET" else {} if method == "DELETE" else BODY
        await client._call(method, path, body, params={}, content_type=kind)

    with pytest.raises(ApiError) as raised:
        accounts[account](call)
    assert (raised.value.status, raised.value.reason) == (403, "Forbidden")
    assert accounts[account].user in raised.value.message


@pytest.mark.parametrize("account", OURS)
def test_an_account_cannot_grant_itself_more(cluster: Devcluster, account: str) -> None:
    user = f"--as=system:serviceaccount:{names.NAMESPACE}:{account}"
    for verb, what in (("create", "clusterrolebindings"), ("escalate", "clusterroles"), ("impersonate", "users")):
        with pytest.raises(RuntimeError):
            cluster.kubectl("auth", "can-i", verb, what, user)


def test_who_may_edit_a_namespace_may_submit(cluster: Devcluster) -> None:
    space = cluster.namespace()
    role = cluster.get("clusterrole", "rm-user")
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "alice", "namespace": space},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "rm-user"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    cluster.kubectl("create", "-f", "-", input=json.dumps(binding))
    job = json.dumps(dagjob("hers", space, [stage("only", 1, 1)]))
    cluster.kubectl("create", "--as=alice", "-f", "-", input=job)
    patch = ("patch", "dagjob", "hers", "-n", space, "--subresource=status", "--type=merge")
    with pytest.raises(RuntimeError, match="forbidden"):
        cluster.kubectl(*patch, "--as=alice", "-p", '{"status":{"phase":"Succeeded"}}')
