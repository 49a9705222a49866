"""`rm-emulator replay`: does a recorded log, played again, lead to the same decisions? And where a cell's log is."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, TextIO, cast

import yaml

from rm_emulator.files import is_odd, load_yaml
from rm_emulator.issues import InvalidInput, Issue, did_you_mean
from rm_emulator.plugins import hashes, load_plugins
from rm_emulator.program import prints_apart
from rm_emulator.results.sweep import name_one
from schedulers.core.errors import InvalidJob, InvalidParameters, UnknownName, nearest
from schedulers.core.replay import CorruptLog, IncompleteLog, LogDiffers, Replay
from schedulers.core.state import ClusterState
from schedulers.decentralised.decider import decider

#: A cell's event log, as it is called now and where it is not compressed.
_LOGS: Final = ("events.jsonl.gz", "events.jsonl")
#: Bytes of a log searched at once.
_BLOCK: Final = 1 << 20
#: That of one of several schedulers.
_OF_ONE: Final = re.compile(r"events-(.+?)\.jsonl(\.gz)?")


def main(path: Path) -> int:
    """Replay a log and print the result. Returns 0 for equal decisions, 1 at the first different decision.

    path: a log, compressed or not. Raises InvalidInput for a log without a readable end, and for a log with lost lines.
    """
    try:
        with reading(path), prints_apart():
            replay = Replay(log_lines(path), decider)
            for _ in replay:
                pass
    except LogDiffers as difference:
        show_difference(path, difference)
        return 1
    whole = "identical"
    if not _check_hash(path, replay.sha256):
        whole += f" as far as it goes ({_open_end(replay.scheduler.state)})"
    print(f"{replay.events} events, {replay.decisions} decisions, {whole}; sha256 {replay.sha256}")  # noqa: T201 (the answer)
    return 0


def log_lines(path: Path) -> Iterator[bytes]:
    """The lines of a log, each with its line end. Raises InvalidInput when the file cannot be read to its end."""
    number = 0
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, start=1):  # noqa: B007 (the message names the line)
                yield line
    except (OSError, EOFError, zlib.error) as error:
        message = f"cannot be read to its end: {getattr(error, 'strerror', None) or error}"
        raise InvalidInput([Issue(str(path), message, number + 1)]) from None


def log_blocks(path: Path) -> Iterator[bytes]:
    """The lines of a log in blocks of whole lines, for readers of few lines. Raises InvalidInput as `log_lines`."""
    try:
        with _opened(path) as file:
            while block := file.read(_BLOCK):
                yield block + file.readline()
    except (OSError, EOFError, zlib.error):
        for _ in log_lines(path):  # the message names the line
            pass
        raise


def _opened(path: Path) -> BinaryIO:
    """The lines of a compressed log (a cell's) or a plain log (the brain's); the first bytes tell the format."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if not packed:
        return path.open("rb")
    return io.BufferedReader(cast(io.RawIOBase, gzip.open(path)))  # finds lines in C, a gzip file does in Python


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns errors of a log into InvalidInput; LogDiffers passes through."""
    try:
        yield
    except CorruptLog as error:
        _, _, message = str(error).partition(": ")
        raise InvalidInput([Issue(str(path), message, error.line)]) from None
    except IncompleteLog as error:
        hint = "run the scenario with `log: full`"
        raise InvalidInput([Issue(str(path), f"cannot be replayed: {error}", hint=hint)]) from None
    except (UnknownName, InvalidParameters, InvalidJob) as error:
        hint = "give its file with --plugin FILE.py" if isinstance(error, UnknownName) else ""
        raise InvalidInput([Issue(str(path), str(error), 1, hint=hint)]) from None


def show_difference(path: Path, difference: LogDiffers, to: TextIO | None = None) -> None:
    """Print where log and replay part. to: standard output by default."""
    print(
        f"{path}:{difference.line}: the replay differs from the log here\n"
        f"  event:    {difference.fact}\n"
        f"  expected: {difference.expected or 'nothing (the log goes no further)'}\n"
        f"  got:      {difference.got or 'nothing'}",
        file=to,
    )


def _check_hash(path: Path, sha256: str) -> bool:
    """Whether the log is known to be whole: only the cell.json of its run shows lines lost at the end.

    Raises InvalidInput for lost lines.
    """
    one, cell = _OF_ONE.fullmatch(path.name), _cell(path)
    recorded = cell.get("log_sha256") if one is None else cell.get("logs", {}).get(one[1])
    if recorded is None:
        return False
    if recorded != sha256:
        message = f"is not the whole log of its run: its sha256 is {sha256}, cell.json says {recorded}"
        raise InvalidInput([Issue(str(path), message)])
    return True


def _open_end(state: ClusterState) -> str:
    """Why more may have followed."""
    left = len(state.jobs)
    jobs = f"{left} unfinished job{'' if left == 1 else 's'} at its end" if left else "no job is unfinished at its end"
    return f"no cell.json beside it says that it is whole; {jobs}"


def event_logs(target: Path, label: str | None = None, seed: int | None = None) -> list[Path]:
    """The logs for a command: `target` itself, or the logs of a cell, a log for each of its schedulers.

    label, seed: the scenario's first when None. Raises InvalidInput with the existing names.
    """
    if not target.is_dir():
        if not target.exists() and target.name == _LOGS[1]:  # as it is called unpacked
            target = target.with_name(_LOGS[0])
        if not target.exists():
            raise InvalidInput([Issue(str(target), "no such file or run directory")])
        if is_odd(target):
            raise InvalidInput([Issue(str(target), "is not a regular file: expected an event log or a run directory")])
        return [target]
    cell = cell_of(target, label, seed)
    if not (logs := logs_of(cell)):
        raise InvalidInput([Issue(str(cell), "kept no event log (run the scenario with `log: full`)")])
    return logs


def cell_of(target: Path, label: str | None = None, seed: int | None = None) -> Path:
    """The directory of a cell of a run directory; label, seed: the scenario's first when None. Raises InvalidInput."""
    labels = _names(target / "runs")
    if not labels and (axes := _spec(target).get("sweep")):
        raise InvalidInput([Issue(str(target), name_one(target, axes))])
    if not labels:
        raise InvalidInput([Issue(str(target), "is not a run directory: there are no runs in it")])
    label = _chosen(target, "label", label, labels, [str(p["label"]) for p in _spec(target).get("policies", [])])
    seeds = _names(target / "runs" / label)
    wanted = None if seed is None else str(seed)
    chosen = _chosen(target, "seed", wanted, seeds, [str(s) for s in _spec(target).get("seeds", [])])
    return target / "runs" / label / chosen


