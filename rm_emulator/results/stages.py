"""Stages of listed jobs over time, as the report draws them when a job is opened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import polars as pl

from rm_emulator.results.metrics import Attempts, blocks

#: Stages of one job, the longest; stretches of running in one stage, joined over the shortest gaps.
STAGES: Final = 12
STRETCHES: Final = 4


class Stage(msgspec.Struct, frozen=True, array_like=True):
    """A stage of a job; times in ms since the job's submission."""

    name: str
    tasks: int
    opened: int | None
    """When all stages before were done, None without an event log and for a stage that never opened."""
    granted: int | None
    """When the last task had a container, None while a task has none."""
    ran: list[int]
    """Start and end of each stretch in which a task ran, one after the other."""


class Life(msgspec.Struct, frozen=True, array_like=True):
    """A job with its stages in order of their first start; times in ms."""

    submitted: int
    ended: int
    """The finish, of an unfinished job the end of the run."""
    left_out: int
    """Number of further stages."""
    stages: list[Stage]


def lives(jobs: pl.DataFrame, tasks: Attempts, opened: pl.DataFrame | None) -> dict[str, Life]:
    """The lives of some jobs by id.

    jobs: `job, submit_ms, end_ms` and, for attempts in a file, `tasks`; tasks: attempts (`chart.TASK_COLUMNS`);
    opened: `Cells.stages`, None without a log.
    """
    some = blocks(jobs.rename({"job": "id"}), tasks, "job", "stage", "granted_ms", "started_ms", "ended_ms", "code")
    found: dict[str, Life] = {}
    for own, attempts in some:
        found |= _lives(own.select("submit_ms", "end_ms", job="id"), attempts, opened)
    return {job: found[job] for job in jobs["job"]}


def _lives(jobs: pl.DataFrame, tasks: pl.DataFrame, opened: pl.DataFrame | None) -> dict[str, Life]:
    jobs = jobs.select("job", "submit_ms", "end_ms")
    mine = tasks.join(jobs, on="job")
    ran = dict(_ran(mine))
    attempts = mine.group_by("job", "stage").agg(
        granted=(pl.col("granted_ms") - pl.col("submit_ms")).max(), held=(pl.col("code") == 0).sum()
    )
    if opened is None:
        known = attempts.with_columns(tasks="held", at=None, name=pl.col("stage").cast(pl.String))
    else:
        known = opened.join(jobs.select("job"), on="job").join(attempts, on=["job", "stage"], how="left")
    found: dict[str, list[Stage]] = {}
    known = known.join(jobs, on="job").with_columns(at=pl.col("at") - pl.col("submit_ms"))
    for row in known.sort("job", "stage").iter_rows(named=True):
        granted = row["granted"] if (row["held"] or 0) >= row["tasks"] else None
        stretches = ran.get((row["job"], row["stage"]), [])
        stage = Stage(row["name"] or str(row["stage"]), row["tasks"], row["at"], granted, stretches)
        found.setdefault(row["job"], []).append(stage)
    return {job: Life(came, end, *_shown(found.get(job, []))) for job, came, end in jobs.iter_rows()}


def _shown(stages: list[Stage]) -> tuple[int, list[Stage]]:
    """The number of stages left out, and the stages with the longest time from opening to end."""

    def first(stage: Stage) -> int:
        known = [*stage.ran[:1], *([] if stage.opened is None else [stage.opened])]
        return min(known, default=2**62)

    def length(stage: Stage) -> int:
        return stage.ran[-1] - first(stage) if stage.ran else 0

    longest = sorted(stages, key=length, reverse=True)[:STAGES]
    return len(stages) - len(longest), sorted(longest, key=first)


def _ran(tasks: pl.DataFrame) -> Iterator[tuple[tuple[str, int], list[int]]]:
    """Of each (job, stage) the stretches in which some task ran, at most `STRETCHES`."""
    ran = tasks.filter(pl.col("started_ms").is_not_null()).select(
        "job", "stage", start=pl.col("started_ms") - pl.col("submit_ms"), end=pl.col("ended_ms") - pl.col("submit_ms")
    )
    before = pl.col("end").cum_max().shift().over("job", "stage")
    apart = (pl.col("start") > before).fill_null(value=False).cum_sum().over("job", "stage")
    merged = (
        ran.sort("job", "stage", "start")
        .with_columns(stretch=apart)
        .group_by("job", "stage", "stretch", maintain_order=True)
        .agg(pl.col("start").min(), pl.col("end").max())
        .group_by("job", "stage", maintain_order=True)
        .agg("start", "end")
    )
    for job, stage, starts, ends in merged.iter_rows():
        gaps = sorted((starts[i + 1] - ends[i], i) for i in range(len(starts) - 1))
        kept = sorted(i for _, i in gaps[-(STRETCHES - 1) :])
        firsts, lasts = [0, *(i + 1 for i in kept)], [*kept, len(starts) - 1]
        yield (job, stage), [at for a, z in zip(firsts, lasts, strict=True) for at in (starts[a], ends[z])]
