"""Policies that learn, beside those that do not: the settings that they were made for, and others.

    python -m studies.learned --data DIR --docs docs

TPC-H jobs are those that the released simulator (hongzimao/decima-sim) draws from the same seeds. Every policy meets
the same jobs, so differences are paired, seed by seed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final

import typer
import yaml

import rm_emulator
from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.program import end
from studies import fast_runs, robust
from studies.decima import FIRST_SEED
from studies.learned_settings import ALIBABA, PROFILES, ROBUST, SETTINGS, WAY, Setting, of_the_way
from studies.tables import document, filled, table


def compared(setting: Setting, released: Path | None = None) -> dict[str, dict[str, Any]]:
    """Its rules and `decima`, by label. released: the weights that spark-sched-sim released."""
    there: dict[str, Mapping[str, Any]] = {**setting.rules, "decima": {"kind": "decima"}}
    if released and "spark_sched_sim" in setting.fewer:
        there["spark_sched_sim"] = {"kind": "spark_sched_sim", "weights": str(released)}
    told = {"predictor": setting.predictor} if setting.predictor else {}
    return {label: {**told, **policy} for label, policy in there.items()}


def scenario(setting: Setting, label: str, policy: Mapping[str, Any], seeds: int, data: Path | None) -> dict[str, Any]:
    """The setting under one of its policies.

    data: the folder with PROFILES and ALIBABA; None: the built-in summary of the first, and the second nowhere.
    """
    workload = dict(setting.workload)
    if workload["kind"] == "tpch":
        workload |= {"history": 0, **({"profiles": str(data / PROFILES)} if data else {})}
    elif data:
        workload["path"] = str(data / workload["path"])
    return document(
        f"learned-{setting.name}-{label}",
        range(FIRST_SEED, FIRST_SEED + min(seeds, setting.fewer.get(label, seeds))),
        {label: policy},
        cluster=dict(setting.cluster),
        workload=workload,
        plugins=[str(Path(__file__).with_name("released.py"))] if label == "spark_sched_sim" else [],
    )


def measured(scenario: Mapping[str, Any], out: Path, jobs: int | None, engine: str | None = None) -> dict[int, Any]:
    """Figures by seed, of runs in `out`; those that are there are kept if this program makes the same of the first."""
    path = out.with_name(f"{scenario['metadata']['name']}.yaml")
    write_file(path, yaml.safe_dump(scenario, sort_keys=False))
    kept = api.adopt(path, out, jobs=jobs)
    results = rm_emulator.run(path, out=out, jobs=jobs, engine=engine, overwrite=not kept, progress=True)
    (label,) = results.by_label
    return results.by_label[label]


def played(setting: Setting, seeds: int, data: Path | None, out: Path, **by: Any) -> dict[str, dict[int, Any]]:
    """Figures by label and seed: of rules that the fast simulator knows by it, where full profiles are there.

    The fast simulator plays the engine's runs. out: the folder of the engine's. by: `released` as of `compared`, and
    jobs and engine as of `measured`.
    """
    released, jobs, engine = by.get("released"), by.get("jobs"), by.get("engine")
    if data is not None and setting.longer > 1:
        data = robust.longer(data, out, setting.longer)
    figures, episodes = {}, dict[int, Any]()
    for label, policy in compared(setting, released).items():
        runs = scenario(setting, label, policy, seeds, data)
        if data is not None and "path" not in setting.workload and fast_runs.is_played(policy, setting.cluster):
            episodes = episodes or fast_runs.found(scenario(setting, "any", policy, seeds, data))
            chosen = {seed: episodes[seed] for seed in runs["spec"]["seeds"]}
            figures[label] = fast_runs.figures(policy, chosen)
        else:
            figures[label] = measured(runs, out / setting.name / label, jobs, engine)
    return figures


HEAD: Final = ("policy", "seeds", "mean JCT, s", "difference, s", "%", "better in", "makespan, s")


def rows(
    figures: Mapping[str, Mapping[int, Mapping[str, Any]]], baseline: str, *, way: bool = False
) -> list[list[str]]:
    """Cells of HEAD. Differences are paired with the baseline's runs; in brackets the interval of 95 % over seeds.

    figures: of summary.json, by label and seed. way: with a cell of WAY at the end.
    """
    capped = {seed: run["jct_s"]["mean"] for seed, run in figures["capped_sjf"].items()} if way else {}
    against = {seed: run["jct_s"]["mean"] for seed, run in figures[baseline].items()}
    made = []
    for label, by_seed in figures.items():
        jcts = {seed: run["jct_s"]["mean"] for seed, run in by_seed.items()}
        makespan = fmean(run["makespan_s"] for run in by_seed.values())
        row = [label, str(len(jcts)), f"{fmean(jcts.values()):.1f}", "", "", "", f"{makespan:.0f}"]
        if label != baseline:
            off = [jcts[seed] - against[seed] for seed in jcts]
            low, high = api.interval(off).ci95 or (math.nan, math.nan)
            row[3] = f"{fmean(off):+.1f} [{low:+.1f}, {high:+.1f}]"
            row[4] = f"{100 * fmean(off) / fmean(against[seed] for seed in jcts):+.1f}"
            row[5] = f"{sum(each < 0 for each in off)} of {len(off)}"
        if way:
            row.append(of_the_way(fmean(jcts.values()), fmean(capped[seed] for seed in jcts)))
        made.append(row)
    return made


WAYS: Final = ("run", "way", "from", "iterations", "minutes", "score by validation")


def ways(story: Mapping[str, Any]) -> list[list[str]]:
    """Cells of WAYS: the runs that led to the weights, then those that led nowhere. story: as decima.json holds it."""
    made = []
    for each in (*story["runs"], *story["tried"]):
        config = each["config"]
        cloned = (
            "" if config["cloning"] is None or config["start"] else f" after cloning {config['cloning']['teacher']}"
        )
        way = f"{_METHODS[config['method']]}, network {config['network']}{cloned}"
        scores = " → ".join(f"{point['score']:.3f}" for point in each["curve"])
        cells = [each["name"], way, config["start"] or "", str(each["iterations"]), f"{each['elapsed_s'] / 60:.0f}"]
        made.append([*cells, f"{scores}{': ' if each.get('note') else ''}{each.get('note', '')}"])
    return made


_METHODS: Final = {"ppo": "PPO", "reinforce": "REINFORCE", "evolution": "evolution strategies"}


def page(template: str, made: Mapping[str, str], seeds: Mapping[str, int]) -> str:
    """The page of docs: the template's prose with the measured tables in it, and how the weights came about."""
    story = json.loads(files("schedulers.learned").joinpath("trained/decima.json").read_bytes())
    return filled(template, tables=made, seeds=seeds, ways=table(WAYS, ways(story)), story=story)


