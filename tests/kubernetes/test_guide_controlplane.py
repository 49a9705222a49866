"""The commands of docs/kubernetes.md, in the order in which they stand, on a real control plane."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.cluster import Devcluster
from devcluster.deployments import Running
from tests.kubernetes.installed import wait
from tests.pages import Shell, blocks, commands

pytestmark = pytest.mark.controlplane

PAGE = "docs/kubernetes.md"
#: How commands begin that are not run -> why not.
NOT_HERE = {
    "docker build": "takes an image from a registry",
    "kubectl -n rm-system wait": "the devcluster runs our Deployments as processes: nothing marks them available",
    "kubectl -n rm-system exec": "likewise: there is no container to look into",
    "kubectl -n NS patch": "the samples leave no gate to be opened by hand; test_releases_controlplane.py opens gates",
}


def waiting(cluster: Devcluster) -> str:
    """A pod that was told that it waits, or ''."""
    for pod in cluster.get("pods")["items"]:
        conditions = pod.get("status", {}).get("conditions", [])
        if any((c["type"], c["status"]) == ("rm-emulator.io/Waiting", "True") for c in conditions):
            return str(pod["metadata"]["name"])
    return ""


def test_the_commands_of_the_guide_run_in_order(alone: Devcluster, tmp_path: Path) -> None:
    kubectl = alone.programs["kubectl"]
    shell = Shell(tmp_path, KUBECONFIG=str(alone.kubeconfig), KUBECTL=str(kubectl))
    (tmp_path / "bin" / "kubectl").symlink_to(kubectl)
    whole = blocks(PAGE)
    dagjob = next(block for block in whole if "kind: DagJob" in block.text)
    running: list[Running] = []
    pod = ""
    try:
        for block in whole:
            for command in commands(block):
                if command.text == "kubectl get rmq":
                    shell.run("kubectl apply --server-side -k manifests/overlays/dev")  # the devcluster has no claims
                    running += [Running(alone, name) for name in ("rm-controllers", "rm-brain")]
                    for part in running:
                        part.wait_ready()
                    shell.run("kubectl apply -f manifests/samples/queues.yaml")
                    shell.run("kubectl apply -k manifests/samples")
                    (shell.folder / "etl.yaml").write_text(dagjob.text.replace("queue: default", "queue: analytics"))
                    shell.run("kubectl delete dj etl && kubectl apply -f etl.yaml")
                    pod = wait(lambda: waiting(alone))
                if not any(command.text.startswith(begins) for begins in NOT_HERE):
                    shell.run(
                        command.text.replace("POD", pod).replace("NODE...", "--all --overwrite").replace("NODE", "n0")
                    )
    finally:
        for part in running:
            part.stop()
