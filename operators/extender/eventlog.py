"""The core's log on the brain's volume: one file per term of leadership; the oldest go when space runs out."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Literal

import structlog

from schedulers.core.log import Log

log = structlog.get_logger()


class EventLog:
    """Begins a file `events-AT.jsonl` in `directory`; the core writes to `log`.

    `keep` is `full`, `decisions`, or `hash` for no file at all. All files together have at most `max_bytes`: beyond,
    the oldest are deleted, and writing to the present file stops when that file alone is too large.
    """

    def __init__(self, directory: Path, keep: Literal["full", "decisions", "hash"], at: int, *, max_bytes: int) -> None:
        self._file: BinaryIO | None = None
        self._max_bytes, self._bytes = max_bytes, 0
        if keep != "hash":
            directory.mkdir(parents=True, exist_ok=True)
            _prune(directory, max_bytes)
            # `x`: two terms never share a file, or the file would replay to neither's decisions.
            self._file = (directory / f"events-{at}.jsonl").open("xb")
        self.log = Log(self._write, only_decisions=keep == "decisions")

    def _write(self, lines: bytes) -> None:
        if self._file is None:
            return
        self._bytes += len(lines)
        if self._bytes > self._max_bytes:
            # The brain decides on without its log: a full disk must stop no pod.
            log.warning("the event log is full; it goes on with the next term", file=self._file.name)
            self._stop()
        else:
            self._file.write(lines)

    def flush(self) -> None:
        """Hand all lines to the operating system."""
        self.log.flush()
        if self._file is not None:
            self._file.flush()

    def discard(self) -> None:
        """The term never began: no file is left."""
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
    # Newest first by name, which holds the time of the term's beginning.
    files = sorted(directory.glob("events-*.jsonl"), key=lambda file: file.name, reverse=True)
    total = 0
    for file in files:
        total += file.stat().st_size
        if total > max_bytes:
            file.unlink(missing_ok=True)