def _table(setting: Setting, figures: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> str:
    """The setting's table; with the part of the way where the reference was measured."""
    way = setting.name in ("batch", "makespan")
    return table((*HEAD, WAY) if way else HEAD, rows(figures, next(iter(setting.rules)), way=way))


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/learned"),
    seeds: Annotated[int | None, typer.Option(min=2, help="at most so many seeds of each setting, from 1000")] = None,
    settings: Annotated[str, typer.Option(help="which settings, separated by commas; default: all")] = "",
    data: Annotated[Path | None, typer.Option(help=f"folder with {PROFILES} and {ALIBABA}")] = None,
    released: Annotated[Path | None, typer.Option(help="model.pt of spark-sched-sim, to be measured too")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="parallel processes; default: one per core")] = None,
    engine: Annotated[str | None, typer.Option(help="a Dask cluster, as of `rm-emulator run --engine`")] = None,
    docs: Annotated[Path | None, typer.Option(help="folder whose results-learned.in.md is to become a page")] = None,
) -> None:
    """Run every policy in every setting and print the tables."""
    if docs is not None and data is not None and not (data / PROFILES).exists():
        typer.echo(f"{data / PROFILES}: not there, so the page of learned policies stays as it is", err=True)
        return
    there = {setting.name: setting for setting in (*SETTINGS, *ROBUST) if data or "path" not in setting.workload}
    wanted = settings.split(",") if settings else list(there)
    if unknown := [name for name in wanted if name not in there]:
        raise typer.BadParameter(f"no setting '{unknown[0]}' (there are: {', '.join(there)})")
    chosen = [there[name] for name in wanted]
    counts = {setting.name: min(setting.seeds, seeds or setting.seeds) for setting in chosen}
    folder, other = data and data.resolve(), released and released.resolve()
    out.mkdir(parents=True, exist_ok=True)
    made, hard = {}, list[list[str]]()
    for setting in chosen:
        name = setting.name
        (out / name).mkdir(exist_ok=True)
        figures = played(setting, counts[name], folder, out.resolve(), released=other, jobs=jobs, engine=engine)
        made[name] = _table(setting, figures)
        typer.echo(f"{name}\n{made[name]}\n")
        hard += robust.rows(name, figures) if name in robust.CASES else []
        if name == "stream-45":
            made["paper"] = table(robust.HEAD_2, robust.table_2(figures))
            typer.echo(f"paper\n{made['paper']}\n")
    if hard:
        made["robust"] = table(robust.HEAD, hard)
        typer.echo(f"robust\n{made['robust']}\n")
    if docs is not None:
        from studies import parts  # needs numba

        made |= parts.tables(folder, seeds) if folder is not None else {}
        template = (docs / "results-learned.in.md").read_text(encoding="utf-8")
        write_file(docs / "results-learned.md", page(template, made, counts))


if __name__ == "__main__":
    end(lambda: typer.run(main))
