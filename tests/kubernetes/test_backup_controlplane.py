"""Estimates survive the loss of everything that brain has learned, if there is a backup: docs/platform/back-up.md."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait
from tests.pages import Shell, blocks, commands

pytestmark = pytest.mark.controlplane

PAGE = "docs/platform/back-up.md"
SNAPSHOTS = ("configmaps", "-n", names.NAMESPACE, "-l", "rm-emulator.io/snapshot")


@pytest.fixture(scope="module")
def installed(alone: Devcluster) -> Iterator[Installed]:
    running = Installed(alone, brain={"predictor": {"kind": "point_estimate"}, "snapshot": {"everySeconds": 1}})
    yield running
    running.stop()


def recurring(name: str, space: str, seconds: float, **more: str) -> dict[str, object]:
    job = dagjob(name, space, [stage("only", 2, seconds, **more)])
    job["metadata"]["labels"] = {names.RECURRING_LABEL: "nightly"}
    return job


def estimate(cluster: Devcluster, space: str, name: str) -> float | None:
    """Of one more run of the recurring job, which waits because no node is empty."""
    submit(cluster, recurring(name, space, 1, cpu="8"))

    def told() -> dict[str, float | None] | None:
        found: dict[str, Any] = cluster.get("dagjob", name, "-n", space).get("status", {})
        return found if found.get("reason") == "NoRoom" else None

    status = wait(told)
    cluster.kubectl("delete", "dagjob", name, "-n", space)
    found: float | None = status.get("estimateSeconds")
    return found


def pods_of(cluster: Devcluster, space: str, job: str) -> dict[str, str | None]:
    pods = cluster.get("pods", "-n", space, "-l", f"{names.DAGJOB_LABEL}={job}")["items"]
    return {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in pods}


@pytest.mark.drawn(of=4)
def test_what_was_learned_is_lost_with_the_snapshot_and_comes_back_with_the_backup(
    installed: Installed, tmp_path: Path
) -> None:
    cluster = installed.cluster
    space = cluster.namespace("backup")
    shell = Shell(tmp_path, KUBECONFIG=str(cluster.kubeconfig))
    (tmp_path / "bin" / "kubectl").symlink_to(cluster.programs["kubectl"])
    backup, restore = ([c.text for c in commands(block)] for block in blocks(PAGE))

    submit(cluster, recurring("first", space, 6), recurring("second", space, 4))
    wait(lambda: [phase(cluster, space, name) for name in ("first", "second")] == ["Succeeded"] * 2)
    submit(cluster, dagjob("load", space, [stage("long", 40, 900, cpu="1")]))  # more than there is room for
    wait(lambda: sum(node is not None for node in pods_of(cluster, space, "load").values()) >= 4)
    before = estimate(cluster, space, "probe")
    assert before is not None
    running = {uid: node for uid, node in pods_of(cluster, space, "load").items() if node}
    time.sleep(3)  # a snapshot is written after the last change
    for command in backup:
        shell.run(command)

    cluster.kubectl("scale", "deployment", "rm-brain", "-n", names.NAMESPACE, "--replicas=0")
    wait(lambda: not cluster.get("pods", "-n", names.NAMESPACE, "-l", "app=rm-brain")["items"])
    cluster.kubectl("delete", *SNAPSHOTS)
    cluster.kubectl("scale", "deployment", "rm-brain", "-n", names.NAMESPACE, "--replicas=1")
    wait(installed.brain.is_ready)
    assert estimate(cluster, space, "forgotten") != before

    for command in restore:
        shell.run(command.replace("--replicas=2", "--replicas=1"))
    wait(installed.brain.is_ready)
    assert estimate(cluster, space, "restored") == before
    assert running.items() <= pods_of(cluster, space, "load").items(), "what ran goes on"
