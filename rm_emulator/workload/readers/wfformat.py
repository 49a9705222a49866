"""WfFormat of WfCommons: recorded scientific workflows as JSON, versions 1.4 to 1.6.

Source: wfcommons/WfFormat, wfcommons-schema.json (tags v1.4 and v1.5) and README (1.6); instances in
wfcommons/WfInstances. Up to 1.4 `workflow.tasks` holds everything about a task. From 1.5 on
`workflow.specification` holds dependencies and sizes of files, `workflow.execution` run times and machines. 1.6 adds
sums (`metrics`), which are not read.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec

from rm_emulator.workload import tables
from rm_emulator.workload.formats import Column, Contents, Trace, register
from rm_emulator.workload.model import Fixed, WorkloadJob
from rm_emulator.workload.records import MAX_MS, Log, RecordParams, entry, shown, steps
from rm_emulator.workload.tables import BadRow, one, read_bytes
from schedulers.core import keyed
from schedulers.core.errors import InvalidJob
from schedulers.core.model import Edge, Job, Stage, topological_order
from schedulers.core.resources import Vector

VERSIONS: Final = ("1.4", "1.5", "1.6")
_SUFFIXES: Final = (".json", ".json.gz")
_MAX_CORES: Final = 1_000_000
_NO_NUMBER: Final = (b"NaN", b"Infinity", b"nan", b"inf")
T = TypeVar("T")


class _NotJson(BadRow):
    """Text without JSON from a line on."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


class _Named(msgspec.Struct):
    """Author, runtime system."""

    name: str = ""


class _Head(msgspec.Struct):
    """The fields of all versions."""

    workflow: msgspec.Raw
    schemaVersion: str  # noqa: N815  # fields are called as in the format
    name: str = ""
    author: _Named = msgspec.field(default_factory=_Named)
    runtimeSystem: _Named | None = None  # noqa: N815
    wms: _Named | None = None


class _Cpu(msgspec.Struct):
    """Of a machine; `speed` and `count` up to 1.4."""

    speedInMHz: float | None = None  # noqa: N815
    coreCount: float | None = None  # noqa: N815
    speed: float | None = None
    count: float | None = None


class _Machine(msgspec.Struct):
    nodeName: str  # noqa: N815
    cpu: _Cpu = msgspec.field(default_factory=_Cpu)
    memoryInBytes: float | None = None  # noqa: N815

    @property
    def mhz(self) -> float | None:
        return self.cpu.speedInMHz if self.cpu.speed is None else self.cpu.speed

    @property
    def cores(self) -> float | None:
        return self.cpu.coreCount if self.cpu.count is None else self.cpu.count


class _File14(msgspec.Struct):
    name: str
    sizeInBytes: float  # noqa: N815
    link: str


class _Task14(msgspec.Struct):
    name: str
    runtimeInSeconds: float | None = None  # noqa: N815
    id: str = ""
    parents: list[str] = []
    children: list[str] = []
    files: list[_File14] = []
    cores: float | None = None
    memoryInBytes: float | None = None  # noqa: N815
    machine: str = ""


class _Workflow14(msgspec.Struct):
    tasks: list[_Task14]
    machines: list[_Machine] = []


class _SpecifiedTask(msgspec.Struct):
    id: str
    parents: list[str]
    children: list[str] = []
    inputFiles: list[str] = []  # noqa: N815
    outputFiles: list[str] = []  # noqa: N815


class _File(msgspec.Struct):
    id: str
    sizeInBytes: float  # noqa: N815


class _Specification(msgspec.Struct):
    tasks: list[_SpecifiedTask]
    files: list[_File] | None = None


class _ExecutedTask(msgspec.Struct):
    id: str
    runtimeInSeconds: float | None = None  # noqa: N815
    coreCount: float | None = None  # noqa: N815
    memoryInBytes: float | None = None  # noqa: N815
    machines: list[str] = []


class _Execution(msgspec.Struct):
    tasks: list[_ExecutedTask]
    machines: list[_Machine] = []


class _Workflow(msgspec.Struct):
    specification: _Specification
    execution: _Execution | None = None


class _Task(msgspec.Struct):
    """A task of either version."""

    alias: str
    wanted: _SpecifiedTask
    ran: _ExecutedTask
    spec: str
    """Place of `wanted` in the file."""
    run: str
    """Place of `ran` in the file."""
    inputs: set[str]
    outputs: dict[str, float]
    """Bytes by file."""

    def place(self, key: str, key_14: str) -> str:
        """The place of a field of `ran`; 1.4 has its own names for these fields (key_14)."""
        return f"{self.run}.{key_14 if self.run == self.spec else key}"


