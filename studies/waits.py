"""Waiting for a node beside DEFT, online; the search of its price, and other ways to leave nodes idle.

    python -m studies.waits --docs docs

Runs are kept under a folder, and so are the weights of a search, so that a stopped command goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import numpy as np
import typer
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import rankdata

from rm_emulator.files import write_file
from rm_emulator.known_answers.emulated import finished
from rm_emulator.known_answers.schedules import Problem
from rm_emulator.program import end
from schedulers.core import keyed
from schedulers.planning.unrelated.deft import ORDERS, DeftChoice, choose, place
from schedulers.planning.unrelated.evolved import evolved
from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.played import played
from schedulers.planning.unrelated.timelines import TimelinePlan, Timelines
from studies import lachesis
from studies.lachesis import BASELINE, HEAD, ORACLE, POLICIES, Cell, Setting
from studies.tables import filled, over_seeds, run, table

NAME: Final = "results-waiting"
Doubles: TypeAlias = NDArray[np.float64]
#: Chooses among the choices of a task (DEFT's in front) by their features.
Pick: TypeAlias = Callable[[Doubles], int]

#: The price of a delay, and prices tried; plays of a search for skips, and plans of a teacher.
PRICE: Final = 0.25
PRICES: Final = (0.1, 0.25, 0.5, 1.0, 2.0)
SKIPS: Final = 200
PLANS: Final = 128
#: Weights of rare choices in cloning; the best on the seeds of training is taken.
RARE: Final = (1.0, 5.0, 20.0)
#: Of evolution: iterations, pairs of players, jobs of an iteration, size of a step.
ITERATIONS: Final = 40
PAIRS: Final = 4
BATCH: Final = 12
SIGMA: Final = 0.15
#: Seeds of training and validation; those of the tables of policies are 1 to 30.
TRAINING: Final = range(1001, 1041)
VALIDATION: Final = range(5001, 5031)

WAITING: Final = {**lachesis.DEFT, "wait": PRICE}


def _waiting(kind: str, *, ahead: bool = False) -> dict[str, Any]:
    return {"kind": kind, "predictor": ORACLE, "placement": {**WAITING, "ahead": ahead}}


RIVALS: Final[Mapping[str, Mapping[str, Any]]] = {
    **{name: POLICIES[name] for name in (BASELINE, "lachesis, deft", "deft_insertion", "dfrn")},
    "rank_up, waiting": _waiting("rank_up"),
    "lachesis, waiting": _waiting("lachesis"),
    "lachesis, waiting ahead": _waiting("lachesis", ahead=True),
    "played, 16 plays": {**POLICIES["played"], "plays": 16},
    "played": POLICIES["played"],
}
SETTINGS: Final[Mapping[str, Setting]] = {
    "batch_20": Setting({"jobs": 20}),
    "wrong_20": Setting({"jobs": 20}, error=(-0.5, 0.5)),
    "stream_60": Setting({"jobs": 60, "arrivals": "poisson", "interarrival": "45s"}, seeds=5),
    "batch_60": Setting({"jobs": 60}, seeds=4),
}

#: Columns of LACHESIS's page that this page has, too.
SHOWN: Final = ("policy", "makespan / rank_up's", "median", "sooner in", "mean JCT / rank_up's", "SLR", "ms per task")

# -- plays --------------------------------------------------------------------------------------------------------


class JobBatch(NamedTuple):
    """Jobs at once as a DAG, with LACHESIS's upward ranks, and when the last task ends with DEFT (ms)."""

    instance: Instance
    ranks: Sequence[float]
    makespan: float


def batches(out: Path, seeds: Sequence[int], jobs: int) -> list[JobBatch]:
    """20 jobs at once, by seed."""
    setting = Setting({"jobs": 20})
    made = lachesis.scenario(f"plays-{seeds[0]}", setting, {BASELINE: POLICIES[BASELINE]}, seeds)
    results = run(made, out / f"plays-{seeds[0]}", jobs)
    return [batch_of(finished(results.path, label, seed)[0]) for label, of in results.by_label.items() for seed in of]


def batch_of(problem: Problem) -> JobBatch:
    """The jobs of a problem without releases."""
    edges = {(parent, child): data for parent, child, data in problem.edges}
    for first, then in problem.after:
        edges = {**{(parent, child): 0.0 for parent in first for child in then}, **edges}
    instance = Instance(problem.times, [(*pair, data) for pair, data in edges.items()], problem.rates)
    made = JobBatch(instance, ORDERS["rank_up"](instance), 0.0)
    return made._replace(makespan=play(made))


