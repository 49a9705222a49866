"""Waits of all jobs of a cell with their reasons, from the `Hold`s of the event log and the times of the tasks.

A job waits while some open task has no container; the reason is the last `Hold`'s. A job idles while none of its tasks
runs. A Hold appears only with news of the job, so the tables correct three reasons: a job with containers for all
tasks of open stages waits for a stage; a job with running pilots waits for them until another task of it starts; a job
waiting for an offer of a full cluster has no room. `explain` tells more of a single job, by a replay of the log; here
all jobs cost a single pass through the log.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator.results.fairness import latest_end
from rm_emulator.results.metrics import Attempts, blocks, whole_cluster
from rm_emulator.results.replay import log_blocks
from schedulers.core.decisions import Hold
from schedulers.core.events import JobSubmitted
from schedulers.core.model import Edge, Job
from schedulers.core.reasons import Reason

#: What each reason means where its numbers are not known.
MEANINGS: Final = {
    Reason.TOO_LARGE: "a task asks for more than any node has",
    Reason.NO_NODE_MATCHES: "it may use none of the nodes, by their labels and taints",
    Reason.NO_NODES: "the cluster has no node that takes containers",
    Reason.QUEUE_GONE: "its queue was removed",
    Reason.QUEUE_FULL_OF_JOBS: "its queue runs as many jobs as it may",
    Reason.USER_FULL_OF_JOBS: "its user runs as many jobs of the queue as each may",
    Reason.WAITS_FOR_ASK: "the tasks have not been asked for yet",
    Reason.WAITS_FOR_RETRY: "its scheduler has tried it in vain and waits before it tries again",
    Reason.WAITS_FOR_STAGE: "the stages before are not done",
    Reason.WAITS_FOR_PILOTS: "its pilot tasks, from which it is sized, are not done",
    Reason.QUEUE_AT_LIMIT: "its queue holds as much as it may",
    Reason.USER_AT_LIMIT: "its user holds as much of the queue as each may",
    Reason.OVER_LIMIT: "its queue or user is at a limit of the policy",
    Reason.ASSIGNED: "it waits in line at a node that is expected to end it first",
    Reason.AT_WORKERS: "it waits for slots of the workers that its scheduler has asked",
    Reason.HAS_RESERVATION: "nodes are reserved for it, on which others still run",
    Reason.RESERVED: "the room is reserved for another job",
    Reason.PLANNED_LATER: "by the plan it starts later, where that is worth more to it",
    Reason.NO_ROOM: "no node has room for a task of it",
    Reason.NO_ROOM_FOR_GANG: "there is no room for all tasks that start together",
    Reason.WAITS_FOR_LOCALITY: "it waits for a node that holds its input",
    Reason.OVER_SHARE: "others have had less than their share and go first",
    Reason.BEHIND_OTHERS: "the policy serves other jobs first",
    Reason.WAITS_FOR_THOUGHT: "its scheduler thinks, about it or about others before it",
    Reason.WAITS_FOR_OFFER: "a node has room and has not been on offer yet",
}
#: By stage and task, ms.
Times = Mapping[tuple[int, int], int]
#: A cluster of which less is free counts as full.
_FULL: Final = 0.05
#: Each with the line end before.
_EVENT: Final = b'\n{"event"'
_HOLD: Final = b'\n{"decision":"Hold"'
_SUBMITTED: Final = b'\n{"event":"JobSubmitted"'
_HOLDS: Final = {"job": pl.String(), "at_ms": pl.Int64(), "reason": pl.String()}
_STAGES: Final = {
    "job": pl.String(),
    "stage": pl.Int32(),
    "tasks": pl.Int64(),
    "parent": pl.Int32(),
    "name": pl.String(),
}


class _At(msgspec.Struct):
    """Of a fact only its time."""

    at: int


class LoggedHolds(msgspec.Struct, frozen=True):
    """Statements of a log on all jobs."""

    holds: pl.DataFrame
    """`job, at_ms, reason`, in the order of the log."""
    stages: pl.DataFrame
    """`job, stage, tasks, parent, name`, a row for each parent, a row with null for a stage without parents."""
    tied: dict[str, Job] = {}
    """Jobs with edges that are no barriers."""


def read(logs: Iterable[Path]) -> LoggedHolds:
    """Reads the logs of a cell once. Raises InvalidInput for a log without a readable end."""
    holds: list[tuple[str, int, str]] = []
    stages: list[tuple[str, int, int, int | None, str]] = []
    tied: dict[str, Job] = {}
    fact = b""
    at, hold = msgspec.json.Decoder(_At), msgspec.json.Decoder(Hold)
    submitted = msgspec.json.Decoder(JobSubmitted)
    # By search: of a million tasks few of four million lines are needed.
    for block in chain.from_iterable(map(log_blocks, logs)):
        lines = b"\n" + block
        for place in _places(lines, _SUBMITTED):
            told = submitted.decode(_line(lines, place))
            if told.again:
                continue
            job = told.job
            if any(stage.ties for stage in job.stages):
                tied[job.id] = job
            for index, stage in enumerate(job.stages):
                stages += [(job.id, index, stage.tasks, parent, stage.name) for parent in stage.above or (None,)]
        for place in _places(lines, _HOLD):
            fact = _last_fact(lines, place) or fact
            if fact:
                said = hold.decode(_line(lines, place))
                holds.append((said.job, at.decode(fact).at, said.reason.value))
        fact = _last_fact(lines, len(lines)) or fact
    return LoggedHolds(
        pl.DataFrame(holds, schema=_HOLDS, orient="row"), pl.DataFrame(stages, schema=_STAGES, orient="row"), tied
    )


def _places(lines: bytes, start: bytes) -> Iterator[int]:
    """The places of line ends before lines with this start."""
    place = lines.find(start)
    while place >= 0:
        yield place
        place = lines.find(start, place + 1)


def _line(lines: bytes, place: int) -> bytes:
    """The line behind a line end."""
    end = lines.find(b"\n", place + 1)
    return lines[place + 1 : end if end >= 0 else len(lines)]


def _last_fact(lines: bytes, place: int) -> bytes:
    """The last fact that begins before a place; empty without one."""
    found = lines.rfind(_EVENT, 0, place)
    return _line(lines, found) if found >= 0 else b""


def stretches(jobs: pl.DataFrame, tasks: Attempts, nodes: pl.DataFrame, said: LoggedHolds) -> pl.DataFrame:
    """`job, from_ms, to_ms, reason`, by job in order of time: the waits of its tasks with reasons.

    jobs, tasks, nodes: of the cell (`results.record`). Waits of an unfinished job go to the last known moment, those of
    a job that began anew come from then on.
    """
    end = pl.lit(_last(jobs, tasks, said.holds))
    pilots = bool((said.holds["reason"] == Reason.WAITS_FOR_PILOTS).any())
    columns = ("job", "stage", "granted_ms", "ended_ms", "pilot", "code", *(("task",) if said.tied else ()))
    found = [
        _merged(_waits(*_since_last_submission(some, attempts), said, end, pilots=pilots))
        for some, attempts in blocks(jobs, tasks, *columns)
    ]
    apart = pl.concat(found)
    full = (pl.col("reason") == Reason.WAITS_FOR_OFFER) & (_free_meanwhile(apart, nodes) < _FULL)
    room = pl.when(full).then(pl.lit(Reason.NO_ROOM.value)).otherwise("reason")
    return _merged(apart.with_columns(reason=room))


def _since_last_submission(jobs: pl.DataFrame, tasks: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The jobs and attempts, without the attempts of jobs before their last submission."""
    if "resubmitted_ms" not in jobs.columns:
        return jobs, tasks
    jobs = jobs.with_columns(submit_ms=pl.coalesce("resubmitted_ms", "submit_ms"))
    since = jobs.select("submit_ms", job="id")
    return jobs, tasks.join(since, on="job").filter(pl.col("granted_ms") >= pl.col("submit_ms")).drop("submit_ms")


