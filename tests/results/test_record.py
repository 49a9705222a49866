"""The recorder: what it is told is what the files say, whatever the number of rows."""

from __future__ import annotations

import hashlib

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.engine.recording import Attempt, JobRow
from rm_emulator.files import replacing
from rm_emulator.results import record
from rm_emulator.results.record import IncompleteRecord, Recorder
from schedulers.core.model import Job, Node, Stage
from schedulers.core.policy import Planned, Stretch

NODES = (Node(id="a", capacity=(2000, 4096)), Node(id="b", capacity=(2000, 4096), speed=2.0))


def recorder_with(*spans: tuple[str, int, int], demand: tuple[int, int] = (1000, 1024)) -> Recorder:
    recorder = Recorder(NODES)
    recorder.demand("j", 0, demand)
    for index, (node, start, end) in enumerate(spans):
        recorder.task(Attempt("j", 0, index, 0, node, index, start, start, end, False, 0))
    return recorder


def held(recorder: Recorder, node: str | None, resource: str = "cpu") -> pl.DataFrame:
    where = pl.col("node").is_null() if node is None else pl.col("node") == node
    return recorder.node_rows().filter(where & (pl.col("resource") == resource))


def test_use_is_the_mean_over_each_bucket():
    recorder = recorder_with(("a", 500, 2500))
    recorder.finish(4000)
    assert held(recorder, "a")["held"].to_list() == [500.0, 1000.0, 500.0, 0.0]


def test_the_last_bucket_ends_with_the_run():
    recorder = recorder_with(("a", 0, 1500))
    recorder.finish(1500)
    assert held(recorder, "a").select("start_ms", "end_ms", "held").rows() == [(0, 1000, 1000.0), (1000, 1500, 1000.0)]


def test_the_cluster_is_the_sum_of_its_nodes():
    recorder = recorder_with(("a", 0, 1000), ("b", 0, 500))
    recorder.finish(1000)
    assert held(recorder, None).select("capacity", "held", "speed").row(0) == (4000, 1500.0, 1.5)


def test_buckets_widen_instead_of_growing_in_number():
    recorder = recorder_with(("a", 0, 10_000_000))
    recorder.finish(10_000_000)
    rows = held(recorder, "a")
    assert len(rows) <= 1000
    assert rows["end_ms"][0] > 1000


@settings(max_examples=60, deadline=None)
@given(
    spans=st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(0, 400_000)), min_size=1, max_size=30),
    order=st.randoms(use_true_random=False),
)
def test_no_held_time_is_lost_in_any_order_of_reports(spans, order):
    order.shuffle(spans)
    recorder = recorder_with(*(("a", start, start + length) for start, length in spans))
    recorder.finish(0)
    rows = held(recorder, "a")
    area = (rows["held"] * (rows["end_ms"] - rows["start_ms"])).sum()
    assert area == pytest.approx(1000 * sum(length for _, length in spans))


def test_rows_of_nodes_stay_below_the_limit_on_a_large_cluster():
    recorder = Recorder([Node(id=f"n{i}", capacity=(1000, 1024)) for i in range(10_000)])
    recorder.finish(86_400_000)
    assert len(recorder.node_rows()) <= 200_000


def test_the_files_hold_what_was_reported(tmp_path):
    recorder = recorder_with(("a", 0, 1000))
    recorder.task(Attempt("j", 0, 1, 2, "b", 7, 5, None, 9, True, 137))
    recorder.job(JobRow(id="j", submit_ms=0, tasks=2, work_ms=1000, finish_ms=1000, size_ms=1.5))
    recorder.finish(1000)
    recorder.write(tmp_path)
    last = pl.read_parquet(tmp_path / "tasks.parquet").row(1, named=True)
    assert last == {
        "job": "j", "stage": 0, "task": 1, "attempt": 2, "node": "b", "container": 7, "granted_ms": 5,
        "started_ms": None, "ended_ms": 9, "pilot": True, "code": 137, "demand_cpu": 1000, "demand_memory": 1024,
    }  # fmt: skip
    assert pl.read_parquet(tmp_path / "jobs.parquet").row(0, named=True)["size_ms"] == 1.5


