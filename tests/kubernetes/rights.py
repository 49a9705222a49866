"""What a tenant may do who has Kubernetes' role `edit` in one namespace: rows of a test, and of a page.

Words that stand for others: OWN, OTHER (namespaces), BRAIN (a pod of ours in rm-system).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from schedulers.objects import names
from tests.kubernetes.installed import dagjob, stage

#: Who refuses what RBAC grants by no role.
NOBODY: Final = "no role grants it"
CREATE: Final = "create --dry-run=server -f -"


class Row(NamedTuple):
    """One thing that is tried. words: of kubectl; by: the role that grants it, or the policy that refuses it."""

    what: str
    allowed: bool
    by: str
    words: str
    body: Mapping[str, Any] | None = None


def yes(what: str, by: str, words: str, body: Mapping[str, Any] | None = None) -> Row:
    """What is allowed."""
    return Row(what, True, by, words, body)


def no(what: str, words: str, body: Mapping[str, Any] | None = None, *, by: str = NOBODY) -> Row:
    """What is refused."""
    return Row(what, False, by, words, body)


def job(namespace: str = "OWN", **spec: Any) -> dict[str, Any]:
    """A DagJob of the tenant."""
    return dagjob("new", namespace, [stage("only", 1, 1)], **spec)


def pod(labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod that joins."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    meta = {"name": "new", "namespace": "OWN", "labels": {names.QUEUE_LABEL: "default", **(labels or {})}}
    spec = {"schedulerName": names.SCHEDULER, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def foreign(**spec: Any) -> dict[str, Any]:
    """A pod of another scheduler."""
    body = pod(schedulerName="default-scheduler", **spec)
    return body | {"metadata": {"name": "new", "namespace": "OWN"}}


QUEUE: Final = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "mine"}, "spec": {"weight": 9}}
STATUS: Final = '{"status":{"phase":"Succeeded"}}'
OPEN: Final = '[{"op":"remove","path":"/spec/schedulingGates"}]'
TAINT: Final = {"key": names.RESERVED_TAINT, "operator": "Exists"}

ROWS: Final = (
    yes("create DagJobs", "rm-user", CREATE, job()),
    yes("change and delete all DagJobs of the namespace, whoever made them", "rm-user", "delete dagjob bobs -n OWN"),
    yes("read DagJobs of the namespace, and why they wait", "rm-view", "get dagjobs -n OWN"),
    no("create DagJobs in another namespace", CREATE, job("OTHER")),
    no("read DagJobs of another namespace", "get dagjobs -n OTHER"),
    no("delete DagJobs of another namespace", "delete dagjob job -n OTHER"),
    no("submit in the name of another user", CREATE, job(user="bob"), by="rm-user-is-requester"),
    no("submit to a queue that is closed to the namespace", CREATE, job(queue="closed"), by="rm-queue-namespaces"),
    no("write the status of a DagJob", f"patch dagjob job -n OWN --subresource=status --type=merge -p {STATUS}"),
    no("write the plan of a gang", f"annotate dagjob job -n OWN {names.GANG_PLAN}=x", by="rm-brain-annotations"),
    yes("create pods that join an open queue", "edit", CREATE, pod()),
    yes("name any user on such a pod", "edit", CREATE, pod({names.USER_LABEL: "bob"})),
    yes("delete pods of the namespace (those of DagJobs are made anew)", "edit", "delete pod pod -n OWN"),
    no("open the gate of a pod", f"patch pod pod -n OWN --type=json -p {OPEN}", by="rm-ungate"),
    no("make a pod look like a task", CREATE, pod({names.DAGJOB_LABEL: "job"}), by="rm-task-labels"),
    no("choose the node of a pod that joins", CREATE, pod(nodeName="SHARED"), by="rm-node-name"),
    no("put another pod on a reserved node", CREATE, foreign(nodeName="n0"), by="rm-reserved-nodes"),
    no("tolerate the taint of reserved nodes", CREATE, foreign(tolerations=[TAINT]), by="rm-reserved-toleration"),
    yes("tolerate every taint", "edit", CREATE, foreign(tolerations=[{"operator": "Exists"}])),
    no("read queues", "get queues"),
    yes("read queues, once `rm-view-queues` is bound", "rm-view-queues", "get queues --as=vera"),
    no("create queues", CREATE, QUEUE),
    no("change queues", "patch queue closed --type=merge -p {}"),
    no("delete queues", "delete queue closed"),
    no("read nodes", "get nodes"),
    no("taint nodes", "taint node n0 example.com/mine=:NoSchedule"),
    yes(
        "set the leader's label on a pod of the namespace, in vain",
        "edit",
        f"label pod pod -n OWN {names.LEADER_LABEL}=true",
    ),
    no("set the leader's label on a brain's pod", f"label pod BRAIN -n rm-system {names.LEADER_LABEL}=true"),
    no("delete a brain's pod", "delete pod BRAIN -n rm-system"),
    no("read Secrets of `rm-system`", "get secrets -n rm-system"),
    no("read the snapshot", "get configmaps -n rm-system"),
    no("get a token of brain", "create token rm-brain -n rm-system"),
    no("impersonate brain", "auth can-i impersonate serviceaccounts/rm-brain -n rm-system"),
    no("change our admission policies", "delete validatingadmissionpolicy rm-ungate"),
)


def table() -> str:
    """The rows as the page has them."""
    lines = ["| to | may | by |", "| --- | --- | --- |"]
    for row in ROWS:
        by = row.by if row.by == NOBODY else f"`{row.by}`"
        lines.append(f"| {row.what} | {'yes' if row.allowed else 'no'} | {by} |")
    return "\n".join(lines) + "\n"
