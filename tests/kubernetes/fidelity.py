"""The same jobs on the real control plane and in the emulator's profile `kubernetes`: how far apart are they?

`python -m tests.kubernetes.fidelity [--runs 3] [--policies fifo,fair,gs] [--out FILE]` prints mean job completion
times of both, per policy, with each run of the real one, and the delays that it has measured on the way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import MANIFESTS, Installed, dagjob, stage

NODES, CPUS = 8, 8
PREDICTORS = {"gs": {"kind": "slearn"}}


def workload(seed: int, jobs: int = 30, *, gap_s: float = 1.5, least_s: int = 20) -> list[tuple[float, dict[str, Any]]]:
    """(arrival in s, DagJob) of `jobs` jobs of one to three stages, some of them gangs."""
    draw = random.Random(seed)
    arrivals, at = [], 0.0
    for number in range(jobs):
        wide = draw.random() < 0.3
        stages = [
            stage("map", draw.randint(8, 16) if wide else draw.randint(1, 5), least_s + draw.randint(0, 10), cpu="2")
        ]
        if draw.random() < 0.5:
            stages.append(
                stage("reduce", draw.randint(1, 3), least_s, parents=["map"], cpu="1", gang=draw.random() < 0.5)
            )
        arrivals.append((at, dagjob(f"job{number:02d}", "replaced", stages)))
        at += draw.expovariate(1 / gap_s)
    return arrivals


# -- the real one -------------------------------------------------------------------------------


def real(cluster: Devcluster, jobs: list[tuple[float, dict[str, Any]]], policy: str, seed: int) -> dict[str, Any]:
    """One run: completion times in s by job, and the event log's delays."""
    settings = {"policy": {"kind": policy}, "predictor": PREDICTORS.get(policy), "seed": seed}
    installed = Installed(cluster, brain=settings)
    try:
        space = cluster.namespace("fidelity")
        asyncio.run(_submit(cluster, jobs, space))
        _wait(cluster, space, len(jobs))
    finally:
        installed.stop()
    facts = installed.replay()
    return {"facts": facts, **_read(installed.logs[-1])}


async def _submit(cluster: Devcluster, jobs: list[tuple[float, dict[str, Any]]], space: str) -> None:
    path = f"/apis/{names.GROUP}/{names.VERSION}/namespaces/{space}/dagjobs"
    async with cluster.client() as client:
        begin = time.monotonic()
        for at, job in jobs:
            await asyncio.sleep(max(0.0, begin + at - time.monotonic()))
            await client.create(path, {**job, "metadata": {"name": job["metadata"]["name"], "namespace": space}})


def _wait(cluster: Devcluster, space: str, count: int) -> None:
    until = time.monotonic() + 900
    while time.monotonic() < until:
        items = cluster.get("dagjobs", "-n", space)["items"]
        if sum(1 for item in items if item.get("status", {}).get("phase") == "Succeeded") == count:
            return
        time.sleep(1)
    raise TimeoutError("the jobs do not end")


def _read(log: Path) -> dict[str, Any]:
    """Completion times and delays from an event log."""
    submitted: dict[str, int] = {}
    over: dict[str, int] = {}
    granted: dict[int, tuple[str, int]] = {}
    started: dict[int, int] = {}
    delays: dict[str, list[int]] = {"start": [], "ran": [], "ask": []}
    at = 0
    for text in log.read_bytes().splitlines():
        line = json.loads(text)
        at = line.get("at", at)
        match line.get("event") or line.get("decision"):
            case "JobSubmitted":
                submitted[line["job"]["id"]] = at
            case "JobChanged" if line["job"] not in over:
                delays["ask"].append(at - submitted[line["job"]])
            case "Place":
                granted[line["container"]] = (line["job"], at)
            case "ContainerStarted":
                started[line["container"]] = at
                delays["start"].append(at - granted[line["container"]][1])
            case "ContainerEnded":
                over[granted[line["container"]][0]] = at
                delays["ran"].append(at - started[line["container"]])
    jct = {job.partition("/")[2].partition(".")[0]: (end - submitted[job]) / 1000 for job, end in over.items()}
    return {"jct_s": jct, "delays_ms": {name: _spread(values) for name, values in delays.items()}}