def event_log(target: Path, label: str | None = None, seed: int | None = None, job: str = "") -> Path:
    """Of `event_logs` the log with the submission of a job, else the first."""
    logs = event_logs(target, label, seed)
    return next((log for log in logs[1:] if job and _submits(log, job)), logs[0])


def _submits(log: Path, job: str) -> bool:
    wanted = json.dumps(job, ensure_ascii=False).encode()
    lines = (line for line in log_lines(log) if line.startswith(b'{"event":"JobSubmitted"') and wanted in line)
    return any(json.loads(line)["job"]["id"] == job for line in lines)


def load_plugins_of(log: Path) -> list[str]:
    """Import the plug-ins of a log's run, as listed in the neighbouring cell.json; no plug-ins without the file.

    Returns their absolute paths. Names plug-ins with changes since the run on standard error.
    Raises InvalidInput for a missing plug-in.
    """
    plugins = _cell(log).get("plugins")
    known: dict[str, str] = plugins if isinstance(plugins, dict) else {}
    for file, sha256 in known.items():
        if not Path(file).is_file():
            message = f"its run used the plug-in {file}, which is not there any more"
            raise InvalidInput([Issue(str(log), message, hint="give its file with --plugin FILE.py")])
        load_plugins([file])
        if hashes([file])[file] != sha256:
            sys.stderr.write(f"note: {file} has changed since the run\n")
    return list(known)


def _cell(log: Path) -> dict[str, Any]:
    """Contents of the cell.json beside a log, empty without the file."""
    try:
        data = json.loads((log.parent / "cell.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def logs_of(cell: Path) -> list[Path]:
    """The event logs in a cell's directory, a log for each scheduler; none for a cell without logs."""
    one = next((cell / name for name in _LOGS if (cell / name).is_file()), None)
    return [one] if one is not None else sorted(path for path in cell.glob("events-*") if _OF_ONE.fullmatch(path.name))


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*") if path.is_dir())


def _chosen(target: Path, what: str, wanted: str | None, known: list[str], order: list[str]) -> str:
    if wanted is None:
        return next((name for name in order if name in known), known[0])
    if wanted not in known:
        message = f"no {what} '{wanted}' (there are: {', '.join(known)})"
        raise InvalidInput([Issue(str(target), message, hint=did_you_mean(nearest(wanted, known)))])
    return wanted


def _spec(target: Path) -> dict[str, Any]:
    try:
        spec = load_yaml((target / "scenario.yaml").read_text("utf-8"))["spec"]
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return {}
    return spec if isinstance(spec, dict) else {}
