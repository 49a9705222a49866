"""The commands of docs/platform, page by page in the order in which they stand, on a real control plane.

The tutorial starts a control plane of its own: test_tutorial_controlplane.py.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Devcluster
from devcluster.installation import MANIFESTS, running
from schedulers.objects.names import GROUP
from tests.kubernetes.installed import wait
from tests.pages import ROOT, SHELL, Shell, blocks, commands

pytestmark = pytest.mark.controlplane

FOLDER = "docs/platform"
TUTORIAL, INSTALL, UNINSTALL = (f"{FOLDER}/{name}.md" for name in ("tutorial", "install", "upgrade"))
#: Pages for a cluster on which rm-emulator is installed; the one that removes it comes last.
PAGES = sorted(
    (
        page
        for page in (file.relative_to(ROOT).as_posix() for file in (ROOT / FOLDER).glob("*.md"))
        if page not in (TUTORIAL, INSTALL) and any(block.language in SHELL for block in blocks(page))
    ),
    key=lambda page: (page == UNINSTALL, page),
)
#: How commands begin that are not run -> why not.
NOT_HERE = {
    "docker build": "takes an image from a registry",
    "helm ": "another way to the same: test_chart_controlplane.py",
    "kubectl -n rm-system exec": "the devcluster runs our Deployments as processes: there is no container to look into",
    "rm-emulator record": "likewise, it asks kubectl to exec: test_simulate_controlplane.py",
    "kubectl -n NS patch": "the samples leave no gate to be opened by hand; test_releases_controlplane.py opens gates",
}


#: Of the page on installing: nothing runs there what it applies (test_rollout_controlplane.py).
WAITS = ("kubectl -n rm-system wait", "kubectl -n rm-system rollout status")


@pytest.fixture(scope="module")
def installed(alone: Devcluster) -> Iterator[Devcluster]:
    """The overlay `dev`, applied and running, with the queues of the samples."""
    alone.apply(MANIFESTS / "overlays" / "dev")
    # For the overlay `production` of the page on upgrades.
    kubectl = f"{alone.programs['kubectl']} --kubeconfig {alone.kubeconfig}"
    environment = {"PATH": os.environ["PATH"], "KUBECTL": kubectl}
    subprocess.run([MANIFESTS / "overlays" / "production" / "certificates.sh"], env=environment, check=True, timeout=60)
    with running(alone):
        alone.apply(MANIFESTS / "samples" / "queues.yaml")
        # The page on backups is the first, and brain writes its first snapshot some seconds after its start.
        wait(lambda: alone.get("configmaps", "-n", "rm-system", "-l", f"{GROUP}/snapshot")["items"])
        yield alone


def run(cluster: Devcluster, page: str, folder: Path, pod: str = "", not_here: Iterable[str] = NOT_HERE) -> None:
    """Run a page's commands with the reader's own names in the placeholders."""
    shell = shell_of(cluster, folder)
    for block in blocks(page):
        if block.file and not block.file.startswith("manifests/"):
            (shell.folder / block.file).write_text(block.text)
        for command in commands(block):
            if not any(command.text.startswith(begins) for begins in not_here):
                text = command.text.replace("POD", pod).replace("FILE", str(cluster.kubeconfig))
                shell.run(text.replace("NODE...", "--all --overwrite").replace("NODE", "n0"))


def shell_of(cluster: Devcluster, folder: Path) -> Shell:
    kubectl = cluster.programs["kubectl"]
    shell = Shell(folder, KUBECONFIG=str(cluster.kubeconfig), KUBECTL=str(kubectl))
    (folder / "bin" / "kubectl").symlink_to(kubectl)
    return shell


def submit_the_job_of_the_guide(cluster: Devcluster) -> None:
    """The DagJob `etl` of the page on jobs, anew, and the samples, so that there is something that waits."""
    (dagjob,) = (block.text for block in blocks(f"{FOLDER}/submit-jobs.md") if "kind: DagJob" in block.text)
    cluster.kubectl("delete", "dagjobs,jobs,pods", "--all")
    cluster.kubectl("apply", "-k", str(MANIFESTS / "samples"))
    cluster.kubectl("delete", "dagjob", "etl")
    cluster.kubectl("apply", "-f", "-", input=dagjob.replace("queue: default", "queue: analytics"))


def waiting(cluster: Devcluster) -> str:
    """A pod that was told that it waits, or ''."""
    for pod in cluster.get("pods", "-n", "default")["items"]:
        conditions = pod.get("status", {}).get("conditions", [])
        if any((c["type"], c["status"]) == ("rm-emulator.io/Waiting", "True") for c in conditions):
            return str(pod["metadata"]["name"])
    return ""


def test_the_commands_of_the_page_on_installing_run_in_order(alone: Devcluster, tmp_path: Path) -> None:
    run(alone, INSTALL, tmp_path, not_here=(*NOT_HERE, *WAITS))


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.drawn(of=4)
def test_the_commands_of_a_page_run_in_order(installed: Devcluster, tmp_path: Path, page: str) -> None:
    submit_the_job_of_the_guide(installed)
    run(installed, page, tmp_path, pod=wait(lambda: waiting(installed)))
