"""Names in the report: who waited, gained, lost; users; lost tasks."""

from __future__ import annotations

import shutil

import polars as pl
import pytest

import rm_emulator
from rm_emulator.results import contest, job_section, report, stages
from rm_emulator.results.chart import Cells
from rm_emulator.results.summary import read_summary


@pytest.fixture(scope="module")
def hello(tmp_path_factory):
    """A real run of the packaged example."""
    out = tmp_path_factory.mktemp("hello") / "out"
    rm_emulator.run("hello", out=out, jobs=1)
    return out


def named(out, spec=None):
    return job_section.job_section(Cells(out, read_summary(out), spec or {}))


@pytest.fixture(scope="module")
def told(hello):
    return named(hello)


def rows(told, table, label):
    return [cells for of, cells in next(each for each in told.tables if each.id == table).rows if of == label]


def test_the_job_that_is_latest_comes_first(told):
    assert [each.job for each in told.waiters["fifo"]][:2] == ["lookup-1", "lookup-2"]


def test_a_waiting_job_names_its_user_and_its_reasons(told):
    first = told.waiters["fifo"][0]
    assert "bob" in first.about
    assert first.mostly[0][1] == "no room"
    assert "no room" in first.told
    assert first.bar.startswith("linear-gradient(90deg,var(--s0) 0")


def test_the_stages_of_a_waiting_job_open_wait_and_run(told):
    life = told.lives["fifo"]["1 lookup-1"]
    (scan,) = life.stages
    assert (life.submitted, life.ended, life.left_out) == (5000, 47000, 0)
    assert scan == stages.Stage("scan", 3, 0, 35000, [31000, 42000])


def test_a_stage_opens_when_the_stage_before_is_done(told):
    read, add = told.lives["fifo"]["1 report"].stages
    assert add.opened == read.ran[-1]


def test_every_listed_job_has_its_stages_once(told):
    listed = [(label, f"1 {each.job}") for label, rows in told.waiters.items() for each in rows]
    listed += [(label, key) for label, key, _ in told.others]
    assert sorted(listed) == sorted((label, key) for label, lives in told.lives.items() for key in lives)


def test_every_job_of_the_gains_and_losses_has_a_story(told):
    (gains,) = (table for table in told.tables if table.id == "gains")
    assert len(gains.stories) == len(gains.rows)
    assert all(key in told.lives[label] for (label, _), key in zip(gains.rows, gains.stories, strict=True))


def test_on_fast_nodes_a_job_is_late_by_more_than_at_speed_1(hello, tmp_path):
    shutil.copytree(hello, tmp_path / "run")
    for path in (tmp_path / "run").rglob("nodes.parquet"):
        pl.read_parquet(path).with_columns(pl.col("speed") * 2).write_parquet(path)
    slow, fast = (named(out).waiters["fair"] for out in (hello, tmp_path / "run"))
    assert [(each[0].job, each[0].late) for each in (slow, fast)] == [("report", "39.8 s"), ("report", "83.9 s")]


def test_a_job_of_many_stages_keeps_the_longest_in_order_of_start(monkeypatch):
    monkeypatch.setattr(stages, "STAGES", 2)
    assert stages_of([(0, 0, 5), (1, 20, 90), (2, 10, 60)])[0] == (1, [[10, 60], [20, 90]])


def test_stretches_of_a_stage_are_joined_over_the_shortest_gaps(monkeypatch):
    monkeypatch.setattr(stages, "STRETCHES", 2)
    assert stages_of([(0, 0, 10), (0, 12, 20), (0, 50, 60), (0, 55, 58)])[0] == (0, [[0, 20, 50, 60]])


def test_without_a_log_nobody_knows_when_a_stage_opened():
    assert stages_of([(0, 5, 10)])[1] == [None]


def stages_of(rows):
    """(stages left out, stretches of each) of a job, and when each opened. rows: (stage, start, end) of attempts."""
    tasks = pl.DataFrame(rows, schema=["stage", "started_ms", "ended_ms"], orient="row").with_columns(
        job=pl.lit("j"), granted_ms="started_ms", code=pl.lit(0)
    )
    (life,) = stages.lives(pl.DataFrame({"job": ["j"], "submit_ms": [0], "end_ms": [100]}), tasks, None).values()
    return (life.left_out, [each.ran for each in life.stages]), [each.opened for each in life.stages]


def test_another_label_that_ran_the_job_sooner_is_named(told):
    name, jct = told.waiters["fifo"][0].sooner
    assert name == "fair"  # sjf is told the run times
    assert jct.endswith(" s")


def test_a_job_that_no_other_label_ran_sooner_has_no_advice(told):
    assert told.waiters["fair"][0].sooner is None


def test_winners_and_losers_are_named_with_both_times(told):
    gained = [cells for cells in rows(told, "gains", "fair") if cells[1] == "gained"]
    assert [cells[0] for cells in gained] == ["lookup-2", "lookup-1"]
    assert [cells[0] for cells in rows(told, "gains", "fair") if cells[1] == "lost"] == ["report"]
    assert gained[0][2] == "bob"


def test_every_user_has_a_row_per_label(told):
    assert {cells[0] for cells in rows(told, "users", "fifo")} == {"ann", "bob"}


def test_where_nothing_was_lost_there_is_no_table_of_it(told):
    assert [table.id for table in told.tables] == ["gains", "users"]


def test_lost_attempts_are_counted_by_job(hello, tmp_path):
    shutil.copytree(hello, tmp_path / "run")
    path = tmp_path / "run" / "runs" / "fifo" / "1" / "tasks.parquet"
    tasks = pl.read_parquet(path)
    first = pl.int_range(pl.len()) == 0
    tasks.with_columns(code=pl.when(first).then(-102).otherwise("code").cast(pl.Int32)).write_parquet(path)
    lost = rows(named(tmp_path / "run"), "lost", "fifo")
    assert [cells[:3] for cells in lost] == [(tasks["job"][0], "preempted", "1")]


def test_the_list_is_capped_over_all_labels(hello, monkeypatch):
    monkeypatch.setattr(job_section, "WAITERS", 3)
    monkeypatch.setattr(job_section, "_LEAST", 1)
    told = named(hello)
    assert [len(rows) for rows in told.waiters.values()] == [1, 1, 1]
    assert told.jobs["fifo"] == 3


def test_a_bar_of_many_stretches_is_joined_from_the_shortest():
    parts = [(i * 10, i * 10 + (1 if i == 3 else 10), "a" if i % 2 else "b") for i in range(30)]
    joined = job_section._joined(parts)
    assert len(joined) == job_section._STRETCHES
    assert (joined[0][0], joined[-1][1]) == (0, 300)


def test_a_run_without_logs_says_so(hello, tmp_path):
    shutil.copytree(hello, tmp_path / "run")
    for log in (tmp_path / "run").rglob("events.jsonl*"):
        log.unlink()
    text = report.render(tmp_path / "run")
    assert 'id="no-log"' in text
    assert 'id="waits"' not in text
    assert {each.told for each in named(tmp_path / "run").waiters["fifo"]} == {"not known"}
    assert named(tmp_path / "run").logs == []


def test_labels_that_are_told_the_truth_do_not_count_where_there_are_others(hello):
    assert contest.contenders(read_summary(hello)) == ["fifo", "fair"]
