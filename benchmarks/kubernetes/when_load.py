"""A foreign mix of DagJobs whose tasks take as long as a seed says, whatever their pod templates claim."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any, Final

import msgspec

from schedulers.objects import names

#: Half of the jobs are runs of so many recurring jobs; each of the others is the first and only of its name.
_RECURRING: Final = 6
_USERS: Final = ("ann", "bob", "eve", "joe")
#: Mean run time of a stage: median and deviation of ln, least and most, s; how much a run of a recurring job differs.
_MEAN_S: Final = (18.0, 0.7)
_LEAST_S, _MOST_S = 5.0, 60.0
_RUN: Final = 0.25
#: Long jobs, half of them runs of one recurring job: stages, mean run time of a stage as above, most tasks of a stage.
_LONG_STAGES: Final = 5
_LONG_S: Final = (75.0, 0.3)
_LONG_TASKS: Final = 4
#: Coefficient of variation of run times within a stage.
_CV: Final = 0.5
#: Tasks of a stage: median, deviation of ln, and most.
_TASKS: Final = (6.0, 0.8)
_MOST_TASKS: Final = 40
#: Share of tasks whose first try fails, after a drawn part of its run time.
FAILS: Final = 0.1
#: What a template claims, over the truth: from 1 / _WRONG to _WRONG.
_WRONG: Final = 2.0


class LoadedStage(msgspec.Struct, frozen=True):
    """A stage: log-normal run times of `mean_s`, which the pod template claims to be `claimed_s`."""

    tasks: int
    cpu: int
    mean_s: float
    claimed_s: int

    @property
    def noise(self) -> float:
        """Variance of ln run time."""
        return math.log1p(_CV**2)

    @property
    def all_tries(self) -> tuple[float, float]:
        """Mean, s, and variance of ln of the time that all tries at a task take together."""
        # A task takes its run time 1 + F U times: F is 1 for a task that fails once, U is the drawn part. The law with
        # these two moments is taken to be log-normal again.
        mean, square = 1 + FAILS / 2, 1 + FAILS + FAILS / 3
        return self.mean_s * mean, self.noise + math.log(square / mean**2)


class LoadedJob(msgspec.Struct, frozen=True, tag="job"):
    """A job, its second of arrival, and its name as recurring job ('': none). Each stage waits for the one before."""

    name: str
    recurring: str
    user: str
    at_s: float
    stages: tuple[LoadedStage, ...]

    @property
    def work(self) -> float:
        """Expected core seconds."""
        return sum(stage.tasks * stage.cpu * stage.mean_s for stage in self.stages)


def load(jobs: int, long: int, minutes: float, seed: int) -> list[LoadedJob]:
    """So many jobs, and so many long ones, in order of arrival, which is spread over the minutes."""
    return sorted((*_mix(jobs, minutes, seed), *_long(long, minutes, seed)), key=lambda job: job.at_s)


def _mix(jobs: int, minutes: float, seed: int) -> list[LoadedJob]:
    draw = random.Random(seed)  # noqa: S311 (no secret)
    shapes = [(draw.choice(_USERS), _shape(draw)) for _ in range(_RECURRING)]
    made: list[LoadedJob] = []
    runs: Counter[str] = Counter()
    for number, at in enumerate(sorted(draw.uniform(0, 60 * minutes) for _ in range(jobs))):
        if number % 2:
            made.append(LoadedJob(f"once-{number:03d}", "", draw.choice(_USERS), at, _shape(draw)))
            continue
        which = draw.randrange(_RECURRING)
        user, shape = shapes[which]
        name, factor = f"nightly-{which}", draw.lognormvariate(0, _RUN)
        stages = tuple(_stage(draw, each.tasks, each.cpu, each.mean_s * factor) for each in shape)
        made.append(LoadedJob(f"{name}-{runs[name]:02d}", name, user, at, stages))
        runs[name] += 1
    return made


def _long(jobs: int, minutes: float, seed: int) -> list[LoadedJob]:
    """By draws of their own, so that the rest of the mix is the same with and without them."""
    draw = random.Random(f"{seed} long")  # noqa: S311 (no secret)
    median, spread = _LONG_S

    def shape() -> tuple[LoadedStage, ...]:
        sizes = [(draw.randint(1, _LONG_TASKS), median * draw.lognormvariate(0, spread)) for _ in range(_LONG_STAGES)]
        return tuple(_stage(draw, tasks, 1, mean_s, most_s=2 * median) for tasks, mean_s in sizes)

    weekly = shape()
    made: list[LoadedJob] = []
    for number in range(jobs):
        at = draw.uniform(0, 60 * minutes)
        if number % 2:
            made.append(LoadedJob(f"long-{number:02d}", "", draw.choice(_USERS), at, shape()))
            continue
        factor = draw.lognormvariate(0, _RUN)
        stages = tuple(_stage(draw, each.tasks, 1, each.mean_s * factor, most_s=2 * median) for each in weekly)
        made.append(LoadedJob(f"weekly-{number:02d}", "weekly", _USERS[0], at, stages))
    return made


def _shape(draw: random.Random) -> tuple[LoadedStage, ...]:
    median, spread = _MEAN_S
    stages = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        tasks = min(_MOST_TASKS, max(1, round(_TASKS[0] * draw.lognormvariate(0, _TASKS[1]))))
        stages.append(_stage(draw, tasks, draw.choice((1, 1, 2)), median * draw.lognormvariate(0, spread)))
    return tuple(stages)


def _stage(draw: random.Random, tasks: int, cpu: int, mean_s: float, *, most_s: float = _MOST_S) -> LoadedStage:
    mean = min(most_s, max(_LEAST_S, mean_s))
    return LoadedStage(tasks, cpu, mean, max(1, round(mean * _WRONG ** draw.uniform(-1, 1))))


def nodes_for(jobs: list[LoadedJob], *, cpus: int, load: float) -> int:
    """Nodes of so many CPUs on which the work takes `1 / load` of the time in which the jobs arrive."""
    return max(2, round(sum(job.work for job in jobs) / max(job.at_s for job in jobs) / load / cpus))


def run_of(seed: int, job: LoadedJob, stage: int, index: int, attempt: int) -> tuple[int, int]:
    """(Seconds, exit code) of an attempt at a task."""
    draw = random.Random(f"{seed} {job.name} {stage} {index}")  # noqa: S311 (no secret)
    known = job.stages[stage]
    seconds = known.mean_s * draw.lognormvariate(-known.noise / 2, math.sqrt(known.noise))
    fails, part = draw.random() < FAILS, draw.random()
    if fails and attempt == 0:
        return max(1, round(seconds * part)), 1
    return max(1, round(seconds)), 0


def dagjob_of(job: LoadedJob, namespace: str) -> dict[str, Any]:
    """The DagJob as its user would make it, with the claims about its run times."""
    labels = {names.RECURRING_LABEL: job.recurring} if job.recurring else {}
    stages = []
    for number, stage in enumerate(job.stages):
        container = {"name": "main", "image": "busybox"}
        requests = {"cpu": str(stage.cpu), "memory": "64Mi"}
        template = {
            "metadata": {"annotations": {names.RUN_SECONDS: str(stage.claimed_s)}},
            "spec": {"containers": [{**container, "resources": {"requests": requests}}]},
        }
        parents = {"parents": [f"s{number - 1}"]} if number else {}
        hints = {"durationSeconds": stage.claimed_s}
        stages.append({"name": f"s{number}", "tasks": stage.tasks, "template": template, "hints": hints, **parents})
    return {
        "apiVersion": names.API_VERSION,
        "kind": "DagJob",
        "metadata": {"name": job.name, "namespace": namespace, "labels": labels},
        "spec": {"user": job.user, "retries": 3, "stages": stages},
    }