class _Read(msgspec.Struct):
    """A file on its way to a job; `wrong` gathers its mistakes."""

    tasks: list[_Task] = []
    machines: dict[str, _Machine] = {}
    wrong: list[BadRow] = []

    def refuse(self, message: str, place: str) -> None:
        self.wrong.append(BadRow(message, place))


@register("wfformat", source="WfCommons, WfFormat 1.4 to 1.6 (wfcommons/WfFormat, wfcommons-schema.json)")
class WfFormat:
    """Recorded scientific workflows of WfCommons, one file or a folder of them; files become data on edges.

    A file is a job, a task of the file a stage of one task. An edge carries the bytes of the parent's output files that
    the child reads; moving them takes time where the cluster has links. A dependency that only the parent or only the
    child names counts; without a file the edge carries nothing. Run times are the recorded ones, at least 1 ms. A task
    asks for `coreCount` (`cores` in 1.4) and `memoryInBytes`; for one core and no memory where the file says nothing.
    From 1.5 on, the tasks' ids join `workflow.specification` and `workflow.execution`: a workflow that never ran is
    refused. In 1.4, parents are called by name or by id. Versions up to 1.3 have other units and are refused; the
    `tools` of WfFormat migrate them.

    Files that no task of the workflow writes are on no node: `hosts` stay empty, and reading such files takes no time.
    Replicas, energy, priorities and `avgCPU` are not read. Cores and memory of the machines are counted in the notes,
    for the nodes of a scenario. Their clocks are often those of an idle moment (1,200 MHz), so run times are scaled
    with `speed_mhz` only. A file with a mistake is one row for `skip_bad_rows`. Places in messages are paths in the
    document.
    """

    columns = (
        Column("schemaVersion", ", ".join(VERSIONS), required=True),
        Column("name", "recurring name"),
        Column("runtimeSystem.name", "the program (wms.name in 1.4)"),
        Column("author.name", "user"),
        Column("workflow.specification.tasks", "id, parents, children, inputFiles, outputFiles", required=True),
        Column("workflow.specification.files", "id, sizeInBytes; without it nothing is moved"),
        Column("workflow.execution.tasks", "id, runtimeInSeconds, coreCount, memoryInBytes, machines", required=True),
        Column("workflow.execution.machines", "nodeName, cpu.speedInMHz"),
        Column("workflow.tasks", "1.4: all of the above of a task, with files and machine"),
    )

    contents = Contents.lacking(
        "gangs",
        "gpu",
        "queue",
        "dates",
        submission="All workflows arrive at time 0, or at random with `interarrival_s`.",
    )

    class Params(RecordParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Settings of the reader."""

        interarrival_s: Annotated[
            Annotated[float, msgspec.Meta(gt=0)] | None,
            msgspec.Meta(description="mean time between workflows (Poisson), s; null: all arrive at time 0"),
        ] = None
        seed: Annotated[int, msgspec.Meta(description="seed of the arrivals")] = 1
        speed_mhz: Annotated[
            Annotated[float, msgspec.Meta(gt=0)] | None,
            msgspec.Meta(
                description="clock of a node of speed 1, MHz: run times are scaled to it from the clock of the "
                "recorded machine; null: as recorded"
            ),
        ] = None

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """JSON with its version and a workflow; a folder with such a file first."""
        if path.is_dir():
            files = _files(path)
            head = tables.head(files[0]) if files else b""
        return b'"schemaVersion"' in head and b'"workflow"' in head

    @staticmethod
    def read(path: Path, options: Params) -> Trace:
        """A job per file, a stage of a single task per task."""
        files = _files(path) if path.is_dir() else [path]
        if not files:
            raise one(path, f"there is no file of WfFormat in it (names end with {' or '.join(_SUFFIXES)})")
        log = Log(path, options)
        jobs = [job for file in files if (job := _job(file, _ident(file, path), options, log)) is not None]
        assumed = (
            "workflows arrive at random" if options.interarrival_s else "workflows all arrive at time 0",
            "files that no task of the workflow writes lie nowhere: reading them takes no time",
            "avgCPU, energy, priorities and commands are not taken over",
        )
        return log.trace(_arriving(jobs, options), source="WfCommons, WfFormat", assumed=assumed)


def _files(folder: Path) -> list[Path]:
    """All files of a folder and its subfolders, sorted."""
    return sorted(file for file in folder.rglob("*.json*") if file.name.endswith(_SUFFIXES) and file.is_file())


def _ident(file: Path, path: Path) -> str:
    """The job's id: the path of its file below the given folder, without suffix."""
    inside = file.relative_to(path).as_posix() if path.is_dir() else file.name
    return inside.removesuffix(".gz").removesuffix(".json")


def _arriving(jobs: Sequence[WorkloadJob], options: WfFormat.Params) -> list[WorkloadJob]:
    """The jobs in the order of their files, the first at 0."""
    if options.interarrival_s is None or not jobs:
        return list(jobs)
    gaps = keyed.generator(options.seed, "wfformat arrivals").exponential(options.interarrival_s * 1000, len(jobs) - 1)
    times = accumulate([0.0, *gaps.tolist()])
    return [msgspec.structs.replace(job, submit_ms=round(at)) for job, at in zip(jobs, times, strict=True)]


# -- the document ---------------------------------------------------------------------------------


def _job(file: Path, ident: str, options: WfFormat.Params, log: Log) -> WorkloadJob | None:
    """The job of a file; None, with its mistakes noted, for an unreadable file. Raises TraceError for damaged files."""
    read = _Read()
    try:
        head = _decoded(read_bytes(file).removeprefix(b"\xef\xbb\xbf"), _Head)
        if head.schemaVersion not in VERSIONS:
            accepted = ", ".join(VERSIONS)
            raise BadRow(f"'{shown(head.schemaVersion)}' is not read (accepted: {accepted})", "schemaVersion")
        if head.schemaVersion == "1.4":
            _read_14(_decoded(head.workflow, _Workflow14, "workflow"), read)
        else:
            _read_15(_decoded(head.workflow, _Workflow, "workflow"), read, log)
        job = _made(read, head, ident, options, log)
    except BadRow as error:
        read.wrong.append(error)
    for wrong in read.wrong:
        log.bad.row(file, wrong.line if isinstance(wrong, _NotJson) else None, wrong)
    return None if read.wrong else job


def _decoded(data: bytes | msgspec.Raw, kind: type[T], above: str = "") -> T:
    """The document or a part of a document. Raises BadRow with the place of the mistake."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        raise BadRow(message, f"{above}{where.rstrip('`')}".lstrip(".")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(bytes(data), error) from None


def _not_json(data: bytes, error: Exception) -> _NotJson:
    """The mistake in the text. Python's json writes NaN, but JSON has no such number."""
    match = re.search(r"byte (\d+)", str(error))
    if match is None:
        return _NotJson(f"not JSON, or cut off: {error}", None)
    at = int(match[1])
    line = data.count(b"\n", 0, at) + 1
    word = next((word.decode() for word in _NO_NUMBER if data.startswith(word, at)), None)
    if word is None:
        return _NotJson(f"not JSON from here on: {error}", line)
    sign = "-" if data[at - 1 : at] == b"-" else ""
    return _NotJson(f"{sign}{word} is not a number of JSON (a finite number is needed)", line)


def _read_14(workflow: _Workflow14, read: _Read) -> None:
    """Tasks of 1.4. A task's name is its id unless several tasks have the name; parents are names or ids."""
    names = Counter(task.name for task in workflow.tasks)
    read.machines = _machines(workflow.machines, "workflow.machines", ("count", "speed"), read)
    for number, task in enumerate(workflow.tasks):
        place, ident = f"workflow.tasks[{number}]", task.name if names[task.name] == 1 else task.id or task.name
        for index, file in enumerate(task.files):
            if file.link not in ("input", "output"):
                read.refuse(f"'{shown(file.link)}' is not input or output", f"{place}.files[{index}].link")
            _amount(file.sizeInBytes, f"{place}.files[{index}].sizeInBytes", read)
        machines = [task.machine] if task.machine else []
        read.tasks.append(
            _Task(
                alias=task.id,
                wanted=_SpecifiedTask(ident, task.parents, task.children),
                ran=_ExecutedTask(ident, task.runtimeInSeconds, task.cores, task.memoryInBytes, machines),
                spec=place,
                run=place,
                inputs={file.name for file in task.files if file.link == "input"},
                outputs={file.name: file.sizeInBytes for file in task.files if file.link == "output"},
            )
        )


def _read_15(workflow: _Workflow, read: _Read, log: Log) -> None:
    """Specification and execution, joined by the tasks' ids."""
    specification, execution = workflow.specification, workflow.execution
    if execution is None:
        raise BadRow(
            "missing: a workflow that never ran has no run times (an instance is needed)", "workflow.execution"
        )
    keys = ("coreCount", "speedInMHz")
    read.machines = _machines(execution.machines, "workflow.execution.machines", keys, read)
    sizes = _sizes(specification.files, read)
    if specification.files is None:
        log.count("workflows without sizes of files, nothing is moved in them")
    runs = _runs(execution, {task.id for task in specification.tasks}, read)
    for number, task in enumerate(specification.tasks):
        place = f"workflow.specification.tasks[{number}]"
        if specification.files is not None:
            for key in ("inputFiles", "outputFiles"):
                for index, name in enumerate(getattr(task, key)):
                    if name not in sizes:
                        message = f"there is no file '{shown(name)}' in workflow.specification.files"
                        read.refuse(message, f"{place}.{key}[{index}]")
        if task.id not in runs:
            read.refuse(f"there is no task '{shown(task.id)}' in workflow.execution.tasks", f"{place}.id")
        index, run = runs.get(task.id, (0, _ExecutedTask(id=task.id, runtimeInSeconds=0)))
        outputs = {name: sizes.get(name, 0) for name in task.outputFiles}
        run_place = f"workflow.execution.tasks[{index}]"
        read.tasks.append(_Task(task.id, task, run, place, run_place, set(task.inputFiles), outputs))


def _machines(machines: Sequence[_Machine], place: str, keys: tuple[str, str], read: _Read) -> dict[str, _Machine]:
    """Machines by name. keys: the version's names of cores and clock."""
    for number, machine in enumerate(machines):
        for key, value in zip(keys, (machine.cores, machine.mhz), strict=True):
            if value is not None and not 0 < value <= MAX_MS:
                read.refuse(f"{value:g} is not accepted (above 0)", f"{place}[{number}].cpu.{key}")
    return {machine.nodeName: machine for machine in machines}


def _sizes(files: Sequence[_File] | None, read: _Read) -> dict[str, float]:
    """Bytes of each file."""
    sizes: dict[str, float] = {}
    for number, file in enumerate(files or ()):
        place = f"workflow.specification.files[{number}]"
        if file.id in sizes:
            read.refuse(f"file '{shown(file.id)}' is there already", f"{place}.id")
        _amount(file.sizeInBytes, f"{place}.sizeInBytes", read)
        sizes[file.id] = file.sizeInBytes
    return sizes


def _runs(execution: _Execution, known: set[str], read: _Read) -> dict[str, tuple[int, _ExecutedTask]]:
    """How each task ran, and where the file says so."""
    runs: dict[str, tuple[int, _ExecutedTask]] = {}
    for number, task in enumerate(execution.tasks):
        place = f"workflow.execution.tasks[{number}].id"
        if task.id in runs:
            read.refuse(f"task '{shown(task.id)}' is there already", place)
        elif task.id not in known:
            read.refuse(f"there is no task '{shown(task.id)}' in workflow.specification.tasks", place)
        runs[task.id] = number, task
    return runs


def _amount(value: float, place: str, read: _Read) -> bool:
    """Whether a value is an amount (0 to MAX_MS); other values are noted."""
    fine = 0 <= value <= MAX_MS
    if not fine:
        read.refuse(f"{value:g} is not accepted (0 to {MAX_MS:g})", place)
    return fine


# -- the job --------------------------------------------------------------------------------------


def _made(read: _Read, head: _Head, ident: str, options: WfFormat.Params, log: Log) -> WorkloadJob | None:
    """The job; None where there are mistakes. Raises BadRow."""
    if not read.tasks and not read.wrong:
        raise BadRow("there is no task in it", "workflow")
    parents = _parents(read)
    demands = [_demand(task, read) for task in read.tasks]
    times = [_ms(task, options, read, log) for task in read.tasks]
    if read.wrong:
        return None
    stages = tuple(
        Stage(name=task.wanted.id, tasks=1, demand=demand, parents=tuple(_edges(task, sorted(above), read.tasks)))
        for task, demand, above in zip(read.tasks, demands, parents, strict=True)
    )
    try:
        topological_order(stages)
    except InvalidJob as error:
        raise BadRow(shown(str(error), 120), "workflow") from None
    _note(read, parents, log)
    system = head.runtimeSystem or head.wms or _Named()
    job = Job(id=ident, stages=stages, name=head.name, user=head.author.name, app=system.name)
    return entry(job, 0, [Fixed(ms) for ms in times])


def _parents(read: _Read) -> list[set[int]]:
    """Indexes of each task's parents, as the task or its parents say."""
    known: dict[str, int] = {}
    for index, task in enumerate(read.tasks):
        ident = task.wanted.id
        if ident in known:
            read.refuse(f"task '{shown(ident)}' is there already", f"{task.spec}.id")
        known[ident] = index
    for index, task in enumerate(read.tasks):
        known.setdefault(task.alias, index)
    parents: list[set[int]] = [set() for _ in read.tasks]
    for index, task in enumerate(read.tasks):
        for key, names in (("parents", task.wanted.parents), ("children", task.wanted.children)):
            for number, name in enumerate(names):
                other = known.get(name)
                if other is None:
                    read.refuse(f"there is no task '{shown(name)}' in the workflow", f"{task.spec}.{key}[{number}]")
                elif key == "parents":
                    parents[index].add(other)
                else:
                    parents[other].add(index)
    return parents


def _edges(task: _Task, parents: Sequence[int], tasks: Sequence[_Task]) -> Iterator[int | Edge]:
    """The parents, with the bytes of their output files among the task's inputs."""
    for parent in parents:
        data = round(sum(size for file, size in tasks[parent].outputs.items() if file in task.inputs))
        yield Edge(parent=parent, data=data) if data else parent


def _note(read: _Read, parents: Sequence[set[int]], log: Log) -> None:
    """Counts transfers left out, and the machines of the tasks."""
    writers = {file: index for index, task in enumerate(read.tasks) for file in task.outputs}
    for index, task in enumerate(read.tasks):
        apart = {writers.get(file, index) for file in task.inputs} - parents[index] - {index}
        log.count("files of other tasks than parents are read by so many tasks, nothing is moved for them", bool(apart))
    for machine in read.machines.values():
        cores = "cores unknown" if machine.cores is None else f"{machine.cores:g} cores"
        memory = "memory unknown" if machine.memoryInBytes is None else f"{machine.memoryInBytes / 2**30:.0f} GiB"
        log.count(f"machines that they ran on, {cores}, {memory}")


def _demand(task: _Task, read: _Read) -> Vector:
    """Cores (1 by default) and memory (0 by default)."""
    cores, memory = 1.0 if task.ran.coreCount is None else task.ran.coreCount, task.ran.memoryInBytes or 0.0
    place = task.place("coreCount", "cores")
    if not 0 < cores <= _MAX_CORES:
        read.refuse(f"{cores:g} is not accepted (above 0, at most {_MAX_CORES:,})", place)
        return ()
    if not _amount(memory, f"{task.run}.memoryInBytes", read):
        return ()
    return steps("cpu", cores, place), steps("memory", memory, f"{task.run}.memoryInBytes")


def _ms(task: _Task, options: WfFormat.Params, read: _Read, log: Log) -> int:
    """Run time at node speed 1, at least 1 ms."""
    place, seconds = f"{task.run}.runtimeInSeconds", task.ran.runtimeInSeconds
    if seconds is None:
        read.refuse("missing (a run time in seconds is needed)", place)
        return 1
    if not 0 <= seconds <= MAX_MS / 1000:
        read.refuse(f"{seconds:g} is not accepted (0 to {MAX_MS / 1000:g} s)", place)
        return 1
    if seconds < 0.001:
        log.count("tasks of less than a millisecond, taken to last one")
    return max(1, round(seconds * 1000 * _speed(task, options, read, log)))


def _speed(task: _Task, options: WfFormat.Params, read: _Read, log: Log) -> float:
    """Speed of the task's machine, relative to a node of speed 1."""
    if read.machines:
        for name in task.ran.machines:
            if name not in read.machines:
                message = f"there is no machine '{shown(name)}' in the list of machines"
                read.refuse(message, task.place("machines", "machine"))
    if options.speed_mhz is None:
        return 1.0
    clocks = [read.machines[name].mhz for name in task.ran.machines if name in read.machines]
    known = [mhz for mhz in clocks if mhz is not None]
    if not known:
        log.count("tasks whose machine's clock is not known, run times as recorded")
        return 1.0
    return math.fsum(known) / len(known) / options.speed_mhz
