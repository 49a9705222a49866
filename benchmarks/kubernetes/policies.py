"""The same DagJobs under several policies on a real control plane with fake kubelets, and in the emulator beside.

`python -m benchmarks.kubernetes.policies --out FOLDER` runs the TPC-H jobs of each seed once under each policy, each
time on a control plane of its own, and prints a table. The brain's event log of each run stays in FOLDER; a run whose
log is there is only scored. Nobody is told run times: the predictor has past runs of the same queries.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from scipy.stats import theilslopes

from benchmarks.rows import aligned
from devcluster.cluster import Devcluster
from devcluster.installation import MANIFESTS, admits, apply_crds, change_config, running, until
from operators.client import wall_ms
from operators.extender.history import History
from rm_emulator import api
from rm_emulator.api import Floats
from rm_emulator.files import write_file
from rm_emulator.issues import InvalidInput
from rm_emulator.program import end
from rm_emulator.workload.model import Fixed, PerTask, Workload
from schedulers.core.decisions import Place
from schedulers.core.events import ContainerEnded, ContainerStarted, Event, JobSubmitted
from schedulers.core.model import Job
from schedulers.core.replay import Replay
from schedulers.objects import names
from schedulers.policies.decima import Decima

#: By label; the others are held against the first, which taught the network. A policy may have a predictor of its own.
POLICIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "priced": {"kind": "dispatch", "rule": "priced"},
    "fair": {"kind": "dispatch", "rule": "fair"},
    "decima": {"kind": "decima"},
    "curves": {"kind": "curves"},
    "curves_learned": {"kind": "curves", "learned": True},
    "slearn_dag": {"kind": "gs", "first_threshold_ms": 3e4, "growth": 3.0, "predictor": {"kind": "slearn_dag"}},
    "graphene": {"kind": "graphene"},
    # Fake kubelets end pods at whole seconds, just after which a cycle of 4 s would always have begun.
    "tetrisched": {"kind": "tetrisched", "cycle_s": 3.7},
}
#: Of all other policies.
PREDICTOR: Final = {"kind": "three_sigma_dag"}
#: 32 tasks at once: the weights for containers were trained with 32 to 50.
NODES, _CPUS = 4, 8
#: Work of a pod, at most, s: tasks of a fraction of a second would measure kubelets.
_POD_S: Final = 5.5
#: Half of the measured run times make a run short; without query 6 all jobs stay as large as in training.
_SCALE: Final = 0.5
_TPCH: Final = {
    "kind": "tpch",
    "arrivals": "batch",
    "queries": [query for query in range(1, 23) if query != 6],
    "sizes": [2],
    "durations": "per_task",
    "history": 440,
}
_ADMITTED_S: Final = 120.0
_LONGEST_S: Final = 900.0
_HEAD: Final = (
    "policy", "mean JCT, s", "difference, s", "%", "sooner", "makespan, s", "a pod, s", "decision p50, p99, ms",
    "scored, %", "emulated JCT, s", "off, %", "difference, s",
)  # fmt: skip


def workload(seed: int, jobs: int) -> Workload:
    """TPC-H jobs that arrive at once, their work in pods of whole seconds, and past runs of their queries.

    A stage has as many pods as its past work needs at _POD_S each; a stage's pods run equally long.
    """
    drawn = api.generated({**_TPCH, "jobs": jobs}, seed=seed)
    works = defaultdict(list)
    for past in drawn.history:
        works[past.name].append([_SCALE * tasks * ms / 1000 for tasks, ms in past.stages])
    pods = {name: [math.ceil(work / _POD_S) for work in np.mean(runs, axis=0)] for name, runs in works.items()}
    replace, made = msgspec.structs.replace, []
    for each in drawn.jobs:
        counts = pods[each.job.name]
        stages = tuple(replace(stage, tasks=n) for stage, n in zip(each.job.stages, counts, strict=True))
        works_ms = [_SCALE * sum(times.ms) for times in each.runtimes if isinstance(times, PerTask)]
        seconds = [max(1, round(work / n / 1000)) for work, n in zip(works_ms, counts, strict=True)]
        job = replace(each.job, stages=stages, app="")
        made.append(replace(each, job=job, runtimes=tuple(Fixed(1000 * each) for each in seconds)))
    history = [
        replace(
            past,
            stages=tuple(
                (n, _SCALE * tasks * ms / n) for (tasks, ms), n in zip(past.stages, pods[past.name], strict=True)
            ),
            app="",
            demand=(),
        )
        for past in drawn.history
    ]
    return replace(drawn, jobs=tuple(made), history=tuple(history))


def dagjob(job: Job, seconds: Sequence[int], namespace: str) -> dict[str, Any]:
    """The DagJob of a job. seconds: run time of each stage's pods, for the fake kubelets alone."""
    stages = []
    for stage, runs in zip(job.stages, seconds, strict=True):
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
        annotations = {names.RUN_SECONDS: str(runs)}
        template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
        parents = [job.stages[parent].name for parent in stage.above]
        stages.append({"name": stage.name, "tasks": stage.tasks, "template": template, "parents": parents})
    return {
        "apiVersion": names.API_VERSION,
        "kind": "DagJob",
        "metadata": {"name": job.id, "namespace": namespace, "labels": {names.RECURRING_LABEL: job.name}},
        "spec": {"user": job.user, "stages": stages},
    }


