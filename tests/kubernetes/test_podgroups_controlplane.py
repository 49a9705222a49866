"""An API server that serves Kubernetes' own PodGroups (off by default): their pods start as gangs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from schedulers.objects.podgroup import PATHS
from tests.kubernetes.installed import Installed, a_devcluster, wait

pytestmark = pytest.mark.controlplane
POD_GROUPS = ("--feature-gates=GenericWorkload=true", "--runtime-config=api/alpha=true,api/beta=true")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devcluster]:
    with a_devcluster(tmp_path_factory.mktemp("podgroups"), flags={"apiserver": POD_GROUPS}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def installed(serving: Devcluster) -> Iterator[Installed]:
    running = Installed(serving)
    yield running
    running.stop()
    assert running.replay() > 0


def version(cluster: Devcluster) -> str:
    """The newest version of PodGroups that the API server serves."""
    served = cluster.kubectl("api-versions").split()
    return next(name for path in PATHS if (name := path.removeprefix("/apis/").removesuffix("/podgroups")) in served)


def put_group(cluster: Devcluster, space: str, name: str, size: int) -> None:
    group = {
        "apiVersion": version(cluster),
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": space},
        "spec": {"schedulingPolicy": {"gang": {"minCount": size}}},
    }
    cluster.kubectl("create", "-f", "-", input=json.dumps(group))


def put_pod(cluster: Devcluster, space: str, name: str, group: str, cpu: str = "6") -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": space,
            "labels": {names.QUEUE_LABEL: "default"},
            "annotations": {names.RUN_SECONDS: "3"},
        },
        "spec": {
            "schedulerName": names.SCHEDULER,
            "restartPolicy": "Never",
            "schedulingGroup": {"podGroupName": group},
            "containers": [container],
        },
    }
    cluster.kubectl("create", "-f", "-", input=json.dumps(pod))


def phases(cluster: Devcluster, space: str) -> list[str]:
    return [pod["status"].get("phase", "") for pod in cluster.get("pods", "-n", space)["items"]]


def said(cluster: Devcluster, space: str) -> list[str]:
    """Reasons of the pods' waits."""
    return [
        condition.get("reason", "")
        for pod in cluster.get("pods", "-n", space)["items"]
        for condition in pod["status"].get("conditions", ())
        if condition["type"] == names.WAITING_CONDITION
    ]


def test_a_gang_waits_for_its_last_pod_and_then_runs_to_its_end(installed: Installed) -> None:
    cluster = installed.cluster
    space = cluster.namespace()
    put_group(cluster, space, "train", 3)
    for name in ("a", "b"):
        put_pod(cluster, space, name, "train")
    wait(lambda: said(cluster, space) == ["PodGroupIncomplete"] * 2)
    assert phases(cluster, space) == ["Pending"] * 2
    put_pod(cluster, space, "c", "train")
    wait(lambda: phases(cluster, space) == ["Succeeded"] * 3, 60)


def test_no_pod_of_a_gang_starts_where_only_some_fit(installed: Installed) -> None:
    cluster = installed.cluster
    space = cluster.namespace()
    put_group(cluster, space, "wide", 5)  # on four nodes with room for one each
    for name in "abcde":
        put_pod(cluster, space, name, "wide")
    wait(lambda: "TooLarge" in said(cluster, space))
    assert set(phases(cluster, space)) == {"Pending"}
    cluster.kubectl("delete", "pods", "--all", "-n", space, "--wait=false")
