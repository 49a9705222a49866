"""Policies that learn, beside those that do not: the settings that they were made for, and others.

    python -m rm_emulator.lab.papers.learned --data DIR --docs docs

TPC-H jobs are those that the released simulator (hongzimao/decima-sim) draws from the same seeds. Every policy meets
the same jobs, so differences are paired, seed by seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final, NamedTuple

import typer

from rm_emulator.experiments import api
from rm_emulator.files import write_file
from rm_emulator.lab.papers.decima import FIRST_SEED, ORACLE
from rm_emulator.lab.papers.tables import by_label, document, filled, run, table
from rm_emulator.program import end
from rm_emulator.results.statistics import student_t
from schedulers.core.policy import needs_estimates, policies

#: Those that learned, as far as this program has them, in the order of the tables.
LEARNED: Final = ("decima", "distilled")
_FAIR: Final = {"kind": "weighted_fair", "alpha": 0.0}
_CAPPED: Final = {"kind": "capped_sjf"}
_BATCH: Final = {"kind": "tpch", "arrivals": "batch", "draws": "released", "sizes": [2, 5, 10, 20, 50, 100]}
_STREAM: Final = {"kind": "tpch", "jobs": 200, "draws": "released"}
#: What is read where it is there: Decima's release as a whole, and real DAGs.
PROFILES: Final = "tpch-spark-profiles.json.gz"
ALIBABA: Final = "alibaba-2018-dags-batch_task.csv.gz"


def _executors(count: int) -> dict[str, Any]:
    """A cluster of so many Spark executors."""
    return {
        "nodes": [{"count": count, "capacity": {"cpu": 1, "memory": "2Gi"}}],
        "profile": "events",
        "executors": {"moving_delay": "2s", "warmup": "1s"},
    }


#: Four executor classes of one core each, a quarter of the executors each (Decima, section 7.3).
_CLASSES: Final = {
    "nodes": [
        {"count": count, "name": f"m{gib}", "capacity": {"cpu": 1, "memory": f"{gib}Gi"}}
        for gib, count in ((2, 12), (4, 12), (6, 13), (8, 13))
    ],
    "profile": "events",
}
_BEST_FIT: Final = {"placement": {"kind": "best_fit"}}


class Setting(NamedTuple):
    """One workload on a cluster, and what is compared in it.

    workload: its path, if it has one, is the name of a file in the folder of data. rules: policies that do not learn,
    by label; the first one is what the others are held against. is_told: all know the mean run time of each stage; else
    nobody knows any. others: policies beside those that learned.
    """

    name: str
    seeds: int
    workload: Mapping[str, Any]
    rules: Mapping[str, Mapping[str, Any]]
    cluster: Mapping[str, Any] = _executors(50)
    is_told: bool = True
    others: tuple[str, ...] = ()


SETTINGS: Final = (
    Setting(
        "batch",
        100,
        {**_BATCH, "jobs": 20},
        {"capped_sjf": _CAPPED, "fair": _FAIR, "tuned": {**_FAIR, "alpha": -1.1}},
        others=("lookahead",),
    ),
    Setting(
        "stream",
        30,
        {**_STREAM, "interarrival": "25s"},
        {"fair": _FAIR, "capped_sjf": {**_CAPPED, "containers": 10.0}, "tuned": {**_FAIR, "alpha": -0.4}},
    ),
    Setting("stream-45", 10, {**_STREAM, "interarrival": "45s"}, {"fair": _FAIR, "capped_sjf": _CAPPED}),
    Setting("stream-20", 10, {**_STREAM, "interarrival": "20s"}, {"fair": _FAIR, "capped_sjf": _CAPPED}),
    Setting("large", 10, {**_BATCH, "jobs": 60}, {"capped_sjf": _CAPPED, "fair": _FAIR}, _executors(100)),
    Setting(
        "dags",
        10,
        {"kind": "trace", "format": "alibaba2018", "path": ALIBABA, "load": 0.9, "extract": {"jobs": 200}},
        {"fair": _FAIR, "capped_sjf": _CAPPED},
        {"nodes": [{"count": 20, "capacity": {"cpu": 8, "memory": "32Gi"}}], "profile": "events"},
    ),
    Setting(
        "makespan",
        20,
        {**_BATCH, "jobs": 20},
        {
            "decima": {"kind": "decima"},
            "decima_makespan": {"kind": "decima", "objective": "makespan"},
            "proportional": {"kind": "dispatch", "rule": "proportional"},
        },
    ),
    Setting(
        "classes",
        5,
        {**_BATCH, "jobs": 20, "durations": "per_task", "demand": {"cpu": 1}, "drawn": {"memory": "8Gi"}},
        {
            "graphene": {"kind": "graphene"},
            "tetris": {"kind": "tetris"},
            "fair": {**_FAIR, **_BEST_FIT},
            "tuned": {**_FAIR, **_BEST_FIT, "alpha": -1.0},
            "capped_sjf": {**_CAPPED, **_BEST_FIT},
        },
        _CLASSES,
    ),
    Setting("untold", 30, {**_BATCH, "jobs": 20}, {"fair": {"kind": "fair"}}, is_told=False),
)


def known(setting: Setting) -> list[str]:
    """Those that learned, and the setting's others, which there are and which make sense there without estimates."""
    names = [name for name in (*LEARNED, *setting.others) if name in policies]
    return [name for name in names if setting.is_told or not needs_estimates({"kind": name})]