def _waits(jobs: pl.DataFrame, tasks: pl.DataFrame, said: LoggedHolds, end: pl.Expr, *, pilots: bool) -> pl.DataFrame:
    """`job, from_ms, to_ms, reason` of some jobs. pilots: whether any job of the cell waits for pilots."""
    whole = said.stages.unique(["job", "stage"]).group_by("job").agg(left=pl.col("tasks").sum())
    plain = opened(jobs, tasks, said.stages.filter(~pl.col("job").is_in(list(said.tied))))
    facts = [
        jobs.select("submit_ms", job="id").join(whole, on="job").select("job", "left", at="submit_ms"),
        plain.drop_nulls("at").select("job", "at", ready="tasks"),
        _let_in(jobs, tasks, said.tied).select("job", "at", ready=pl.lit(1)),
        tasks.select("job", at="granted_ms", left=pl.lit(-1), ready=pl.lit(-1)),
        tasks.filter(pl.col("code") != 0).select("job", at="ended_ms", left=pl.lit(1), ready=pl.lit(1)),
        said.holds.filter(pl.col("job").is_in(jobs["id"].implode())).select("job", "reason", at="at_ms"),
        jobs.select(job="id", at=pl.coalesce("finish_ms", end)),
        _sampled(tasks if pilots else tasks.clear()),
    ]
    story = pl.concat(facts, how="diagonal_relaxed").sort("job", "at", maintain_order=True)
    sums = (pl.col(name).fill_null(0).cum_sum() for name in ("left", "ready"))
    last = pl.col("reason", "samples").forward_fill(), pl.col("at").shift(-1).alias("to")
    waits = story.with_columns(each.over("job") for each in (*sums, *last)).filter(
        (pl.col("left") > 0) & pl.col("reason").is_not_null() & (pl.col("to") > pl.col("at"))
    )
    reason = (
        pl.when(pl.col("ready") <= 0)
        .then(pl.lit(Reason.WAITS_FOR_STAGE.value))
        .when(pl.col("samples").fill_null(value=False))
        .then(pl.lit(Reason.WAITS_FOR_PILOTS.value))
        .otherwise("reason")
    )
    return waits.select("job", from_ms="at", to_ms="to", reason=reason)


