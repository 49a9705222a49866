"""On the real control plane a member of a running gang is evicted."""

from __future__ import annotations

import json

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane


def test_an_evicted_member_comes_back_before_a_backlog_and_the_others_run_on(alone: Devcluster) -> None:
    space = alone.namespace()
    installed = Installed(alone, brain={"policy": {"kind": "drf"}, "predictor": None, "reserveAfter": "5s"})
    try:
        submit(alone, dagjob("train", space, [stage("all", 4, 40, cpu="6", gang=True)]))
        before = wait(lambda: all_run(alone, space), 60)
        submit(alone, dagjob("backlog", space, [stage("a", 100, 4, cpu="2")]))
        wait(lambda: "backlog" in alone.kubectl("get", "pods", "-n", space, "-o", "name"), 30)
        evict(alone, space, before["0"][0])
        after = wait(lambda: now if (now := all_run(alone, space)) and now["0"] != before["0"] else {}, 20)
        assert [after[index] for index in "123"] == [before[index] for index in "123"]
        assert phase(alone, space, "backlog") != "Succeeded"
        status = alone.get("dagjob", "train", "-n", space)["status"]
        assert not any(each.get("failed") for each in status["stages"])
    finally:
        installed.stop()
    assert installed.replay() > 0


def all_run(cluster: Devcluster, space: str) -> dict[str, tuple[str, str]]:
    """Name and uid of each member by its index; empty unless all four run."""
    listed = cluster.get("pods", "-n", space, "-l", f"{names.DAGJOB_LABEL}=train")["items"]
    running = [pod["metadata"] for pod in listed if pod["status"].get("phase") == "Running"]
    running = [meta for meta in running if "deletionTimestamp" not in meta]
    members = {meta["labels"][names.INDEX_LABEL]: (meta["name"], meta["uid"]) for meta in running}
    return members if len(members) == 4 else {}


def evict(cluster: Devcluster, space: str, name: str) -> None:
    """By the API, as a drain does."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": space}}
    cluster.kubectl(
        "create", "--raw", f"/api/v1/namespaces/{space}/pods/{name}/eviction", "-f", "-", input=json.dumps(body)
    )
