"""Slurm's accounting: the output of `sacct -P` (or `-p`), a line per job, array element or job step.

Source: Slurm's manual page sacct(1), job_array.html and tres.html (slurm.schedmd.com).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from rm_emulator.workload.formats import Column, Contents, Trace, register
from rm_emulator.workload.model import RunTimes, WorkloadJob
from rm_emulator.workload.records import (
    MAX_TASKS,
    Cell,
    Log,
    LogParams,
    clock,
    demand,
    entry,
    instant,
    runtimes,
    shown,
    table,
    to_ms,
    whole,
)
from rm_emulator.workload.tables import BadRow
from schedulers.core.errors import InvalidQuantity, nearest
from schedulers.core.model import Job, Stage
from schedulers.core.resources import Resources, parse_quantity

_COLUMNS: Final = (
    Column("JobID", "number; _N an element of an array, +N a part of a heterogeneous job, .STEP a step", required=True),
    Column("Submit", "date and time of submission", required=True),
    Column("State", "COMPLETED, FAILED, TIMEOUT, CANCELLED by UID, ...", required=True),
    Column("Elapsed", "run time D-HH:MM:SS, or ElapsedRaw in seconds", required=True),
    Column("AllocTRES", "allocation: cpu=8,mem=32G,node=2,gres/gpu=4; or the columns below"),
    Column("ReqTRES", "request, in the same form"),
    Column("AllocCPUS", "cores, without TRES; NCPUS and ReqCPUS work, too"),
    Column("NNodes", "number of nodes, without TRES"),
    Column("ReqMem", "memory, without TRES: 4G, 4Gc (per core), 4Gn (per node)"),
    Column("JobName", "recurring name"),
    Column("User", "user"),
    Column("Account", "account; not read unless queue=account"),
    Column("Partition", "queue, unless queue=account"),
    Column("Timelimit", "hint of the submitter"),
)
_ID: Final = re.compile(r"(\d{1,18})(?:_(?:\[[^\]]*\]|(\d{1,18}))|\+(\d{1,9}))?(\..+)?")
_GOING_ON: Final = (
    *("PENDING", "RUNNING", "SUSPENDED", "RESIZING", "CONFIGURING", "COMPLETING", "STOPPED", "SIGNALING"),
    *("STAGE_OUT", "SPECIAL_EXIT"),
)
_STATES: Final = (
    *("COMPLETED", "REQUEUED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"),
    *("BOOT_FAIL", "DEADLINE", "REVOKED", "LAUNCH_FAILED", *_GOING_ON),
)
_NEVER: Final = ("", "Unknown", "None", "N/A")
_NO_LIMIT: Final = ("", "UNLIMITED", "Partition_Limit", "INVALID", "NOT_SET")
_SIZE: Final = re.compile(r"([0-9.]+)([KMGTPE]?)([cn]?)")


class _Part(msgspec.Struct):
    """A job, an element of an array or a part of a heterogeneous job. asks: demand on each node, by resource."""

    name: str
    submit_ms: float
    ms: int
    nodes: int
    asks: tuple[tuple[str, str], ...]
    hint_ms: int | None


class _Parts(msgspec.Struct):
    """The parts of a job by name, and the facts of the whole job."""

    name: str
    user: str
    queue: str
    parts: dict[str, _Part]


@register("sacct", source="Slurm, sacct(1)")
class Sacct:
    """Jobs and arrays of Slurm, as `sacct -P` prints them.

    A job is one task per node, each with an equal share of the job's resources; the tasks start together (a gang). An
    array is one job, whose elements are tasks of a stage; an element on several nodes is a stage of its own. The parts
    of a heterogeneous job are stages. Steps (`.batch`, `.0`) are inside their job and left out. Memory is in units of
    1024; `gres/NAME` becomes the resource NAME (`gpu`). Times without a zone are UTC.

    Jobs that failed, timed out or were cancelled while they ran held their room: they run as long as they did, unless
    `only_completed`. Pending and running jobs, and jobs that ended before they started, are left out and counted by
    state. Of several rows of one job (`-D`: requeued, preempted) the last counts, with the first submission. Limits on
    the elements of an array that run at once, and reservations, are not in the log.

    Required: `JobID`, `Submit`, `State`, `Elapsed` or `ElapsedRaw`, and one of `AllocTRES`, `ReqTRES` and `AllocCPUS`
    (the latter with `NNodes` and `ReqMem`).
    """

    columns = _COLUMNS
    contents = Contents.lacking(
        dag="Dependencies between jobs are not in the log: no job waits for another job, no stage for another stage."
    )

    class Params(LogParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Settings of the reader."""

        demand: Annotated[
            Literal["alloc", "req"],
            msgspec.Meta(description="source of a job's demand: its allocation (AllocTRES) or its request (ReqTRES)"),
        ] = "alloc"
        queue: Annotated[Literal["partition", "account"], msgspec.Meta(description="column that names the queue")] = (
            "partition"
        )
        gang: Annotated[bool, msgspec.Meta(description="whether the tasks of a job (one per node) start together")] = (
            True
        )

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """A header line with '|' and JobID."""
        first = head.partition(b"\n")[0].lower()
        return b"|" in first and b"jobid" in first and b"state" in first

    @staticmethod
    def read(path: Path, options: Params) -> Trace:
        """A job is a task per node; an array is a single job, each element a task (or a stage, on several nodes)."""
        log = Log(path, options)
        cores = ("AllocTRES", "ReqTRES", "AllocCPUS", "NCPUS", "ReqCPUS")
        needed = (("JobID", "JobIDRaw"), "Submit", "State", ("Elapsed", "ElapsedRaw"), cores)
        jobs: dict[str, _Parts] = {}
        log.each(table(path, needed, log.bad, "|", quoting=False), lambda cell: _note(cell, options, jobs, log))
        names = {name for job in jobs.values() for part in job.parts.values() for name, _ in part.asks}
        resources = Resources().extended(names)
        made = log.each(((None, job) for job in jobs.items()), lambda job: _job(*job, resources, gang=options.gang))
        assumed = (
            "a job is one task per node, with an equal share of its resources each"
            + (", which start together (gang)" if options.gang else ""),
            "jobs that failed, were cancelled or timed out while they ran are taken to run as long as they did"
            if not options.only_completed
            else "only completed jobs are read",
            "dependencies between jobs, and limits on the elements of an array that run at once, are not in the log",
        )
        return log.trace(made, source="Slurm, sacct", assumed=assumed, resources=resources, epoch_ms=0)