def planned_rows(folder, *plans: Planned, master: bool = False) -> list[dict]:
    recorder = Recorder(NODES)
    stages = (Stage(name="map", tasks=3, demand=(1, 1)), Stage(name="am", tasks=1, demand=(1, 1), master=master))
    for made_ms, planned in enumerate(plans):
        recorder.plan(Job(id="j", stages=stages), made_ms, planned)
    recorder.finish(1)
    recorder.write(folder)
    return pl.read_parquet(folder / "plans.parquet").to_dicts()


PLAN = Planned(2, 90, 100, (50, 100), (Stretch(0, 0, 100, 150), Stretch(1, 0, 100, 100)), (0,))


def test_a_plan_has_a_row_per_stretch(tmp_path):
    assert planned_rows(tmp_path, PLAN)[0] == {
        "job": "j", "made_ms": 0, "machines": 2, "bound_ms": 90, "makespan_ms": 100, "stage": 0, "name": "map",
        "tasks": 3, "task_ms": 50, "troublesome": True, "start_ms": 0, "end_ms": 100, "running": 1.5,
    }  # fmt: skip


def test_of_two_plans_of_a_job_the_last_is_kept(tmp_path):
    rows = planned_rows(tmp_path, PLAN, Planned(1, 9, 9, (9, 9), (Stretch(1, 0, 9, 9),)))
    assert [(row["made_ms"], row["stage"], row["end_ms"]) for row in rows] == [(1, 1, 9)]


def test_an_application_master_is_in_no_plan(tmp_path):
    assert [row["name"] for row in planned_rows(tmp_path, PLAN, master=True)] == ["map"]


def test_jobs_are_in_order_of_submission(tmp_path):
    recorder = Recorder(NODES)
    for name, at in (("late", 9), ("b", 1), ("a", 1)):
        recorder.job(JobRow(id=name, submit_ms=at, tasks=1, work_ms=1))
    recorder.finish(1)
    recorder.write(tmp_path)
    assert pl.read_parquet(tmp_path / "jobs.parquet")["id"].to_list() == ["a", "b", "late"]


def test_an_empty_run_has_all_files(tmp_path):
    recorder = Recorder(NODES)
    recorder.finish(0)
    recorder.write(tmp_path)
    names = ["jobs.parquet", "nodes.parquet", "tasks.parquet", "trace.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_parts_on_disk_change_nothing(tmp_path, monkeypatch):
    def tables(folder):
        recorder = recorder_with(*(("ab"[i % 2], i, i + 50) for i in range(300)))
        recorder.finish(1000)
        recorder.write(folder)
        recorder.close()
        return [pl.read_parquet(folder / f"{name}.parquet") for name in ("tasks", "nodes")]

    whole = tables(tmp_path / "whole")
    monkeypatch.setattr(record, "CHUNK", 7)
    monkeypatch.setattr(record, "PART", 20)
    parts = tables(tmp_path / "parts")
    assert all(a.equals(b) for a, b in zip(whole, parts, strict=True))


def test_equal_runs_give_equal_bytes(fabricate, tmp_path):
    digests = []
    for name in ("x", "y"):
        fabricate.cell(tmp_path / name, "slearn", 0.3, 5, 60, 3, 2)
        files = sorted((tmp_path / name).iterdir())
        digests.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in files])
    assert digests[0] == digests[1]


def test_a_task_on_an_unknown_node_is_refused():
    with pytest.raises(IncompleteRecord, match="node 'c'"):
        recorder_with(("c", 0, 1)).finish(1)


def test_a_stage_without_a_demand_is_refused():
    recorder = Recorder(NODES)
    recorder.task(Attempt("other", 3, 0, 0, "a", 0, 0, 0, 1, False, 0))
    with pytest.raises(IncompleteRecord, match=r"\('other', 3\)"):
        recorder.finish(1)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def write_half():
        with replacing(path) as beside:
            beside.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file", "old")]
