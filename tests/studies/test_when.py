"""The tables of studies/when.py."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import polars as pl
from scipy.special import ndtr

from rm_emulator.workload.model import PerTask
from rm_emulator.workload.synthetic import PRESETS, generate
from schedulers.core.model import Job, Stage
from studies.preset_law import preset_law
from studies.when import HEAD, rows


def test_a_table_has_the_loss_over_tolds_with_an_interval_over_moments() -> None:
    names = ("seed", "at_s", "job", "came_s", "answerer", "p10_s", "p50_s", "p90_s")
    answers = []
    for moment in range(10):
        for job, came in (("a", 100.0), ("b", 200.0)):
            asked = (1, float(moment), job, came)
            answers.append((*asked, "told", came, came, came + 30))  # 0.1 * 30 / 3 = 1 s
            # 10 late or 90 early at all quantiles: 5 or 45 s, every other moment.
            off = 10.0 if moment % 2 else -90.0
            answers.append((*asked, "simulate", came + off, came + off, came + off))
    found = rows(pl.DataFrame(answers, names, orient="row"))
    cells = {(row[0], row[1]): dict(zip(HEAD, row, strict=True)) for row in found}
    own, told = cells["all", "simulate"], cells["all", "told"]
    assert (told["pinball loss, s"], told["over told's"], told["80 % interval holds, %"]) == (
        "1",
        "1.00",
        "100 [100, 100]",
    )
    assert own["pinball loss, s"] == "25"
    assert own["over told's"].startswith("25.00 [")
    low, high = (float(part) for part in own["over told's"].partition("[")[2].rstrip("]").split(","))
    assert 5 < low < 25 < high < 45
    assert own["median error, %"] == "28"  # of 5, 10, 45 and 90 %


def test_the_law_of_a_preset_holds_what_the_preset_draws() -> None:
    workload = generate("2sigma-like", jobs=500, slots=100, seed=7)
    past = defaultdict[str, list[float]](list)
    for old in workload.history:
        past[old.name].append(old.stages[0][1])
    law, below = preset_law(PRESETS["2sigma-like"], 100), []
    for source in workload.jobs:
        times = source.runtimes[0]
        assert isinstance(times, PerTask)
        weights, means, deviations = np.array(law(source.job, past[source.job.name], [])).T
        at = (math.log(float(np.mean(times.ms))) - means) / deviations
        below.append(float((weights * ndtr(at)).sum() / weights.sum()))
    assert 0.75 < np.mean([0.1 < share < 0.9 for share in below]) < 0.85
    assert 0.44 < np.mean([share < 0.5 for share in below]) < 0.56


def test_a_run_since_tells_the_law_whether_its_name_got_shorter() -> None:
    law = preset_law(PRESETS["2sigma-like"], 100)
    job = Job(id="a", stages=(Stage(name="tasks", tasks=24, demand=(1000,)),), name="a")
    past = [1_000_000.0 + 1000 * number for number in range(18)]

    def middle(since: list[float]) -> float:
        weights, means, _ = np.array(law(job, past, since)).T
        return float((weights * means).sum() / weights.sum())

    assert middle([10_000.0]) < math.log(20_000)
    assert middle([1_000_000.0]) > math.log(900_000)
