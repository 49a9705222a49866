"""What jobs waited for, from the log and the tables; held against the replay of `explain`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rm_emulator
from rm_emulator.issues import InvalidInput
from rm_emulator.results import metrics, replay, stages, waits
from rm_emulator.results.replay import logs_of
from rm_emulator.results.story import STARTING, story
from rm_emulator.results.summary import read_table
from schedulers.core.reasons import Reason


@pytest.fixture(scope="module")
def hello(tmp_path_factory) -> Path:
    """A real run of the packaged example."""
    out = tmp_path_factory.mktemp("hello") / "out"
    rm_emulator.run("hello", out=out, jobs=1)
    return out


def tables(cell: Path) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    return read_table(cell, "jobs"), read_table(cell, "tasks"), read_table(cell, "nodes")


@pytest.mark.parametrize("label", ["fifo", "fair", "sjf"])
def test_waits_and_idle_times_are_those_that_explain_tells(hello, label):
    cell = hello / "runs" / label / "1"
    jobs, tasks, nodes = tables(cell)
    found = waits.stretches(jobs, tasks, nodes, waits.read(logs_of(cell)))
    idle = dict(waits.idle(jobs, tasks).iter_rows())
    for job in jobs["id"]:
        told = story(logs_of(cell)[0], job)
        sums = found.filter(pl.col("job") == job).group_by("reason").agg((pl.col("to_ms") - pl.col("from_ms")).sum())
        reasons = {part.reason: part.ms for part in told.reasons if part.reason != STARTING}
        assert dict(sums.iter_rows()) == pytest.approx(reasons, abs=1000)
        assert idle[job] == told.waited_ms


@pytest.mark.parametrize("block", [3, 60])
def test_attempts_read_in_blocks_have_the_waits_of_all_together(hello, monkeypatch, block):
    cell = hello / "runs/fair/1"
    jobs, tasks, nodes = tables(cell)
    said = waits.read(logs_of(cell))
    stretches, idle = waits.stretches(jobs, tasks, nodes, said), waits.idle(jobs, tasks)
    lived = metrics.timed(jobs).select("tasks", "submit_ms", job="id", end_ms="finish_ms")
    opened = waits.opened(jobs, tasks, said.stages).join(
        said.stages.select("job", "stage", "name"), on=["job", "stage"]
    )
    lives = stages.lives(lived, tasks, opened)
    monkeypatch.setattr(metrics, "BLOCK", block)
    assert_frame_equal(waits.stretches(jobs, tasks.lazy(), nodes, said), stretches)
    assert_frame_equal(waits.idle(jobs, tasks.lazy()), idle, check_row_order=False)
    assert stages.lives(lived, tasks.lazy(), opened) == lives


#: Slow start behind a pipeline, with less room than the pipeline could use.
TIED = """
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: tied}
spec:
  seeds: [1]
  cluster: {nodes: [{count: 2, capacity: {cpu: 2}}], profile: events}
  policies: [{kind: fifo}]
  workload:
    kind: jobs
    jobs:
      - name: etl
        stages:
          - {name: scan, tasks: 5, demand: {cpu: 1}, duration: [4s, 9s, 6s, 5s, 7s]}
          - {name: map, tasks: 5, demand: {cpu: 1}, duration: 3s, parents: [{stage: scan, kind: one_to_one}]}
          - {name: reduce, tasks: 3, demand: {cpu: 1}, duration: 6s, parents: [{stage: map, share: 0.5}]}