def opened(
    jobs: pl.DataFrame, tasks: Attempts, stages: pl.DataFrame, tied: Mapping[str, Job] = MappingProxyType({})
) -> pl.DataFrame:
    """`job, stage, tasks, at`: when each stage opens (the last stage before is done), null for a closed stage.

    stages, tied: as of `LoggedHolds`; a stage of a tied job opens when its first task may start.
    """
    ends = tasks.lazy().filter(pl.col("code") == 0).group_by("job", "stage")
    done = ends.agg(done=pl.len(), at=pl.col("ended_ms").max()).collect(engine="streaming")
    over = done.join(stages.unique(["job", "stage"]), on=["job", "stage"]).filter(pl.col("done") >= pl.col("tasks"))
    after = stages.join(over.select("job", "at", parent="stage"), on=["job", "parent"], how="left")
    came = after.join(jobs.select("submit_ms", job="id"), on="job")
    opens = came.with_columns(at=pl.when(pl.col("parent").is_null()).then("submit_ms").otherwise("at"))
    never = pl.col("at").is_null().any()
    at = pl.when(~never).then(pl.col("at").max())
    found = opens.group_by("job", "stage").agg(pl.col("tasks").first(), at=at)
    if not tied:
        return found
    first = _let_in(jobs, tasks.lazy().collect(), tied).group_by("job", "stage").agg(first=pl.col("at").min())
    joined = found.join(first, on=["job", "stage"], how="left")
    return joined.with_columns(at=pl.coalesce("first", "at")).drop("first")


def _let_in(jobs: pl.DataFrame, tasks: pl.DataFrame, tied: Mapping[str, Job]) -> pl.DataFrame:
    """`job, stage, at`: when each task of the jobs with edges that are no barriers may start."""
    rows: list[tuple[str, int, int]] = []
    own = jobs.filter(pl.col("id").is_in(list(tied)))
    attempts = tasks.filter(pl.col("job").is_in(own["id"].implode())).partition_by("job", as_dict=True)
    for name, submitted in own.select("id", "submit_ms").iter_rows():
        grants: dict[tuple[int, int], int] = {}
        ends: dict[tuple[int, int], int] = {}
        found = attempts.get((name,), tasks.clear()).select("stage", "task", "granted_ms", "ended_ms", "code")
        for stage, task, granted, ended, code in found.iter_rows():
            grants[stage, task] = min(granted, grants.get((stage, task), granted))
            if code == 0:
                ends[stage, task] = ended
        stages = tied[name].stages
        for index, stage in enumerate(stages):
            for task in range(stage.tasks):
                times = [_met_at(edge, stages[edge.parent].tasks, task, grants, ends) for edge in stage.edges]
                if (at := max(times, default=submitted)) < math.inf:
                    rows.append((name, index, int(at)))
    return pl.DataFrame(rows, schema={"job": pl.String(), "stage": pl.Int32(), "at": pl.Int64()}, orient="row")


def _met_at(edge: Edge, tasks: int, task: int, grants: Times, ends: Times) -> float:
    """When an edge lets the task start, ms; infinity: not yet. tasks: of the parent."""
    if edge.kind == "one_to_one":
        return ends.get((edge.parent, task), math.inf)
    done = sorted(ends.get((edge.parent, other), math.inf) for other in range(tasks))
    begun = max(grants.get((edge.parent, other), math.inf) for other in range(tasks))
    return max(begun, done[(edge.least(tasks) if edge.kind == "share" else tasks) - 1])


