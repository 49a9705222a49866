"""All that we install, on the real API server: applied, there, and gone again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import MANIFESTS, a_devcluster

pytestmark = pytest.mark.controlplane

OVERLAYS = ("dev", "production")


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devcluster]:
    """One of its own: what is deleted here takes CRDs and admission policies along."""
    with a_devcluster(tmp_path_factory.mktemp("manifests")) as cluster:
        yield cluster


def rendered(cluster: Devcluster, folder: str) -> list[dict[str, Any]]:
    text = cluster.kubectl("kustomize", str(MANIFESTS / folder))
    return [one for one in yaml.safe_load_all(text) if one]


def deployment(cluster: Devcluster, overlay: str, name: str) -> dict[str, Any]:
    (policy,) = (
        one
        for one in rendered(cluster, f"overlays/{overlay}")
        if (one["kind"], one["metadata"]["name"]) == ("Deployment", name)
    )
    spec: dict[str, Any] = policy["spec"]
    return spec


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_is_applied_and_applied_again_without_a_change(devcluster: Devcluster, overlay: str) -> None:
    devcluster.apply(MANIFESTS / "overlays" / overlay)
    version = devcluster.get("deployment", "rm-brain", "-n", names.NAMESPACE)["metadata"]["resourceVersion"]
    devcluster.apply(MANIFESTS / "overlays" / overlay)
    again = devcluster.get("deployment", "rm-brain", "-n", names.NAMESPACE)["metadata"]["resourceVersion"]
    assert again == version


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_api_server_knows_every_field(devcluster: Devcluster, overlay: str) -> None:
    devcluster.apply(MANIFESTS / "overlays" / overlay)
    devcluster.kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "--validate=strict",
        "-k",
        str(MANIFESTS / "overlays" / overlay),
    )


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("name", ["rm-brain", "rm-controllers"])
@pytest.mark.drawn(of=4)
def test_our_pods_pass_the_restricted_standard(devcluster: Devcluster, overlay: str, name: str) -> None:
    devcluster.apply(MANIFESTS / "overlays" / overlay)
    template = deployment(devcluster, overlay, name)["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**template["metadata"], "name": "as-pod", "namespace": names.NAMESPACE}
    said = devcluster.kubectl("create", "--dry-run=server", "-f", "-", input=yaml.safe_dump(pod))
    assert "created (server dry run)" in said


def test_production_has_two_of_each(devcluster: Devcluster) -> None:
    counts = [deployment(devcluster, "production", name)["replicas"] for name in ("rm-brain", "rm-controllers")]
    assert counts == [2, 2]


def test_production_keeps_the_state_on_a_claim(devcluster: Devcluster) -> None:
    volumes = {v["name"]: v for v in deployment(devcluster, "production", "rm-brain")["template"]["spec"]["volumes"]}
    assert "emptyDir" not in volumes["state"]
    assert "volumeClaimTemplate" in volumes["state"]["ephemeral"]


def test_the_certificates_become_the_two_secrets(devcluster: Devcluster) -> None:
    devcluster.apply(MANIFESTS / "overlays" / "production")
    kubectl = f"{devcluster.programs['kubectl']} --kubeconfig {devcluster.kubeconfig}"
    script = MANIFESTS / "overlays" / "production" / "certificates.sh"
    for _ in range(2):  # again: it renews them
        subprocess.run([script], env={"PATH": "/usr/bin:/bin", "KUBECTL": kubectl}, check=True, timeout=60)
    for name in ("rm-brain-tls", "rm-scheduler-tls"):
        secret = devcluster.get("secret", name, "-n", names.NAMESPACE)
        assert set(secret["data"]) == {"ca.crt", "tls.crt", "tls.key"}


def test_samples_are_applied_and_deleted(devcluster: Devcluster) -> None:
    devcluster.apply(MANIFESTS / "overlays" / "dev")
    space = devcluster.namespace("samples")
    samples = MANIFESTS / "samples"
    devcluster.kubectl("apply", "-f", str(samples / "queues.yaml"))
    devcluster.kubectl("apply", "-n", space, "-k", str(samples))
    jobs = [job["metadata"]["name"] for job in devcluster.get("dagjobs", "-n", space)["items"]]
    assert sorted(jobs) == ["etl", "train"]
    devcluster.kubectl("delete", "-n", space, "-k", str(samples), "--wait=false")


def test_monitoring_is_applied_and_deleted(devcluster: Devcluster) -> None:
    devcluster.apply(MANIFESTS / "overlays" / "dev")
    devcluster.apply(MANIFESTS / "monitoring")
    board = devcluster.get("configmap", "rm-dashboard", "-n", names.NAMESPACE)
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    devcluster.kubectl("delete", "-k", str(MANIFESTS / "monitoring"))


@pytest.mark.drawn(of=4)
def test_what_is_applied_is_deleted_without_a_trace(devcluster: Devcluster) -> None:
    devcluster.apply(MANIFESTS / "overlays" / "production")
    devcluster.kubectl("delete", "-k", str(MANIFESTS / "overlays" / "production"), "--timeout=120s")
    left = [
        item["metadata"]["name"]
        for kind in (
            "clusterroles",
            "clusterrolebindings",
            "validatingadmissionpolicies",
            "mutatingadmissionpolicies",
            "crds",
            "namespaces",
        )
        for item in devcluster.get(kind)["items"]
        if item["metadata"]["name"].startswith("rm-") or item["metadata"]["name"].endswith(names.GROUP)
    ]
    assert left == []