"""


def test_waits_for_edges_that_are_no_barriers_are_those_that_explain_tells(tmp_path):
    (tmp_path / "tied.yaml").write_text(TIED, encoding="utf-8")
    rm_emulator.run(tmp_path / "tied.yaml", out=tmp_path / "out", jobs=1)
    cell = tmp_path / "out/runs/fifo/1"
    jobs, tasks, nodes = tables(cell)
    found = waits.stretches(jobs, tasks, nodes, waits.read(logs_of(cell)))
    told = story(logs_of(cell)[0], jobs["id"][0])
    sums = found.group_by("reason").agg((pl.col("to_ms") - pl.col("from_ms")).sum())
    assert dict(sums.iter_rows()) == {part.reason: part.ms for part in told.reasons if part.reason != STARTING}
    said = waits.read(logs_of(cell))
    opened = waits.opened(jobs, tasks, said.stages, said.tied).sort("stage")
    # The first map may start with the end of the first scan. The last begins at 11 s, when three others are over.
    assert opened["at"].to_list() == [0, 4000, 11_000]


CLUSTER = {"node": [None], "resource": ["cpu"], "capacity": [1000], "start_ms": [0], "end_ms": [1000]}
STAGES = {"job": pl.String(), "stage": pl.Int32(), "tasks": pl.Int64(), "parent": pl.Int32()}


def found(rows, *, holds, stages=None, finish=100, held=1000, **of_job):
    """(from, to, reason) of job j, submitted at 0. rows: (stage, granted, started, ended, pilot, code)."""
    names = ("stage", "granted_ms", "started_ms", "ended_ms", "pilot", "code")
    kinds = {"stage": pl.Int32(), "pilot": pl.Boolean()}
    tasks = pl.DataFrame(rows, schema=list(names), orient="row", schema_overrides=kinds).with_columns(job=pl.lit("j"))
    jobs = pl.DataFrame(
        {"id": ["j"], "submit_ms": [0], "finish_ms": [finish], **of_job}, schema_overrides={"finish_ms": pl.Int64}
    )
    listed = stages or [("j", 0, len({row[1] for row in rows}), None)]
    said = waits.LoggedHolds(
        pl.DataFrame([("j", *each) for each in holds], schema=["job", "at_ms", "reason"], orient="row"),
        pl.DataFrame(listed, schema=STAGES, orient="row"),
    )
    nodes = pl.DataFrame({**CLUSTER, "held": [float(held)]})
    return [row[1:] for row in waits.stretches(jobs, tasks, nodes, said).iter_rows()]


def test_a_job_waits_until_its_last_task_has_a_container():
    rows = [(0, 10, 12, 50, False, 0), (0, 40, 42, 100, False, 0)]
    assert found(rows, holds=[(0, "no_room")]) == [(0, 40, "no_room")]


def test_a_reason_lasts_until_the_next_one_is_said():
    rows = [(0, 40, 42, 100, False, 0)]
    said = [(0, "queue_full_of_jobs"), (15, "no_room")]
    assert found(rows, holds=said) == [(0, 15, "queue_full_of_jobs"), (15, 40, "no_room")]


def test_a_lost_attempt_makes_the_job_wait_again():
    rows = [(0, 0, 2, 30, False, -102), (0, 50, 52, 100, False, 0)]
    stages = [("j", 0, 1, None)]
    assert found(rows, holds=[(30, "behind_others")], stages=stages) == [(30, 50, "behind_others")]


def test_the_waits_of_a_job_that_began_anew_come_from_then_on():
    before = [(0, 10, 10, 30, False, 0), (0, 30, 30, 50, False, -106)]
    rows = [*before, (0, 60, 60, 80, False, 0), (0, 90, 90, 100, False, 0)]
    told = found(rows, holds=[(0, "no_room"), (50, "behind_others")], stages=[("j", 0, 2, None)], resubmitted_ms=[50])
    assert told == [(50, 90, "behind_others")]


def test_a_job_whose_open_stages_have_all_containers_waits_for_a_stage():
    rows = [(0, 10, 10, 60, False, 0), (1, 70, 70, 100, False, 0)]
    stages = [("j", 0, 1, None), ("j", 1, 1, 0)]
    told = found(rows, holds=[(0, "no_room"), (60, "waits_for_offer")], stages=stages, held=0)
    assert told == [(0, 10, "no_room"), (10, 60, "waits_for_stage"), (60, 70, "waits_for_offer")]


PILOT = [(0, 10, 10, 60, True, 0), (0, 80, 80, 100, False, 0)]


def test_a_job_of_which_only_pilots_run_waits_for_them():
    said = [(0, "waits_for_pilots"), (1, "no_room")]
    assert found(PILOT, holds=said)[-2:] == [(10, 60, "waits_for_pilots"), (60, 80, "no_room")]


def test_a_job_waits_for_its_pilots_until_another_task_starts():
    rows = [(0, 10, 10, 60, True, 0), (0, 40, 40, 90, False, 0), (0, 80, 80, 100, False, 0)]
    said = [(0, "waits_for_pilots"), (1, "no_room")]
    assert found(rows, holds=said)[-2:] == [(10, 40, "waits_for_pilots"), (40, 80, "no_room")]


def test_where_no_job_waits_for_pilots_these_do_not_count():
    assert found(PILOT, holds=[(0, "no_room")]) == [(0, 80, "no_room")]


@pytest.mark.parametrize(("held", "reason"), [(1000, "no_room"), (500, "waits_for_offer")])
def test_who_waits_for_an_offer_of_a_full_cluster_has_no_room(held, reason):
    assert found([(0, 40, 40, 100, False, 0)], holds=[(0, "waits_for_offer")], held=held) == [(0, 40, reason)]


def test_an_unfinished_job_waits_to_the_last_moment_that_is_known():
    rows = [(0, 10, 10, 70, False, 0)]
    stages = [("j", 0, 2, None)]
    assert found(rows, holds=[(0, "no_room")], stages=stages, finish=None) == [(0, 70, "no_room")]


def test_what_was_free_meanwhile_is_a_mean_over_the_time_waited():
    stretches = pl.DataFrame({"job": ["a", "b"], "from_ms": [0, 50], "to_ms": [100, 150], "reason": ["no_room"] * 2})
    rows = {"node": [None] * 2, "resource": ["cpu"] * 2, "capacity": [100] * 2, "start_ms": [0, 100]}
    nodes = pl.DataFrame({**rows, "end_ms": [100, 200], "held": [100.0, 0.0]})
    assert waits.by_reason(stretches, nodes).row(0, named=True) == {
        "reason": "no_room",
        "ms": 200,
        "free": pytest.approx(0.25),
        "jobs": 2,
    }


def test_a_log_of_decisions_alone_has_no_times(tmp_path):
    (tmp_path / "events.jsonl").write_bytes(b'{"decision":"Hold","job":"j","reason":"no_room"}\n')
    assert waits.read([tmp_path / "events.jsonl"]).holds.is_empty()


def test_a_damaged_log_is_named(tmp_path):
    (tmp_path / "events.jsonl.gz").write_bytes(gzip.compress(b'{"event":"Tick","at":0}\n' * 1000)[:-20])
    with pytest.raises(InvalidInput, match=r"events\.jsonl\.gz"):
        waits.read([tmp_path / "events.jsonl.gz"])


def test_every_reason_has_a_meaning():
    assert list(waits.MEANINGS) == list(Reason)


@pytest.mark.parametrize("size", [1, 200, 5000])
def test_what_is_read_does_not_depend_on_how_much_is_searched_at_once(hello, monkeypatch, size):
    logs = logs_of(hello / "runs/fair/1")
    whole = waits.read(logs)
    assert len(whole.holds) > 1
    monkeypatch.setattr(replay, "_BLOCK", size)
    found = waits.read(logs)
    assert_frame_equal(found.holds, whole.holds)
    assert_frame_equal(found.stages, whole.stages)


def test_holds_read_are_those_of_a_reading_line_by_line(hello):
    logs, at, found = logs_of(hello / "runs/fair/1"), None, []
    for line in replay.log_lines(logs[0]):
        said = json.loads(line)
        at = said["at"] if "event" in said else at
        if said.get("decision") == "Hold":
            found.append((said["job"], at, said["reason"]))
    assert waits.read(logs).holds.rows() == found
