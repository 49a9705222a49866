"""What learning adds to `curves` where containers end with their tasks: constants evolved on classes of nodes.

    python -m studies.containers_student --data DIR

Evolution plays `rm_emulator.learn.fast_containers`, event for event the engine's runs. Each generation is kept, so a
stopped study goes on. Training, validation and test have seeds of their own; the test decides nothing. The constant of
`learned: true` is below the evolved one, which loses 2 % to `curves` where most nodes take most tasks (validation).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import typer

from rm_emulator.files import write_file
from rm_emulator.learn.cma import Search
from rm_emulator.learn.fast_containers import (
    CURVES,
    LEARNED,
    SRPT,
    WEIGHTS,
    Doubles,
    FastContainers,
    bound_s,
    episode,
)
from rm_emulator.program import end
from rm_emulator.scenario.schema import Scenario
from schedulers.core import keyed
from studies.learned_settings import PROFILES, SETTINGS
from studies.tables import document, over_seeds, table

HEAD: Final = ("setting", "policy", "seeds", "mean JCT, s", "difference, s", "%", "better in")
BOUND_HEAD: Final = ("setting", "seeds", "bound, s", "`curves`, s", "`curves`, `learned: true`, s")
#: First seed by use.
FIRST: Final[Mapping[str, int]] = {"training": 5001, "validation": 7001, "test": 1000}
#: Episodes of each candidate in a generation by setting, of so many training seeds.
PLAYS: Final[Mapping[str, int]] = {"classes": 6, "classes, stream": 1, "equal nodes": 2}
TRAINING: Final = 48


class Way(NamedTuple):
    """Weights that are learned, and for how many generations."""

    free: Sequence[str]
    generations: int


WAYS: Final[Mapping[str, Way]] = {"scarce": Way(("scarce",), 12), "all": Way(WEIGHTS, 24)}


class Case(NamedTuple):
    """A setting of the test: one of `studies.learned`, and changes of its workload. error: of estimates."""

    setting: str
    seeds: int
    workload: Mapping[str, Any] = {}
    error: tuple[float, float] = (0.0, 0.0)


_STREAM: Final = {"arrivals": "poisson", "interarrival": "25s", "sizes": [2, 5, 10, 20, 50, 80, 100]}
CASES: Final[Mapping[str, Case]] = {
    "equal nodes": Case("containers", 30),
    "classes": Case("classes", 30),
    "equal nodes, stream": Case("containers", 20, {**_STREAM, "jobs": 200}),
    "classes, stream": Case("classes", 20, {**_STREAM, "jobs": 60}),
    "classes, tasks of up to 4 GiB": Case("classes", 10, {"drawn": {"memory": "4Gi"}}),
    "classes, run times told wrong by up to half": Case("classes", 10, error=(-0.5, 0.5)),
}


class Study:
    """The settings, and what is kept of the ways."""

    def __init__(self, data: Path, out: Path) -> None:
        self.data, self.out = data, out
        self.episodes = cache(self._episodes)

    def _episodes(self, name: str, use: str, count: int) -> list[FastContainers]:
        case = CASES[name]
        of = next(setting for setting in SETTINGS if setting.name == case.setting)
        drawn = {**of.workload, "history": 0, "profiles": str((self.data / PROFILES).resolve()), **case.workload}
        seeds = range(FIRST[use], FIRST[use] + count)
        made = document("episodes", seeds, {"any": {"kind": "fifo"}}, cluster=of.cluster, workload=drawn)
        scenario = Scenario.model_validate(made)
        return [episode(scenario, seed, case.error) for seed in seeds]


def evolve(study: Study, label: str) -> tuple[Doubles, float]:
    """Weights by CMA-ES, and CPU time, min: all candidates of a generation play the same seeds."""
    way, path, found = WAYS[label], study.out / f"{label}.json", CURVES.copy()
    free = [WEIGHTS.index(name) for name in way.free]
    search, spent = Search.begin(found[free], 0.3, np.where(np.array(way.free) == "scarce", 2.0, 0.5)), 0.0
    if path.exists():
        kept = json.loads(path.read_bytes())
        search, spent = Search.restored(kept["search"]), kept["cpu_min"]
    while search.generation < way.generations:
        began = time.process_time()
        candidates = search.candidates(6 + int(2 * np.log(len(free))), 1)
        costs, random = np.zeros(len(candidates)), keyed.generator(1, "containers", search.generation)
        for name, plays in PLAYS.items():
            for number in random.choice(TRAINING, plays, replace=False):
                each = study.episodes(name, "training", TRAINING)[number]
                teacher = each.jct_s(CURVES).mean()
                for index, candidate in enumerate(candidates):
                    found[free] = candidate
                    costs[index] += each.jct_s(found).mean() / teacher / plays
        search.select(candidates, costs)
        spent += (time.process_time() - began) / 60
        write_file(path, json.dumps({"search": search.kept, "cpu_min": spent}))
    found[free] = search.mean
    return found, spent


def rows(study: Study, name: str, use: str, most: int | None, policies: Mapping[str, Doubles]) -> list[list[str]]:
    """Cells of HEAD; differences are to `curves`, paired by seed, with 95 % intervals. most: number of seeds."""
    seeds = min(most or CASES[name].seeds, CASES[name].seeds)
    found = study.episodes(name, use, seeds)
    teacher, by_index = _means(found, CURVES), [each.by_index() for each in found]
    ran = {"srpt": _means(by_index, SRPT), **{label: _means(found, each) for label, each in policies.items()}}
    made = [[name, "`curves`", str(seeds), f"{teacher.mean():.1f}", "", "", ""]]
    for label, jcts in ran.items():
        off = jcts - teacher
        part = f"{100 * off.mean() / teacher.mean():+.1f}"
        cells = f"{jcts.mean():.1f}", over_seeds(off.tolist(), 2), part, f"{(off < 0).sum()} of {seeds}"
        made.append([name, label, str(seeds), *cells])
    return made


def _means(found: Sequence[FastContainers], of: Doubles) -> Doubles:
    return np.array([each.jct_s(of).mean() for each in found])


def bounds(study: Study, name: str, seeds: int) -> list[str]:
    """Cells of BOUND_HEAD, of validation seeds."""
    found = study.episodes(name, "validation", seeds)
    least = np.array([bound_s(each) for each in found])
    means = [least, *(_means(found, of) for of in (CURVES, LEARNED))]
    return [name, str(seeds), *(f"{each.mean():.1f}" for each in means)]


def main(
    data: Annotated[Path, typer.Option(help=f"folder with {PROFILES}")],
    out: Annotated[Path, typer.Option(help="where generations are kept")] = Path("out/containers-student"),
    seeds: Annotated[int | None, typer.Option(min=2, help="at most so many seeds of each setting")] = None,
    ways: Annotated[str, typer.Option(help="ways, separated by commas")] = ",".join(WAYS),
) -> None:
    """Learn what has not been learned yet, and print bounds, validation and test."""
    out.mkdir(parents=True, exist_ok=True)
    study, policies = Study(data, out), {"`learned: true`": LEARNED}
    for label in filter(None, ways.split(",")):
        policies[label], spent = evolve(study, label)
        named = ", ".join(f"{name} {value:.2f}" for name, value in zip(WEIGHTS, policies[label], strict=True))
        typer.echo(f"{label}, {spent:.1f} min: {named}", err=True)
    few = min(seeds or 20, 20)
    typer.echo(table(BOUND_HEAD, [bounds(study, name, few) for name in ("equal nodes", "classes")]))
    for use in ("validation", "test"):
        made = [row for name in CASES for row in rows(study, name, use, seeds, policies)]
        typer.echo(f"\n{use}\n{table(HEAD, made)}")


if __name__ == "__main__":
    end(lambda: typer.run(main))
