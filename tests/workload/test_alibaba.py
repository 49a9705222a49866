"""The two Alibaba batch_task tables: facts of the real files, and what happens to rows that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rm_emulator.issues import TraceError
from rm_emulator.workload import formats
from rm_emulator.workload.formats import Trace
from rm_emulator.workload.model import Drawn, Fixed
from schedulers.core.errors import InvalidParameters

DATA = Path(__file__).parents[2] / "../shared/data"
REAL_2017 = DATA / "alibaba-2017-batch_task.csv.gz"
REAL_2018 = DATA / "alibaba-2018-dags-batch_task.csv.gz"
needs_2017 = pytest.mark.skipif(not REAL_2017.exists(), reason=f"needs the trace at {REAL_2017}")
needs_2018 = pytest.mark.skipif(not REAL_2018.exists(), reason=f"needs the trace at {REAL_2018}")


@pytest.fixture(scope="module")
def real_2017() -> Trace:
    return formats.read("alibaba2017", REAL_2017)


@pytest.fixture(scope="module")
def real_2018() -> Trace:
    return formats.read("alibaba2018", REAL_2018)


def read(name: str, folder: Path, rows: list[str], **options: Any) -> Trace:
    path = folder / "batch_task.csv"
    path.write_text("\n".join(rows) + "\n")
    return formats.read(name, path, options)


def parents(folder: Path, *names: str) -> list[tuple[int, ...]]:
    """The parents' indexes of a 2018 job with stages of these names."""
    trace = read("alibaba2018", folder, [f"{name},1,j_1,,Terminated,1,5,100,1" for name in names])
    return [stage.parents for stage in trace.workload.jobs[0].job.stages]


@needs_2017
def test_2017_has_67003_finished_stages_of_11644_jobs(real_2017: Trace) -> None:
    jobs = real_2017.workload.jobs
    assert (len(jobs), sum(len(entry.job.stages) for entry in jobs)) == (11_644, 67_003)


@needs_2017
def test_2017_has_10_2_million_finished_instances(real_2017: Trace) -> None:
    assert real_2017.workload.tasks == 10_214_262


@needs_2017
def test_2017_counts_what_is_left_out(real_2017: Trace) -> None:
    assert real_2017.notes[:4] == (
        "stages left out, status Failed: 1,126",
        "stages left out, status Running: 3,567",
        "stages left out, status Waiting: 8,847",
        "finished stages left out, no demands, tasks or times: 10",
    )


@needs_2017
def test_2017_arrivals_start_at_zero_in_order(real_2017: Trace) -> None:
    submits = [entry.submit_ms for entry in real_2017.workload.jobs]
    assert (submits[0], submits == sorted(submits)) == (0, True)


@needs_2018
def test_2018_has_3690_jobs_22409_stages_242068_instances(real_2018: Trace) -> None:
    jobs = real_2018.workload.jobs
    assert (len(jobs), sum(len(entry.job.stages) for entry in jobs), real_2018.workload.tasks) == (
        3690,
        22_409,
        242_068,
    )


@needs_2018
def test_2018_every_job_of_the_sample_is_a_dag(real_2018: Trace) -> None:
    assert all(any(stage.parents for stage in entry.job.stages) for entry in real_2018.workload.jobs)


@needs_2018
def test_2018_a_known_job(real_2018: Trace) -> None:
    entry = next(entry for entry in real_2018.workload.jobs if entry.job.id == "j_1292")
    shape = {stage.name: (stage.tasks, [entry.job.stages[p].name for p in stage.parents]) for stage in entry.job.stages}
    assert shape == {
        "J5_2_4": (25, ["R2_1", "R4_3"]),
        "R6_5": (25, ["J5_2_4"]),
        "R2_1": (1, ["M1"]),
        "M1": (1, []),
        "M3": (23, []),
        "R4_3": (23, ["M3"]),
    }


def test_2017_a_row_becomes_a_stage(tmp_path: Path) -> None:
    rows = ["100,160,7,3,20,Terminated,50,0.25", "90,91,7,4,1,Terminated,100,0.5"]
    (entry,) = read("alibaba2017", tmp_path, rows, machine_memory="64Gi").workload.jobs
    assert [(s.name, s.tasks, s.demand) for s in entry.job.stages] == [
        ("3", 20, (500, 16 * 1024)),
        ("4", 1, (1000, 32 * 1024)),
    ]
    assert entry.runtimes == (Fixed(60_000), Fixed(1000))


@pytest.mark.parametrize("header", ["", "task_create_time, task_end_time, job_id,a,b,c,d,e"])
def test_2017_with_and_without_header(tmp_path: Path, header: str) -> None:
    rows = [header] if header else []
    assert len(read("alibaba2017", tmp_path, [*rows, "1,2,7,3,1,Terminated,50,0.1"]).workload.jobs) == 1


def test_a_job_arrives_when_its_first_stage_starts(tmp_path: Path) -> None:
    rows = ["50,60,a,1,1,Terminated,50,0.1", "30,60,b,1,1,Terminated,50,0.1", "20,60,a,2,1,Terminated,50,0.1"]
    workload = read("alibaba2017", tmp_path, rows).workload
    assert [(entry.job.id, entry.submit_ms) for entry in workload.jobs] == [("a", 0), ("b", 10_000)]


def test_a_stage_within_one_second_lasts_half_of_one(tmp_path: Path) -> None:
    trace = read("alibaba2017", tmp_path, ["5,5,a,1,1,Terminated,50,0.1"])
    assert trace.workload.jobs[0].runtimes == (Fixed(500),)
    assert trace.notes[0] == "stages within one second, taken to last 500 ms: 1"


