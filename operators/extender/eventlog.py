"""The core's log on the brain's volume: one file per term of leadership; the oldest go when space runs out."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import BinaryIO, Final, Literal

import structlog

from schedulers.core.log import Log
from schedulers.objects.memory import Piece

log = structlog.get_logger()

#: Bytes of lines kept for `cut` at most: beyond, a snapshot is as soon read.
_KEPT_BYTES: Final = 4 << 20


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
        self.log = Log(self._write, only_decisions=keep == "decisions", tell=self._keep)
        self._name, self._kept = secrets.token_hex(8), bytearray()
        self._first: int | None = 0  # lines before the kept; None: too many came

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

    def cut(self, now: int) -> Piece:
        """The lines since the last cut; none of them where there were too many. now: time of the core, ms."""
        self.log.flush()
        first, last = self._first, self.log.lines
        piece = Piece(self._name, last if first is None else first, last, now, bytes(self._kept))
        self._first, self._kept = last, bytearray()
        return piece

    def _keep(self, lines: bytes) -> None:
        if self._first is not None and len(self._kept) + len(lines) <= _KEPT_BYTES:
            self._kept += lines
        else:
            self._first, self._kept = None, bytearray()

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
