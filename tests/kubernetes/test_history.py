"""History's file: what is added is there again, in any later process, and no damage stops the brain."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from operators.extender import history as module
from operators.extender.history import MIGRATIONS, History, HistoryUnavailable
from schedulers.core.model import PastJob


def past(number: int = 0) -> PastJob:
    return PastJob(
        name=f"etl-{number % 3}",
        submitted=1_760_000_000_000 + number,
        finished=1_760_000_060_000 + number,
        stages=((4, 1500.25), (1, 60_000.0)),
        user="ada",
        app="spark",
        demand=(1000, 2048, 1),
        queue="research",
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "volume" / "history.sqlite"


def aside(file: Path) -> list[Path]:
    return sorted(file.parent.glob("*.damaged-*"))


def test_a_job_comes_back_as_it_was(file: Path) -> None:
    with closing(History(file)) as history:
        history.add(past())
    with closing(History(file)) as history:
        assert history.recent(10) == [past()]


def test_the_newest_come_back_oldest_first(file: Path) -> None:
    with closing(History(file)) as history:
        history.add(*(past(i) for i in range(10)))
        assert history.recent(3) == [past(7), past(8), past(9)]


def test_the_queue_has_a_column_of_its_own(file: Path) -> None:
    with closing(History(file)) as history:
        history.add(past())
    rows = sqlite3.connect(file).execute("SELECT queue, user, demand FROM past_job").fetchall()
    assert rows == [("research", "ada", "[1000,2048,1]")]


def test_only_the_newest_are_kept(file: Path) -> None:
    with closing(History(file, keep=5)) as history:
        for i in range(20):
            history.add(past(i))
        assert len(history) == 5
        assert history.recent(100)[0] == past(15)


def test_a_killed_process_loses_no_committed_job(file: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path\n"
        "from operators.extender.history import History\n"
        "from tests.kubernetes.test_history import past\n"
        "history = History(Path(sys.argv[1]))\n"
        "history.add(past(1)); history.add(past(2)); os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(file)], cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == -9
    with closing(History(file)) as history:
        assert history.recent(10) == [past(1), past(2)]


def test_of_jobs_added_together_all_are_remembered_or_none(file: Path) -> None:
    bad = PastJob(name=None, submitted=0, finished=0, stages=())  # type: ignore[arg-type]
    with closing(History(file)) as history:
        with pytest.raises(sqlite3.IntegrityError):
            history.add(past(1), bad, past(2))
        history.add(past(3))
        assert history.recent(10) == [past(3)]


@pytest.mark.parametrize("content", [b"not a database at all" * 500, b"SQLite format 3\x00" + bytes(5000)])
def test_a_damaged_file_is_set_aside_and_begun_anew(file: Path, content: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    with closing(History(file)) as history:
        history.add(past())
        assert history.recent(1) == [past()]
    assert [path.read_bytes() for path in aside(file)] == [content]


def test_damage_in_the_middle_is_found_at_the_start(file: Path) -> None:
    with closing(History(file)) as history:
        history.add(*(past(i) for i in range(2000)))
    content = bytearray(file.read_bytes())
    content[8192:40960] = os.urandom(32768)
    file.write_bytes(content)
    with closing(History(file)) as history:
        assert history.recent(1) == []
    assert len(aside(file)) == 1


def test_damage_while_running_costs_the_file_but_not_the_new_job(file: Path) -> None:
    with closing(History(file)) as history:
        history.add(*(past(i) for i in range(2000)))
        history._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.write_bytes(b"x" * file.stat().st_size)
        history._db.execute("PRAGMA shrink_memory")
        history.add(past(7))
        assert history.recent(10)[-1] == past(7)
    with closing(History(file)) as history:
        assert history.recent(10)[-1] == past(7)


def test_a_file_of_a_later_version_is_set_aside(file: Path) -> None:
    with closing(History(file)) as history:
        history.add(past())
        history._db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with closing(History(file)) as history:
        assert history.recent(1) == []
    assert len(aside(file)) == 1


def test_an_older_file_is_brought_up_to_date(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(History(file)) as history:
        history.add(past())
    monkeypatch.setattr(module, "MIGRATIONS", (*MIGRATIONS, "ALTER TABLE past_job ADD COLUMN cluster TEXT"))
    with closing(History(file)) as history:
        assert history.recent(1) == [past()]
        assert history._db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS) + 1,)


def test_a_migration_that_fails_leaves_the_file_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(History(file)) as history:
        history.add(past())
    half = "CREATE TABLE half (x); ALTER TABLE nothing ADD COLUMN y"
    with monkeypatch.context() as patch:
        patch.setattr(module, "MIGRATIONS", (*MIGRATIONS, half))
        with pytest.raises(HistoryUnavailable, match="nothing"):
            History(file)
    with closing(History(file)) as history:
        assert history.recent(1) == [past()]


def test_a_row_that_makes_no_sense_is_left_out(file: Path) -> None:
    with closing(History(file)) as history:
        history.add(past(1), past(2))
        with history._db:
            history._db.execute("UPDATE past_job SET stages = 'many' WHERE id = 1")
        assert history.recent(10) == [past(2)]


def test_while_somebody_holds_the_file_jobs_wait_in_memory(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOCK_WAIT_S", 0.05)
    with closing(History(file)) as history:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        history.add(past(1))
        assert history.recent(10) == [past(1)]
        other.execute("ROLLBACK")
        history.add(past(2))
    with closing(History(file)) as history:
        assert history.recent(10) == [past(1), past(2)]


def test_a_path_that_cannot_be_is_refused_with_what_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryUnavailable, match="wanted: a file in a directory that this process may write"):
        History(tmp_path / "file" / "history.sqlite")


@pytest.mark.parametrize("make", [lambda file: History(file, keep=0)])
def test_keeping_nothing_is_refused(file: Path, make: Callable[[Path], History]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        make(file)