def test_a_stage_that_ends_before_it_starts_is_left_out_and_counted(tmp_path: Path) -> None:
    trace = read("alibaba2017", tmp_path, ["5,4,a,1,1,Terminated,50,0.1", "5,6,a,2,1,Terminated,50,0.1"])
    assert trace.workload.jobs[0].job.tasks == 1
    assert trace.notes[0] == "stages left out, they end before they start: 1"


def test_2018_names_hold_the_dag(tmp_path: Path) -> None:
    assert parents(tmp_path, "M1", "R2_1", "J3_1_2", "M5_3_4", "M4") == [(), (0,), (0, 1), (2, 4), ()]


def test_2018_parts_that_are_not_numbers_are_ignored(tmp_path: Path) -> None:
    assert parents(tmp_path, "M1_Stg4", "R2_1_Stg1") == [(), (0,)]


def test_2018_other_names_wait_for_nothing(tmp_path: Path) -> None:
    assert parents(tmp_path, "M1", "task_NzI4OTk0OTY1ODYyNjM4Ng==", "MergeTask", "R2_1") == [(), (), (), (0,)]


def test_2018_parents_that_are_not_there_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = ["M1,1,j,,Failed,1,5,100,1", "R2_1,1,j,,Terminated,1,5,100,1"]
    trace = read("alibaba2018", tmp_path, rows)
    assert trace.workload.jobs[0].job.stages[0].parents == ()
    assert trace.notes[-1] == "parents left out, not among their job's finished stages: 1"


def test_2018_a_cycle_is_taken_apart_and_counted(tmp_path: Path) -> None:
    rows = [f"{name},1,j,,Terminated,1,5,100,1" for name in ("M1_2", "M2_1")]
    trace = read("alibaba2018", tmp_path, rows)
    assert [stage.parents for stage in trace.workload.jobs[0].job.stages] == [(), ()]
    assert trace.notes[-1] == "jobs taken to have no order, their names form a cycle: 1"


def test_2018_rows_without_demand_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = ["M1,1,j,,Terminated,1,5,,", "M2,1,j,,Terminated,1,5,100,1"]
    assert read("alibaba2018", tmp_path, rows).notes[0] == ("finished stages left out, no demands, tasks or times: 1")


ROWS = [f"{n * 10},{n * 10 + 6},{n},{s},{8},Terminated,50,0.1" for n in range(5) for s in range(1 + n % 2)]


def test_only_the_first_jobs_are_kept_when_asked(tmp_path: Path) -> None:
    assert [e.job.id for e in read("alibaba2017", tmp_path, ROWS, limit=2).workload.jobs] == ["0", "1"]


def test_small_jobs_may_be_left_out(tmp_path: Path) -> None:
    assert [e.job.id for e in read("alibaba2017", tmp_path, ROWS, min_stages=2).workload.jobs] == ["1", "3"]


def test_task_counts_may_be_scaled(tmp_path: Path) -> None:
    entry = read("alibaba2017", tmp_path, ROWS, task_scale=0.01).workload.jobs[0]
    assert entry.job.stages[0].tasks == 1


def test_arrivals_may_be_scaled(tmp_path: Path) -> None:
    assert [e.submit_ms for e in read("alibaba2017", tmp_path, ROWS, time_scale=0.5).workload.jobs][:2] == [0, 5000]


def test_a_stage_may_be_taken_to_have_run_in_waves(tmp_path: Path) -> None:
    assert read("alibaba2017", tmp_path, ROWS, parallel=3).workload.jobs[0].runtimes == (Fixed(2000),)


def test_run_times_may_be_spread(tmp_path: Path) -> None:
    assert read("alibaba2017", tmp_path, ROWS, cov=0.3).workload.jobs[0].runtimes == (Drawn(6000.0, 0.3),)


def test_a_wrong_amount_of_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameters, match="machine_memory: not a quantity: 'lots'"):
        read("alibaba2017", tmp_path, ROWS, machine_memory="lots")


def test_cells_that_are_not_numbers_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        read("alibaba2018", tmp_path, ["M1,one,j,,Terminated,1,5,100,1", "M2,1.5,j,,Terminated,x,5,nan,1"])
    assert [str(issue).rpartition("batch_task.csv")[2] for issue in caught.value.issues] == [
        ":1 column 'instance_num': 'one' is not a whole number",
        ":2 column 'instance_num': '1.5' is not a whole number",
        ":2 column 'start_time': 'x' is not a whole number",
        ":2 column 'plan_cpu': 'nan' is not a number",
    ]


def test_lines_of_another_width_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        TraceError, match=r"batch_task\.csv:2: 3 columns, but there should be 9: task_name, instance_num, job_name"
    ):
        read("alibaba2018", tmp_path, ["M1,1,j,,Terminated,1,5,100,1", "M2,1,j"])


def test_a_table_of_the_other_year_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="8 columns, but there should be 9"):
        read("alibaba2018", tmp_path, ROWS)


def test_empty_lines_at_the_end_are_passed_over(tmp_path: Path) -> None:
    rows = ["M1,1,j_1,,Terminated,1,5,100,1", "M2,1,j_2,,Terminated,1,5,100,1", "", ""]
    assert len(read("alibaba2018", tmp_path, rows).workload.jobs) == 2


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="a header line but no rows"):
        read("alibaba2017", tmp_path, ["task_create_time,a,b,c,d,e,f,g"])


def test_a_table_without_a_finished_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no finished job is left \(stages left out, status Running: 1"):
        read("alibaba2017", tmp_path, ["1,2,a,1,1,Running,50,0.1"])


@needs_2018
def test_a_truncated_trace_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "cut.csv.gz").write_bytes(REAL_2018.read_bytes()[:50_000])
    with pytest.raises(TraceError, match="truncated gzip file"):
        formats.read("alibaba2018", tmp_path / "cut.csv.gz")
