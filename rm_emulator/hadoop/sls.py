"""The files of Hadoop's scheduler load simulator (SLS, 3.3.5): jobs.json and nodes.json, runs of JSON objects.

Read as org.apache.hadoop.yarn.sls.SLSRunner and utils.SLSUtils do, but with a message for each mistake.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, starmap
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from rm_emulator.issues import Issues, TraceError
from rm_emulator.workload.tables import decoded, one, read_bytes
from schedulers.core.errors import nearest

_SPACE: Final = re.compile(r"\s*")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INT: Final = 2**31 - 1
#: Tasks of one file; `count` and `job.count` multiply what is written.
MAX_TASKS: Final = 5_000_000

_NODES_KEYS: Final = ("num.nodes", "num.racks")
_JOB_KEYS: Final = (
    "am.type",
    "am.memory-mb",
    "am.vcores",
    "job.id",
    "job.start.ms",
    "job.end.ms",
    "job.queue.name",
    "job.user",
    "job.count",
    "job.tasks",
    "yarn.sls.am.type",
)
_TASK_KEYS: Final = (
    "container.host",
    "container.start.ms",
    "container.end.ms",
    "container.duration.ms",
    "duration.ms",
    "container.priority",
    "container.type",
    "container.memory-mb",
    "container.vcores",
    "count",
)
#: Keys read by SLS and ignored by the emulator, with the values at which the key makes no difference.
_PASSED_OVER: Final[Mapping[str, tuple[object, ...]]] = {
    "job.label.expression": ("",),
    "container.execution.type": ("GUARANTEED",),
    "container.allocation.id": (),
    "container.request.delay": (0, "0"),
    "job.end.ms": (),
}


Size = tuple[int, int]


def size(mb: int | None, vcores: int | None, default: Size) -> Size:
    """(MB, vcores), with parts of `default` for None."""
    return default[0] if mb is None else mb, default[1] if vcores is None else vcores


class SlsNode(msgspec.Struct, frozen=True):
    """A node; size in MB and vcores, None: the configured size of all nodes."""

    rack: str
    name: str
    memory_mb: int | None = None
    vcores: int | None = None


class SlsTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task."""

    duration_ms: int
    """Run time."""
    host: str = ""
    """Node asked for; '' for any node."""
    rack: str = ""
    priority: int = 20
    type: str = "map"
    memory_mb: int | None = None
    """None: the configured size of all containers; likewise for vcores."""
    vcores: int | None = None


class SlsJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of maps, and of reduces after all maps. `start_ms`: submission, on the run's clock."""

    id: str
    start_ms: int
    queue: str
    user: str
    tasks: tuple[SlsTask, ...]
    am_memory_mb: int | None = None
    am_vcores: int | None = None

    def of_type(self, type_: str) -> list[SlsTask]:
        """The job's tasks of a type, in order of the file."""
        return [task for task in self.tasks if task.type == type_]


