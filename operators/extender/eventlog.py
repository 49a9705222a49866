"""The core's log on the brain's volume: one file per term of leadership, the oldest go when there is too much."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Literal

import structlog

from schedulers.core.log import Log

log = structlog.get_logger()


class EventLog:
    """Begins a file `events-AT.jsonl` in `directory`; `log` is what the core writes to.

    keep: `full`, `decisions`, or `hash` for no file at all. max_bytes: of all files together; when they are
    more, the oldest are deleted, and the one in use is no longer written to once it is too large by itself.
    """

    def __init__(self, directory: Path, keep: Literal["full", "decisions", "hash"], at: int, *, max_bytes: int) -> None:
        self._file: BinaryIO | None = None
        self._max_bytes, self._bytes = max_bytes, 0
        if keep != "hash":
            directory.mkdir(parents=True, exist_ok=True)
            _prune(directory, max_bytes)
            self._file = (directory / f"events-{at}.jsonl").open("xb")
        self.log = Log(self._write, only_decisions=keep == "decisions")

    def _write(self, lines: bytes) -> None:
        if self._file is None:
            return
        self._bytes += len(lines)
        if self._bytes > self._max_bytes:
            log.warning("the event log is full; it goes on with the next term", file=self._file.name)
            self._stop()
        else:
            self._file.write(lines)

    def flush(self) -> None:
        """Hand what there is to the operating system."""
        self.log.flush()
        if self._file is not None:
            self._file.flush()

    def discard(self) -> None:
        """Nothing came of it: no file is left."""
        if self._file is not None:
            Path(self._file.name).unlink(missing_ok=True)
        self._stop()

    def close(self) -> None:
        """The term is over."""
        self.flush()
        self._stop()

    def _stop(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _prune(directory: Path, max_bytes: int) -> None:
    files = sorted(directory.glob("events-*.jsonl"), key=lambda file: file.name, reverse=True)
    total = 0
    for file in files:
        total += file.stat().st_size
        if total > max_bytes:
            file.unlink(missing_ok=True)