def measure(policy: Mapping[str, Any], jobs: Workload, log: Path) -> None:
    """Run the jobs once on a new control plane; the brain's event log is kept. Raises as `run`."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cluster = Devcluster(Path(folder) / "cluster")
        stack.callback(cluster.remove)
        cluster.up(nodes=NODES, cpu=str(_CPUS), reserved=True)
        apply_crds(cluster)
        write_file(log, run(cluster, policy, jobs, Path(folder).resolve() / "state"))


def run(cluster: Devcluster, policy: Mapping[str, Any], jobs: Workload, state: Path) -> bytes:
    """Run the jobs once; returns the brain's event log. state: a new folder of the brain.

    Raises TimeoutError, and RuntimeError for a failed DagJob and for a brain that did not lead all the time.
    """
    begin, history = wall_ms(), History(state / "history.sqlite")
    replace = msgspec.structs.replace
    history.add(
        *(replace(past, submitted=begin + past.submitted, finished=begin + past.finished) for past in jobs.history)
    )
    history.close()
    cluster.apply(MANIFESTS / "overlays" / "dev")
    told = {"predictor": PREDICTOR, **policy}
    settings = {
        "predictor": told.pop("predictor"),
        "policy": told,
        "reserveAfter": None,
        "storage": {"dir": str(state), "log": "full"},
        "leaderElection": None,  # on a busy machine the Lease of the only brain would end now and then
        "conditions": {"perSecond": 1},  # nobody reads here why pods wait
        "snapshot": {"everySeconds": 60},
    }
    change_config(cluster, "rm-brain", lambda config: {**config, **settings})
    with running(cluster) as brain:
        until(lambda: admits(cluster), _ADMITTED_S, every_s=0.5)
        _play(cluster, jobs)
        said = brain.logs("brain")
    files = list((state / "log").iterdir())
    if len(files) != 1:
        raise RuntimeError(f"the brain led {len(files)} times (expected once): run again; it said\n{said}")
    return files[0].read_bytes()


def _play(cluster: Devcluster, jobs: Workload) -> None:
    """Submit all jobs, and wait until all have succeeded."""
    space = cluster.namespace("policies")
    items = [
        dagjob(each.job, [times.ms // 1000 for times in each.runtimes if isinstance(times, Fixed)], space)
        for each in jobs.jobs
    ]
    cluster.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    def all_over() -> bool:
        phases = [each.get("status", {}).get("phase") for each in cluster.get("dagjobs", "-n", space)["items"]]
        if "Failed" in phases:
            raise RuntimeError("a DagJob has failed")
        return phases == ["Succeeded"] * len(items)

    until(all_over, _LONGEST_S, every_s=3.0)


class Score(NamedTuple):
    """What an event log says.

    jct_s: by the job's number in the workload, from the brain's hearing of the job to the end of its last pod.
    held_s: of each pod, from its place to its heard end.
    decided_ms: CPU time of the core for each fact that placed pods, in a replay of the log. scored: part of the placed
    pods whose job's last answer the network gave, not the rule; None for a policy without a network. started_ms: of
    each pod, its place among those placed at once, and the time until it ran.
    """

    jct_s: list[float]
    makespan_s: float
    held_s: list[float]
    decided_ms: list[float]
    scored: float | None
    started_ms: Sequence[tuple[int, int]] = ()


def score(log: Path) -> Score:
    """Replay a log. Raises LogDiffers where the decisions are others, and errors of a log that is not whole."""
    replay = Replay(log.read_bytes().splitlines(keepends=True))
    scheduler, clock = replay.scheduler, _Clock()
    replay.before = clock.begin
    submitted: dict[str, int] = {}
    ends: dict[str, int] = {}
    placed: dict[int, tuple[str, int, int]] = {}
    held, started, decided, scored = [], [], [], []
    for step in replay:
        took = clock.took_ms()
        match step.event:
            case JobSubmitted(at=at, job=job):
                submitted[job.id] = at
            case ContainerStarted(at=at, container=container):
                _, since, among = placed[container]
                started.append((among, at - since))
            case ContainerEnded(at=at, container=container):
                job_id, since, _ = placed[container]
                ends[job_id] = at
                held.append((at - since) / 1000)
        if places := [decision for decision in step.decisions if isinstance(decision, Place)]:
            decided.append(took)
        for among, place in enumerate(places):
            placed[place.container] = place.job, step.event.at, among
            said = scheduler.policy.about(scheduler.state.jobs[place.job]).get("said", "")
            scored.append("by the rule" not in said)
    return Score(
        jct_s=[(ends[job] - at) / 1000 for job, at in sorted(submitted.items())],
        makespan_s=(max(ends.values()) - min(submitted.values())) / 1000,
        held_s=held,
        decided_ms=decided,
        scored=fmean(scored) if isinstance(scheduler.policy, Decima) else None,
        started_ms=started,
    )


class _Clock:
    """CPU time of this process since a fact."""

    def __init__(self) -> None:
        self._began = 0

    def begin(self, _: Event) -> None:
        """A fact is told now."""
        self._began = time.process_time_ns()

    def took_ms(self) -> float:
        """Since then."""
        return (time.process_time_ns() - self._began) / 1e6


def delays(scores: Iterable[Score]) -> dict[str, Any]:
    """Delays of the emulator's profile `kubernetes` as this cluster had them: how long pods take to start.

    A straight line over a pod's place among those placed at once, which few slow pods do not move (Theil and Sen).
    """
    among, ms = np.array([pod for score in scores for pod in score.started_ms]).T
    line = theilslopes(ms, among)
    return {"start": f"{round(line.intercept - line.slope)}ms", "release_rate": round(1000 / max(1.0, line.slope), 1)}


def emulated(
    policy: Mapping[str, Any], jobs: Workload, seed: int, delays: Mapping[str, Any] | None = None
) -> list[float]:
    """JCTs of the same jobs in the emulator's profile `kubernetes`, s. delays: other ones than the profile's own."""
    spec = {
        "cluster": {
            "nodes": [{"count": NODES, "capacity": {"cpu": _CPUS, "memory": "32Gi"}}],
            "profile": "kubernetes",
            "kubernetes": delays or {},
        },
        "workload": jobs,
        "policies": [{"label": "played", "predictor": PREDICTOR, **policy}],
    }
    scenario = {"apiVersion": api.API_VERSION, "kind": "Scenario", "metadata": {"name": "policies"}, "spec": spec}
    rows = api.play(scenario, seed=seed).jobs.sort("id")
    jcts: list[float] = ((rows["finish_ms"] - rows["submit_ms"]) / 1000).to_list()
    return jcts


def table(scores: Mapping[str, Sequence[Score]], beside: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """A table in plain text; differences to the first policy, job by job over all seeds, with 95 % intervals.

    scores: by policy and seed. beside: likewise, JCTs in the emulator. "a pod": how long it held its room, on average.
    "off": the emulator's mean over the real one.
    """
    first = next(iter(scores))
    base, base_emulated = _jcts(scores[first]), [jct for jcts in beside[first] for jct in jcts]
    rows = [list(_HEAD)]
    for label, runs in scores.items():
        jcts, theirs = _jcts(runs), [jct for jcts in beside[label] for jct in jcts]
        off, off_emulated = np.subtract(jcts, base), np.subtract(theirs, base_emulated)
        decided = [ms for run in runs for ms in run.decided_ms]
        parts = [run.scored for run in runs if run.scored is not None]
        differs = ["", "", ""]
        if label != first:
            sooner = f"{int((off < 0).sum())} of {len(off)}"
            differs = [_with_interval(off), f"{100 * off.mean() / np.mean(base):+.1f}", sooner]
        rows.append(
            [
                label,
                f"{fmean(jcts):.1f}",
                *differs,
                f"{fmean(run.makespan_s for run in runs):.0f}",
                f"{fmean(each for run in runs for each in run.held_s):.1f}",
                ", ".join(f"{np.quantile(decided, share):.1f}" for share in (0.5, 0.99)),
                f"{100 * fmean(parts):.0f}" if parts else "",
                f"{fmean(theirs):.1f}",
                f"{100 * (fmean(theirs) / fmean(jcts) - 1):+.1f}",
                "" if label == first else _with_interval(off_emulated),
            ]
        )
    return aligned(rows)


def _jcts(runs: Sequence[Score]) -> list[float]:
    return [jct for run in runs for jct in run.jct_s]


def _with_interval(values: Floats) -> str:
    found = api.interval(values.tolist())
    low, high = found.ci95 or (math.nan, math.nan)
    return f"{found.value:+.1f} [{low:+.1f}, {high:+.1f}]"


def main() -> None:
    """Measure what is not measured yet, and print the table. Raises InvalidInput."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kubernetes.policies", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="of the event logs")
    parser.add_argument("--jobs", type=int, default=20, help="DagJobs (default: 20)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1000, 1001], help="(default: 1000 1001)")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=[*POLICIES], help="(default: all)")
    asked = parser.parse_args()
    if asked.jobs < 1:
        raise InvalidInput(f"--jobs {asked.jobs}: must be 1 or more")
    asked.out.mkdir(parents=True, exist_ok=True)
    scores = defaultdict(list)
    for seed, label in product(asked.seeds, asked.policies):
        log = asked.out / f"{label}-{asked.jobs}-{seed}.jsonl"
        if not log.exists():
            sys.stderr.write(f"{label}, seed {seed}\n")
            measure(POLICIES[label], workload(seed, asked.jobs), log)
        scores[label].append(score(log))
    had = delays(run for runs in scores.values() for run in runs)
    beside = {
        label: [emulated(POLICIES[label], workload(seed, asked.jobs), seed, had) for seed in asked.seeds]
        for label in asked.policies
    }
    sys.stdout.write(f"{table(scores, beside)}\nemulated with the delays of these runs: {had}\n")


if __name__ == "__main__":
    end(main)
