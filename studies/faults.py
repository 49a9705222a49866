"""What faults cost: a gang that saves its work beside the closed form, Daly's interval, and policies under lemons.

    python -m studies.faults --docs docs

Runs of the policies are kept under OUT, so that a stopped command goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import numpy as np
import typer

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.program import end
from schedulers.core import keyed
from studies.tables import document, filled, over_seeds, run, table

NAME: Final = "results-faults"
SEEDS: Final = tuple(range(1, 11))
#: A run of a policy, as in summary.json.
_Cell: TypeAlias = Mapping[str, Any]
_DAY_S: Final = 86_400.0


class Training(NamedTuple):
    """A gang with a task on each node, which saves its work.

    rate: failures per 1,000 node-days. restart_s: from the loss of a member until work goes on.
    """

    nodes: int
    rate: float
    every_s: float
    cost_s: float
    restart_s: float

    @property
    def mttf_s(self) -> float:
        """Mean time to a failure of any node, s."""
        return _DAY_S * 1000 / self.nodes / self.rate

    @property
    def closed_form(self) -> float:
        """Expected share of effective time, (1 - N r (u + D/2)) / (1 + w/D) (arXiv 2410.21680, recalled)."""
        lost = (self.restart_s + self.every_s / 2) / self.mttf_s
        return (1 - lost) / (1 + self.cost_s / self.every_s)

    def ettr(self, failures: float, seed: int) -> float:
        """Run time over time to the end, in one run in which a job of such length meets so many failures."""
        worked = failures * self.mttf_s
        made = api.play(self._scenario(worked, seed))
        took = made.jobs.select("first_start_ms", "finish_ms").row(0)
        return 1000 * worked / float(took[1] - took[0])

    def _scenario(self, worked_s: float, seed: int) -> dict[str, Any]:
        stage = {"name": "steps", "tasks": self.nodes, "gang": True, "demand": {"gpu": 8}, "duration": _ms(worked_s)}
        # Spare nodes, so that the lost member starts again at once.
        node = {"count": self.nodes + self.nodes // 8 + 2, "capacity": {"gpu": 8}}
        return document(
            "training",
            [seed],
            cluster={
                "profile": "events",
                "nodes": [node],
                "faults": {
                    "nodes": {"per_1000_node_days": self.rate, "repair": "1h"},
                    "checkpoints": {
                        "every": _ms(self.every_s),
                        "cost": _ms(self.cost_s),
                        "restart": _ms(self.restart_s),
                    },
                },
            },
            workload={"kind": "jobs", "jobs": [{"name": "training", "stages": [stage]}]},
            policies={"fifo": {"kind": "fifo"}},
        )


def _ms(seconds: float) -> str:
    return f"{round(1000 * seconds)}ms"


#: 1,024 and 16,384 GPUs at gpu-2024's rate, and fewer that fail more often.
TRAININGS: Final = (
    Training(nodes=128, rate=4, every_s=3600, cost_s=20, restart_s=300),
    Training(nodes=128, rate=4, every_s=3600, cost_s=120, restart_s=900),
    Training(nodes=2048, rate=4, every_s=1200, cost_s=20, restart_s=300),
    Training(nodes=16, rate=500, every_s=1800, cost_s=60, restart_s=300),
    Training(nodes=16, rate=500, every_s=600, cost_s=60, restart_s=60),
)
FAILURES: Final = 60
#: The ground of Daly's interval: a failure every three hours, a minute a checkpoint.
DALY: Final = Training(nodes=16, rate=500, every_s=0, cost_s=60, restart_s=300)
FACTORS: Final = (0.25, 0.4, 0.6, 0.8, 1.0, 1.25, 1.67, 2.5, 4.0)


def daly_s(training: Training) -> float:
    """Daly's interval of work between checkpoints, sqrt(2 w M) - w, s (FGCS 22, 2006)."""
    return sqrt(2 * training.cost_s * training.mttf_s) - training.cost_s


