"""What a tenant with the role `edit` in one namespace can do on the real API server, row by row."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import MANIFESTS, dagjob, stage, submit, wait
from tests.kubernetes.rights import NOBODY, ROWS, Row, pod

pytestmark = pytest.mark.controlplane

#: What Kubernetes' role edit is made of, which a devcluster has no controller to put together.
EDIT = ("system:aggregate-to-edit", "system:aggregate-to-view", "rm-user", "rm-view")
CLOSED = {
    "apiVersion": names.API_VERSION,
    "kind": "Queue",
    "metadata": {"name": "closed"},
    "spec": {"namespaces": {"matchLabels": {"team": "nobody"}}},
}


@pytest.fixture(scope="module")
def cluster(devcluster: Devcluster) -> Devcluster:
    """With our rules in force, and none of our processes."""
    devcluster.apply(MANIFESTS / "overlays" / "dev")
    return devcluster


@pytest.fixture(scope="module")
def meant(cluster: Devcluster) -> Mapping[str, str]:
    """What the words of the rows stand for. alice has the rights of edit in OWN, vera may see all queues."""
    own, other = cluster.namespace("own"), cluster.namespace("other")
    for role in EDIT:
        name = role.replace(":", "-")
        cluster.kubectl("create", "rolebinding", name, f"--clusterrole={role}", "--user=alice", "-n", own)
    cluster.kubectl("create", "clusterrolebinding", "vera", "--clusterrole=rm-view-queues", "--user=vera")

    def set_up() -> bool:
        """The API server hears of kinds and policies a moment after they are applied."""
        try:
            submit(cluster, dagjob("job", own, [stage("only", 1, 1)]))
        except RuntimeError as error:
            if "not yet synced" not in str(error) and "There can be a delay" not in str(error):
                raise
            return False
        return True

    wait(set_up, 60)
    gated = pod(schedulingGates=[{"name": names.GATE}]) | {"metadata": {"name": "pod", "namespace": own}}
    gated["metadata"]["labels"] = {names.QUEUE_LABEL: "default"}
    submit(cluster, CLOSED, dagjob("job", other, [stage("only", 1, 1)]), gated)
    submit(cluster, dagjob("bobs", own, [stage("only", 1, 1)], user="bob"))
    (shared,) = cluster.add_nodes(1, prefix="free")
    brain = wait(lambda: cluster.get("pods", "-n", names.NAMESPACE, "-l", "app=rm-brain")["items"])[0]
    found = {"OWN": own, "OTHER": other, "BRAIN": brain["metadata"]["name"], "SHARED": shared}
    closed = next(row for row in ROWS if row.by == "rm-queue-namespaces")
    wait(lambda: closed.by in refusal(cluster, found, closed), 60)
    return found


def act(cluster: Devcluster, meant: Mapping[str, str], row: Row) -> None:
    """Try it, as alice where the row names nobody else. Raises RuntimeError with what is said."""
    text, body = row.words, json.dumps(row.body)
    for word, name in meant.items():
        text, body = text.replace(word, name), body.replace(f'"{word}"', f'"{name}"')
    words = text.split()
    if words[0] not in ("get", "create", "auth"):
        words.append("--dry-run=server")
    if not any(word.startswith("--as=") for word in words):
        words.append("--as=alice")
    cluster.kubectl(*words, input=body if row.body is not None else None)


def refusal(cluster: Devcluster, meant: Mapping[str, str], row: Row) -> str:
    try:
        act(cluster, meant, row)
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("row", [row for row in ROWS if row.allowed], ids=lambda row: row.what)
@pytest.mark.drawn(of=4)
def test_a_tenant_may(cluster: Devcluster, meant: Mapping[str, str], row: Row) -> None:
    act(cluster, meant, row)


@pytest.mark.parametrize("row", [row for row in ROWS if not row.allowed], ids=lambda row: row.what)
def test_a_tenant_may_not(cluster: Devcluster, meant: Mapping[str, str], row: Row) -> None:
    said = refusal(cluster, meant, row)
    if row.words.startswith("auth can-i"):
        assert said
    elif row.by == NOBODY:
        assert 'User "alice" cannot' in said
    else:
        assert f"ValidatingAdmissionPolicy '{row.by}'" in said
