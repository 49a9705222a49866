"""What learning adds to `curves`: students of few weights, evolved on the fast simulator, or cloned from re-planning.

    python -m studies.student --data DIR

A student sets, at each division, for each job: a factor on the price of width, a factor on its key in the order, up to
how many times its number idle executors are held, and how many tasks of a stage are left to the stage's executors. Each
generation and each searched batch is kept, so a stopped study goes on. Training, validation and test have seeds of
their own; the test decides nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray

from rm_emulator.files import write_file
from rm_emulator.learn import config
from rm_emulator.learn.cma import Search
from rm_emulator.learn.constants import STATE, ConstantsState, ConstantsTraining, Episodes
from rm_emulator.learn.fast_jobs import FastSetting
from rm_emulator.learn.fast_rules import rule_of
from rm_emulator.program import end
from schedulers.core import keyed
from schedulers.kit.curves import Constants
from schedulers.kit.speedups import shape_of
from schedulers.planning.replan import kernel
from schedulers.planning.replan.kernel import Rule
from schedulers.planning.replan.search import improved
from studies.learned_settings import PROFILES
from studies.parts import settings
from studies.tables import over_seeds, table

Doubles = NDArray[np.float64]
HEAD: Final = (
    "student", "weights", "CPU, min", "validation, batch, %", "stream, %", "test, batch, s", "difference, s",
    "test, stream, s", "difference, s",
)  # fmt: skip
#: First seed and number of seeds, by use and setting.
SEEDS: Final[Mapping[str, Mapping[str, tuple[int, int]]]] = {
    "training": {"batch": (5001, 96), "stream": (5001, 12)},
    "validation": {"batch": (7001, 60), "stream": (7001, 10)},
    "test": {"batch": (1000, 100), "stream": (1000, 30)},
}
#: The setting of `curves` with the rounded weights of the way `constants`.
SHIPPED: Final = "`curves`, `learned: true`"
#: Of the episodes that find the constants so many play a candidate's.
PART: Final = 4
#: Searched batches of a cloning round, from the first training seed on; rules tried at each search, plays of each, and
#: ms from search to search.
SEARCHED: Final = 3
CANDIDATES, TIMES, PERIOD_MS = 30, 3, 5000
RIDGE: Final = 10.0
#: The first weights: ln price, fall and growth.
PRICES: Final = 3


class Way(NamedTuple):
    """A way to a student.

    facts: a key of `Study.facts`. cloned: the way whose rule re-planning begins with; none: evolution. The way without
    either, CONSTANTS, is that of `rm-emulator train curves`.
    """

    facts: str = "told"
    units: int = 0
    generations: int = 0
    cloned: str = ""


CONSTANTS: Final = "constants"
WAYS: Final[Mapping[str, Way]] = {
    CONSTANTS: Way("none"),
    "linear": Way("told", generations=12),
    "cloned": Way("told", cloned=CONSTANTS),
    "linear, times of waves": Way("waves", generations=12),
    "cloned again": Way("told", cloned="cloned"),
    "linear, times of waves, query left out": Way("others", generations=40),
    "linear, nothing told": Way("none", generations=40),
    "8 units": Way("told", 8, generations=40),
}


def profile(setting: FastSetting, job: int) -> str:
    """Name of a job's profile: `tpch-20g-q8`."""
    times: Any = setting.workload[job].runtimes[0]
    return str(times.profile)


def told(setting: FastSetting) -> tuple[Doubles, Doubles]:
    """What is told, by job (work, tasks, path, stages) and by stage (mean time, tasks), scaled."""
    jobs, stages = [], []
    for each, means in zip(setting.workload, setting.told, strict=True):
        shape = shape_of(each.job.stages, [ms / 1000 for ms in means])
        jobs.append([np.log(shape.work) - 6, np.log(shape.tasks) - 6, np.log(shape.path) - 3, shape.depth / 10])
        stages += [
            [np.log(max(ms, 1.0) / 1000), np.log(s.tasks) - 3] for ms, s in zip(means, each.job.stages, strict=True)
        ]
    return np.array(jobs), np.array(stages)