def closed_rows(trainings: Sequence[Training] = TRAININGS, failures: int = FAILURES) -> Iterator[list[str]]:
    """Cells: GPUs, mean time to failure in h, interval, cost, restart in min, measured share, closed form, ratio."""
    for each in trainings:
        found = [each.ettr(failures, seed) for seed in SEEDS]
        form = each.closed_form
        yield [
            f"{8 * each.nodes:,}",
            f"{each.mttf_s / 3600:.1f}",
            *(f"{s / 60:.3g}" for s in (each.every_s, each.cost_s, each.restart_s)),
            over_seeds(found, 4),
            f"{form:.4f}",
            over_seeds([one / form for one in found], 3),
        ]


def daly_rows(failures: int = FAILURES) -> Iterator[list[str]]:
    """Cells: factor of Daly's interval, interval in min, measured share, difference to Daly's by seed in points."""
    each = {f: DALY._replace(every_s=f * daly_s(DALY)) for f in FACTORS}
    found = {f: [training.ettr(failures, seed) for seed in SEEDS] for f, training in each.items()}
    for factor, shares in found.items():
        gaps = [100 * (one - other) for one, other in zip(shares, found[1.0], strict=True)]
        apart = "" if factor == 1 else over_seeds(gaps, 2)
        yield [f"{factor:g}", f"{each[factor].every_s / 60:.1f}", over_seeds(shares, 4), apart]


# -- policies ---------------------------------------------------------------------------------------

#: A hundred times gpu-2024's rate, so that a run of days on 32 nodes meets some forty failures.
RATE: Final = 400.0
_RATES: Final = {"per_1000_node_days": RATE, "repair": {"kind": "uniform", "mean": "150m", "cov": 0.35}}
_SAVED: Final = {"every": "30m", "cost": "20s", "restart": {"kind": "lognormal", "mean": "39m", "cov": 9.7}}
GROUNDS: Final[Mapping[str, dict[str, Any] | None]] = {
    "none": None,
    "like nodes": {"nodes": _RATES, "checkpoints": _SAVED},
    "lemons": {"nodes": {**_RATES, "lemons": {"share": 0.06, "times": 10}}, "checkpoints": _SAVED},
}
POLICIES: Final[Mapping[str, dict[str, Any]]] = {
    "fifo": {"kind": "fifo"},
    "fair": {"kind": "fair"},
    "drf": {"kind": "drf"},
    "capacity": {"kind": "capacity"},
    "las": {"kind": "las"},
    "sjf": {"kind": "sjf", "predictor": {"kind": "three_sigma"}},
    "gs_slearn": {"kind": "gs", "predictor": {"kind": "slearn"}},
    "gs_posterior": {"kind": "gs", "predictor": {"kind": "posterior"}},
    "tetris": {"kind": "tetris", "predictor": {"kind": "three_sigma"}},
    "graphene": {"kind": "graphene", "predictor": {"kind": "three_sigma"}},
}
JOBS: Final = 400
_NODES: Final = 32
_LOAD: Final = 1.0


def jobs(seed: int) -> list[dict[str, Any]]:
    """Half training gangs of 1 to 64 GPUs, half DAGs of three stages; ten recurring programs of each, four users."""
    draws = keyed.generator(seed, "faulty jobs")
    made = [_job(draws, number) for number in range(JOBS)]
    work = sum(
        stage["tasks"] * stage["demand"]["gpu"] * stage["duration"]["mean_s"] for m in made for stage in m["stages"]
    )
    span = work / (_LOAD * 8 * _NODES)
    for one, at in zip(made, np.sort(draws.uniform(0, span, JOBS)), strict=True):
        one["submit"] = _ms(float(at))
        for stage in one["stages"]:
            mean = stage["duration"].pop("mean_s")
            stage["duration"]["mean"] = _ms(mean)
    return made


