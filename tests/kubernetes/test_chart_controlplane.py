"""The Helm chart on a real control plane: installed, upgraded while jobs run, rolled back, uninstalled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import chart
from devcluster.binaries import HELM
from devcluster.cluster import Devcluster, free_ports
from devcluster.deployments import Running
from devcluster.service import Service
from schedulers.objects import names
from tests.kubernetes.installed import MANIFESTS, dagjob, phase, program, replayed, stage, submit, wait

pytestmark = [pytest.mark.controlplane, pytest.mark.nightly]

RELEASE = "rm-emulator"
QUEUES = [{"name": "data", "weight": 3}, {"name": "etl", "parent": "data"}]
LONGEST_S = 180


class Release:
    """The chart in a namespace; its Deployments run while Helm waits for them."""

    def __init__(self, cluster: Devcluster, folder: Path, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._environment = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(cluster.kubeconfig),
            **{f"HELM_{name}_HOME": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")},
        }
        self.running: list[Running] = []
        self.service: Service | None = None

    def helm(self, *words: str) -> str:
        """Run Helm to its end. Raises AssertionError with what it says."""
        return self._said(self._begun(*words))

    def install(self, *options: str) -> str:
        """`helm install --wait`."""
        begun = self._begun("install", RELEASE, str(chart.FOLDER), "--wait", f"--timeout={LONGEST_S}s", *options)
        wait(lambda: begun.poll() is not None or len(self._deployments()) == 2)
        if begun.poll() is None:
            services = {"rm-brain": self.service.port} if self.service is not None else {}
            for name in self._deployments():
                self.running.append(Running(self.cluster, name, self.namespace, services=services))
            if self.service is not None:
                self.service.lead_to(self.running[0], 8443)
        return self._said(begun)

    def upgrade(self, folder: Path, *options: str) -> str:
        """`helm upgrade --wait`."""
        words = ("--wait", f"--timeout={LONGEST_S}s", "--reset-then-reuse-values", *options)
        return self.helm("upgrade", RELEASE, str(folder), *words)

    def stop(self) -> None:
        """End the processes."""
        for running in self.running:
            running.stop()
        if self.service is not None:
            self.service.stop()

    @property
    def logs(self) -> list[Path]:
        """Event logs of all brains."""
        found = (self.cluster.folder / "pods").glob("rm-brain-*/volumes/*/log/events-*.jsonl")
        return sorted(found, key=lambda file: file.name)

    def settings(self, name: str) -> dict[str, Any]:
        """What a process was told."""
        given = self.cluster.get("configmap", name, "-n", self.namespace)["data"]["config.yaml"]
        return dict(yaml.safe_load(given))

    def _deployments(self) -> list[str]:
        found = self.cluster.get("deployments", "-n", self.namespace)["items"]
        return sorted(one["metadata"]["name"] for one in found)

    def _begun(self, *words: str) -> subprocess.Popen[str]:
        command = [str(program(HELM)), *words, "--namespace", self.namespace]
        return subprocess.Popen(
            command, env=self._environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def _said(self, begun: subprocess.Popen[str]) -> str:
        said, _ = begun.communicate(timeout=LONGEST_S + 60)
        assert begun.returncode == 0, said
        return said


def next_chart(folder: Path) -> Path:
    """A later version of the chart: another version, and a kind with one column more."""
    shutil.copytree(chart.FOLDER, folder)
    for name, old, new in (
        ("Chart.yaml", "version: 0.1.0", "version: 0.2.0"),
        (
            "templates/customresourcedefinition.yaml",
            "- jsonPath: .spec.parent\n      name: Parent",
            "- jsonPath: .spec.parent\n      name: Above",
        ),
    ):
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))
    return folder


def columns(cluster: Devcluster) -> set[str]:
    (version,) = cluster.get("crd", "queues.rm-emulator.io")["spec"]["versions"]
    return {column["name"] for column in version["additionalPrinterColumns"]}


def uids(cluster: Devcluster, space: str, name: str) -> dict[str, str]:
    """Of the pods of a DagJob that have begun."""
    pods = cluster.get("pods", "-n", space, "-l", f"{names.DAGJOB_LABEL}={name}")["items"]
    return {
        pod["metadata"]["name"]: pod["metadata"]["uid"]
        for pod in pods
        if pod["status"].get("phase") in ("Running", "Succeeded")
    }


@pytest.fixture(scope="module")
def bare(alone: Devcluster) -> Devcluster:
    """A cluster that has never heard of our kinds."""
    alone.kubectl("delete", "crd", "--all")
    return alone


@pytest.fixture(scope="module")
def release(bare: Devcluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """The overlay dev, with queues."""
    bare.kubectl("create", "namespace", names.NAMESPACE)
    found = Release(bare, tmp_path_factory.mktemp("helm"), names.NAMESPACE)
    try:
        found.install("--set-json", f"queues={json.dumps(QUEUES)}", "--set", "image.tag=0.0.9")
        yield found
    finally:
        found.stop()


# -- in this order ------------------------------------------------------------------------------


def test_an_installation_makes_the_queues_of_its_values(bare: Devcluster, release: Release) -> None:
    found = {one["metadata"]["name"]: one["spec"] for one in bare.get("queues")["items"]}
    assert {name: found[name].get("parent") for name in ("data", "etl")} == {"data": None, "etl": "data"}


def test_jobs_run(bare: Devcluster, release: Release) -> None:
    space = bare.namespace("chart")
    wait(
        lambda: created(bare, dagjob("first", space, [stage("a", 4, 1), stage("b", 2, 1, parents=["a"])], queue="etl"))
    )
    wait(lambda: phase(bare, space, "first") == "Succeeded", 90)


def created(cluster: Devcluster, job: dict[str, Any]) -> bool:
    """False where the API server has not heard of our kinds yet, which its policies look up."""
    try:
        submit(cluster, job)
    except RuntimeError as error:
        if "There can be a delay" not in str(error) and "not yet synced" not in str(error):
            raise
        return False
    return True


def test_an_upgrade_loses_nothing_that_runs_and_nothing_that_waits(
    bare: Devcluster, release: Release, tmp_path: Path
) -> None:
    space = bare.namespace("chart")
    # 16 pods run at once; the others wait for them, and stage b for all.
    submit(bare, dagjob("long", space, [stage("a", 24, 20), stage("b", 4, 1, parents=["a"])], queue="etl"))
    before = wait(lambda: (found := uids(bare, space, "long")) and len(found) == 16 and found, 60)
    changes = "image.tag=0.1.0,brain.settings.policy.kind=drf,brain.settings.cycle=60ms"
    queues = json.dumps([{**QUEUES[0], "weight": 5}, *QUEUES[1:]])
    release.upgrade(next_chart(tmp_path / "next"), "--set", changes, "--set-json", f"queues={queues}")
    assert release.settings("rm-brain")["policy"] == {"kind": "drf"}
    assert columns(bare) >= {"Above"}
    assert bare.get("queue", "data")["spec"]["weight"] == 5
    wait(lambda: phase(bare, space, "long") == "Succeeded", 120)
    after = uids(bare, space, "long")
    assert len(after) == 28
    assert {name: after.get(name) for name in before} == before
    attempts = bare.get("pods", "-n", space, "-l", f"{names.ATTEMPT_LABEL}!=0,{names.DAGJOB_LABEL}=long")["items"]
    assert attempts == []


def test_a_rollback_brings_the_settings_back(bare: Devcluster, release: Release) -> None:
    space = bare.namespace("chart")
    submit(bare, dagjob("over", space, [stage("a", 8, 10)], queue="etl"))
    release.helm("rollback", RELEASE, "1", "--wait", f"--timeout={LONGEST_S}s")
    assert release.settings("rm-brain")["policy"] == {"kind": "gs"}
    wait(lambda: phase(bare, space, "over") == "Succeeded", 90)


def test_decisions_of_all_releases_replay(release: Release) -> None:
    for running in release.running:
        running.stop()
    assert replayed(release.logs, cut=True) > 0


def test_an_uninstalled_release_leaves_jobs_and_queues_and_nothing_else(bare: Devcluster, release: Release) -> None:
    jobs = {one["metadata"]["name"] for one in bare.get("dagjobs", "-A")["items"]}
    assert {"first", "long"} <= jobs
    release.helm("uninstall", RELEASE, f"--timeout={LONGEST_S}s")
    assert {one["metadata"]["name"] for one in bare.get("dagjobs", "-A")["items"]} == jobs
    assert {"data", "etl"} <= {one["metadata"]["name"] for one in bare.get("queues")["items"]}
    assert bare.get("deployments", "-A")["items"] == []
    for kind in ("validatingadmissionpolicies", "mutatingadmissionpolicies", "clusterroles", "clusterrolebindings"):
        assert [one for one in bare.get(kind)["items"] if one["metadata"]["name"].startswith("rm-")] == []


# -- production ---------------------------------------------------------------------------------


def test_production_is_upgraded_while_its_standby_is_ready(bare: Devcluster, tmp_path: Path) -> None:
    """Two brains, by TLS, in another namespace: Helm waits for all replicas."""
    space, where = bare.namespace("production"), "batch"
    bare.kubectl("create", "namespace", where)
    release = Release(bare, tmp_path / "helm", where)
    kubectl = f"{bare.programs['kubectl']} --kubeconfig {bare.kubeconfig}"
    script = [str(MANIFESTS / "overlays" / "production" / "certificates.sh"), "--namespace", where]
    subprocess.run(script, env={"PATH": os.environ["PATH"], "KUBECTL": kubectl}, check=True, timeout=60)
    release.service = Service(bare, free_ports(1)[0], "rm-brain", where)
    try:
        release.install("--set", "overlay=production", "--take-ownership", "--force-conflicts")
        wait(lambda: created(bare, dagjob("long", space, [stage("a", 16, 20), stage("b", 4, 1, parents=["a"])])))
        before = wait(lambda: (found := uids(bare, space, "long")) and len(found) == 16 and found, 60)
        release.upgrade(chart.FOLDER, "--set", "brain.resources.requests.cpu=600m")
        wait(lambda: phase(bare, space, "long") == "Succeeded", 120)
        after = uids(bare, space, "long")
        assert {name: after.get(name) for name in before} == before
        release.helm("uninstall", RELEASE)
    finally:
        release.stop()
    assert replayed(release.logs, cut=True) > 0
