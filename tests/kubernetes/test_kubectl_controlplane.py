"""The plug-in `kubectl rm-emulator`, called as kubectl calls it, on a cluster with brain and controllers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from devcluster.installation import MANIFESTS
from schedulers.objects import names
from tests.kubernetes.installed import Installed, dagjob, stage, submit, wait
from tests.pages import ROOT

pytestmark = pytest.mark.controlplane


class Plugin:
    """kubectl with the plug-in on its PATH, as the administrator or by another kubeconfig."""

    def __init__(self, cluster: Devcluster, folder: Path) -> None:
        self._kubeconfig, self._folder = cluster.kubeconfig, folder
        (folder / "kubectl").symlink_to(cluster.programs["kubectl"])
        script = folder / "kubectl-rm_emulator"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rm_emulator.kubectl "$@"\n')
        script.chmod(0o755)

    def __call__(self, *words: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self._folder}:{os.environ['PATH']}",
            "HOME": str(self._folder),
            "PYTHONPATH": str(ROOT),
            "KUBECONFIG": str(kubeconfig or self._kubeconfig),
        }
        command = [self._folder / "kubectl", "rm-emulator", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    def says(self, *words: str) -> str:
        done = self(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tells(self, *words: str) -> Any:
        return json.loads(self.says(*words, "--json"))

    def refuses(self, *words: str, kubeconfig: Path | None = None) -> str:
        """The one line of an error."""
        done = self(*words, kubeconfig=kubeconfig)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) == 1
        return done.stderr.strip()


@pytest.fixture(scope="module")
def installed(alone: Devcluster) -> Iterator[Installed]:
    running = Installed(alone)
    alone.apply(MANIFESTS / "samples" / "queues.yaml")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def plugin(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Plugin:
    return Plugin(installed.cluster, tmp_path_factory.mktemp("bin"))


@pytest.fixture(scope="module")
def space(installed: Installed) -> str:
    """With a job too large for any node, one that runs, and a pod of another scheduler."""
    cluster = installed.cluster
    namespace = cluster.namespace("plugin")
    other = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other", "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    submit(
        cluster,
        dagjob("large", namespace, [stage("a", 2, 1, cpu="9")]),
        dagjob("runs", namespace, [stage("a", 2, 600, cpu="1")], queue="training"),
        other,
    )
    jobs = ("large", "TooLarge"), ("runs", "WaitsForStage")
    wait(lambda: cluster.get("dagjob", "large", "-n", namespace).get("status", {}).get("reason") == jobs[0][1])
    wait(lambda: cluster.get("dagjob", "runs", "-n", namespace).get("status", {}).get("phase") == "Running")
    return namespace


@pytest.mark.drawn(of=4)
def test_status_says_who_leads(installed: Installed, plugin: Plugin, space: str) -> None:
    parts = plugin.tells("status")["parts"]
    (brain,), (controllers,) = installed.brain.replicas, installed.controllers.replicas
    assert parts["rm-brain"] == {"ready": 1, "replicas": 1, "leader": brain.name}
    assert parts["rm-controllers"] == {"ready": 1, "replicas": 1, "leader": controllers.name}
    text = plugin.says("status")
    assert f"rm-brain: {brain.name} leads, 1 of 1 ready" in text
    assert "DagJobs: 1 Pending, 1 Running" in text


def test_why_says_what_the_job_was_told(plugin: Plugin, space: str) -> None:
    found = plugin.tells("why", "large", "-n", space)
    assert (found["kind"], found["phase"], found["reason"]) == ("DagJob", "Pending", "TooLarge")
    assert f"TooLarge: {found['message']}" in plugin.says("why", "large", "-n", space)
    assert found["stages"][0] | {"name": "a", "tasks": 2} == found["stages"][0]


def test_why_says_what_a_pod_was_told(installed: Installed, plugin: Plugin, space: str) -> None:
    pods = installed.cluster.get("pods", "-n", space, "-l", f"{names.DAGJOB_LABEL}=large")["items"]
    name = pods[0]["metadata"]["name"]
    found = wait(lambda: (f := plugin.tells("why", f"pod/{name}", "-n", space))["reason"] == "TooLarge" and f)
    assert (found["dagjob"], found["gated"], found["node"]) == ("large", True, None)
    assert plugin.says("why", name, "-n", space).startswith(f"Pod {space}/{name} of DagJob large in queue default: ")


def test_why_says_that_a_pod_is_not_ours(plugin: Plugin, space: str) -> None:
    assert "rm-emulator does not decide on it" in plugin.says("why", "other", "-n", space)


def test_queues_are_a_tree(plugin: Plugin, space: str) -> None:
    lines = plugin.says("queues").splitlines()
    assert [line.split("   ")[0].rstrip() for line in lines][:3] == ["QUEUE", "data", "  analytics"]
    training = wait(lambda: next(q for q in plugin.tells("queues") if q["name"] == "training" and q["running"] == 2))
    assert (training["depth"], training["jobs"], training["trouble"]) == (0, 1, "")


def test_simulate_asks_the_cluster_of_kubectl(plugin: Plugin, space: str) -> None:
    def asked() -> Any:
        done = plugin("simulate", "--draws", "1", "--json", "--quiet")
        return json.loads(done.stdout)["jobs"] if done.returncode == 0 else None

    jobs = wait(lambda: (found := asked()) and len(found) == 2 and found)  # brain stores its memory now and then
    assert {job["job"].partition(".")[0] for job in jobs} == {f"{space}/large", f"{space}/runs"}


def test_simulate_is_asked_of_one_kubeconfig(plugin: Plugin) -> None:
    said = plugin.refuses("simulate", kubeconfig=Path("a:b"))
    assert said == "KUBECONFIG names 2 files: name the file of the cluster by --kubeconfig"


def test_an_unknown_job_is_told_with_the_nearest_name(plugin: Plugin, space: str) -> None:
    said = plugin.refuses("why", "larg", "-n", space)
    assert said == f"there is no DagJob or Pod 'larg' in namespace '{space}' (is 'large' meant?)"


def test_a_kind_that_is_none_of_ours_is_told(plugin: Plugin) -> None:
    assert "'service' is neither dagjob nor pod" in plugin.refuses("why", "service/x")


def test_a_cluster_that_is_away_is_told(installed: Installed, plugin: Plugin, tmp_path: Path) -> None:
    config = tmp_path / "away"
    config.write_text(installed.cluster.kubeconfig.read_text().replace(installed.cluster.url, "https://127.0.0.1:1"))
    for words in (("status",), ("queues",), ("why", "x")):
        assert plugin.refuses(*words, kubeconfig=config).startswith("the cluster does not answer: ")


def test_a_user_sees_what_the_user_may_see(installed: Installed, plugin: Plugin, space: str, tmp_path: Path) -> None:
    cluster = installed.cluster
    cluster.kubectl("create", "serviceaccount", "viewer", "-n", space)
    for role in ("system:aggregate-to-view", "rm-view"):  # what the role view is made of
        name, subject = role.replace(":", "-"), f"--serviceaccount={space}:viewer"
        cluster.kubectl("create", "rolebinding", name, f"--clusterrole={role}", subject, "-n", space)
    config = tmp_path / "viewer"
    cluster.authority.kubeconfig(config, cluster.url, {"token": cluster.token(space, "viewer")})
    assert "TooLarge" in plugin("why", "large", "-n", space, kubeconfig=config).stdout
    assert plugin.refuses("queues", kubeconfig=config).startswith("you may not read queues.rm-emulator.io")
    status = plugin("status", kubeconfig=config)
    assert status.returncode == 0
    assert "rm-brain: you may not read pods" in status.stdout