def play(batch: JobBatch, pick: Pick | None = None, skips: Sequence[int] = ()) -> float:
    """Emulate `rank_up` with DEFT: tasks get nodes once their parents are done. Returns the end of the last (ms).

    pick: chooses among the choices of `Below`; None: DEFT's. skips: per task, how many ends of other tasks it lets
    pass, ready and without a node. While nothing runs no task is skipped, so that none is skipped for ever.
    """
    instance, ranks = batch.instance, batch.ranks
    timelines, below = Timelines(instance), Below(batch)
    missing, left = [len(parents) for parents in instance.parents], list(skips) or [0] * instance.tasks
    ready, ends, now = [task for task, count in enumerate(missing) if not count], list[tuple[float, int]](), 0.0
    while ready or ends:
        timelines.free = np.maximum(timelines.free, now)
        later = []
        for task in sorted(ready, key=lambda task: (-ranks[task], task)):
            if left[task] and ends:
                left[task] -= 1
                later.append(task)
                continue
            choice = choose(timelines, task, runs=2) if pick is None else below.picked(timelines, task, pick)
            place(timelines, task, choice)
            heappush(ends, (choice.end, task))
        ready, now = later, ends[0][0]
        while ends and ends[0][0] <= now:
            for child, _ in instance.children[heappop(ends)[1]]:
                missing[child] -= 1
                ready += [child] if not missing[child] else []
    return timelines.plan().makespan


class Below:
    """The choices of a task and what comes of them, as `schedulers.kit.lookahead` has it, on a plan in the making."""

    def __init__(self, batch: JobBatch) -> None:
        self._instance, self._ranks = batch.instance, batch.ranks
        self._means = batch.instance.times.mean(axis=1)
        self._child = [
            min([(-data, to) for to, data in found])[1] if found else None for found in batch.instance.children
        ]

    def picked(self, timelines: Timelines, task: int, pick: Pick) -> DeftChoice:
        """The choice picked."""
        found, features = self.choices(timelines, task)
        return found[pick(features)] if len(found) > 1 else found[0]

    def choices(self, timelines: Timelines, task: int) -> tuple[list[DeftChoice], Doubles]:
        """DEFT's choice, then one for each node of a relative; and [choices, FEATURES], zeros for the first."""
        way, parents = list(self._way(task)), self._instance.parents
        near = {parent for each in (task, *way) for parent, _ in parents[each]} - {task} if way else set()
        found = [choose(timelines, task, runs=2)]
        machines = {machine for parent in near for machine, _ in timelines.runs[parent]} - {found[0].machine}
        found += [choose(timelines, task, runs=2, only=machine) for machine in sorted(machines)]
        return found, self._features(timelines, task, way, found)

    def _way(self, task: int) -> Iterator[int]:
        child = self._child[task]
        if child is not None:
            yield child
            if (last := self._child[child]) is not None:
                yield last

    def _features(self, timelines: Timelines, task: int, way: Sequence[int], found: Sequence[DeftChoice]) -> Doubles:
        """Gains in mean times of the task and its child, and the like; see FEATURES."""
        if len(found) == 1:
            return np.zeros((1, len(FEATURES)))
        ends = np.array([self._ends(timelines, task, way, choice) for choice in found])
        gains = (ends[0] - ends) / (self._means[task] + self._means[way[0]])
        delay, child, last = -gains[:, 0], gains[:, 1], gains[:, -1]
        missing = sum(not timelines.runs[parent] for parent, _ in self._instance.parents[way[0]]) - 1
        rank = self._ranks[task] / max(self._ranks)
        copies = np.array([choice.parent is not None for choice in found], np.float64)
        columns = last, delay, child, rank * delay, missing * delay, missing * last, np.arange(len(found)) > 0
        return np.stack([*columns, copies - copies[0]], axis=1)

    def _ends(self, timelines: Timelines, task: int, way: Sequence[int], choice: DeftChoice) -> list[float]:
        """Ends of the task and of the tasks below; parents without a place do not count, as in Lookahead."""
        branch = timelines.branch()
        place(branch, task, choice)
        branch.instance, ends = copy(self._instance), [choice.end]
        branch.instance.parents = self._instance.parents.copy()
        for each in way:
            there = [(parent, data) for parent, data in self._instance.parents[each] if branch.runs[parent]]
            branch.instance.parents[each] = there
            then = choose(branch, each, runs=2)
            ends.append(then.end)
            branch.free[then.machine] = then.end
            branch.runs[each] += 2 * [(then.machine, then.end)]  # two, so that no copy is made of it
        return ends