def _spread(values: list[int]) -> dict[str, float]:
    ordered = sorted(values) or [0]
    return {
        "mean": statistics.fmean(ordered),
        "p50": ordered[len(ordered) // 2],
        "p95": ordered[int(0.95 * len(ordered))],
    }


# -- the emulated one ---------------------------------------------------------------------------


def emulated(
    jobs: list[tuple[float, dict[str, Any]]], policy: str, seeds: str, settings: Mapping[str, Any] | None = None
) -> list[float]:
    """Mean completion time in s, one per seed, of the same objects in the emulator."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    size = {"cpu": str(CPUS), "memory": "32Gi", "pods": "110"}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}"}, "status": {"allocatable": size}}
        for i in range(NODES)
    ]
    for at, job in jobs:
        stamp = (begin + timedelta(seconds=at)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        objects.append({**job, "metadata": {"name": job["metadata"]["name"], "creationTimestamp": stamp}})
    scenario = {
        "apiVersion": names.API_VERSION,
        "kind": "Scenario",
        "metadata": {"name": "fidelity"},
        "spec": {
            "cluster": {"profile": "kubernetes", **({"kubernetes": dict(settings)} if settings else {})},
            "policies": [{"label": policy, "kind": policy, "predictor": PREDICTORS.get(policy)}],
        },
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fidelity.json"
        file.write_text("\n---\n".join(json.dumps(each) for each in (scenario, *objects)))
        command = [
            sys.executable,
            "-m",
            "rm_emulator",
            "run",
            str(file),
            "--out",
            f"{folder}/out",
            "--seeds",
            seeds,
            "--json",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return [run["jct_s"]["mean"] for run in json.loads(done.stdout)["runs"]]


def main() -> int:
    """Print one line per policy; 1 when a mean is more than 5 % off, or the policies' order differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes.fidelity", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--policies", default="fifo,fair,gs")
    parser.add_argument("--workload", type=int, default=1, help="seed of the jobs")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    jobs, rows = workload(asked.workload), {}
    with tempfile.TemporaryDirectory() as folder:
        cluster = Devcluster(Path(folder) / "cluster")
        try:
            cluster.up(nodes=NODES, cpu=str(CPUS), reserved=True)
            cluster.apply(MANIFESTS / "crds")
            for policy in asked.policies.split(","):
                runs = [real(cluster, jobs, policy, seed) for seed in range(1, asked.runs + 1)]
                means = [statistics.fmean(run["jct_s"].values()) for run in runs]
                ours = emulated(jobs, policy, f"1..{max(asked.runs, 10)}")
                off = 100 * (statistics.fmean(ours) / statistics.fmean(means) - 1)
                rows[policy] = {"real_s": means, "emulated_s": statistics.fmean(ours), "off_pct": off, "runs": runs}
                shown = ", ".join(f"{mean:.2f}" for mean in means)
                print(f"{policy}: real {shown} s, emulated {statistics.fmean(ours):.2f} s, {off:+.1f} %", flush=True)  # noqa: T201
                print(f"  delays: {runs[0]['delays_ms']}", flush=True)  # noqa: T201
        finally:
            cluster.remove()
    if asked.out is not None:
        asked.out.write_text(json.dumps(rows, indent=1))
    order_real = sorted(rows, key=lambda p: statistics.fmean(rows[p]["real_s"]))
    order_ours = sorted(rows, key=lambda p: rows[p]["emulated_s"])
    print(f"order: real {order_real}, emulated {order_ours}")  # noqa: T201
    return int(any(abs(row["off_pct"]) > 5 for row in rows.values()) or order_real != order_ours)


if __name__ == "__main__":
    sys.exit(main())
