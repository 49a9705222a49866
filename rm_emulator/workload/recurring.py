"""Errors of a predictor that learns from history, over the recurring jobs of a workload.

The predictor is `three_sigma` with its usual settings. Jobs are told in order of submission, and each job is learned at
the end that it would have on an idle cluster, stage after stage.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from typing import Any, Final

import msgspec
import polars as pl

from rm_emulator.workload.quantiles import Quantiles, summary
from rm_emulator.workload.stage_table import StageTable, ask
from schedulers.core.model import PastJob
from schedulers.kit.history import WHOLE_JOB
from schedulers.predictors.three_sigma import ThreeSigma

#: Jobs of a larger workload that are judged, the last ones: a job costs a tenth of a millisecond.
MOST_JOBS: Final = 5_000


class Recurring(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs with a history, and the error of the estimates that their history gives."""

    of: int
    """Number of judged jobs: the last 5,000 with known run times."""
    jobs: int
    """Number of judged jobs with a history: two finished runs with the same name, program or user."""
    work: float
    """Share of the judged jobs' work (0..1)."""
    error: Quantiles | None
    """|estimate - true| / true of the mean task run time, over jobs with a history; None without such a job."""

    def sentence(self) -> str:
        """The figures in words."""
        if self.error is None:
            return "history: no job has earlier runs of its name, program or user to learn from"
        return (
            f"history: {self.jobs:,} of {self.of:,} jobs have earlier runs, with {self.work:.0%} of the work; an "
            f"estimate from them errs by {self.error.p50:.0%} (P50), {self.error.p90:.0%} (P90)"
        )


def judge(table: StageTable, past: tuple[PastJob, ...] = ()) -> Recurring:
    """Errors of history over the jobs of a workload. `past`: jobs before the first one."""
    teacher = ThreeSigma(ThreeSigma.Params())
    history, seen = teacher.history, Counter[tuple[str, str]]()
    history.prime(past)
    for job in past:
        seen.update(_known(job.name, job.app, job.user))
    running: list[tuple[int, int, Any, Any, float]] = []
    rows = _jobs(table)
    errors, work, known_work = [], 0.0, 0.0
    for number, (submit, name, user, app, mean, total, span, *request) in enumerate(rows.iter_rows()):
        while running and running[0][0] <= submit:
            end, _, keys, names, ms = heappop(running)
            history.learn(keys, WHOLE_JOB, ms, end)
            seen.update(names)
        keys = history.keys(app=app, name=name, user=user, request=tuple(request), submitted=submit)
        names, work = _known(name, app, user), work + total
        found = history.distribution(keys, WHOLE_JOB, submit)
        if found is not None and any(seen[each] >= 2 for each in names):
            known_work += total
            errors.append(abs(teacher.point(found[0]) - mean) / mean)
        heappush(running, (submit + round(span), number, keys, names, mean))
    share = known_work / work if work else 0.0
    return Recurring(of=rows.height, jobs=len(errors), work=share, error=summary(errors))


def _known(name: str, app: str, user: str) -> list[tuple[str, str]]:
    return [(what, value) for what, value in (("name", name), ("app", app), ("user", user)) if value]


def _jobs(table: StageTable) -> pl.DataFrame:
    """Rows (submission, name, user, app, mean task run time, work, time of its stages in sequence, largest demands)."""
    tasks, mean = pl.col("tasks"), pl.col("mean")
    by_job = (
        table.stages.group_by("job", maintain_order=True)
        .agg(
            (mean * tasks).sum().alias("work") / tasks.sum(),
            (mean * tasks).sum().alias("total"),
            mean.sum().alias("span"),
            *(pl.col(ask(name)).max() for name in table.resources),
            known=mean.is_not_null().all(),
        )
        .filter(pl.col("known") & (pl.col("total") > 0))
        .drop("known")
        .tail(MOST_JOBS)
    )
    features = table.jobs.select(pl.col("submit", "name", "user", "app").gather(by_job["job"]))
    return features.hstack(by_job.drop("job"))
