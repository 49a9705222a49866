"""Finished jobs for predictors to learn from, in one SQLite file on the brain's volume.

The file outlives leaders and versions: migrations bring an older file up to date, a damaged file is set aside (never
deleted) and begun anew, and while the disk refuses writes the newest jobs wait in memory.
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from pathlib import Path
from typing import Final

import msgspec
import structlog

from schedulers.core.model import PastJob

log = structlog.get_logger()

#: Step i brings a file of version i to version i + 1. Steps are never changed, only appended.
MIGRATIONS: Final = (
    """
    CREATE TABLE past_job (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        user TEXT NOT NULL,
        app TEXT NOT NULL,
        queue TEXT NOT NULL,
        submitted_ms INTEGER NOT NULL,
        finished_ms INTEGER NOT NULL,
        stages TEXT NOT NULL,
        demand TEXT NOT NULL
    ) STRICT
    """,
)
#: SQLite's codes for a file other than a database, or no longer one.
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_LOCK_WAIT_S: Final = 5.0
_COLUMNS: Final = "name, user, app, queue, submitted_ms, finished_ms, stages, demand"

Row = tuple[str, str, str, str, int, int, str, str]


class HistoryUnavailable(Exception):
    """The file cannot be opened or created; the message names the file, the reason and the remedy."""


class History:
    """Jobs in the order of addition; times in ms of the wall clock.

    The newest `keep` jobs stay. One thread, one writer. Committed jobs survive the death of the process; after a loss
    of power the last may be missing, but the file is whole. Raises HistoryUnavailable.
    """

    def __init__(self, path: Path, *, keep: int = 100_000) -> None:
        if keep < 1:
            raise ValueError(f"history keeps {keep} jobs (at least 1)")
        self.path, self._keep = path, keep
        self.added = 0
        """Jobs added by this process."""
        self._unwritten: deque[Row] = deque(maxlen=keep)
        self._db = self._open()

    def add(self, *jobs: PastJob) -> None:
        """Remember finished jobs, in one transaction; the oldest beyond `keep` go.

        Raises sqlite3.IntegrityError for anything but a PastJob, and then remembers none of the jobs.
        """
        self._unwritten.extend(_row(job) for job in jobs)
        try:
            self.flush()
        except sqlite3.IntegrityError:
            # The wrong jobs were entered last, so they are the ones to leave.
            for _ in jobs:
                self._unwritten.pop()
            raise
        self.added += len(jobs)

    def flush(self) -> None:
        """Write the jobs left over from refused writes."""
        if not self._unwritten:
            return
        try:
            self._write()
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as error:
            if _is_damage(error):
                self._begin_anew(error)
                self._write()
            else:
                log.warning("history cannot be written; jobs wait in memory", jobs=len(self._unwritten), why=str(error))

    def recent(self, limit: int) -> list[PastJob]:
        """The newest `limit` jobs, the oldest of them first."""
        if limit < 1:
            return []
        newest = f"SELECT {_COLUMNS} FROM past_job ORDER BY id DESC LIMIT ?"  # noqa: S608 - constants
        try:
            rows = self._db.execute(newest, (limit,)).fetchall()
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise HistoryUnavailable(f"history file '{self.path}' cannot be read: {error}") from error
            self._begin_anew(error)
            rows = []
        # Newest first from the database, so the limit costs no scan; reversed into the order of addition.
        jobs = [_past(row) for row in (*reversed(rows), *self._unwritten)]
        return [job for job in jobs if job is not None][-limit:]

    def __len__(self) -> int:
        count: int = self._db.execute("SELECT count(*) FROM past_job").fetchone()[0]
        return count + len(self._unwritten)

    def close(self) -> None:
        """Write the rest, and close."""
        self.flush()
        self._db.close()

    # -- the file -------------------------------------------------------------------------------

    def _write(self) -> None:
        with self._db:
            self._db.executemany(
                f"INSERT INTO past_job ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constants
                self._unwritten,
            )
            self._db.execute("DELETE FROM past_job WHERE id <= (SELECT max(id) FROM past_job) - ?", (self._keep,))
        self._unwritten.clear()

    def _open(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return _opened(self.path)
        except (OSError, sqlite3.DatabaseError) as error:
            if not _is_damage(error):
                raise HistoryUnavailable(
                    f"history file '{self.path}' cannot be opened: {error} "
                    "(wanted: a file in a directory that this process may write, used by no other process)"
                ) from error
            self._set_aside(error)
        return _opened(self.path)

    def _begin_anew(self, error: Exception) -> None:
        self._db.close()
        self._set_aside(error)
        self._db = _opened(self.path)

    def _set_aside(self, error: Exception) -> None:
        """Keep the damaged file under another name, with its journal: no new file may meet an old journal."""
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns() // 1_000_000}")
        for suffix in ("", "-wal", "-shm"):
            part = self.path.with_name(self.path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        log.error(
            "the history file cannot be used: it is set aside and begun anew",
            file=str(self.path),
            kept_as=str(aside),
            why=str(error),
        )


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_LOCK_WAIT_S)
    try:
        # Write-ahead log: a commit costs no wait for the disk, and a crash of the process loses nothing.
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise _damage("quick_check finds faults")
        _migrate(db)
    except BaseException:
        db.close()
        raise
    return db


def _migrate(db: sqlite3.Connection) -> None:
    """Each step in a transaction with its version number, so that a crash between two leaves a whole file."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise _damage(f"it is of version {version}, and this program knows {len(MIGRATIONS)}")
    for number in range(version, len(MIGRATIONS)):
        db.executescript(f"BEGIN IMMEDIATE; {MIGRATIONS[number]}; PRAGMA user_version = {number + 1}; COMMIT;")


def _damage(why: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(why)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _is_damage(error: Exception) -> bool:
    """By the primary result code: the low byte of an extended one."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def _row(job: PastJob) -> Row:
    stages, demand = msgspec.json.encode(job.stages).decode(), msgspec.json.encode(job.demand).decode()
    return job.name, job.user, job.app, job.queue, job.submitted, job.finished, stages, demand


def _past(row: Row) -> PastJob | None:
    """None, with a message, for a row written by somebody else."""
    name, user, app, queue, submitted, finished, stages, demand = row
    try:
        return PastJob(
            name=name,
            submitted=submitted,
            finished=finished,
            stages=msgspec.json.decode(stages, type=tuple[tuple[int, float], ...]),
            user=user,
            app=app,
            demand=msgspec.json.decode(demand, type=tuple[int, ...]),
            queue=queue,
        )
    except msgspec.DecodeError as error:
        log.warning("a row of the history file cannot be read and is left out", job=name, why=str(error))
        return None
