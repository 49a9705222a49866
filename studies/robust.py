"""Tables of settings otherwise than in training: each policy beside its own rule, and Decima's Table 2."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from rm_emulator import api
from rm_emulator.files import write_file
from studies.learned_settings import PROFILES, RULE_OF

#: Figures of summary.json, by label and seed.
Figures = Mapping[str, Mapping[int, Mapping[str, Any]]]
#: By setting, what is otherwise than in training.
CASES: Final[Mapping[str, str]] = {
    "untold": "batch, nobody is told any run time",
    "pilots": "batch, pilots tell run times (`slearn_dag`)",
    "wrong": "batch, run times told wrong by up to half, stage by stage",
    "half": "40 jobs, one each 50 s",
    "twice": "40 jobs, one each 12.5 s",
    "longer": "batch, tasks ten times as long",
    "wide": "40 jobs at once on 500 executors",
    "dags": "Alibaba's DAGs",
}
HEAD: Final = ("otherwise", "policy", "seeds", "mean JCT, s", "its rule", "difference, s", "%")


def rows(name: str, figures: Figures) -> list[list[str]]:
    """Cells of HEAD for one of CASES; differences are paired, in brackets the interval of 95 % over seeds."""
    made = []
    for label in (each for each in RULE_OF if each in figures):
        rule = RULE_OF[label] if RULE_OF[label] in figures else "fair_rule"
        jcts, rules = _jcts(figures[label]), _jcts(figures[rule])
        off = [jcts[seed] - rules[seed] for seed in jcts]
        part = 100 * fmean(off) / fmean(rules[seed] for seed in jcts)
        cells = [label, str(len(off)), f"{fmean(jcts.values()):.1f}", rule, _shown(off), f"{part:+.1f}"]
        made.append([CASES[name], *cells])
    return made


#: Table 2 of Decima (SIGCOMM 2019): the test has a job each 45 s.
PAPER: Final[Mapping[str, float]] = {
    "paper: best weighted fair": 91.2,
    "paper: Decima, trained on a job each 45 s": 65.4,
    "paper: Decima, trained on a job each 75 s": 104.8,
    "paper: Decima, trained on 42 to 75 s": 82.3,
    "paper: the same, told the pace": 76.6,
}
OURS: Final[Mapping[str, str]] = {
    "tuned": "best weighted fair",
    "decima": "`decima`, trained on the batch and a job each 25 s",
    "priced": "`priced`, constants found on the batch",
    "curves": "`curves`, constants found on the batch",
}
HEAD_2: Final = ("setup", "mean JCT, s", "beside the best weighted fair, %")


def table_2(figures: Figures) -> list[list[str]]:
    """Cells of HEAD_2. figures: with a job each 45 s."""
    best = PAPER["paper: best weighted fair"]
    made = [
        [setup, f"{jct:.1f}", f"{100 * (jct / best - 1):+.0f}" if jct != best else ""] for setup, jct in PAPER.items()
    ]
    tuned = _jcts(figures["tuned"])
    for label, setup in OURS.items():
        jcts = _jcts(figures[label])
        parts = [100 * (jcts[seed] / tuned[seed] - 1) for seed in jcts]
        made.append([setup, f"{fmean(jcts.values()):.1f}", _shown(parts) if label != "tuned" else ""])
    return made


def longer(data: Path, out: Path, factor: int) -> Path:
    """A folder with profiles whose measured run times are so many times as long."""
    folder = out / f"times-{factor}"
    if not (folder / PROFILES).exists():
        read = json.loads(gzip.decompress((data / PROFILES).read_bytes()))
        for stage in (stage for query in read["queries"] for stage in query["stages"]):
            for wave in ("fresh_durations", "first_wave", "rest_wave"):
                stage[wave] = {level: [factor * ms for ms in times] for level, times in stage[wave].items()}
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / PROFILES, gzip.compress(json.dumps(read).encode(), mtime=0))
    return folder


def _jcts(by_seed: Mapping[int, Mapping[str, Any]]) -> dict[int, float]:
    return {seed: run["jct_s"]["mean"] for seed, run in by_seed.items()}


def _shown(values: Sequence[float]) -> str:
    low, high = api.interval(values).ci95 or (math.nan, math.nan)
    return f"{fmean(values):+.1f} [{low:+.1f}, {high:+.1f}]"