def scenario(setting: Setting, seeds: int, data: Path | None = None, released: Path | None = None) -> dict[str, Any]:
    """The setting with its rules and all learned policies.

    data: the folder with PROFILES and ALIBABA; None: the built-in summary of the first, and the second nowhere.
    released: the weights that spark-sched-sim released.
    """
    there: dict[str, dict[str, Any]] = {name: {"kind": name} for name in known(setting)}
    if released and setting.is_told:
        there["spark_sched_sim"] = {"kind": "spark_sched_sim", "weights": str(released)}
    told = {"predictor": ORACLE} if setting.is_told else {}
    workload = dict(setting.workload)
    if workload["kind"] == "tpch":
        workload |= {"history": 0, **({"profiles": str(data / PROFILES)} if data else {})}
    elif data:
        workload["path"] = str(data / workload["path"])
    return document(
        f"learned-{setting.name}",
        range(FIRST_SEED, FIRST_SEED + seeds),
        {label: {**policy, **told} for label, policy in {**setting.rules, **there}.items()},
        cluster=dict(setting.cluster),
        workload=workload,
        baseline=next(iter(setting.rules)),
        plugins=[str(Path(__file__).with_name("released.py"))] if "spark_sched_sim" in there else [],
    )


HEAD: Final = ("policy", "mean JCT, s", "difference, s", "%", "better in", "makespan, s")


def rows(figures: Mapping[str, Mapping[int, Mapping[str, Any]]], baseline: str) -> list[list[str]]:
    """Cells of HEAD. Differences are paired with the baseline's runs; in brackets the interval of 95 % over seeds.

    figures: of summary.json, by label and seed.
    """
    against = {seed: run["jct_s"]["mean"] for seed, run in figures[baseline].items()}
    made = []
    for label, by_seed in figures.items():
        jcts = {seed: run["jct_s"]["mean"] for seed, run in by_seed.items()}
        makespan = fmean(run["makespan_s"] for run in by_seed.values())
        row = [label, f"{fmean(jcts.values()):.1f}", "", "", "", f"{makespan:.0f}"]
        if label != baseline:
            off = [jcts[seed] - against[seed] for seed in jcts]
            low, high = student_t(off)
            row[2] = f"{fmean(off):+.1f} [{low:+.1f}, {high:+.1f}]"
            row[3] = f"{100 * fmean(off) / fmean(against.values()):+.1f}"
            row[4] = f"{sum(each < 0 for each in off)} of {len(off)}"
        made.append(row)
    return made


def tables(measured: Mapping[str, api.Results]) -> dict[str, str]:
    """By name of its setting the table of what was measured there."""
    baselines = {setting.name: next(iter(setting.rules)) for setting in SETTINGS}
    return {name: table(HEAD, rows(by_label(results), baselines[name])) for name, results in measured.items()}


def page(template: str, made: Mapping[str, str], seeds: Mapping[str, int]) -> str:
    """The page of docs: the template's prose with the measured tables in it."""
    return filled(template, tables=made, seeds=seeds)


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/learned"),
    seeds: Annotated[int | None, typer.Option(min=2, help="at most so many seeds of each setting, from 1000")] = None,
    settings: Annotated[str, typer.Option(help="which settings, separated by commas; default: all")] = "",
    data: Annotated[Path | None, typer.Option(help=f"folder with {PROFILES} and {ALIBABA}")] = None,
    released: Annotated[Path | None, typer.Option(help="model.pt of spark-sched-sim, to be measured too")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="parallel processes; default: one per core")] = None,
    docs: Annotated[Path | None, typer.Option(help="folder whose results-learned.in.md is to become a page")] = None,
) -> None:
    """Run every policy in every setting and print the tables."""
    if docs is not None and data is not None and not (data / PROFILES).exists():
        typer.echo(f"{data / PROFILES}: not there, so the page of learned policies stays as it is", err=True)
        return
    there = {setting.name: setting for setting in SETTINGS if data or "path" not in setting.workload}
    wanted = settings.split(",") if settings else list(there)
    if unknown := [name for name in wanted if name not in there]:
        raise typer.BadParameter(f"no setting '{unknown[0]}' (there are: {', '.join(there)})")
    chosen = [there[name] for name in wanted]
    counts = {setting.name: min(setting.seeds, seeds or setting.seeds) for setting in chosen}
    folder, other = data and data.resolve(), released and released.resolve()
    out.mkdir(parents=True, exist_ok=True)
    measured = {s.name: run(scenario(s, counts[s.name], folder, other), out / s.name, jobs) for s in chosen}
    made = tables(measured)
    for name, text in made.items():
        typer.echo(f"{name}\n{text}\n")
    if docs is not None:
        template = (docs / "results-learned.in.md").read_text(encoding="utf-8")
        write_file(docs / "results-learned.md", page(template, made, counts))


if __name__ == "__main__":
    end(lambda: typer.run(main))
