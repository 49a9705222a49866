"""`rm-emulator simulate --kubeconfig`: when the jobs of a live cluster will end, by the memory of its brain."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.cluster import Devcluster
from schedulers.objects.names import RECURRING_LABEL
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def installed(alone: Devcluster) -> Iterator[Installed]:
    running = Installed(alone, brain={"snapshot": {"everySeconds": 1}})
    yield running
    running.stop()


def simulate(cluster: Devcluster, *words: str) -> dict[str, Any]:
    """The answer of the command as data."""
    where = ["--kubeconfig", str(cluster.kubeconfig), "--kubectl", str(cluster.programs["kubectl"])]
    asked = [sys.executable, "-m", "rm_emulator", "simulate", *where, "--json", "--quiet", "--draws", "10", *words]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_recording_of_the_brains_log_replays_to_the_same_decisions(installed: Installed, tmp_path: Path) -> None:
    """Nobody runs containers here: kubectl's part of `exec` is played by the folder of the brain."""
    cluster = installed.cluster
    space = cluster.namespace()
    submit(cluster, nightly(space, 6))
    wait(lambda: phase(cluster, space, "nightly-6") == "Running")
    kubectl, log = tmp_path / "kubectl", installed.logs[-1].parent
    kubectl.write_text(
        f"""#!/bin/sh
case "$*" in *" exec "*) ;; *) exec {cluster.programs["kubectl"]} "$@" ;; esac
while [ "$1" != -- ]; do shift; done; shift
eval "$(echo "$@" | sed 's#/var/lib/rm-emulator/log#{log}#')"
"""
    )
    kubectl.chmod(0o755)
    out = tmp_path / "rec.jsonl"
    recorded = ["record", "--kubeconfig", str(cluster.kubeconfig), "--kubectl", str(kubectl), "--for", "1s"]
    for words in ([*recorded, "--out", str(out)], ["replay", str(out)], ["replay", str(out), "--policy", "gs"]):
        done = subprocess.run(
            [sys.executable, "-m", "rm_emulator", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    cluster.kubectl("delete", "dagjobs", "--all", "-n", space)


def nightly(space: str, number: int) -> dict[str, Any]:
    """A run of a recurring job with tasks of 8 s."""
    job = dagjob(f"nightly-{number}", space, [stage("map", 3, 8, cpu="1")])
    job["metadata"]["labels"] = {RECURRING_LABEL: "nightly"}
    return job


def test_a_running_job_ends_when_the_runs_before_it_let_expect(installed: Installed, tmp_path: Path) -> None:
    cluster = installed.cluster
    space = cluster.namespace()
    submit(cluster, *(nightly(space, number) for number in range(4)))
    wait(lambda: all(phase(cluster, space, f"nightly-{number}") == "Succeeded" for number in range(4)))
    submit(cluster, nightly(space, 4))

    def answered() -> tuple[int, dict[str, Any]] | None:
        """The moment, and the answer for the running job once the brain has stored what the runs before it told."""
        answer = simulate(cluster)
        found = next((job for job in answer["jobs"] if job["job"].startswith(f"{space}/nightly-4.")), None)
        return (answer["at_ms"], found) if found is not None and found["running"] and found["known"] else None

    at_ms, job = wait(answered, 20)
    # Four runs of 8 s leave much doubt about the next, and the longest of its three tasks decides.
    assert 0 < job["finish"]["p50_ms"] - at_ms < 40_000
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(nightly(space, 5)))
    (new,) = simulate(cluster, "-f", str(file), "--no-tries")["asked"]
    assert new["known"]
    assert 4_000 < new["finish"]["p50_ms"] - new["start"]["p50_ms"] < 40_000
    node = cluster.kubectl("get", "nodes", "-o", "name").split()[0].removeprefix("node/")
    # Back to the submission of the running job, and not to that of the jobs that ran 8 s before.
    window = f"{round(time.time() - job['submitted_ms'] / 1000) + 7}s"
    changed = simulate(cluster, "--policy", "fair", "--add", f"2x{node}", "--arrivals", window, "--tolerance", "1e6")
    assert changed["compared"]["change"] == f"under fair, with 2 more like {node}"
    cluster.kubectl("delete", "dagjobs", "--all", "-n", space)