class SlsRun(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes, and jobs in order of the file."""

    nodes: tuple[SlsNode, ...]
    jobs: tuple[SlsJob, ...]
    lines: Mapping[str, int] = {}
    """First line of each job in its file."""
    notes: tuple[str, ...] = ()
    """Sentences on keys without effect."""


def read_sls(jobs: Path, nodes: Path | None = None) -> SlsRun:
    """A run from jobs.json and nodes.json; without the latter, the nodes are the hosts in the jobs.

    Raises TraceError with every mistake, each with its file, the line of its JSON object, and its key.
    """
    issues = Issues()
    reader = _Jobs(jobs, issues)
    found_nodes: list[SlsNode] = []
    try:
        reader.read()
    except TraceError as error:
        issues.include(error)
    if nodes is not None:
        try:
            found_nodes = read_nodes(nodes, issues)
        except TraceError as error:
            issues.include(error)
    issues.check()
    if not reader.jobs:
        raise one(jobs, "there is no job in it")
    return SlsRun(
        nodes=tuple(found_nodes) if nodes is not None else tuple(reader.nodes()),
        jobs=tuple(reader.jobs),
        lines=reader.lines,
        notes=tuple(reader.notes),
    )


def json_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each JSON object of a file with its first line. Raises TraceError with the line."""
    text = decoded(path, read_bytes(path))
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    at, line, counted = 0, 1, 0
    while True:
        at = _end_of(text, at)
        line += text.count("\n", counted, at)
        counted = at
        if at == len(text):
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise one(path, f"not JSON: {error.msg} (column {error.colno})", line=error.lineno) from None
        except (ValueError, RecursionError) as error:
            what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise one(path, f"not JSON: {what}", line=line) from None
        if not isinstance(value, dict):
            message = f"{_show(value)} is not accepted (expected JSON objects, one after another, not in a list)"
            raise one(path, message, line=line)
        yield line, value
        at = end


def _end_of(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def read_nodes(path: Path, issues: Issues) -> list[SlsNode]:
    """nodes.json: an object per rack. Mistakes are noted; raises TraceError for a file other than JSON."""
    known: dict[str, SlsNode] = {}
    for line, rack in json_objects(path):
        keys = _Keys(path, line, rack, issues)
        if "num.nodes" in rack:
            issues.add("num.nodes belongs into the file of jobs (expected rack and nodes)", file=path, line=line)
            continue
        keys.only(("rack", "nodes"), ())
        name = keys.name("rack")
        nodes = rack.get("nodes")
        if not isinstance(nodes, list) or not nodes:
            keys.wrong("nodes", f'{_show(nodes)} is not accepted (expected [{{"node": "node1"}}, ...])')
            continue
        for index, entry in enumerate(nodes):
            _add_node(_Keys(path, line, entry, issues, f"nodes[{index}]."), name, known)
    if not known and not issues.count:
        issues.add("there is no node in it", file=path)
    return list(known.values())


def _add_node(keys: _Keys, rack: str, known: dict[str, SlsNode]) -> None:
    if not keys.is_object():
        return
    keys.only(("node", "memory-mb", "vcores"), ())
    name = keys.name("node")
    node = SlsNode(rack, name, keys.whole("memory-mb", None), keys.whole("vcores", None))
    if name in known:
        keys.wrong("node", f"node '{name}' is there already (in rack '{known[name].rack}'); names have to differ")
    elif name:
        known[name] = node


class _Keys:
    """The keys of a JSON object, read with their mistakes."""

    def __init__(self, path: Path, line: int, data: Any, issues: Issues, prefix: str = "") -> None:
        self._path, self._line, self._issues, self._prefix = path, line, issues, prefix
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}
        self._whole = data

    def wrong(self, key: str, message: str, hint: str | None = None) -> None:
        """Note a mistake at a key."""
        self._issues.add(f"{self._prefix}{key}: {message}", file=self._path, line=self._line, hint=hint)

    def is_object(self) -> bool:
        if not isinstance(self._whole, dict):
            message = f"{self._prefix.rstrip('.')}: {_show(self._whole)} is not accepted (expected a JSON object)"
            self._issues.add(message, file=self._path, line=self._line)
        return isinstance(self._whole, dict)

    def only(self, accepted: Sequence[str], passed_over: Sequence[str]) -> None:
        """Note unknown keys; SLS ignores unknown keys in silence, so a typing mistake would go unseen."""
        for key in self.data:
            if key not in accepted and key not in passed_over:
                listed = ", ".join(accepted)
                self.wrong(key, f"unknown key (accepted: {listed})", nearest(key, [*accepted, *passed_over]))

    def whole(self, key: str, default: int | None, *, least: int = 0, most: int = _INT) -> int | None:
        """A whole number, as a number or as text. None only where the default is."""
        if key not in self.data:
            return default
        value = self.data[key]
        text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
        if not re.fullmatch(r"-?\d{1,15}", text) or not least <= int(text) <= most:
            self.wrong(key, f"{_show(value)} is not accepted (expected a whole number from {least} to {most})")
            return least if default is None else default
        return int(text)

    def text(self, key: str, default: str | None) -> str:
        """Some text; default None: the key has to be there."""
        value = self.data.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
            seen = _show(value) if key in self.data else "missing"
            self.wrong(key, f"{seen} (expected some text)")
            return default or ""
        return str(value).strip()

    def name(self, key: str) -> str:
        """A name without spaces; '' for a wrong name."""
        name = self.text(key, None).strip("/")
        if name and not _NAME.fullmatch(name):
            self.wrong(key, f"'{name}' is not accepted (expected letters, digits, '.', '_' and '-')")
            return ""
        return name


class _Jobs:
    """Reads jobs.json."""

    def __init__(self, path: Path, issues: Issues) -> None:
        self._path, self._issues = path, issues
        self.jobs: list[SlsJob] = []
        self.lines: dict[str, int] = {}
        self.passed_over: dict[str, int] = {}
        self._counted: list[tuple[int, int]] = []
        self._tasks = 0

    @property
    def notes(self) -> list[str]:
        """A sentence per key without effect."""
        return [f"{key} is passed over ({count} times)" for key, count in sorted(self.passed_over.items())]

    def nodes(self) -> Iterator[SlsNode]:
        """The nodes of a file without nodes.json, as found by SLSUtils.parseNodesFromSLSTrace."""
        counted = (
            (f"rack{index % max(1, min(racks, count))}", f"node{index}")
            for count, racks in self._counted
            for index in range(count)
        )
        asked = ((task.rack, task.host) for job in self.jobs for task in job.tasks if task.host)
        return starmap(SlsNode, dict.fromkeys((*counted, *asked)))

    def read(self) -> None:
        for line, data in json_objects(self._path):
            keys = _Keys(self._path, line, data, self._issues)
            if "num.nodes" in data:
                keys.only(_NODES_KEYS, ())
                count = keys.whole("num.nodes", 1, least=1, most=1_000_000)
                self._counted.append((count or 1, keys.whole("num.racks", 1) or 1))
            else:
                self._job(keys, line)

    def _job(self, keys: _Keys, line: int) -> None:
        keys.only(_JOB_KEYS, tuple(_PASSED_OVER))
        self._note_passed_over(keys.data)
        if "job.start.ms" not in keys.data:
            keys.wrong("job.start.ms", "missing (expected ms since the run began)")
        kind = keys.text("yarn.sls.am.type", "") or keys.text("am.type", "mapreduce")
        if kind != "mapreduce":
            keys.wrong("am.type", f"'{kind}' is not accepted (expected mapreduce)", nearest(kind, ["mapreduce"]))
        tasks = tuple(self._all_tasks(keys, line))
        copies = max(1, keys.whole("job.count", 1) or 1)
        self._count(len(tasks) * (copies - 1), line)
        identity = keys.text("job.id", f"job_{len(self.jobs)}")
        for copy in range(copies):
            name = identity if copies == 1 else f"{identity}_{copy + 1}"
            if name in self.lines:
                keys.wrong("job.id", f"'{name}' is there already, in line {self.lines[name]}")
                return
            self.lines[name] = line
            job = SlsJob(
                id=name,
                start_ms=keys.whole("job.start.ms", 0, most=10**15) or 0,
                queue=keys.text("job.queue.name", None),
                user=keys.text("job.user", "default"),
                tasks=tasks,
                am_memory_mb=keys.whole("am.memory-mb", None),
                am_vcores=keys.whole("am.vcores", None),
            )
            self.jobs.append(job)

    def _all_tasks(self, keys: _Keys, line: int) -> Iterator[SlsTask]:
        entries = keys.data.get("job.tasks")
        if not isinstance(entries, list) or not entries:
            seen = _show(entries) if "job.tasks" in keys.data else "missing"
            keys.wrong("job.tasks", f"{seen} (expected a list with at least one task)")
            return
        for index, entry in enumerate(entries):
            task = _Keys(self._path, line, entry, self._issues, f"job.tasks[{index}].")
            if task.is_object():
                count = max(1, task.whole("count", 1) or 1)
                self._count(count, line)
                yield from [self._task(task)] * count

    def _count(self, tasks: int, line: int) -> None:
        self._tasks += tasks
        if self._tasks > MAX_TASKS:
            raise one(self._path, f"more than {MAX_TASKS:,} tasks in all", line=line)

    def _task(self, keys: _Keys) -> SlsTask:
        keys.only(_TASK_KEYS, tuple(_PASSED_OVER))
        self._note_passed_over(keys.data)
        type_ = keys.text("container.type", "map")
        if type_ not in ("map", "reduce"):
            near = nearest(type_, ["map", "reduce"])
            keys.wrong("container.type", f"'{type_}' is not accepted (expected map or reduce)", near)
        rack, host = self._place(keys)
        return SlsTask(
            duration_ms=_duration(keys),
            host=host,
            rack=rack,
            priority=keys.whole("container.priority", 20) or 0,
            type=type_,
            memory_mb=keys.whole("container.memory-mb", None),
            vcores=keys.whole("container.vcores", None),
        )

    def _place(self, keys: _Keys) -> tuple[str, str]:
        if keys.data.get("container.host") is None:
            return "", ""
        text = keys.text("container.host", "")
        rack, _, host = text.strip("/").rpartition("/")
        if not rack or not all(_NAME.fullmatch(part) for part in (rack, host)):
            keys.wrong("container.host", f"'{text}' is not accepted (expected /rack/node)")
            return "", ""
        return rack, host

    def _note_passed_over(self, data: Mapping[str, Any]) -> None:
        for key, harmless in _PASSED_OVER.items():
            if key in data and harmless and data[key] not in harmless:
                self.passed_over[key] = self.passed_over.get(key, 0) + 1


def _duration(keys: _Keys) -> int:
    """SLS's own order: the two keys for a duration, then end - start. Above 0, as SLS demands."""
    for key in ("container.duration.ms", "duration.ms"):
        if key in keys.data:
            return keys.whole(key, 1, least=1) or 1
    if "container.start.ms" not in keys.data or "container.end.ms" not in keys.data:
        keys.wrong("container.duration.ms", "missing (expected it, or container.start.ms and container.end.ms)")
        return 1
    start = keys.whole("container.start.ms", 0, most=10**15) or 0
    end = keys.whole("container.end.ms", start + 1, most=10**15) or 0
    if end <= start:
        keys.wrong("container.end.ms", f"{end} is not after container.start.ms ({start}): a task takes at least 1 ms")
    return max(1, end - start)


def same_starts(jobs: Sequence[SlsJob]) -> list[list[SlsJob]]:
    """The jobs by time of submission; jobs of a group race for their ids."""
    ordered = sorted(jobs, key=lambda job: job.start_ms)
    return [list(group) for _, group in groupby(ordered, key=lambda job: job.start_ms)]


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
