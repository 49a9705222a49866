"""Google's cluster traces of 2019 (v3): a month of eight cells, tables instance events and collection events.

Source: google/cluster-data, clusterdata_trace_format_v3.proto and "Google cluster-usage traces v3" (Wilkes, 2020); rows
as BigQuery exports them and as the buckets clusterdata_2019_CELL hold them: JSON lines, or CSV with a header line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from rm_emulator.workload.formats import Column, Contents, Trace, register
from rm_emulator.workload.records import item, shown, table
from rm_emulator.workload.tables import BadRow, head, lines
from rm_emulator.workload.task_events import EventParams, Names, TaskEvents, parts

_TYPES: Final = (
    *("SUBMIT", "QUEUE", "ENABLE", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST"),
    *("UPDATE_PENDING", "UPDATE_RUNNING"),
)
_KINDS: Final = {str(number): name for number, name in enumerate(_TYPES)} | {name: name for name in _TYPES}
_ALLOC_SET: Final = ("1", "ALLOC_SET")
_CPU: Final = ("resource_request.cpus", "resource_request_cpus", "cpus")
_NEEDED: Final = ("time", "type", "collection_id", "instance_index", _CPU)
_MEMORY: Final = ("resource_request.memory", "resource_request_memory", "memory")


class _Request(msgspec.Struct):
    cpus: float | None = None
    memory: float | None = None


class _Row(msgspec.Struct):
    """A row of either table; BigQuery writes 64-bit numbers as text."""

    time: str | int = ""
    type: str | int = "0"
    collection_id: str | int = ""
    instance_index: str | int = "0"
    collection_type: str | int | None = "0"
    user: str | None = ""
    collection_logical_name: str | None = ""
    resource_request: _Request | None = None
    start_after_collection_ids: list[str | int] | None = None


_TEXTS: Final = _Row.__struct_fields__[:7]


@register("google2019", source="google/cluster-data, clusterdata_trace_format_v3.proto")
class Google2019:
    """Google's cells of 2019, from their instance events; names from their collection events.

    Files are JSON lines, or CSV with a header line, as BigQuery exports them. Tasks are read by the rules of
    `google2011`. Alloc sets, and the jobs that a job waits for, are not read; the latter are counted.
    """

    columns = (
        Column("time", "µs; 0 before the trace, 2^63 - 1 after it", required=True),
        Column(
            "type",
            "0 submit, 3 schedule, 4 evict, 5 fail, 6 finish, 7 kill, 8 lost, or the name; others are passed over",
            required=True,
        ),
        Column("collection_id", "the job", required=True),
        Column("instance_index", "the task, from 0", required=True),
        Column("collection_type", "1, an alloc set, is left out"),
        Column(
            "resource_request.cpus",
            "fraction of the largest machine; in CSV also resource_request_cpus or cpus",
            required=True,
        ),
        Column("resource_request.memory", "likewise", required=True),
        Column("user", "of collection events"),
        Column("collection_logical_name", "of collection events: recurring name"),
    )

    contents = Contents.lacking("gangs", "gpu", "queue", "dag", "dates")
    Params = EventParams

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """A folder with instance_events, or its columns in the first line."""
        if path.is_dir():
            return any(path.glob("instance_events*"))
        first = head.partition(b"\n")[0]
        return b"collection_id" in first and b"instance_index" in first

    @staticmethod
    def read(path: Path, options: EventParams) -> Trace:
        """A file of instance events, or a folder with instance_events (and collection_events) in files or folders."""
        events = TaskEvents(path, options, _KINDS)
        for file in parts(path, "instance_events"):
            events.each(_rows(file, events, _NEEDED), lambda row: _add(row, events), file)
        names, after = _names(path, events)
        assumed = [] if names else ["users and logical names are in collection_events, which was not given"]
        if after:
            assumed.append(f"jobs that wait for other jobs, which is not taken over: {after:,}")
        trace = events.jobs(names, source="Google cluster trace v3 (2019)", assumed=assumed)
        return trace if names else trace.lacking(Google2019.contents, "recurrence", "user")


def _rows(file: Path, events: TaskEvents, needed: tuple[str | tuple[str, ...], ...]) -> Iterator[tuple[int, _Row]]:
    """(line, row) of JSON lines or of CSV; unreadable rows are noted as bad rows."""
    if head(file).lstrip()[:1] == b"{":
        for line, text in enumerate(lines(file), start=1):
            if not text.strip():
                continue
            try:
                yield line, item(msgspec.Raw(text.encode()), _Row)
            except BadRow as error:
                events.bad.row(file, line, BadRow(f"'{shown(text.strip())}': {error}", error.column))
        return
    for line, cell in table(file, needed, events.bad):
        cpu, memory = (next(filter(None, map(cell, names)), "") for names in (_CPU, _MEMORY))
        try:
            request = _Request(float(cpu), float(memory or 0)) if cpu else None
        except ValueError:
            events.bad.row(file, line, BadRow(f"'{shown(cpu)}' or '{shown(memory)}' is not a number", _CPU[0]))
            continue
        texts: dict[str, Any] = {name: cell(name) for name in _TEXTS}
        yield line, _Row(resource_request=request, **texts)


def _add(row: _Row, events: TaskEvents) -> None:
    if str(row.collection_type) in _ALLOC_SET:
        events.count("events of alloc sets, left out")
        return
    request = row.resource_request or _Request()
    events.add(
        time=str(row.time),
        kind=str(row.type),
        job=str(row.collection_id),
        index=str(row.instance_index),
        cpu="" if request.cpus is None else str(request.cpus),
        memory=str(request.memory or 0),
    )


def _names(path: Path, events: TaskEvents) -> tuple[dict[str, Names], int]:
    """Users and logical names by collection, and how many collections wait for others."""
    if not path.is_dir() or not any(path.glob("collection_events*")):
        return {}, 0
    names: dict[str, Names] = {}
    after = set()
    for file in parts(path, "collection_events"):
        for _, row in _rows(file, events, ("collection_id",)):
            names[str(row.collection_id)] = Names(row.collection_logical_name or "", row.user or "")
            if row.start_after_collection_ids:
                after.add(str(row.collection_id))
    return names, len(after)