def waves(setting: FastSetting) -> tuple[Doubles, Doubles]:
    """`told`, and ratios of mean run times that a long history of the same query tells.

    By job: fresh and first tasks to later ones, and tasks on 20 and on 40 executors to those on 5; by stage the former.
    """
    lists, values = setting.play.durations.lists, setting.play.durations.values
    times = np.array([
        [[values[each["start"] : each["start"] + each["count"]].mean() for each in wave] for wave in stage]
        for stage in lists
    ])  # fmt: skip
    stages, jobs = setting.play.jobs.stages, setting.play.jobs.jobs
    made = []
    for first, last in zip(jobs["first"], jobs["end"], strict=True):
        fresh, initial, rest = np.einsum("s,swl->wl", stages["tasks"][first:last], times[first:last])
        made.append([fresh[1] / rest[1], initial[1] / rest[1], rest[2] / rest[0], rest[3] / rest[0]])
    by_job, by_stage = told(setting)
    ratios = times[:, :2, 1] / times[:, 2:, 1]
    return np.hstack([by_job, np.log(made)]), np.hstack([by_stage, np.log(ratios)])


class Facts(NamedTuple):
    """Facts of a kind by job and by stage."""

    jobs: int
    stages: int
    of: Callable[[FastSetting], tuple[Doubles, Doubles]]


def _none(setting: FastSetting) -> tuple[Doubles, Doubles]:
    return np.empty((len(setting.workload), 0)), np.empty((len(setting.play.jobs.stages), 0))


def others(fits: Mapping[str, tuple[Doubles, Doubles]], setting: FastSetting) -> tuple[Doubles, Doubles]:
    """`waves` of a query without history: as the told facts have it in the other queries. fits: by query."""
    by_job, by_stage = told(setting)
    jobs, stages, firsts = [], [], setting.play.jobs.jobs["first"]
    for job, (row, first, last) in enumerate(zip(by_job, firsts, setting.play.jobs.jobs["end"], strict=True)):
        of_jobs, of_stages = fits[query(profile(setting, job))]
        jobs.append(np.append(row, 1.0) @ of_jobs)
        stages.append(_with_one(by_stage[first:last]) @ of_stages)
    return np.hstack([by_job, np.array(jobs)]), np.hstack([by_stage, np.vstack(stages)])


def query(name: str) -> str:
    """The query of a profile."""
    return name.rsplit("-", 1)[1]


def fitted(found: Sequence[FastSetting]) -> dict[str, tuple[Doubles, Doubles]]:
    """By query, least squares of the facts of `waves` by those told, over the profiles of all other queries."""
    known: dict[str, tuple[Doubles, Doubles]] = {}
    for setting in found:
        by_job, by_stage = waves(setting)
        ends = setting.play.jobs.jobs["end"]
        for job, (first, last) in enumerate(zip(setting.play.jobs.jobs["first"], ends, strict=True)):
            known.setdefault(profile(setting, job), (by_job[job : job + 1], by_stage[first:last]))
    fits: dict[str, Any] = {}
    for left_out in {query(name) for name in known}:
        rows = [both for name, both in known.items() if query(name) != left_out]
        fits[left_out] = tuple(
            np.linalg.lstsq(_with_one(made[:, :count]), made[:, count:], rcond=None)[0]
            for made, count in ((np.vstack([of for of, _ in rows]), 4), (np.vstack([of for _, of in rows]), 2))
        )
    return fits


def _with_one(rows: Doubles) -> Doubles:
    return np.hstack([rows, np.ones((len(rows), 1))])


class Student:
    """How weights become a rule. weights: PRICES, one by fact of a stage, then those of `fast_kernel`."""

    def __init__(self, way: Way, facts: Facts) -> None:
        self.units, self.facts, self.inputs = way.units, facts, 1 + kernel.SEEN + facts.jobs
        self.columns = self.inputs + self.units
        self._known: dict[int, tuple[Rule, Doubles, Doubles]] = {}

    @property
    def size(self) -> int:
        """Number of weights."""
        return PRICES + self.facts.stages + self.units * self.inputs + kernel.OUTPUTS * self.columns

    def begin(self, found: Constants) -> Doubles:
        """Weights with which the rule is `curves` with constants."""
        weights = np.zeros(self.size)
        weights[:PRICES] = np.log(found.price), found.fall, found.growth
        weights[-self.columns], weights[-2 * self.columns] = np.log(found.warm), np.log(found.kept)
        return weights

    def rule(self, weights: Doubles, setting: FastSetting) -> Rule:
        """The rule of a setting."""
        if id(setting) not in self._known:
            jobs = [each.job for each in setting.workload]
            rule = rule_of({"kind": "curves"}, jobs, setting.told, setting.play.executors)
            self._known[id(setting)] = rule, *self.facts.of(setting)
        rule, by_job, by_stage = self._known[id(setting)]
        table = np.zeros((len(by_job), self.columns))
        table[:, 0], table[:, 1 + kernel.SEEN : self.inputs] = 1.0, by_job
        stages, split = rule.stages.copy(), PRICES + self.facts.stages
        stages["warm"] = np.exp(np.clip(by_stage @ weights[PRICES:split], -4, 4))
        return rule._replace(
            jobs=rule.jobs.copy(), stages=stages, price=float(np.exp(weights[0])), fall=float(weights[1]),
            growth=float(weights[2]), facts=table, weights=np.ascontiguousarray(weights[split:]),
        )  # fmt: skip

    def mean_jct_s(self, weights: Doubles, setting: FastSetting, draws: Doubles | None = None) -> float:
        """Mean JCT, s; under the engine's draws if none are given."""
        ends = setting.play.ends(self.rule(weights, setting), setting.draws if draws is None else draws)
        return setting.play.mean_jct_s(ends)