#: What a student sees of a choice beside DEFT's.
FEATURES: Final = (
    "gain of the grandchild",
    "delay",
    "gain of the child",
    "delay, by the task's share of the highest rank",
    "delay, by the number of the child's parents without a node",
    "gain, by that number",
    "other than DEFT's",
    "copies a parent",
)


def linear(weights: Doubles) -> Pick:
    """The choice with the highest score."""
    return lambda features: int((features @ weights).argmax())


def rule(price: float) -> Doubles:
    """The weights of `wait`."""
    return np.array([1.0, -price, *[0.0] * (len(FEATURES) - 2)])


def ratios(given: Sequence[JobBatch], pick: Pick) -> list[float]:
    """Makespans by DEFT's."""
    return [play(each, pick) / each.makespan for each in given]


def skipped(batch: JobBatch, random: np.random.Generator) -> float:
    """The least makespan over plays that skip tasks, each a change of the best so far; no rule knows as much."""
    best, skips = batch.makespan, np.zeros(batch.instance.tasks, np.int64)
    for _ in range(SKIPS):
        some, other = random.integers(len(skips), size=random.integers(1, 4)), skips.copy()
        other[some] = np.where(random.random(len(some)) < 0.3, 0, random.geometric(0.15, len(some)))
        makespan = play(batch, skips=other.tolist())
        if makespan <= best:
            best, skips = makespan, other
    return best


# -- students -----------------------------------------------------------------------------------------------------


def lessons(batch: JobBatch, plan: TimelinePlan) -> Iterator[tuple[Doubles, int]]:
    """Features of choices, and the choice of a plan, wherever the plan's is among them."""
    timelines, below = Timelines(batch.instance), Below(batch)
    for placed in plan.placements:
        if not placed.copy:
            found, features = below.choices(timelines, placed.task)
            chosen = [index for index, choice in enumerate(found) if choice.machine == placed.machine]
            if len(found) > 1 and chosen:
                yield features, chosen[0]
        timelines.place(placed.task, placed.machine, placed.start)


def cloned(taught: Sequence[tuple[Doubles, int]], rare: float = 1.0) -> Doubles:
    """Weights by maximum likelihood (softmax over choices). rare: times that a choice other than DEFT's counts."""
    most = max(len(features) for features, _ in taught)
    seen = np.stack([np.pad(features, ((0, most - len(features)), (0, 0))) for features, _ in taught])
    gone = np.arange(most) >= np.array([[len(features)] for features, _ in taught])
    chosen = np.array([index for _, index in taught])
    counts = np.where(chosen > 0, rare, 1.0)

    def loss(weights: Doubles) -> float:
        logs = log_softmax(np.where(gone, -1e9, seen @ weights), axis=1)
        return float(-np.average(logs[np.arange(len(chosen)), chosen], weights=counts) + 1e-3 * weights @ weights)

    found: Doubles = minimize(loss, rule(PRICE), method="L-BFGS-B").x
    return found


def evolved_weights(given: Sequence[JobBatch], kept: Path) -> Doubles:
    """Evolution strategies (Salimans et al. 2017, arXiv 1703.03864) from the rule on, pair by pair on the same jobs."""
    state = (
        json.loads(kept.read_text()) if kept.exists() else {"done": 0, "weights": rule(PRICE).tolist(), "step": None}
    )
    weights, step = np.array(state["weights"]), np.array(state["step"] or [0.0] * len(FEATURES))
    for iteration in range(state["done"], ITERATIONS):
        random = keyed.generator(1, "waits", iteration)
        directions = random.standard_normal((PAIRS, len(weights)))
        some = [given[index] for index in random.choice(len(given), min(BATCH, len(given)), replace=False)]
        players = np.concatenate([weights + SIGMA * directions, weights - SIGMA * directions])
        ranks = rankdata([np.mean(np.log(ratios(some, linear(player)))) for player in players])
        step = 0.8 * step + 0.2 * ((ranks[:PAIRS] - ranks[PAIRS:]) @ directions)
        weights = weights - 0.15 * SIGMA * step / (np.sqrt(np.mean(step**2)) + 1e-9)
        write_file(kept, json.dumps({"done": iteration + 1, "weights": weights.tolist(), "step": step.tolist()}))
    return weights


