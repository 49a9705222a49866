"""LACHESIS's settings: the orders with DEFT, with and without copies, and plans; plays by their number; other settings.

    python -m studies.lachesis --docs docs

Every schedule is read from its run and held against `rm_emulator.known_answers.schedules`, or no table is written.
Runs are kept under a folder, so a stopped one goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import typer

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.known_answers.emulated import finished
from rm_emulator.known_answers.schedules import Problem, TaskRun, violations
from rm_emulator.program import end
from schedulers.core.decisions import Decision
from schedulers.core.events import Event
from schedulers.core.scheduler import Scheduler
from studies.kept import measured
from studies.tables import document, filled, over_seeds, run, table

NAME: Final = "results-lachesis"
ORACLE: Final = {"kind": "oracle"}
#: As in the paper a task is assigned once its parents are done.
DEFT: Final = {"kind": "deft", "ahead": False}
#: The teacher of the network first; a plug-in.
ORDERS: Final = ("longest_job", "lachesis", "fifo", "sjf", "hrrn", "rank_up")
BASELINE: Final = "rank_up, deft"
#: Planners that copy tasks. They may leave a node idle, or use idle stretches, as `played` may.
RIVALS: Final = ("deft_insertion", "heft_copies", "dfrn", "ga", "tdca")
#: Those that copy tasks where they may.
COPYING: Final[Mapping[str, Mapping[str, Any]]] = {
    **{f"{name}, deft": {"kind": name, "predictor": ORACLE, "placement": DEFT} for name in ORDERS},
    "rank_up, deft ahead": {"kind": "rank_up", "predictor": ORACLE, "placement": {"kind": "deft"}},
    **{name: {"kind": "planned", "planner": name, "predictor": ORACLE} for name in RIVALS},
    "played": {"kind": "played", "predictor": ORACLE},
    "played, upward ranks": {"kind": "played", "order": "rank_up", "predictor": ORACLE},
}
POLICIES: Final[Mapping[str, Mapping[str, Any]]] = {
    **COPYING,
    "heft": {"kind": "planned", "planner": "heft", "predictor": ORACLE},
    "fifo, first fit": {"kind": "fifo", "predictor": ORACLE},
}


class Setting(msgspec.Struct, frozen=True):
    """A workload. seeds: at most so many; plain: without copies, too; speeds: of the executors; none: the example's.

    error: range of the relative error of estimates; none: true times.
    """

    workload: Mapping[str, Any]
    seeds: int = 10
    plain: bool = False
    policies: Sequence[str] = tuple(POLICIES)
    speeds: Sequence[float] = ()
    error: Sequence[float] = ()


_SOME: Final = (BASELINE, "lachesis, deft", "rank_up, deft ahead", "deft_insertion", "ga", "played", "heft")
#: What each table is of, by name.
SETTINGS: Final[Mapping[str, Setting]] = {
    "batch_20": Setting({"jobs": 20}, seeds=30, plain=True),
    "batch_60": Setting({"jobs": 60}),
    "batch_5": Setting({"jobs": 5}),
    "stream_60": Setting({"jobs": 60, "arrivals": "poisson", "interarrival": "45s"}, policies=_SOME),
}
#: Numbers of plays, measured with 20 jobs at once.
PLAYS: Final = (1, 16, 64, 256)
#: Jobs at once about which decisions are timed.
AT_ONCE: Final = (20, 60)
_FEW: Final = (BASELINE, "lachesis, deft", "deft_insertion", "ga", "played")
_SPEEDS: Final = tuple(round(speed, 1) for speed in np.linspace(1, 10, 50).tolist())
#: What the weights did not see in training, by name. Faster links make transfers shorter, which is what `ccr` says.
ELSEWHERE: Final[Mapping[str, Setting]] = {
    "estimates wrong by up to half": Setting({"jobs": 20}, policies=_FEW, error=(-0.5, 0.5)),
    "10 executors": Setting({"jobs": 20}, policies=_FEW, speeds=api.executor_speeds(10, seed=1)),
    "100 executors": Setting({"jobs": 60}, policies=_FEW, speeds=api.executor_speeds(100, seed=1)),
    "executors of 1 to 10 GHz": Setting({"jobs": 20}, policies=_FEW, speeds=_SPEEDS),
    "links ten times as fast": Setting({"jobs": 20, "ccr": 0.5}, policies=_FEW),
    "links a tenth as fast": Setting({"jobs": 20, "ccr": 50.0}, policies=_FEW),
    "10 random DAGs of the HEFT literature": Setting({"kind": "dags", "times": "by_speed", "jobs": 10}, policies=_FEW),
}


class Cell(msgspec.Struct, frozen=True):
    """One run. Times in ms; slr: makespan by the longest way in the least times, jobs one by one, their mean."""

    makespan: float
    jct: float
    speedup: float
    slr: float
    copies: float


_TEACHER: Final = Path(__file__).with_name("longest_job.py")


def scenario(
    name: str, setting: Setting, policies: Mapping[str, Mapping[str, Any]], seeds: Sequence[int], *, copies: bool = True
) -> dict[str, Any]:
    """One setting under these policies, with two runs of a task at most, or one."""
    cluster = api.example("lachesis")["spec"]["cluster"]
    if setting.speeds:
        alike = {"count": 1, "capacity": {"cpu": 1}}
        nodes = [{"name": f"e{number}-", **alike, "speed": speed} for number, speed in enumerate(setting.speeds)]
        cluster = {**cluster, "nodes": nodes}
    if "path" in setting.workload:  # some recorded tasks ask for memory
        roomy = {"capacity": {"cpu": 1, "memory": "64Gi"}}
        cluster = {**cluster, "nodes": [{**node, **roomy} for node in cluster["nodes"]]}
    entries = {_label(policy): entry for policy, entry in policies.items()}
    if setting.error:
        wrong = {**ORACLE, "error": list(setting.error)}
        entries = {label: {**entry, "predictor": wrong} for label, entry in entries.items()}
    return document(
        name,
        seeds[: setting.seeds],
        entries,
        cluster=cluster,
        workload={"kind": "lachesis", **setting.workload},
        **({"copies": {"max": 2}} if copies else {}),
        **({"plugins": [str(_TEACHER)]} if any(e["kind"] == "longest_job" for e in policies.values()) else {}),
    )


def _label(policy: str) -> str:
    return policy.replace(", ", "_").replace(" ", "_")


def cells(results: api.Results, policies: Iterable[str]) -> dict[str, dict[int, Cell]]:
    """What came of each run, by policy and seed. Raises ValueError for a schedule that is none."""
    found, names = results.by_label, {_label(policy): policy for policy in policies}
    return {
        names[label]: {seed: _cell(results.path, label, seed, figures) for seed, figures in runs.items()}
        for label, runs in found.items()
    }


def _cell(folder: Path, label: str, seed: int, figures: Mapping[str, Any]) -> Cell:
    problem, runs = finished(folder, label, seed)
    for wrong in violations(problem, runs):
        raise ValueError(f"{label}, seed {seed}: what ran is no schedule: {wrong}")
    times = np.array(problem.times)
    makespan = max(each.end for each in runs)
    return Cell(
        makespan=makespan,
        jct=figures["jct_s"]["mean"],
        speedup=float(times.sum(axis=0).min()) / makespan,
        slr=float(np.mean(list(_slrs(problem, runs)))),
        copies=sum(each.copy and each.done for each in runs) / len(times),
    )


def _slrs(problem: Problem, runs: Sequence[TaskRun]) -> Iterator[float]:
    """Per job its time from arrival to end by its longest way; jobs are what edges and barriers tie together."""
    least = [min(row) for row in problem.times]
    above: list[list[int]] = [[] for _ in least]
    for parent, child, _ in problem.edges:
        above[child].append(parent)
    for first, then in problem.after:
        for child in then:
            above[child] += first
    ends, jobs = [0.0] * len(least), list(range(len(least)))
    path = [0.0] * len(least)
    for each in runs:
        if not each.copy and each.done:
            ends[each.task] = each.end

    def job(task: int) -> int:
        while jobs[task] != task:
            jobs[task] = jobs[jobs[task]]
            task = jobs[task]
        return task

    for task in sorted(range(len(least)), key=ends.__getitem__):  # parents end before their children
        path[task] = least[task] + max((path[parent] for parent in above[task]), default=0.0)
        for parent in above[task]:
            jobs[job(task)] = job(parent)
    spans: dict[int, tuple[float, float]] = {}
    for task in range(len(least)):
        span, way = spans.get(job(task), (0.0, 0.0))
        spans[job(task)] = max(span, ends[task] - problem.releases[task]), max(way, path[task])
    return (span / way for span, way in spans.values())


HEAD: Final = (
    "policy",
    "makespan / rank_up's",
    "median",
    "sooner in",
    "mean JCT / rank_up's",
    "speedup",
    "SLR",
    "copies per task",
    "copies save, %",
)


def rows(copied: Mapping[str, Mapping[int, Cell]], plain: Mapping[str, Mapping[int, Cell]]) -> list[list[str]]:
    """Cells of HEAD; intervals over seeds of what is paired seed by seed. plain: without copies, where these ran."""
    made, base = [], copied[BASELINE]
    for policy, best in copied.items():
        without = plain.get(policy, {})
        saved = [100 * (1 - best[seed].makespan / run.makespan) for seed, run in without.items()]
        made.append(
            [
                policy,
                *_beside(best, base),
                over_seeds([run.jct / base[seed].jct for seed, run in best.items()], 3),
                f"{np.mean([run.speedup for run in best.values()]):.2f}",
                f"{np.mean([run.slr for run in best.values()]):.2f}",
                f"{np.mean([run.copies for run in best.values()]):.2f}" if policy in COPYING else "-",
                over_seeds(saved, 1),
            ]
        )
    return made


def _beside(runs: Mapping[int, Cell], base: Mapping[int, Cell]) -> list[str]:
    """Makespans by those of the baseline: mean with interval, median, and how many are shorter."""
    ratios = [run.makespan / base[seed].makespan for seed, run in runs.items()]
    sooner = sum(ratio < 1 for ratio in ratios)
    return [over_seeds(ratios, 3), f"{np.median(ratios):.3f}", f"{sooner} of {len(ratios)}"]


def _short(runs: Mapping[int, Cell], base: Mapping[int, Cell]) -> str:
    """The same in one cell."""
    return "; ".join(_beside(runs, base))


class Decided(msgspec.Struct, frozen=True):
    """CPU time of the scheduler in one run (ms), plans included: all of it per task, and of its longest decision."""

    per_task: float
    longest: float


class Timed:
    """Takes the CPU time of every decision, in ms."""

    def __init__(self) -> None:
        self.took: list[float] = []

    def __call__(self, scheduler: Scheduler, event: Event, decide: api.Decide) -> list[Decision]:
        """See `api.Watch`."""
        begun = time.process_time_ns()
        decisions = decide(event)
        self.took.append((time.process_time_ns() - begun) / 1e6)
        return decisions


def decided(policy: str, jobs: int, seed: int) -> Decided:
    """How long one of POLICIES decides about so many jobs at once."""
    copies, watched = policy in COPYING, Timed()
    made = scenario("decided", Setting({"jobs": jobs}), {policy: POLICIES[policy]}, [seed], copies=copies)
    tasks = api.play(made, watch=watched).tasks.unique(("job", "stage", "task"))
    return Decided(sum(watched.took) / len(tasks), max(watched.took))


class Lab:
    """Runs settings, and keeps the runs in a folder."""

    def __init__(self, out: Path, seeds: int, jobs: int) -> None:
        self._out, self._seeds, self._jobs = out, range(1, seeds + 1), jobs

    def cells(
        self, name: str, setting: Setting, policies: Mapping[str, Mapping[str, Any]], *, copies: bool = True
    ) -> dict[str, dict[int, Cell]]:
        """What comes of a setting under these policies."""
        made = scenario(name, setting, policies, self._seeds, copies=copies)
        return cells(run(made, self._out / name, self._jobs), policies)

    def settings(self) -> Iterator[tuple[str, str]]:
        """Name and table of each setting."""
        for name, setting in SETTINGS.items():
            chosen = {policy: POLICIES[policy] for policy in setting.policies}
            copied, plain = self.cells(name, setting, chosen), {}
            if setting.plain:
                without = {
                    policy: entry for policy, entry in chosen.items() if policy in COPYING and policy not in RIVALS
                }
                plain = self.cells(f"{name}-plain", setting, without, copies=False)
            yield name, table(HEAD, rows(copied, plain))

    def curves(self) -> str:
        """The makespan by the number of plays."""
        kinds = [(order, pins) for order in ("lachesis", "rank_up") for pins in (False, True)]
        policies = {
            f"{order} {pins} {plays}": {**POLICIES["played"], "plays": plays, "order": order, "pins": pins}
            for plays in PLAYS
            for order, pins in kinds
        }
        found = self.cells("plays", Setting({"jobs": 20}), {BASELINE: POLICIES[BASELINE], **policies})
        made = []
        for plays in PLAYS:
            of = [found[f"{order} {pins} {plays}"] for order, pins in kinds]
            made.append([str(plays), *(_short(runs, found[BASELINE]) for runs in of)])
        return table(PLAYED, made)

    def elsewhere(self) -> str:
        """What was not seen in training."""
        made = []
        for number, (name, setting) in enumerate(ELSEWHERE.items()):
            found = self.cells(f"elsewhere-{number}", setting, {name: POLICIES[name] for name in setting.policies})
            base = found.pop(BASELINE)
            made.append([name, *(_short(runs, base) for runs in found.values())])
        return table(["setting", *_FEW[1:]], made)

    def decisions(self) -> str:
        """How long policies decide, by the number of jobs at once."""
        cells = [(policy, jobs, seed) for seed in self._seeds[:10] for policy in POLICIES for jobs in AT_ONCE]
        found = dict(zip(cells, measured(self._out / "decided", Decided, decided, cells, self._jobs), strict=True))
        made = []
        for policy in POLICIES:
            of = [[found[policy, jobs, seed] for seed in self._seeds[:10]] for jobs in AT_ONCE]
            times = [[[one.per_task for one in runs], [one.longest for one in runs]] for runs in of]
            made.append([policy, *(over_seeds(each, 1) for pair in times for each in pair)])
        return table(
            ("policy", *(f"{jobs} jobs: {of}" for jobs in AT_ONCE for of in ("ms per task", "longest, ms"))), made
        )

    def workflows(self, folder: Path) -> str:
        """Recorded workflows, each alone on the executors; a makespan has no seed."""
        made = []
        for file in sorted(folder.glob("*.json*")):
            workload = {"kind": "trace", "format": "wfformat", "path": str(file.resolve())}
            name = file.name.partition(".")[0]
            setting = Setting(workload, seeds=1, policies=_FEW)
            found = self.cells(f"workflow-{name}", setting, {name: POLICIES[name] for name in _FEW})
            base = found.pop(BASELINE)[1].makespan
            made.append([name, f"{base / 1000:.0f}", *(f"{runs[1].makespan / base:.3f}" for runs in found.values())])
        return table(["workflow", f"{BASELINE}, s", *_FEW[1:]], made)


PLAYED: Final = (
    "plays",
    "orders alone, the network's first",
    "pinned too",
    "orders alone, upward ranks first",
    "pinned too",
)


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/lachesis-online"),
    docs: Annotated[Path, typer.Option(help=f"the folder with {NAME}.in.md")] = Path("docs"),
    workflows: Annotated[Path, typer.Option(help="a folder of WfFormat; without it its table is left out")] = Path(
        "../shared/data/wfinstances"
    ),
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds")] = 30,
    jobs: Annotated[int, typer.Option(min=1, help="parallel processes")] = 2,
) -> None:
    """Run everything, and write docs/results-lachesis.md: an hour on one core."""
    out.mkdir(parents=True, exist_ok=True)
    lab = Lab(out, seeds, jobs)
    tables = {
        **dict(lab.settings()),
        "decisions": lab.decisions(),
        "plays": lab.curves(),
        "elsewhere": lab.elsewhere(),
    }
    recorded = lab.workflows(workflows) if workflows.is_dir() else ""
    template = (docs / f"{NAME}.in.md").read_text(encoding="utf-8")
    few = {name: min(seeds, setting.seeds) for name, setting in SETTINGS.items()}
    write_file(docs / f"{NAME}.md", filled(template, seeds=seeds, few=few, workflows=recorded, **tables))
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