def _note(cell: Cell, options: Sacct.Params, jobs: dict[str, _Parts], log: Log) -> None:
    """Takes a row into its job, or counts why not. Raises BadRow."""
    text = cell("JobID") or cell("JobIDRaw")
    match = _ID.fullmatch(text)
    if match is None:
        raise BadRow(f"'{shown(text)}' is not a job's id", "JobID")
    ident, element, component, step = match.groups()
    if step:
        log.count("job steps left out, they are inside their job")
        return
    state = (cell("State").split() or [""])[0].rstrip("+")
    if state not in _STATES:
        raise BadRow(f"'{shown(state)}' is not a state of Slurm's", "State", nearest(state, _STATES))
    seconds = clock(cell("ElapsedRaw") or cell("Elapsed"), "ElapsedRaw" if cell("ElapsedRaw") else "Elapsed")
    if state in _GOING_ON:
        log.count(f"jobs left out, not over when the log was made ({state})")
    elif state == "REQUEUED":
        log.count("attempts left out, the job was queued again")
    elif state != "COMPLETED" and (options.only_completed or not seconds):
        log.count(f"jobs left out, {state}" + ("" if seconds else " before they started"))
    else:
        queue = cell("Account" if options.queue == "account" else "Partition")
        name = element or (f"+{component}" if component else "run")
        part = _part(name, cell, options, seconds)
        job = jobs.setdefault(ident, _Parts(cell("JobName"), cell("User"), queue, {}))
        earlier = job.parts.get(name)
        if earlier is not None:
            log.count("attempts left out, a later row of the same job counts")
            part.submit_ms = min(part.submit_ms, earlier.submit_ms)
        job.parts[name] = part


def _part(name: str, cell: Cell, options: Sacct.Params, seconds: float) -> _Part:
    if cell("Submit") in _NEVER:
        raise BadRow("empty (when was it submitted?)", "Submit")
    nodes, asks = _asks(cell, options)
    limit = cell("Timelimit")
    return _Part(
        name=name,
        submit_ms=instant(cell("Submit"), "Submit"),
        ms=to_ms(seconds),
        nodes=nodes,
        asks=asks,
        hint_ms=None if limit in _NO_LIMIT else to_ms(clock(limit, "Timelimit")),
    )


