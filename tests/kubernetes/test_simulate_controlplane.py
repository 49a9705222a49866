"""`rm-emulator simulate --kubeconfig`: when the jobs of a live cluster will end, by the memory of its brain."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import yaml

from devcluster.cluster import Devcluster
from tests.kubernetes.installed import dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane


def simulate(cluster: Devcluster, *words: str) -> dict[str, Any]:
    """The answer of the command as data."""
    where = ["--kubeconfig", str(cluster.kubeconfig), "--kubectl", str(cluster.programs["kubectl"])]
    asked = [sys.executable, "-m", "rm_emulator", "simulate", *where, "--json", "--quiet", "--draws", "10", *words]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_running_job_ends_when_the_answer_says_by_the_job_before_it(alone: Devcluster, tmp_path: Any) -> None:
    """Both jobs have the tasks of 12 s of one recurring job; the first has ended, and so the end of the second is known."""
    space = alone.namespace()
    before, now = (dagjob(name, space, [stage("map", 4, 12)]) for name in ("nightly-1", "nightly-2"))
    for job in (before, now):
        job["metadata"]["labels"] = {"rm-emulator.io/recurring": "nightly"}
    submit(alone, before)
    wait(lambda: phase(alone, space, "nightly-1") == "Succeeded")
    # The brain stores what it has learned every five seconds.
    wait(lambda: "rm-brain-history" in str(alone.kubectl("get", "configmaps", "-n", "rm-system", "-o", "name")))
    submit(alone, now)

    def answered() -> tuple[dict[str, Any], dict[str, Any]] | None:
        answer = simulate(alone)
        live = {job["job"]: job for job in answer["jobs"]}
        found = live.get(f"{space}/nightly-2")
        return (answer, found) if found is not None and found["running"] else None

    answer, job = wait(answered, 30)
    assert job["known"], answer["unknown"]
    left_s = (job["finish"]["p50_ms"] - answer["at_ms"]) / 1000
    assert 0 < left_s < 25
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump({**before, "metadata": {**before["metadata"], "name": "nightly-3"}}))
    (new,) = simulate(alone, "-f", str(file), "--no-tries")["asked"]
    assert new["known"]
    assert new["finish"]["p50_ms"] > new["start"]["p50_ms"] > 0
    alone.kubectl("delete", "dagjob", "nightly-1", "nightly-2", "-n", space)
