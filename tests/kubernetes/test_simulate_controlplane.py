"""When the jobs of a live cluster will end, by the memory of its brain: `rm-emulator simulate`, and the forecaster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from devcluster.cluster import Devcluster, free_ports
from devcluster.deployments import Running
from devcluster.deployments import answers as ready
from devcluster.installation import MANIFESTS, change_config
from forecaster.process import FIELD_MANAGER
from operators.client import Client, Conflict, path_of
from schedulers.objects.names import API_VERSION, RECURRING_LABEL
from tests.kubernetes.account import Account
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait
from tests.kubernetes.rights import pod

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def installed(alone: Devcluster) -> Iterator[Installed]:
    running = Installed(alone, brain={"snapshot": {"everySeconds": 1}, "leaderElection": None})
    yield running
    running.stop()


@pytest.fixture(scope="module")
def space(installed: Installed) -> str:
    """Four runs of a recurring job have ended here."""
    cluster = installed.cluster
    space = cluster.namespace()
    submit(cluster, *(nightly(space, number) for number in range(4)))
    wait(lambda: all(phase(cluster, space, f"nightly-{number}") == "Succeeded" for number in range(4)))
    return space


def simulate(cluster: Devcluster, *words: str) -> dict[str, Any]:
    """The answer of the command as data."""
    where = ["--kubeconfig", str(cluster.kubeconfig), "--kubectl", str(cluster.programs["kubectl"])]
    asked = [sys.executable, "-m", "rm_emulator", "simulate", *where, "--json", "--quiet", "--draws", "10", *words]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.drawn(of=4)
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


def nightly(space: str, number: int, *, tasks: int = 3, seconds: int = 8) -> dict[str, Any]:
    """A run of a recurring job."""
    job = dagjob(f"nightly-{number}", space, [stage("map", tasks, seconds, cpu="1")])
    job["metadata"]["labels"] = {RECURRING_LABEL: "nightly"}
    return job


@pytest.mark.drawn(of=4)
def test_a_running_job_ends_when_the_runs_before_it_let_expect(
    installed: Installed, space: str, tmp_path: Path
) -> None:
    cluster = installed.cluster
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


@pytest.fixture(scope="module")
def port() -> int:
    """Where the forecaster answers."""
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def forecaster(installed: Installed, port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The component, applied and running; a round each second, and answers over HTTP on loopback."""
    folder = tmp_path_factory.mktemp("forecaster").resolve()
    component = os.path.relpath(MANIFESTS / "components" / "forecaster", folder)
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"components": [component]}))
    installed.cluster.apply(folder)
    settings = {"every": "1s", "answers": {"port": port, "tls": None}}
    change_config(installed.cluster, "rm-forecaster", lambda config: config | settings)
    running = Running(installed.cluster, "rm-forecaster")
    running.wait_ready()
    yield running
    running.stop()


def answers(running: Running, port: int) -> bool:
    """Whether the process of the first replica is ready."""
    return ready(f"http://127.0.0.1:{running.replicas[0].ports[port]}/readyz")