def curves_s(setting: FastSetting, draws: Doubles | None = None, *, learned: bool = False) -> float:
    """Mean JCT of the teacher, or of `curves` with `learned: true`, s."""
    jobs, policy = [each.job for each in setting.workload], {"kind": "curves", "learned": learned}
    rule = rule_of(policy, jobs, setting.told, setting.play.executors)
    return setting.play.mean_jct_s(setting.play.ends(rule, setting.draws if draws is None else draws))


class Study:
    """The settings, and what is kept of the ways."""

    def __init__(self, data: Path, out: Path) -> None:
        self.data, self.out = data, out
        self.settings = cache(self._settings)
        self.facts = {
            "none": Facts(0, 0, _none),
            "told": Facts(4, 2, told),
            "waves": Facts(8, 4, waves),
            "others": Facts(8, 4, self._others),
        }
        self.recipe = config.read(config.find("curves"), data / PROFILES)
        self._constants = cache(self._found)
        self._fits = cache(lambda: fitted(self.settings("training", "batch") + self.settings("training", "stream")))

    @cached_property
    def episodes(self) -> Episodes:
        """Those of evolution."""
        less = [msgspec.structs.replace(each, plays=each.plays // PART) for each in self.recipe.workloads]
        return Episodes(msgspec.structs.replace(self.recipe, workloads=tuple(less)))

    def _settings(self, use: str, name: str) -> list[FastSetting]:
        first, count = SEEDS[use][name]
        return settings(name, self.data, count, first)

    def _others(self, setting: FastSetting) -> tuple[Doubles, Doubles]:
        return others(self._fits(), setting)

    def student(self, label: str) -> Student:
        """The student of a way."""
        return Student(WAYS[label], self.facts[WAYS[label].facts])

    def kept(self, label: str) -> Path:
        """The file of a way."""
        return self.out / f"{label.replace(' ', '-').replace(',', '')}.json"

    def learned(self, label: str) -> tuple[Doubles, float]:
        """Weights of a way and CPU time, min; learns what has not been learned yet."""
        if label == CONSTANTS:
            return self.begin(label), self._constants().cpu_s / 60
        return clone(self, label) if WAYS[label].cloned else evolve(self, label)

    def begin(self, label: str) -> Doubles:
        """Where a way begins: with the constants."""
        return self.student(label).begin(self._constants().best)

    def _found(self) -> ConstantsState:
        folder = self.out / CONSTANTS
        return ConstantsTraining(self.recipe, folder, resume=(folder / STATE).exists(), report=_say).run()


def _say(line: str) -> None:
    typer.echo(line, err=True)


def evolve(study: Study, label: str) -> tuple[Doubles, float]:
    """Weights by CMA-ES: all candidates of a generation play the same seeds under the same draws."""
    way, student, path = WAYS[label], study.student(label), study.kept(label)
    deviations = np.full(student.size, 0.1)
    deviations[:PRICES] = 0.3, 0.4, 0.1
    search, spent = Search.begin(study.begin(label), 0.5, deviations), 0.0
    if path.exists():
        kept = json.loads(path.read_bytes())
        search, spent = Search.restored(kept["search"]), kept["cpu_min"]
    workloads = study.episodes.config.workloads
    while search.generation < way.generations:
        began = time.process_time()
        candidates = search.candidates(6 + int(2 * np.log(student.size)), 1)
        costs = np.zeros(len(candidates))
        for workload, seed, draws in study.episodes.drawn(search.generation):
            setting, share = (
                study.episodes.setting(workload, seed),
                workloads[workload].weight / workloads[workload].plays,
            )
            teacher = curves_s(setting, draws)
            for number, candidate in enumerate(candidates):
                costs[number] += share * student.mean_jct_s(candidate, setting, draws) / teacher
        search.select(candidates, costs)
        spent += (time.process_time() - began) / 60
        write_file(path, json.dumps({"search": search.kept, "cpu_min": spent}))
    return search.mean, spent


def clone(study: Study, label: str) -> tuple[Doubles, float]:
    """A linear student of what re-planning chose: ridge regression of the logarithms of `price` and `factor`."""
    began = time.process_time()
    source = WAYS[label].cloned
    teacher, base = study.student(source), study.learned(source)[0]
    student = study.student(label)
    rows, spent = [], 0.0
    for number, setting in enumerate(study.settings("training", "batch")[:SEARCHED]):
        path = study.out / f"{study.kept(label).stem}-{number}.json"
        if not path.exists():
            began = time.process_time()
            found = searched(teacher, student, base, setting, number)
            write_file(path, json.dumps({**found, "cpu_min": (time.process_time() - began) / 60}))
            typer.echo(f"{label}, batch {number}: {found['jct_s']:.2f} s, not {found['base_s']:.2f} s", err=True)
        kept = json.loads(path.read_bytes())
        rows += kept["rows"]
        spent += kept["cpu_min"]
    made = np.array(rows)
    facts, targets = made[:, :-2], made[:, -2:]
    answer = np.linalg.solve(facts.T @ facts + RIDGE * np.eye(facts.shape[1]), facts.T @ targets)
    weights = study.begin(label)
    weights[-4 * student.columns : -2 * student.columns] = answer.T.ravel()
    return weights, spent


def searched(teacher: Student, student: Student, base: Doubles, setting: FastSetting, number: int) -> dict[str, Any]:
    """A batch under re-planning from a teacher's rule, frozen from search to search: ends, and what was chosen when."""
    play, random = setting.play, keyed.generator(1, "searched", number)
    state, rows = play.begin(), []
    asked, seen = teacher.rule(base, setting), student.rule(np.zeros(student.size), setting)
    while state.clock[kernel.LEFT]:
        kernel.ask(play.jobs, asked, state)
        kernel.see(play.jobs, seen, state)
        rule = asked._replace(jobs=asked.jobs.copy(), weights=np.empty(0))
        rule = improved(play, state, rule, random, candidates=CANDIDATES, plays=TIMES).rule
        live = np.flatnonzero(state.jobs["unstarted"] > 0)
        chosen = np.log([rule.jobs["price"], rule.jobs["factor"]]).T
        rows += np.hstack([seen.facts, chosen])[live].tolist()
        play.go_on(state, rule, setting.draws, pause_ms=int(state.clock[kernel.NOW]) + PERIOD_MS)
    jct = play.mean_jct_s(state.jobs["end_ms"])
    return {"rows": rows, "jct_s": jct, "base_s": teacher.mean_jct_s(base, setting)}


def row(study: Study, label: str) -> list[str]:
    """Cells of HEAD; differences are to `curves`, paired by seed, with 95 % intervals."""
    if label == SHIPPED:
        return [label, "", "", *compared(study, lambda setting: curves_s(setting, learned=True))]
    weights, spent = study.learned(label)
    student = study.student(label)
    count = PRICES + 1 if label == CONSTANTS else student.size
    return [label, str(count), f"{spent:.1f}", *compared(study, lambda each: student.mean_jct_s(weights, each))]


def compared(study: Study, play: Callable[[FastSetting], float]) -> list[str]:
    """The cells of HEAD from the validation on."""
    cells = []
    for use, name in (("validation", "batch"), ("validation", "stream"), ("test", "batch"), ("test", "stream")):
        found = study.settings(use, name)
        ran, teacher = (np.array([each(setting) for setting in found]) for each in (play, curves_s))
        if use == "validation":
            cells.append(f"{100 * (ran.mean() / teacher.mean() - 1):+.2f}")
        else:
            cells += [f"{ran.mean():.2f}", over_seeds((ran - teacher).tolist(), 2)]
    return cells


def main(
    data: Annotated[Path, typer.Option(help=f"folder with {PROFILES}")],
    out: Annotated[Path, typer.Option(help="where generations and searched batches are kept")] = Path("out/student"),
    ways: Annotated[str, typer.Option(help="ways, separated by semicolons")] = ";".join(WAYS),
) -> None:
    """Learn what has not been learned yet, and print the table."""
    out.mkdir(parents=True, exist_ok=True)
    study, labels = Study(data, out), ways.split(";")
    for label in labels:
        typer.echo(f"{label}: {study.learned(label)[1]:.1f} min", err=True)
    typer.echo(table(HEAD, [row(study, label) for label in (*labels, SHIPPED)]))


if __name__ == "__main__":
    end(lambda: typer.run(main))
