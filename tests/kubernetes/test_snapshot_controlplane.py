"""`rm-emulator snapshot` of a live cluster, and what the emulator makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import dagjob, stage, submit

pytestmark = pytest.mark.controlplane


def emulator(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rm_emulator", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.drawn(of=2)
def test_a_snapshot_of_a_live_cluster_runs(alone: Devcluster, tmp_path: Path) -> None:
    space = alone.namespace()
    submit(alone, dagjob("etl", space, [stage("map", 5, 20), stage("reduce", 1, 20, parents=["map"])]))
    file, kubectl = tmp_path / "live.yaml", str(alone.programs["kubectl"])
    taken = emulator("snapshot", "--kubeconfig", str(alone.kubeconfig), "--kubectl", kubectl, "--out", str(file))
    assert taken.returncode == 0, taken.stderr
    ran = emulator("run", str(file), "--out", str(tmp_path / "out"), "--json")
    assert ran.returncode == 0, ran.stderr
    (run,) = json.loads(ran.stdout)["runs"]
    assert run["jobs"] >= 1
    assert run["jct_s"]["mean"] >= 39
    alone.kubectl("delete", "dagjob", "etl", "-n", space)


def test_a_stage_that_says_nothing_of_its_run_time_is_noted(alone: Devcluster) -> None:
    space = alone.namespace()
    silent = stage("map", 1, 1)
    del silent["template"]["metadata"]
    submit(alone, dagjob("silent", space, [silent]))
    taken = emulator("snapshot", "--kubeconfig", str(alone.kubeconfig), "--kubectl", str(alone.programs["kubectl"]))
    assert f"add the annotation {names.RUN_SECONDS}" in taken.stderr
    alone.kubectl("delete", "dagjob", "silent", "-n", space)


def test_an_unreachable_cluster_is_said_in_one_line(alone: Devcluster, tmp_path: Path) -> None:
    config = tmp_path / "nowhere"
    config.write_text(alone.kubeconfig.read_text().replace(alone.url, "https://127.0.0.1:1"))
    taken = emulator("snapshot", "--kubeconfig", str(config), "--kubectl", str(alone.programs["kubectl"]))
    assert (taken.returncode, taken.stdout) == (2, "")
    assert "kubectl get nodes" in taken.stderr
    assert "Traceback" not in taken.stderr