def _asks(cell: Cell, options: Sacct.Params) -> tuple[int, tuple[tuple[str, str], ...]]:
    """The number of nodes, and the demand on each node, by resource."""
    order = ("AllocTRES", "ReqTRES") if options.demand == "alloc" else ("ReqTRES", "AllocTRES")
    column = next((name for name in order if cell(name)), "")
    asked = dict(_tres(cell(column), column)) if column else dict(_plain(cell))
    nodes = max(1, int(asked.pop("node", Fraction(1))))
    if nodes > MAX_TASKS:
        raise BadRow(f"{nodes:,} nodes (at most {MAX_TASKS:,})", column or "NNodes")
    if not any(asked.values()):
        raise BadRow("asks for nothing (no cpu, no memory)", column or "AllocCPUS")
    return nodes, tuple((name, str(float(amount / nodes))) for name, amount in sorted(asked.items()) if amount)


def _tres(text: str, column: str) -> Iterator[tuple[str, Fraction]]:
    """`cpu=8,mem=32G,node=2,gres/gpu=4,gres/gpu:a100=4` as resources; types of a gres, billing and energy are not."""
    for item in text.split(","):
        name, equals, amount = item.partition("=")
        if not equals:
            raise BadRow(f"'{shown(item)}' is not a resource such as cpu=8", column)
        if name in ("cpu", "node"):
            yield name, Fraction(whole(amount, column))
        elif name == "mem":
            yield "memory", _bytes(amount, column)
        elif name.startswith("gres/") and ":" not in name:
            yield name.removeprefix("gres/"), Fraction(whole(amount, column))


def _plain(cell: Cell) -> Iterator[tuple[str, Fraction]]:
    """The same from AllocCPUS, NNodes and ReqMem."""
    column = next((name for name in ("AllocCPUS", "NCPUS", "ReqCPUS") if cell(name) not in ("", "0")), "AllocCPUS")
    cores, nodes = whole(cell(column) or "0", column), whole(cell("NNodes") or "1", "NNodes")
    yield "cpu", Fraction(cores)
    yield "node", Fraction(nodes)
    memory = cell("ReqMem")
    if memory:
        factor = {"c": cores, "n": nodes}.get(memory[-1], 1)
        yield "memory", _bytes(memory.rstrip("cn"), "ReqMem") * factor


def _bytes(text: str, column: str) -> Fraction:
    """Slurm's sizes: K, M, G, ... are powers of 1024; a plain number is in MiB."""
    match = _SIZE.fullmatch(text)
    try:
        if match is None:
            raise InvalidQuantity(text)
        return parse_quantity(f"{match[1]}{match[2] or 'M'}i")
    except InvalidQuantity:
        raise BadRow(f"'{shown(text)}' is not an amount of memory such as 4000M", column) from None


def _job(ident: str, ran: _Parts, resources: Resources, *, gang: bool) -> WorkloadJob:
    parts = list(ran.parts.values())
    stages = tuple(_stages(parts, resources, gang=gang))
    job = Job(
        id=ident,
        stages=tuple(stage for stage, _ in stages),
        name=ran.name,
        user=ran.user,
        queue=ran.queue or "default",
    )
    return entry(job, min(part.submit_ms for part in parts), [times for _, times in stages])


def _stages(parts: Iterable[_Part], resources: Resources, *, gang: bool) -> Iterator[tuple[Stage, RunTimes]]:
    """Elements of equal demands on a node each are a stage; an element on several nodes is a stage of its own."""
    alike: dict[object, list[_Part]] = {}
    for part in parts:
        alike.setdefault(part.asks if part.nodes == 1 else part.name, []).append(part)
    for group in alike.values():
        first = group[0]
        together = first.nodes > 1
        stage = Stage(
            name=first.name if len(group) == 1 else f"{first.name}-{group[-1].name}",
            tasks=first.nodes if together else len(group),
            demand=demand(resources, dict(first.asks), "AllocTRES"),
            hint_ms=first.hint_ms,
            gang=gang and together,
        )
        yield stage, runtimes([part.ms for part in group])
