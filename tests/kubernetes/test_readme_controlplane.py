"""The commands of the README's part on Kubernetes, in the order in which they stand, on a fresh control plane."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from devcluster.cluster import Devcluster
from devcluster.deployments import Running
from schedulers.objects import names
from tests.kubernetes.installed import a_control_plane, phase, wait
from tests.pages import ROOT, Shell, blocks, commands

pytestmark = pytest.mark.controlplane

PAGE, HEADING = "README.md", "## If you run a platform on Kubernetes"
NODES = 4


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Devcluster]:
    """What a reader of the README has: nodes without a taint, and nothing of ours."""
    with a_control_plane(tmp_path / "cluster") as cluster:
        cluster.up(nodes=NODES)
        yield cluster


def section() -> list[str]:
    """The commands under the heading, as they are written."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    begin = text.index(HEADING)
    first = text[:begin].count("\n") + 1
    last = first + text[begin : text.index("\n## ", begin + 1)].count("\n")
    return [command.text for block in blocks(PAGE) if first < block.line <= last for command in commands(block)]


def filled(command: str, cluster: Devcluster, programs: Path) -> str:
    """The command with the reader's own names in its placeholders; `make` is told where this checkout's Python is."""
    command = command.replace("NODE...", " ".join(f"n{i}" for i in range(NODES)))
    command = command.replace("FILE", str(cluster.kubeconfig))
    return re.sub("^make ", f"make -C {ROOT} -o .venv/.dev BIN={programs} ", command)


@contextmanager
def kubelet(cluster: Devcluster) -> Iterator[None]:
    """Runs the Deployments of our namespace from the moment at which they are there."""
    running: list[Running] = []
    try:
        items = cluster.get("deployments", "-n", names.NAMESPACE)["items"]
        running += [Running(cluster, item["metadata"]["name"]) for item in items]
        yield
    finally:
        for part in running:
            part.stop()


@pytest.mark.drawn(of=4)
def test_the_commands_of_the_readmes_part_on_kubernetes_run_in_order(bare: Devcluster, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    shell = Shell(tmp_path, KUBECONFIG=str(bare.kubeconfig), KUBEBUILDER_ASSETS=str(programs))
    for name, program in bare.programs.items():
        (programs / name).symlink_to(program)
    with ExitStack() as stack:
        for command in section():
            shell.run(filled(command, bare, programs))
            if command.startswith("kubectl apply -k"):
                stack.enter_context(kubelet(bare))
        wait(lambda: phase(bare, "default", "etl") == "Succeeded", seconds=120)
