"""Runs of Sparrow's ways to choose workers, and of one queue that knows every slot.

Apart from the tables, so that kept runs count while only tables change.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
import numpy as np
import polars as pl

from rm_emulator import api
from rm_emulator.workload.model import Drawn, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.model import Job, Stage
from studies.steady import quarters
from studies.tables import document

#: One queue that knows every slot, and needs no messages.
IDEAL: Final = "ideal"
MEAN_MS: Final = 200


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is of. span: mean task times that count, after a fifth of the whole run in which queues fill.

    tasks: per job. delay: of a message, ms; task_ms: mean run time. think_ms: of a central scheduler for each task; 0:
    none. mix: who else is there. `long`: half of the work is in jobs of tasks ten times as long. `users`: half of this
    load comes from a user in turn with one that asks for 1.5 times the cluster. `hosts`: each task may run on three
    workers alone. Of a mix only the short jobs, and those of the modest user, count.
    """

    method: str
    load: float
    span: float
    workers: int = 400
    slots: int = 4
    tasks: int = 50
    delay: int = 1
    task_ms: int = MEAN_MS
    ratio: float = 2.0
    cancellation: bool = True
    think_ms: int = 0
    mix: Literal["", "long", "users", "fifo users", "hosts"] = ""

    @property
    def whole(self) -> float:
        """Mean task times of the whole run."""
        return 1.25 * self.span


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A run. mean_ms, p99_ms: response times of jobs that count; quarters_ms: means of their quarters in order.

    at_once: part of the jobs, of one stage, of which no task waited. messages: per task. jobs: that count.
    """

    mean_ms: float
    p99_ms: float
    quarters_ms: tuple[float, ...]
    at_once: float
    messages: float
    jobs: int


def measure(case: Case, seed: int) -> Ran:
    """Run a case once."""
    played = _played(case, _workload(case, seed), seed)
    counted = pl.col("submit_ms") >= (case.whole - case.span) * case.task_ms
    return _ran(played, (pl.col("name") == "counted") & counted)


def measure_tpch(case: Case, jobs: int, seed: int) -> Ran:
    """Run so many TPC-H queries on 2 GB once, by the package's summary of run times; the first fifth does not count."""
    slots = case.workers * case.slots
    drawn = {"kind": "tpch", "jobs": jobs, "sizes": [2], "durations": "per_task", "load": case.load, "slots": slots}
    played = _played(case, api.generated({**drawn, "history": 0, "demand": {"cpu": 1}}, seed=seed), seed)
    return _ran(played, pl.col("submit_ms").rank("ordinal") > jobs / 5)


def _played(case: Case, jobs: Workload, seed: int) -> api.Played:
    decentralised = {
        "kind": "decentralised",
        "method": case.method,
        "message_delay": f"{case.delay}ms",
        "probe_ratio": case.ratio,
        "constrained_probe_ratio": case.ratio,
        "cancellation": case.cancellation,
        "constraints": case.mix == "hosts",
        "worker_order": "user_round_robin" if case.mix == "users" else "fifo",
    }
    central = {"kind": "central", **({"t_task": f"{case.think_ms}ms"} if case.think_ms else {})}
    cluster = {
        "nodes": [{"name": "w", "count": case.workers, "capacity": {"cpu": case.slots}}],
        "profile": "events",
        "architecture": central if case.method == IDEAL else decentralised,
    }
    return api.play(document("sparrow", [seed], {"fifo": {"kind": "fifo"}}, cluster=cluster, workload=jobs))


def _ran(played: api.Played, counted: pl.Expr) -> Ran:
    """Figures of the jobs that count."""
    rows, tasks = played.jobs.filter(counted).sort("submit_ms", "id"), played.tasks
    responses = (rows["finish_ms"] - rows["submit_ms"]).to_numpy()
    last = tasks.group_by("job").agg(pl.col("started_ms").max())
    at_once = rows.join(last, left_on="id", right_on="job")
    return Ran(
        mean_ms=float(responses.mean()),
        p99_ms=float(np.quantile(responses, 0.99)),
        quarters_ms=quarters(responses),
        at_once=float((at_once["started_ms"] == at_once["submit_ms"]).to_numpy().mean()),
        messages=(played.messages or 0) / len(tasks),
        jobs=len(responses),
    )


def _workload(case: Case, seed: int) -> Workload:
    """Jobs of equal width that come at random; run times of tasks are exponential."""
    counted, other = case.load, 0.0
    if case.mix == "long":
        counted = other = case.load / 2
    elif case.mix.endswith("users"):
        counted, other = case.load / 2, 1.5
    jobs = _stream(case, "counted", counted, case.task_ms, seed)
    if other:
        jobs += _stream(case, "other", other, case.task_ms * (10 if case.mix == "long" else 1), seed)
    ordered = sorted(jobs, key=lambda each: (each.submit_ms, each.job.id))
    return Workload(name="sparrow", resources=("cpu",), jobs=tuple(ordered))


def _stream(case: Case, name: str, load: float, task_ms: int, seed: int) -> list[WorkloadJob]:
    """Jobs of one kind over the whole run."""
    gap = case.tasks * task_ms / (case.workers * case.slots * load)
    draw, hosts = keyed.generator(seed, "sparrow", name, "arrivals"), keyed.generator(seed, "sparrow", name, "hosts")
    count, digits = round(case.whole * case.task_ms / gap), len(str(case.workers))
    found = []
    for number, at in enumerate(np.cumsum(draw.exponential(gap, count)).astype(int).tolist()):
        where: tuple[tuple[str, ...], ...] = ()
        if case.mix == "hosts":
            where = tuple(
                tuple(f"w{worker + 1:0{digits}d}" for worker in hosts.choice(case.workers, 3, replace=False).tolist())
                for _ in range(case.tasks)
            )
        stage = Stage(name="run", tasks=case.tasks, demand=(1000,), hosts=where)
        job = Job(id=f"{name[0]}{number:06d}", name=name, user=name, stages=(stage,))
        found.append(WorkloadJob(job=job, submit_ms=at, runtimes=(Drawn(mean_ms=task_ms, kind="exponential"),)))
    return found