def _job(draws: np.random.Generator, number: int) -> dict[str, Any]:
    trains, program = number % 2 == 0, int(draws.integers(10))
    # A program has its mean, its runs vary about it.
    scale = 3600 * 2.0 ** ((program % 5) - 1) * float(draws.lognormal(0, 0.4))
    common = {"name": f"{'train' if trains else 'dag'}-{program}", "user": f"user{program % 4}"}
    if trains:
        gpus = int(2 ** draws.integers(0, 7))
        shape = {"tasks": max(1, gpus // 8), "demand": {"gpu": min(gpus, 8)}, "gang": True}
        return {**common, "stages": [{"name": "steps", **shape, "duration": _drawn(scale, 0.02)}]}
    first = {
        "name": "read",
        "tasks": int(draws.integers(8, 40)),
        "demand": {"gpu": 1},
        "duration": _drawn(scale / 8, 0.5),
    }
    middle = {
        "name": "work",
        "tasks": int(draws.integers(4, 20)),
        "demand": {"gpu": 2},
        "duration": _drawn(scale / 4, 0.5),
    }
    last = {"name": "join", "tasks": 2, "demand": {"gpu": 4}, "duration": _drawn(scale / 4, 0.5)}
    return {**common, "stages": [first, {**middle, "parents": ["read"]}, {**last, "parents": ["work"]}]}


def _drawn(mean_s: float, cov: float) -> dict[str, Any]:
    return {"kind": "lognormal", "mean_s": mean_s, "cov": cov}


def scenario(ground: str, seed: int) -> dict[str, Any]:
    """The run of all policies on one seed, whose jobs are the seed's own."""
    faults = GROUNDS[ground]
    return document(
        f"faults-{ground.replace(' ', '-')}-{seed}",
        [seed],
        cluster={
            "profile": "kubernetes",
            "nodes": [{"count": _NODES, "capacity": {"gpu": 8}}],
            **({"faults": faults} if faults else {}),
        },
        workload={"kind": "jobs", "jobs": jobs(seed)},
        policies=POLICIES,
    )


#: Figures of a faulty ground: name, its value in a cell beside the same cell without faults, digits.
_FIGURES: Final[Mapping[str, tuple[Callable[[_Cell, _Cell], float], int]]] = {
    "JCT longer by, %": (lambda cell, still: 100 * (cell["jct_s"]["mean"] / still["jct_s"]["mean"] - 1), 0),
    "goodput, %": (lambda cell, _: 100 * cell["faults"]["goodput"], 1),
    "ETTR, %": (lambda cell, _: 100 * cell["faults"]["ettr"], 1),
    "Jain": (lambda cell, _: cell["jain"], 3),
}
_FAULTY: Final = [ground for ground, faults in GROUNDS.items() if faults]


def policy_rows(found: Mapping[str, Sequence[api.Results]]) -> Iterator[list[str]]:
    """Cells: policy, mean JCT and Jain's index without faults, then each figure on each faulty ground."""
    for label in POLICIES:
        cells = {ground: [_only(results, label) for results in each] for ground, each in found.items()}
        still = cells["none"]
        yield [
            label,
            over_seeds([cell["jct_s"]["mean"] / 60 for cell in still]),
            over_seeds([cell["jain"] for cell in still], 3),
            *(
                over_seeds([figure(*pair) for pair in zip(cells[ground], still, strict=True)], digits)
                for figure, digits in _FIGURES.values()
                for ground in _FAULTY
            ),
        ]


def _only(results: api.Results, label: str) -> _Cell:
    (cell,) = results.by_label[label].values()
    return cell


# -- speculation ------------------------------------------------------------------------------------

_STRAGGLERS: Final = {"tasks": {"stragglers": {"share": 0.05, "times": 5}}}
RULES: Final[Mapping[str, dict[str, Any]]] = {
    "none": _STRAGGLERS,
    "mapreduce": {**_STRAGGLERS, "speculation": "mapreduce"},
    "late": {**_STRAGGLERS, "speculation": "late"},
}
_MAPREDUCE_JOBS: Final = 40


def mapreduce_jobs(seed: int, load: float) -> list[dict[str, Any]]:
    """Jobs of 20 to 120 maps of a minute and 5 to 20 reduces of two, on 128 cores at this load without stragglers."""
    draws = keyed.generator(seed, "jobs that speculate")
    sizes = [(int(draws.integers(20, 121)), int(draws.integers(5, 21))) for _ in range(_MAPREDUCE_JOBS)]
    span_s = sum(60 * maps + 120 * reduces for maps, reduces in sizes) / (128 * load)
    made: list[dict[str, Any]] = []
    for (maps, reduces), at in zip(sizes, np.sort(draws.uniform(0, span_s, len(sizes))), strict=True):
        first = {"name": "map", "tasks": maps, "demand": {"cpu": 1}, "duration": _of_mean("60s")}
        last = {"name": "reduce", "tasks": reduces, "demand": {"cpu": 1}, "duration": _of_mean("120s")}
        made.append({"name": "job", "submit": _ms(float(at)), "stages": [first, {**last, "parents": ["map"]}]})
    return made


def _of_mean(mean: str) -> dict[str, Any]:
    return {"kind": "lognormal", "mean": mean, "cov": 0.2}


def speculated(rule: str, seed: int, load: float) -> tuple[float, float, float]:
    """Mean JCT, s; share of all container time that came to nothing, %; copies per 100 tasks."""
    cluster = {"profile": "yarn", "nodes": [{"count": 16, "capacity": {"cpu": 8}}], "faults": RULES[rule]}
    workload = {"kind": "jobs", "jobs": mapreduce_jobs(seed, load)}
    made = api.play(
        document(f"speculation-{rule}", [seed], {"fair": {"kind": "fair"}}, cluster=cluster, workload=workload)
    )
    jct_s = (made.jobs["finish_ms"] - made.jobs["submit_ms"]).to_numpy().mean() / 1000
    tasks = made.tasks
    # An attempt that never started took no time.
    took = (tasks["ended_ms"] - tasks["started_ms"]).fill_null(0).to_numpy()
    lost = took[tasks["code"].to_numpy() != 0].sum() / took.sum()
    copies = len(tasks) / tasks.select("job", "stage", "task").n_unique() - 1
    return float(jct_s), float(100 * lost), 100 * copies


def speculation_rows(loads: Sequence[float] = (0.5, 0.9)) -> Iterator[list[str]]:
    """Cells: load, rule, mean JCT in s, shorter by so many % than without, time lost in %, copies per 100 tasks."""
    for load in loads:
        found = {rule: [speculated(rule, seed, load) for seed in SEEDS] for rule in RULES}
        for rule, runs in found.items():
            gains = [100 * (1 - run[0] / still[0]) for run, still in zip(runs, found["none"], strict=True)]
            columns = [[run[0] for run in runs], gains, [run[1] for run in runs], [run[2] for run in runs]]
            shown = (over_seeds(column, digits) for column, digits in zip(columns, (0, 1, 1, 1), strict=True))
            yield [f"{load:g}", rule, *shown]


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/faults"),
    docs: Annotated[Path, typer.Option(help="the folder with results-faults.in.md")] = Path("docs"),
    cores: Annotated[
        int | None, typer.Option("--jobs", min=1, help="parallel processes; default: one per core")
    ] = None,
) -> None:
    """Run everything, and write docs/results-faults.md."""
    out.mkdir(parents=True, exist_ok=True)
    template = (docs / f"{NAME}.in.md").read_text(encoding="utf-8")
    found = {
        ground: [
            run(scenario(ground, seed), out / f"{ground.replace(' ', '-')}-{seed}", cores, progress=False)
            for seed in SEEDS
        ]
        for ground in GROUNDS
    }
    head = ["policy", "mean JCT, min", "Jain", *(f"{name}: {ground}" for name in _FIGURES for ground in _FAULTY)]
    measured: dict[str, object] = {
        "closed": table(
            ("GPUs", "MTTF, h", "interval, min", "cost, min", "restart, min", "measured", "closed form", "ratio"),
            list(closed_rows()),
        ),
        "daly": table(("times Daly's", "interval, min", "ETTR", "apart from Daly's, points"), list(daly_rows())),
        "policies": table(head, list(policy_rows(found))),
        "speculation": table(
            ("load", "rule", "mean JCT, s", "shorter, %", "time lost, %", "copies per 100 tasks"),
            list(speculation_rows()),
        ),
        "seeds": len(SEEDS),
        "jobs": JOBS,
        "rate": f"{RATE:g}",
        "daly_min": f"{daly_s(DALY) / 60:.0f}",
    }
    write_file(docs / f"{NAME}.md", filled(template, **measured))
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