def read(port: int, path: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return str(answer.read().decode())


def figures(running: Running) -> dict[str, float]:
    """Sums of the metrics of the forecaster, by name."""
    families = list(text_string_to_metric_families(read(running.replicas[0].ports[8083], "/metrics")))
    return {family.name: sum(s.value for s in family.samples if s.name[-8:] != "_created") for family in families}


def reloads(running: Running) -> dict[str, float]:
    """How often the forecaster has read all of the memory, by cause."""
    families = text_string_to_metric_families(read(running.replicas[0].ports[8083], "/metrics"))
    samples = [sample for family in families for sample in family.samples]
    return {s.labels["cause"]: s.value for s in samples if s.name == "rm_forecast_reloads_total"}


@pytest.mark.drawn(of=8)
def test_the_forecaster_writes_when_jobs_will_start_and_end(
    installed: Installed, space: str, forecaster: Running, port: int
) -> None:
    cluster = installed.cluster

    def status(number: int) -> dict[str, Any]:
        return dict(cluster.get("dagjob", f"nightly-{number}", "-n", space).get("status", {}))

    def expected(number: int) -> dict[str, Any] | None:
        told = status(number).get("expected")
        return told if told is not None and told["known"] else None

    def next_round(plain: str) -> dict[str, Any]:
        """The answer of the round that knows of another plain pod, for the job that waits."""
        other = pod()
        other["metadata"] = {"name": plain, "namespace": space, "labels": other["metadata"]["labels"]}
        submit(cluster, other)

        def answer() -> dict[str, Any] | None:
            told: dict[str, dict[str, Any]] = json.loads(read(port, "/v1/expected"))
            knows = any(job.startswith(f"{space}/{plain}.") for job in told)
            return next(told[job] for job in told if job.startswith(f"{space}/nightly-7.")) if knows else None

        return dict(wait(answer, 20))

    # The first takes all 32 cores, so the second waits for them.
    submit(cluster, nightly(space, 6, tasks=32, seconds=30))
    wait(lambda: sum(stage["running"] for stage in status(6).get("stages", ())) == 32, 20)
    submit(cluster, nightly(space, 7, tasks=32, seconds=1))
    waiting = wait(lambda: expected(6) and expected(7), 20)
    start, finish = waiting["start"], waiting["finish"]
    assert waiting["asOf"] <= start["p10"] <= start["p50"] <= finish["p50"] <= finish["p90"]
    row = cluster.kubectl("get", "dagjobs", "nightly-7", "-n", space)
    assert re.search(r"\bETA\b.*\n.* \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", row)
    next_round("plain")
    # Fields of the other two writers stay.
    assert status(7)["reason"]
    assert status(7)["tasks"] == 32
    assert reloads(forecaster) == {"first": 1}

    installed.brain.kill("brain")
    wait(lambda: not answers(installed.brain, 8081))
    assert expected(7)
    assert answers(forecaster, 8083)
    # The next leader's memory is read once, and followed from there on.
    wait(lambda: reloads(forecaster) == {"first": 1, "leader": 1}, 20)
    for plain in ("another", "last"):
        answer = next_round(plain)
        assert answer["asOf"] <= answer["start"]["p10"] <= answer["start"]["p50"] <= answer["finish"]["p50"]
    assert reloads(forecaster) == {"first": 1, "leader": 1}
    assert "rm_forecast_rounds_failed_total{" not in read(forecaster.replicas[0].ports[8083], "/metrics")
    forecaster.kill("forecaster")
    cluster.kubectl("delete", "dagjob", "nightly-6", "-n", space)
    wait(lambda: status(7)["phase"] == "Succeeded", 40)
    # A job that has ended has no answer any more: the answer was judged.
    wait(lambda: "expected" not in status(7), 20)
    assert 0 <= figures(forecaster)["rm_forecast_held"] <= 1


def test_the_forecaster_may_write_no_other_field(installed: Installed, space: str, forecaster: Running) -> None:
    cluster = installed.cluster
    submit(cluster, dagjob("other", space, [stage("only", 1, 1)]))
    account = Account(cluster, "rm-forecaster")
    path = f"{path_of('DagJob', f'{space}/other')}/status"
    expected = {"known": False, "asOf": "2026-01-01T00:00:00Z"}
    wait(lambda: "rm-forecaster-dagjobs" in account.patch_refusal(path, {"status": {"phase": "Failed"}}, "merge"))
    account.patch(path, {"status": {"expected": expected}}, "merge")


def test_an_answer_for_a_version_that_is_gone_is_refused(installed: Installed, space: str, forecaster: Running) -> None:
    """So that an answer for a DagJob that was deleted does not end up in its namesake."""
    cluster = installed.cluster
    meta = {"name": "again", "namespace": space}
    submit(cluster, dagjob("again", space, [stage("only", 1, 1)]))
    version = cluster.get("dagjob", "again", "-n", space)["metadata"]["resourceVersion"]
    cluster.kubectl("delete", "dagjob", "again", "-n", space)
    submit(cluster, dagjob("again", space, [stage("only", 1, 1)]))

    async def write(client: Client) -> None:
        body = {"apiVersion": API_VERSION, "kind": "DagJob", "metadata": {**meta, "resourceVersion": version}}
        path = f"{path_of('DagJob', f'{space}/again')}/status"
        await client.patch(path, {**body, "status": {}}, kind="apply", field_manager=FIELD_MANAGER, force=True)

    with pytest.raises(Conflict):
        Account(cluster, "rm-forecaster")(write)
