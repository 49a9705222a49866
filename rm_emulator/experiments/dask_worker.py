"""What a Dask worker does for a run: each of its threads has a process for cells, and returns the cells' files.

The worker itself loads neither engine nor plug-ins. It therefore answers its scheduler while a cell computes, serves
runs with different plug-ins one after the other, and loses a cell's process without being lost itself. All files a
cell reads are looked up by content: at the path of the run's own machine, then in the worker's store.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from threading import Lock
from typing import Any, Final, Literal, NamedTuple

import distributed
import msgspec
from distributed import Worker, get_worker
from distributed.core import Status as WorkerStatus

from rm_emulator.experiments.process import CellProcess
from rm_emulator.files import sha256_of
from rm_emulator.program import cause

#: Topic of all events, of every run.
TOPIC: Final = "rm-emulator"
#: Between two reports of a cell's progress; and between two looks at whether the cell is still wanted.
_EVERY_S: Final = 1.0
#: States of a worker that has nobody left to report to.
_ENDING: Final = (WorkerStatus.closing, WorkerStatus.closed, WorkerStatus.failed)


class RunOrder(msgspec.Struct, frozen=True):
    """What all cells of a run have in common."""

    id: str
    """Of events."""
    program: dict[str, str]
    """As of `metadata.program`: what a cell's process has to be."""
    inputs: dict[str, str]
    """The files and folders that cells read, by path on the run's own machine, with the hash of their contents."""


class CellOutcome(msgspec.Struct, frozen=True):
    """What became of a cell at a worker."""

    kind: Literal["ready", "finished", "failed", "died", "lacks", "differs"]
    worker: str
    """Name of the machine, and address of the worker."""
    address: str = ""
    files: dict[str, bytes] = {}
    """finished: the cell's files."""
    why: str = ""
    """failed, died: the cause in a sentence; differs: the differences."""
    traceback: str = ""
    lacks: list[str] = []
    """lacks: hashes of the inputs that are neither at their path nor in the store."""


def files_of(path: Path) -> list[Path]:
    """A file, or all files in a folder."""
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def digest_of(path: Path) -> str:
    """Hash of a file or of a folder, with its name and all names in it."""
    lines = [f"{sha256_of(file)} {file.relative_to(path.parent).as_posix()}\n" for file in files_of(path)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


async def greet(order: RunOrder, dask_worker: Worker) -> CellOutcome:
    """Start a process, and say whether the worker can compute the run's cells."""
    return await asyncio.to_thread(_greeting, order, dask_worker)


def _greeting(order: RunOrder, worker: Worker) -> CellOutcome:
    found = _ready(order, worker)
    if isinstance(found, CellOutcome):
        return found
    _put_back(found)
    return CellOutcome("ready", _name(worker), worker.address)


async def store(contents: Mapping[str, Mapping[str, bytes]], dask_worker: Worker) -> None:
    """Keep inputs until the worker ends. contents: files by hash of the input and by path, with the input's name."""
    for digest, files in contents.items():
        place = _store(dask_worker) / digest
        place.parent.mkdir(exist_ok=True)
        whole = Path(mkdtemp(dir=dask_worker.local_directory))
        for name, content in files.items():
            (whole / name).parent.mkdir(parents=True, exist_ok=True)
            (whole / name).write_bytes(content)
        with suppress(OSError):  # there already
            whole.rename(place)


def compute(order: RunOrder, index: int, cell: bytes) -> CellOutcome:
    """Compute a cell. index: of the cell in events. cell: fields of `Cell` as MessagePack."""
    worker = get_worker()
    where, key = _name(worker), worker.get_current_task()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return worker.status not in _ENDING and task is not None and task.state != "cancelled"

    try:
        found = _ready(order, worker)
        if isinstance(found, CellOutcome):
            return found
        process, moved = found.process, found.moved
        with TemporaryDirectory(dir=worker.local_directory) as folder:
            process.assign(index, ({**msgspec.msgpack.decode(cell), "moved": moved}, Path(folder)))
            kind, *data = _outcome(process, lambda **event: _tell(worker, order, index, event), wanted)
            if kind != "died":
                _put_back(found)
            if kind == "finished":
                files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
                return CellOutcome("finished", where, worker.address, files)
        return CellOutcome(kind, where, worker.address, why=data[0], traceback=data[1])
    except OSError as error:
        return CellOutcome(
            "failed", where, worker.address, why=f"{cause(error)} on {where}", traceback=traceback.format_exc()
        )


def _outcome(process: CellProcess, tell: Callable[..., None], wanted: Callable[[], bool]) -> tuple[Any, ...]:
    """Wait for the end of a cell: finished, failed or died, with a sentence and a traceback."""
    told = 0.0
    while True:
        if process.pipe.poll(min(process.watch.left_s, _EVERY_S)):
            try:
                kind, *data = process.pipe.recv()
            except (EOFError, OSError):
                why = process.exit_cause()
                return "died", why, f"{why}\n"
            process.watch.heard()
            if kind != "progress":
                return kind, *data
            if time.monotonic() - told >= _EVERY_S:
                told = time.monotonic()
                tell(status=msgspec.structs.astuple(data[0]))
        elif process.watch.is_due:
            tell(silent=[process.watch.reported(), process.where()])
        if not wanted():
            process.stop()
            return "died", "nobody waits for the cell any more", ""


def _tell(worker: Worker, order: RunOrder, index: int, event: Mapping[str, Any]) -> None:
    worker.log_event(TOPIC, {"run": order.id, "index": index, **event})


# -- processes and inputs ----------------------------------------------------------------------------


class _Started(NamedTuple):
    """A process, what it was started for, and where the inputs lie that are not at their own paths."""

    key: str
    process: CellProcess
    moved: dict[str, str]


#: Processes without a cell.
_idle: list[_Started] = []
_lock: Final = Lock()


def _ready(order: RunOrder, worker: Worker) -> _Started | CellOutcome:
    """An idle process of a run with the same program and inputs, else a new one; or why there is none."""
    key = msgspec.json.encode([order.program, order.inputs]).decode()
    with _lock:
        while _idle:
            started = _idle.pop()
            if started.key == key and started.process.is_alive:
                return started
            started.process.stop()
    moved, lacks = dict[str, str](), list[str]()
    for path, digest in order.inputs.items():
        kept = _store(worker) / digest / Path(path).name
        if kept.exists():
            moved[path] = str(kept)
        elif not Path(path).exists() or digest_of(Path(path)) != digest:
            lacks.append(digest)
    if lacks:
        return CellOutcome("lacks", _name(worker), worker.address, lacks=lacks)
    process, wanted = CellProcess(), order.program
    found = _program(process)
    differences = [
        f"{name} {found.get(name, 'is missing')} (here: {wanted.get(name, 'none')})"
        for name in sorted({*wanted, *found})
        if found.get(name) != wanted.get(name)
    ]
    if differences:
        process.stop()
        return CellOutcome("differs", _name(worker), worker.address, why=", ".join(differences))
    return _Started(key, process, moved)


def _program(process: CellProcess) -> dict[str, str]:
    """What program a new process is."""
    process.send(None)
    try:
        while (answer := process.pipe.recv())[0] != "program":
            process.is_ready = True
    except (EOFError, OSError):
        raise OSError(process.exit_cause()) from None
    return {**answer[1], "distributed": distributed.__version__}


def _put_back(started: _Started) -> None:
    with _lock:
        _idle.append(started)


def _store(worker: Worker) -> Path:
    return Path(worker.local_directory) / "rm-emulator-inputs"


def _name(worker: Worker) -> str:
    return f"{socket.gethostname()} {worker.address}"
