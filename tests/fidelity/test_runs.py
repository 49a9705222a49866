"""Stored real runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.fidelity.runs import by_label, labels, read_curve, read_runs
from rm_emulator.hadoop.sls import SlsJob
from rm_emulator.issues import TraceError
from tests.hadoop.conftest import MakeFolder, job

HEADER = "JobID,real_start_time,real_end_time,simulate_start_time,simulate_end_time"
DATA = Path(__file__).parents[3] / "shared" / "data" / "yarn-sls"


def result(folder: Path, rows: list[tuple[str, int, int, int]], name: str = "1") -> None:
    """A run's file: (application, start ms, begun ms, ended ms)."""
    (folder / "results").mkdir(exist_ok=True)
    lines = [f"{app},{start},{start + 60000},{begun},{ended}" for app, start, begun, ended in rows]
    (folder / "results" / f"{name}.csv").write_text("\n".join([HEADER, *lines, ""]))


def said(folder: Path) -> str:
    with pytest.raises(TraceError) as raised:
        read_runs(folder)
    return str(raised.value)


def test_the_first_of_two_rows_counts(folder: MakeFolder) -> None:
    path = folder([job("x", 0)])
    result(path, [("app_1", 0, 1000, 31000), ("app_1", 0, 1000, 32000)])
    assert dict(read_runs(path)[0].seconds) == {"x": 30.0}


def test_rows_are_matched_by_their_start(folder: MakeFolder) -> None:
    path = folder([job("late", 9000), job("early", 0)])
    result(path, [("app_2", 9000, 10000, 15000), ("app_1", 0, 1000, 31000)])
    assert dict(read_runs(path)[0].seconds) == {"early": 30.0, "late": 5.0}


def test_equal_starts_are_matched_by_their_durations_in_order(folder: MakeFolder) -> None:
    path = folder([job("a"), job("b")])
    result(path, [("app_1", 0, 0, 9000), ("app_2", 0, 0, 7000)])
    assert dict(read_runs(path)[0].seconds) == {"a|b #1": 7.0, "a|b #2": 9.0}


def test_curves_are_not_runs(folder: MakeFolder) -> None:
    path = folder([job("x")])
    result(path, [("app_1", 0, 0, 9000)])
    (path / "results" / "1-allocated.csv").write_text("second,memory_mb,vcores\n0,0,0\n1,1024,1\n")
    (found,) = read_runs(path)
    assert found.memory_mb == (0.0, 1024.0)


def test_seconds_without_a_row_keep_the_last_value(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("second,memory_mb\n1,5\n3,7\n")
    assert read_curve(tmp_path / "c.csv") == (0.0, 5.0, 5.0, 7.0)


def test_a_curve_that_goes_back_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("second,memory_mb\n1,5\n1,7\n")
    with pytest.raises(TraceError, match=r"c\.csv:3: .*rising seconds"):
        read_curve(tmp_path / "c.csv")


def test_a_job_that_is_missing(folder: MakeFolder) -> None:
    path = folder([job("x"), job("y", 5000)])
    result(path, [("app_1", 0, 0, 9000)])
    assert "0 of the 1 jobs that start at 5000 ms have ended" in said(path)


def test_a_job_that_the_trace_does_not_have(folder: MakeFolder) -> None:
    path = folder([job("x")])
    result(path, [("app_1", 0, 0, 9000), ("app_2", 77, 0, 1)])
    assert "a job starts at 77 ms, which no job of the trace does" in said(path)


def test_mistakes_of_all_files_come_together(folder: MakeFolder) -> None:
    path = folder([job("x")])
    result(path, [("app_1", 0, 9000, 1)], "1")
    (path / "results" / "2.csv").write_text("JobID,real_start_time\n")
    text = said(path)
    assert "1.csv:2: the job ends at 1, before it starts at 9000" in text
    assert "2.csv:1: column simulate_start_time is missing" in text


def test_words_instead_of_numbers(folder: MakeFolder) -> None:
    path = folder([job("x")])
    result(path, [])
    (path / "results" / "1.csv").write_text(f"{HEADER}\napp_1,zero,1,2,3\n")
    assert "1.csv:2: 'app_1, zero, 2, 3' is not accepted" in said(path)


def test_no_results(folder: MakeFolder) -> None:
    assert "make real runs with --hadoop N" in said(folder())


def test_labels_of_single_jobs_are_their_ids() -> None:
    jobs = [SlsJob(id=name, start_ms=start, queue="a", user="u", tasks=()) for name, start in [("a", 0), ("b", 1)]]
    assert labels(jobs) == {0: ["a"], 1: ["b"]}


def test_too_many_durations_for_a_start() -> None:
    with pytest.raises(ValueError, match="2 of the 1 jobs"):
        by_label({0: ["a"]}, [(0, 1.0), (0, 2.0)])


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the SLS folders with real runs are not beside this repository (../shared/data/yarn-sls)"
)
@pytest.mark.parametrize("name", sorted(p.name for p in DATA.iterdir()) if DATA.is_dir() else [])
def test_real_results_are_read(name: str) -> None:
    runs = read_runs(DATA / name)
    assert len(runs) == 5
    assert all(run.memory_mb for run in runs)
    # Everything happens at ticks of the application masters, so a job takes whole seconds but for a few ms
    # (and a fifth of a second where the machine was slow).
    assert all(abs(s - round(s)) < 0.2 for run in runs for s in run.seconds.values())