def tried(out: Path, jobs: int) -> str:
    """The table of everything that leaves nodes idle, on seeds of training and of validation; rows are kept."""
    kept = out / "tried.json"
    rows = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    training, validation = batches(out, TRAINING, jobs), batches(out, VALIDATION, jobs)
    random = np.random.default_rng(1)

    def student(teacher: str) -> Doubles:
        taught = [lesson for each in training for lesson in lessons(each, TEACHERS[teacher](each))]
        students = [cloned(taught, rare) for rare in RARE]
        return min(students, key=lambda weights: np.mean(np.log(ratios(training, linear(weights)))))

    def by_weights(find: Callable[[], Doubles]) -> Iterator[list[float]]:
        pick = linear(find())
        yield from (ratios(given, pick) for given in (training, validation))

    def by_skips() -> Iterator[list[float]]:
        for given in (training, validation):
            yield [skipped(each, random) / each.makespan for each in given]

    found: dict[str, Callable[[], Iterator[list[float]]]] = {
        **{f"`wait: {price:g}`": partial(by_weights, partial(rule, price)) for price in PRICES},
        f"skips, the best of {SKIPS} plays": by_skips,
        **{f"student of `{teacher}`": partial(by_weights, partial(student, teacher)) for teacher in TEACHERS},
        "student by evolution": partial(by_weights, partial(evolved_weights, training, out / "evolution.json")),
    }
    for name, of in found.items():
        if name not in rows:
            rows[name] = [_short(given) for given in of()]
            write_file(kept, json.dumps(rows))
    return table(["rule", "training", "validation"], [[name, *rows[name]] for name in found])


def _played(batch: JobBatch) -> TimelinePlan:
    worth = (np.log(np.maximum(batch.ranks, 1e-9)) / 0.3).tolist()
    return played(batch.instance, worth, PLANS, np.random.default_rng(1))


TEACHERS: Final[Mapping[str, Callable[[JobBatch], TimelinePlan]]] = {
    "played": _played,
    "ga": lambda batch: evolved(batch.instance, PLANS, np.random.default_rng(1)),
}


def _short(found: Sequence[float]) -> str:
    sooner, later = (sum(sign * (ratio - 1) > 1e-6 for ratio in found) for sign in (-1, 1))
    return f"{over_seeds(found, 3)}; {np.median(found):.3f}; {sooner} and {later} of {len(found)}"


def _beside(runs: Mapping[int, Cell], base: Mapping[int, Cell]) -> str:
    return _short([each.makespan / base[seed].makespan for seed, each in runs.items()])


def _table(of: Mapping[str, Mapping[int, Cell]]) -> str:
    columns = [HEAD.index(name) for name in SHOWN]
    return table(SHOWN, [[row[column] for column in columns] for row in lachesis.rows(of, {})])


# -- the page -----------------------------------------------------------------------------------------------------


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/waits"),
    docs: Annotated[Path, typer.Option(help=f"the folder with {NAME}.in.md")] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds")] = 30,
    jobs: Annotated[int, typer.Option(min=1, help="parallel processes")] = 2,
) -> None:
    """Run everything, and write docs/results-waiting.md."""
    out.mkdir(parents=True, exist_ok=True)
    lab = lachesis.Lab(out, seeds, jobs)
    cells = {name: lab.cells(name, setting, RIVALS) for name, setting in SETTINGS.items()}
    measured = {name: _table(of) for name, of in cells.items()}
    beside = {name: _beside(of["lachesis, waiting"], of["lachesis, deft"]) for name, of in cells.items()}
    plain = {name: _beside(of["rank_up, waiting"], of[BASELINE]) for name, of in cells.items()}
    few = {name: min(seeds, setting.seeds) for name, setting in SETTINGS.items()}
    template = (docs / f"{NAME}.in.md").read_text(encoding="utf-8")
    write_file(
        docs / f"{NAME}.md", filled(template, few=few, beside=beside, plain=plain, tried=tried(out, jobs), **measured)
    )
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
