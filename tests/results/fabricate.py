"""Makes run directories without the engine: a small list scheduler reports to the real `Recorder`."""

from __future__ import annotations

import heapq
import json
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from rm_emulator.engine.recording import Attempt, JobRow
from rm_emulator.results.record import Recorder
from schedulers.core.decisions import Hold
from schedulers.core.events import JobSubmitted
from schedulers.core.model import Job, Node, Stage
from schedulers.core.policy import Planned, Stretch
from schedulers.core.reasons import Reason

LABELS = {"slearn": 0.2, "three_sigma": 0.9, "fifo": None}


def run_directory(
    out_dir: Path,
    *,
    labels: dict[str, float | None] | None = None,
    seeds: tuple[int, ...] = (1, 2),
    jobs: int = 200,
    nodes: int = 8,
    slots: int = 4,
    logs: bool = False,
) -> dict:
    """Cells under `out_dir/runs` and the scenario they belong to. A label's number: noise of its estimates.

    logs: with event logs that say when jobs come, and that there is no room for them.
    """
    labels = LABELS if labels is None else labels
    for label, noise in labels.items():
        for seed in seeds:
            place = out_dir / "runs" / label / str(seed)
            cell(place, label, noise, seed, jobs, nodes, slots)
            if logs:
                (place / "events.jsonl").write_bytes(log(pl.read_parquet(place / "jobs.parquet")))
    policies = [{"label": name, "kind": "fifo" if noise is None else "gs"} for name, noise in labels.items()]
    names = list(labels)
    baseline = names[1] if len(names) > 1 else names[0]
    expect = [f"{names[0]}.jct_s.mean < {names[-1]}.jct_s.mean", f"{names[0]}.wait_s.p90 < 1"]
    spec = {"seeds": list(seeds), "policies": policies, "baseline": baseline, "expect": expect}
    return {"metadata": {"name": "fabricated"}, "spec": spec}


def cell(directory: Path, label: str, noise: float | None, seed: int, jobs: int, nodes: int, slots: int) -> None:
    """One cell: jobs in order of estimated size class (of arrival when there is no noise, hence no estimate).

    Jobs with estimates have plans, with all of their tasks at once.
    """
    rng = np.random.default_rng(seed)
    machines = [Node(id=f"node-{i:03d}", capacity=(1000 * slots, 4096 * slots)) for i in range(nodes)]
    names = [f"script-{i}" for i in range(12)]
    usual = rng.lognormal(10.3, 1.5, len(names))
    submits = np.cumsum(rng.gamma(0.3, 80_000, jobs)).astype(int)
    which = rng.integers(0, len(names), jobs)
    widths = np.minimum(slots * nodes, np.ceil(rng.lognormal(2, 1.1, jobs)).astype(int))
    errors = np.exp(rng.normal(0, 1, jobs))
    recorder = Recorder(machines)
    waiting: list[tuple[float, int, int, int]] = []
    times = [
        np.maximum(1, usual[which[j]] * rng.lognormal(0, 0.4) * rng.lognormal(0, 0.2, widths[j])) for j in range(jobs)
    ]
    sizes = [None if noise is None else float(times[j].sum() * errors[j] ** noise) for j in range(jobs)]
    free = [(0, slot) for slot in range(nodes * slots)]
    heapq.heapify(free)
    left = widths.copy()
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    arrived = done = container = 0
    while done < jobs:
        now, slot = heapq.heappop(free)
        if not waiting and arrived < jobs:
            now = max(now, int(submits[arrived]))
        while arrived < jobs and submits[arrived] <= now:
            size = sizes[arrived]
            recorder.demand(f"job-{arrived:04d}", 0, (1000, 4096))
            if size is not None:
                recorder.plan(*plan(f"job-{arrived:04d}", int(submits[arrived]), int(widths[arrived]), size, nodes))
            order = 0.0 if size is None else float(np.floor(np.log10(max(1.0, size / 1e5))))
            for task in range(widths[arrived]):
                heapq.heappush(waiting, (order, int(submits[arrived]), arrived, task))
            arrived += 1
        if not waiting:
            continue
        _, _, job, task = heapq.heappop(waiting)
        now = max(now, int(submits[job]))
        end = now + max(1, int(times[job][task]))
        first.setdefault(job, now)
        last[job] = max(last.get(job, 0), end)
        container += 1
        recorder.task(
            Attempt(f"job-{job:04d}", 0, task, 0, machines[slot // slots].id, container, now, now, end, False, 0)
        )
        heapq.heappush(free, (end, slot))
        left[job] -= 1
        if left[job] == 0:
            done += 1
            recorder.job(
                JobRow(
                    id=f"job-{job:04d}",
                    name=names[which[job]],
                    user=f"user-{which[job] % 4}",
                    queue="prod.etl" if which[job] % 3 else "adhoc",
                    submit_ms=int(submits[job]),
                    first_start_ms=first[job],
                    finish_ms=last[job],
                    tasks=int(widths[job]),
                    width=int(widths[job]),
                    work_ms=int(sum(max(1, int(t)) for t in times[job])),
                    size_ms=sizes[job],
                    size_source=None if noise is None else "history:job_name",
                    ideal_ms=max(1, int(times[job].max())),
                )
            )
    recorder.finish(max(last.values()))
    recorder.write(directory)
    recorder.close()
    counters = {
        "policy": "fifo" if noise is None else "gs",
        "predictor": None if noise is None else label,
        "tie": "lowest id",
        "version": "0.1.0",
        "decisions": container,
        "decision_us": {"p50": 20.0, "p98": 80.0, "p99": 90.0},
        "wall_s": 1.5,
        "sim_s": max(last.values()) / 1000,
        "tasks_per_s": 20_000.0,
        "peak_rss_mb": 120.0,
        "log_sha256": "0" * 64,
    }
    (directory / "cell.json").write_text(json.dumps(counters))


def plan(name: str, made_ms: int, width: int, size_ms: float, nodes: int) -> tuple[Job, int, Planned]:
    """What the recorder is told of a job's plan."""
    task_ms = max(1, round(size_ms / width))
    stretches = (Stretch(0, 0, task_ms, width * task_ms),)
    job = Job(id=name, stages=(Stage(name="map", tasks=width, demand=(1000, 4096)),))
    return job, made_ms, Planned(nodes, task_ms, task_ms, (task_ms,), stretches)


def log(jobs: pl.DataFrame) -> bytes:
    """When jobs come, and that there is no room for them."""
    lines: list[object] = []
    for name, at, tasks in jobs.select("id", "submit_ms", "tasks").iter_rows():
        job = Job(id=name, stages=(Stage(name="map", tasks=tasks, demand=(1000, 4096)),))
        lines += [JobSubmitted(at, job), Hold(name, Reason.NO_ROOM)]
    return msgspec.json.Encoder().encode_lines(lines)
