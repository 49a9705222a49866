"""What re-planning attains in Decima's batch, beside the rules: the reference for how much is left to learn.

    python -m studies.replanned --data DIR

The measured run times of all queries are known to the search, the draws of the run are not. A run takes minutes and is
kept, so a stopped study goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from rm_emulator.files import write_file
from rm_emulator.learn.fast_jobs import FastSetting
from rm_emulator.learn.replanning import Search, replanned
from rm_emulator.program import end
from schedulers.core import keyed
from studies.learned_settings import PROFILES
from studies.parts import PARTS, means, rule, settings
from studies.tables import over_seeds, table

HEAD: Final = ("policy", "seeds", "mean JCT, s", "beside capped_sjf, %")
#: The rule that re-planning begins with, and what all are held against.
BEGIN: Final = "curves"
BASELINE: Final = "capped_sjf"


def mean_jct_s(setting: FastSetting, candidates: int) -> float:
    """Mean JCT of a run that begins with BEGIN and tries so many candidates at each search, s."""
    random = keyed.generator(0, "replanned", candidates)
    search = Search(candidates=candidates)
    begin = rule(PARTS["batch"][BEGIN], setting)
    return setting.play.mean_jct_s(replanned(setting.play, begin, setting.draws, search, random))


def rows(jcts: Mapping[str, Mapping[int, float]]) -> list[list[str]]:
    """Cells of HEAD; differences are paired with `capped_sjf`, by seed, with 95 % intervals."""
    base, made = jcts[BASELINE], []
    for label, ran in jcts.items():
        off = [100 * (jct / base[seed] - 1) for seed, jct in ran.items()]
        beside = "" if label == BASELINE else over_seeds(off, 1)
        made.append([label, str(len(ran)), f"{np.mean(list(ran.values())):.1f}", beside])
    return made


def main(
    data: Annotated[Path, typer.Option(help=f"folder with {PROFILES}")],
    out: Annotated[Path, typer.Option(help="where finished runs are kept")] = Path("out/replanned"),
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds, from 1000")] = 4,
    candidates: Annotated[str, typer.Option(help="rules tried at each search, separated by commas")] = "30,100,300",
) -> None:
    """Run what has not run yet, and print the table."""
    out.mkdir(parents=True, exist_ok=True)
    found = dict(enumerate(settings("batch", data, seeds), start=1000))
    jcts = {
        label: dict(zip(found, means(PARTS["batch"][label], list(found.values())), strict=True))
        for label in (BASELINE, BEGIN)
    }
    for count in map(int, candidates.split(",")):
        jcts[f"re-planned, {count} candidates"] = ran = {}
        for seed, setting in found.items():
            kept = out / f"{count}-{seed}.json"
            if not kept.exists():
                write_file(kept, json.dumps(mean_jct_s(setting, count)))
                typer.echo(f"{count} candidates, seed {seed}: {json.loads(kept.read_bytes()):.2f} s", err=True)
            ran[seed] = json.loads(kept.read_bytes())
    typer.echo(table(HEAD, rows(jcts)))


if __name__ == "__main__":
    end(lambda: typer.run(main))