def _sampled(tasks: pl.DataFrame) -> pl.DataFrame:
    """`job, at, samples`: begin and end of waits for running pilots, up to the first start of another task."""
    times = tasks.filter("pilot").group_by("job").agg(since=pl.col("granted_ms").max(), until=pl.col("ended_ms").max())
    later = tasks.join(times, on="job").filter(pl.col("granted_ms") > pl.col("since"))
    first = later.group_by("job").agg(pl.col("granted_ms").min())
    ends = times.join(first, on="job", how="left").with_columns(pl.min_horizontal("until", "granted_ms"))
    begin = ends.select("job", at="since", samples=pl.lit(value=True))
    return pl.concat([begin, ends.select("job", at="until", samples=pl.lit(value=False))])


def _merged(waits: pl.DataFrame) -> pl.DataFrame:
    """Joins adjacent stretches of the same reason."""
    goes_on = (pl.col("reason") == pl.col("reason").shift()) & (pl.col("from_ms") == pl.col("to_ms").shift())
    same = goes_on.over("job").fill_null(value=False)
    return (
        waits.with_columns(stretch=(~same).cum_sum())
        .group_by("stretch", maintain_order=True)
        .agg(pl.col("job", "from_ms").first(), pl.col("to_ms").last(), pl.col("reason").first())
        .drop("stretch")
    )


def idle(jobs: pl.DataFrame, tasks: Attempts) -> pl.DataFrame:
    """`job, idle_ms`: for how long nothing of a job ran between its submission and its end."""
    last = _last(jobs, tasks)
    return pl.concat(
        _idle(some, attempts, last) for some, attempts in blocks(jobs, tasks, "job", "started_ms", "ended_ms")
    )


def _idle(jobs: pl.DataFrame, tasks: pl.DataFrame, last: int) -> pl.DataFrame:
    ran = tasks.filter(pl.col("started_ms").is_not_null()).sort("job", "started_ms")
    before = pl.col("ended_ms").cum_max().shift().over("job").fill_null(0)
    alone = (pl.col("ended_ms") - pl.max_horizontal("started_ms", before)).clip(0)
    busy = ran.select("job", ran=alone).group_by("job").agg(pl.col("ran").sum())
    life = pl.coalesce("finish_ms", pl.lit(last)) - pl.col("submit_ms")
    joined = jobs.join(busy, left_on="id", right_on="job", how="left")
    return joined.select(job="id", idle_ms=(life - pl.col("ran").fill_null(0)).clip(0))


def by_reason(waits: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """`reason, ms, jobs, free`, longest first: time waited, number of waiting jobs, free part of the cluster.

    waits: as of `stretches`. free: the free fraction of the cluster, of the scarcest resource, mean over the time
    waited.
    """
    ms = pl.col("to_ms") - pl.col("from_ms")
    of_each = waits.with_columns(ms=ms, free=_free_meanwhile(waits, nodes) * ms)
    sums = of_each.group_by("reason").agg(pl.col("ms", "free").sum(), jobs=pl.col("job").n_unique())
    return sums.with_columns(pl.col("free") / pl.col("ms")).sort(["ms", "reason"], descending=[True, False])


def _free_meanwhile(waits: pl.DataFrame, nodes: pl.DataFrame) -> pl.Series:
    """The free fraction of the cluster in each stretch, of the scarcest resource."""
    whole = whole_cluster(nodes).filter(pl.col("capacity") > 0)
    left = (
        whole.group_by("start_ms", "end_ms")
        .agg(free=1 - (pl.col("held") / pl.col("capacity")).max())
        .sort("start_ms")
        .select("start_ms", "end_ms", pl.col("free").clip(0, 1))
    )
    width = (left["end_ms"] - left["start_ms"]).to_numpy()
    at = np.concatenate([[0.0], left["end_ms"].to_numpy()])
    area = np.concatenate([[0.0], np.cumsum(left["free"].to_numpy() * width)])
    since, until = waits["from_ms"].to_numpy(), waits["to_ms"].to_numpy()
    return pl.Series((np.interp(until, at, area) - np.interp(since, at, area)) / np.maximum(1, until - since))


def _last(jobs: pl.DataFrame, tasks: Attempts, holds: pl.DataFrame | None = None) -> int:
    """The last known moment (ms)."""
    times = [jobs["submit_ms"], *([] if holds is None else [holds["at_ms"]])]
    return max([latest_end(tasks) or 0, *(int(column.to_numpy().max()) for column in times if len(column))])
