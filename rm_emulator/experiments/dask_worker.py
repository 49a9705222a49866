"""What a Dask worker does for a run: each of its threads has a process for calls, and returns results and their files.

The worker itself loads neither engine nor plug-ins. It therefore answers its scheduler while a call computes, serves
runs with different plug-ins one after the other, and loses a call's process without being lost itself. All files a
call reads are looked up by content: at the path of the run's own machine, then in the worker's store.
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

from rm_emulator.experiments.process import CallProcess
from rm_emulator.experiments.status import Status
from rm_emulator.files import sha256_of
from rm_emulator.program import cause

#: Topic of all events, of every run.
TOPIC: Final = "rm-emulator"
#: Between two reports of a call's progress; and between two looks at whether the call is still wanted.
_EVERY_S: Final = 1.0
#: States of a worker that has nobody left to report to.
_ENDING: Final = (WorkerStatus.closing, WorkerStatus.closed, WorkerStatus.failed)


class RunOrder(msgspec.Struct, frozen=True):
    """What all calls of a run have in common."""

    id: str
    """Of events."""
    program: dict[str, str]
    """As of `metadata.program`: what a call's process has to be."""
    inputs: dict[str, str]
    """The files and folders that calls read, by path on the run's own machine, with the hash of their contents."""
    packages: list[str]
    """Packages in `program` beyond the program's requirements."""


class CallOutcome(msgspec.Struct, frozen=True):
    """What became of a call at a worker."""

    kind: Literal["ready", "finished", "failed", "died", "lost", "lacks", "differs"]
    worker: str
    """Name of the machine, and address of the worker."""
    address: str = ""
    result: bytes = b""
    """finished: as packed by `call.compute`."""
    files: dict[str, bytes] = {}
    """finished: the files of the call's folder."""
    why: str = ""
    """failed, died (the process), lost (the worker): the cause in a sentence; differs: the differences."""
    traceback: str = ""
    status: Status | None = None
    """The last progress of a call that has ended."""
    lacks: list[str] = []
    """lacks: hashes of the inputs that are neither at their path nor in the store."""


def files_of(path: Path) -> list[Path]:
    """A file, or all files in a folder."""
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def digest_of(path: Path) -> str:
    """Hash of a file or of a folder, with its name and all names in it."""
    lines = [f"{sha256_of(file)} {file.relative_to(path.parent).as_posix()}\n" for file in files_of(path)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


async def greet(order: RunOrder, dask_worker: Worker) -> CallOutcome:
    """Start a process, and say whether the worker can compute the run's calls."""
    return await asyncio.to_thread(_greeting, order, dask_worker)


def _greeting(order: RunOrder, worker: Worker) -> CallOutcome:
    found = _ready(order, worker)
    if isinstance(found, CallOutcome):
        return found
    _put_back(found)
    return CallOutcome("ready", _name(worker), worker.address)


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


def compute(order: RunOrder, number: int, call: bytes) -> CallOutcome:
    """Compute a packed call. number: of the call in events."""
    worker = get_worker()
    where, key = _name(worker), worker.get_current_task()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return worker.status not in _ENDING and task is not None and task.state != "cancelled"

    try:
        found = _ready(order, worker)
        if isinstance(found, CallOutcome):
            return found
        with TemporaryDirectory(dir=worker.local_directory) as folder:
            found.process.assign(number, call, Path(folder), found.moved)
            ended = _outcome(found.process, lambda **event: _tell(worker, order, number, event), wanted)
            if ended.kind != "died":
                _put_back(found)
            paths = Path(folder).iterdir() if ended.kind == "finished" else ()
            files = {path.name: path.read_bytes() for path in paths}
        return msgspec.structs.replace(ended, worker=where, address=worker.address, files=files)
    except OSError as error:
        return CallOutcome(
            "failed", where, worker.address, why=f"{cause(error)} on {where}", traceback=traceback.format_exc()
        )


def _outcome(process: CallProcess, tell: Callable[..., None], wanted: Callable[[], bool]) -> CallOutcome:
    """Wait for the end of a call. Nothing is told of the first second, since an end says as much."""
    told, last = time.monotonic(), None
    while True:
        if process.pipe.poll(min(process.watch.left_s, _EVERY_S)):
            try:
                kind, *data = process.pipe.recv()
            except (EOFError, OSError):
                why = process.exit_cause()
                return CallOutcome("died", "", why=why, traceback=f"{why}\n", status=last)
            process.watch.heard()
            if kind == "finished":
                return CallOutcome("finished", "", result=data[0], status=last)
            if kind == "failed":
                return CallOutcome("failed", "", why=data[0], traceback=data[1], status=last)
            last = data[0]
            if time.monotonic() - told >= _EVERY_S:
                told = time.monotonic()
                tell(status=msgspec.structs.astuple(last))
        elif process.watch.is_due:
            tell(silent=[process.watch.reported(), process.where()])
        if not wanted():
            process.stop()
            return CallOutcome("died", "", why="nobody waits for the call any more")


def _tell(worker: Worker, order: RunOrder, number: int, event: Mapping[str, Any]) -> None:
    worker.log_event(TOPIC, {"run": order.id, "number": number, **event})


# -- processes and inputs ----------------------------------------------------------------------------


class _Started(NamedTuple):
    """A process, what it was started for, and where the inputs lie that are not at their own paths."""

    key: str
    process: CallProcess
    moved: dict[str, str]


#: Processes without a call.
_idle: list[_Started] = []
_lock: Final = Lock()


def _ready(order: RunOrder, worker: Worker) -> _Started | CallOutcome:
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
        return CallOutcome("lacks", _name(worker), worker.address, lacks=lacks)
    process, wanted = CallProcess(), order.program
    found = _program(process, order)
    differences = [
        f"{name} {found.get(name, 'is missing')} (here: {wanted.get(name, 'none')})"
        for name in sorted({*wanted, *found})
        if found.get(name) != wanted.get(name)
    ]
    if differences:
        process.stop()
        return CallOutcome("differs", _name(worker), worker.address, why=", ".join(differences))
    return _Started(key, process, moved)


def _program(process: CallProcess, order: RunOrder) -> dict[str, str]:
    """What program a new process is."""
    process.send(order.packages)
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
