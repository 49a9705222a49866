"""A user's own table: what every column means, and what every mistake is called."""

from __future__ import annotations

import contextlib
import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rm_emulator.issues import TraceError
from rm_emulator.workload import formats
from rm_emulator.workload.model import Drawn, Fixed, PerTask, Workload, WorkloadJob


def read(folder: Path, text: str, **options: Any) -> Workload:
    path = folder / "jobs.csv"
    path.write_text(text)
    return formats.read("csv", path, options).workload


def only(folder: Path, text: str, **options: Any) -> WorkloadJob:
    (entry,) = read(folder, text, **options).jobs
    return entry


def mistakes(folder: Path, text: str, **options: Any) -> list[str]:
    """The messages without the folder: 'jobs.csv:2 column ...'."""
    with pytest.raises(TraceError) as caught:
        read(folder, text, **options)
    return [str(issue).removeprefix(f"{folder}/") for issue in caught.value.issues]


def test_two_columns_are_enough(tmp_path: Path) -> None:
    entry = only(tmp_path, "job,durations\na,2.5\n")
    assert (entry.job.id, entry.job.tasks, entry.job.stages[0].demand, entry.runtimes) == (
        "a",
        1,
        (1000, 0),
        (Fixed(2500),),
    )


DECIMAL = {"delimiter": ";", "decimal": ","}


def test_numbers_may_have_a_decimal_comma(tmp_path: Path) -> None:
    text = "job;submit;cpu;memory;res:gpu;durations;weight;hint\na;1,5;0,5;1,5Gi;1;12,5;2,5;1,25\n"
    entry = only(tmp_path, text, origin="zero", **DECIMAL)
    assert (entry.submit_ms, entry.runtimes, entry.job.weight) == (1500, (Fixed(12_500),), 2.5)
    assert (entry.job.stages[0].demand, entry.job.stages[0].hint_ms) == ((500, 1536, 1000), 1250)


def test_a_list_of_run_times_may_have_decimal_commas(tmp_path: Path) -> None:
    entry = only(tmp_path, "job|durations\na|1,5;2; 2,25\n", delimiter="|", decimal=",")
    assert entry.runtimes == (PerTask((1500, 2000, 2250)),)


def test_texts_keep_their_commas(tmp_path: Path) -> None:
    job = only(tmp_path, "job;name;stage;durations\n1,5;2,5;0,1;1\n", **DECIMAL).job
    assert (job.id, job.name, job.stages[0].name) == ("1,5", "2,5", "0,1")


def test_a_decimal_comma_stands_in_quotes_where_commas_separate_cells(tmp_path: Path) -> None:
    assert only(tmp_path, 'job,durations\na,"12,5"\n', decimal=",").runtimes == (Fixed(12_500),)
    (bare,) = mistakes(tmp_path, "job,durations\na,12,5\n", decimal=",")
    assert bare.startswith("jobs.csv:2: 3 cells, but the header has 2 (a number with a decimal comma stands in quotes")


def test_dates_are_read_beside_decimal_commas(tmp_path: Path) -> None:
    text = "job;submit;durations\na;2024-03-01T10:00:00.5;1,5\n"
    assert read(tmp_path, text, **DECIMAL).began == datetime(2024, 3, 1, 10, 0, 0, 500_000, UTC)


@pytest.mark.parametrize(
    ("column", "cell"),
    [("durations", "12,5"), ("submit", "0,5"), ("cpu", "1,5"), ("memory", "1,5Gi"), ("weight", "2,5"), ("hint", "3,5")],
)
def test_a_decimal_comma_tells_the_option_that_reads_it(tmp_path: Path, column: str, cell: str) -> None:
    cells = {"job": "a", "durations": "1", column: cell}
    (said,) = mistakes(tmp_path, f"{';'.join(cells)}\n{';'.join(cells.values())}\n", delimiter=";")
    assert said.startswith(f"jobs.csv:2 column '{column}': ")
    assert f"'{cell}'" in said
    assert said.endswith("(a decimal comma is read with --option decimal=,)")


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("12.5", "'12.5' has a decimal point, but the option decimal is a comma"),
        ("1.234,5", "'1.234,5' is not a number"),
        ("1,234,5", "'1,234,5' is not a number"),
    ],
)
def test_with_decimal_commas_a_point_is_a_mistake(tmp_path: Path, cell: str, said: str) -> None:
    assert mistakes(tmp_path, f"job;durations\na;{cell}\n", **DECIMAL) == [f"jobs.csv:2 column 'durations': {said}"]


@pytest.mark.parametrize("source", ["Dur", "Dur@min", "End-Sub"])
def test_mapped_columns_may_have_decimal_commas(tmp_path: Path, source: str) -> None:
    text = "ID;Sub;End;Dur\na;1,5;3,75;2,25\n"
    mapping = {"job": "ID", "submit": "Sub", "durations": source}
    (times,) = only(tmp_path, text, map=mapping, ignore=("*",), **DECIMAL).runtimes
    assert times == Fixed(135_000 if source.endswith("min") else 2250)
    assert (
        "(a decimal comma is read with --option decimal=,)" in mistakes(tmp_path, text, map=mapping, delimiter=";")[0]
    )


def test_mapped_dates_with_points_are_read_beside_decimal_commas(tmp_path: Path) -> None:
    mapping = {"job": "ID", "submit": "Sub@%d.%m %H.%M", "durations": "Dur"}
    entry = only(tmp_path, "ID;Sub;Dur\na;31.12 10.30;1,5\n", map=mapping, **DECIMAL)
    assert entry.runtimes == (Fixed(1500),)


def test_columns_may_come_in_any_order_and_case(tmp_path: Path) -> None:
    assert only(tmp_path, "Durations, JOB ,Queue\n1,a,prod\n").job.queue == "prod"


def test_columns_of_the_job(tmp_path: Path) -> None:
    job = only(tmp_path, "job,durations,name,user,app,queue,weight\na,1,etl,ann,spark,prod,2.5\n").job
    assert (job.name, job.user, job.app, job.queue, job.weight) == ("etl", "ann", "spark", "prod", 2.5)


def test_columns_of_the_job_may_stand_on_its_first_row_only(tmp_path: Path) -> None:
    job = only(tmp_path, "job,durations,name,stage\na,1,etl,x\na,1,,y\n").job
    assert (job.name, len(job.stages)) == ("etl", 2)


def test_rows_of_a_job_need_not_be_neighbours(tmp_path: Path) -> None:
    workload = read(tmp_path, "job,durations,stage\na,1,x\nb,1,x\na,1,y\n")
    assert [[stage.name for stage in entry.job.stages] for entry in workload.jobs] == [["x", "y"], ["x"]]


@pytest.mark.parametrize("parents", ["x;y", "x y", "0;1", "0 y", "y ; x ;"])
def test_parents_by_name_or_number(tmp_path: Path, parents: str) -> None:
    job = only(tmp_path, f"job,durations,stage,parents\na,1,x,\na,1,y,\na,1,z,{parents}\n").job
    assert job.stages[2].parents == (0, 1)


def test_a_name_counts_before_a_number(tmp_path: Path) -> None:
    job = only(tmp_path, "job,durations,stage,parents\na,1,1,\na,1,0,\na,1,2,1\n").job
    assert job.stages[2].parents == (0,)


def test_a_stage_name_may_have_spaces(tmp_path: Path) -> None:
    job = only(tmp_path, "job,durations,stage,parents\na,1,load data,\na,1,b,load data\n").job
    assert job.stages[1].parents == (0,)


def test_a_stage_without_name_is_called_by_its_number(tmp_path: Path) -> None:
    job = only(tmp_path, "job,durations,parents\na,1,\na,1,0\n").job
    assert [(stage.name, stage.parents) for stage in job.stages] == [("0", ()), ("1", (0,))]


def test_parents_may_stand_below_their_children(tmp_path: Path) -> None:
    job = only(tmp_path, "job,durations,stage,parents\na,1,late,early\na,1,early,\n").job
    assert job.stages[0].parents == (1,)


def test_one_duration_is_that_of_all_tasks(tmp_path: Path) -> None:
    assert only(tmp_path, "job,tasks,durations\na,7,3\n").runtimes == (Fixed(3000),)


def test_durations_may_be_listed_per_task(tmp_path: Path) -> None:
    entry = only(tmp_path, "job,durations\na,1;2.5; 4\n")
    assert (entry.job.tasks, entry.runtimes) == (3, (PerTask((1000, 2500, 4000)),))


def test_durations_may_be_given_as_a_distribution(tmp_path: Path) -> None:
    entry = only(tmp_path, "job,tasks,mean,cov,distribution\na,9,2,0.5,gamma\n")
    assert entry.runtimes == (Drawn(2000.0, 0.5, "gamma"),)


def test_a_mean_alone_does_not_spread(tmp_path: Path) -> None:
    assert only(tmp_path, "job,tasks,mean\na,9,2\n").runtimes == (Drawn(2000.0, 0.0, "lognormal"),)


def test_a_duration_of_nothing_counts_as_a_millisecond(tmp_path: Path) -> None:
    assert only(tmp_path, "job,durations\na,0\n").runtimes == (Fixed(1),)


@pytest.mark.parametrize(("unit", "ms"), [("ms", 90), ("s", 90_000), ("min", 5_400_000), ("us", 1)])
def test_times_are_in_the_time_unit(tmp_path: Path, unit: str, ms: int) -> None:
    entry = only(tmp_path, "job,durations,hint\na,90,90\n", time_unit=unit)
    assert (entry.runtimes, entry.job.stages[0].hint_ms) == ((Fixed(ms),), ms)


def test_demands_are_quantities(tmp_path: Path) -> None:
    workload = read(tmp_path, "job,durations,cpu,memory,res:gpu,res:nvidia.com/mig\na,1,500m,1.5Gi,1,2\n")
    assert workload.resources == ("cpu", "memory", "gpu", "nvidia.com/mig")
    assert workload.jobs[0].job.stages[0].demand == (500, 1536, 1000, 2)


@pytest.mark.parametrize(("unit", "mib"), [("B", 1), ("Mi", 2048), ("Gi", 2048 * 1024)])
def test_plain_memory_is_in_the_memory_unit(tmp_path: Path, unit: str, mib: int) -> None:
    entry = only(tmp_path, "job,durations,memory\na,1,2048\n", memory_unit=unit)
    assert entry.job.stages[0].demand == (0, mib)


def test_suspiciously_little_memory_is_remarked_upon(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,durations,memory\na,1,2048\nb,1,2048\n")
    (note,) = formats.read("csv", tmp_path / "jobs.csv").notes
    assert note == "rows that ask for less than 1 MiB of memory (plain numbers are in B, option memory_unit): 2"


def test_arrivals_count_from_the_first_one(tmp_path: Path) -> None:
    workload = read(tmp_path, "job,durations,submit\nb,1,1700000010.5\na,1,1700000000\n")
    assert [(entry.job.id, entry.submit_ms) for entry in workload.jobs] == [("a", 0), ("b", 10_500)]


def test_arrivals_may_be_dates(tmp_path: Path) -> None:
    workload = read(tmp_path, "job,durations,submit\na,1,2024-01-31T10:00:00\nb,1,2024-01-31 11:00:01+01:00\n")
    assert [entry.submit_ms for entry in workload.jobs] == [0, 1000]


@pytest.mark.parametrize("submit", ["2024-01-31T10:00:00", "2024-01-31 11:00:00+01:00", "1706695200"])
def test_time_0_of_dated_arrivals_has_its_date(tmp_path: Path, submit: str) -> None:
    text = f"job,durations,submit\na,1,{submit}\n"
    assert read(tmp_path, text).began == datetime(2024, 1, 31, 10, tzinfo=UTC)
    assert read(tmp_path, text, origin="zero").began == datetime(1970, 1, 1, tzinfo=UTC)


def test_time_0_of_other_arrivals_has_no_date(tmp_path: Path) -> None:
    assert read(tmp_path, "job,durations,submit\na,1,60\n").began is None


def test_arrivals_may_keep_their_origin(tmp_path: Path) -> None:
    assert only(tmp_path, "job,durations,submit\na,1,60\n", origin="zero").submit_ms == 60_000


def test_jobs_of_one_moment_are_in_the_order_of_their_ids(tmp_path: Path) -> None:
    assert [e.job.id for e in read(tmp_path, "job,durations\nb,1\na,1\n").jobs] == ["a", "b"]


def test_only_the_first_jobs_are_kept_when_asked(tmp_path: Path) -> None:
    workload = read(tmp_path, "job,durations,submit\na,1,5\nb,1,1\nc,1,3\n", limit=2)
    assert [entry.job.id for entry in workload.jobs] == ["b", "c"]


def test_a_row_may_be_a_task(tmp_path: Path) -> None:
    text = "job,stage,parents,durations\na,map,,1\na,red,map,5\na,map,,2\na,map,,3\n"
    entry = only(tmp_path, text, rows="task")
    assert [stage.tasks for stage in entry.job.stages] == [3, 1]
    assert entry.runtimes == (PerTask((1000, 2000, 3000)), PerTask((5000,)))


def test_tasks_of_one_stage_ask_for_the_same(tmp_path: Path) -> None:
    text = "job,stage,cpu,durations\na,map,1,1\na,map,2,1\n"
    assert mistakes(tmp_path, text, rows="task") == [
        "jobs.csv:3: asks for other resources than the row of line 2, of the same stage of job 'a'"
    ]


def test_gzip_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv.gz").write_bytes(gzip.compress(b"job,durations\na,1\n"))
    assert len(formats.read("csv", tmp_path / "jobs.csv.gz").workload.jobs) == 1


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_bytes(b"\xef\xbb\xbfjob,durations\r\na,1\r\n")
    assert len(formats.read("csv", tmp_path / "jobs.csv").workload.jobs) == 1


def test_a_very_long_list_of_durations_is_read(tmp_path: Path) -> None:
    assert only(tmp_path, "job,durations\na," + ";".join(["12.345"] * 30_000) + "\n").job.tasks == 30_000


def test_parquet_gives_the_same_as_csv(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "job": ["a", "a", "b"],
            "submit": [datetime(2024, 1, 1, 0, 0, 1)] * 2 + [datetime(2024, 1, 1)],
            "stage": ["x", "y", "x"],
            "parents": [[], ["x"], None],
            "tasks": [2.0, 2.0, 1.0],
            "durations": [[1.0, 2.0], [3.0, 4.0], [0.5]],
        }
    )
    frame.write_parquet(tmp_path / "jobs.parquet")
    text = (
        "job,submit,stage,parents,tasks,durations\na,2024-01-01T00:00:01,x,,2,1;2\n"
        "a,2024-01-01T00:00:01,y,x,2,3;4\nb,2024-01-01,x,,1,0.5\n"
    )
    assert formats.read("csv", tmp_path / "jobs.parquet").workload.jobs == read(tmp_path, text).jobs


def test_parquet_durations_may_be_typed(tmp_path: Path) -> None:
    pl.DataFrame({"job": ["a"], "durations": [timedelta(minutes=2)]}).write_parquet(tmp_path / "jobs.parquet")
    entry = formats.read("csv", tmp_path / "jobs.parquet", {"time_unit": "min"}).workload.jobs[0]
    assert entry.runtimes == (Fixed(120_000),)


CELLS = [
    ("durations", "-1", "-1 is negative (a duration is 0 or more)"),
    ("durations", "nan", "'nan' is not a finite number"),
    ("durations", "inf", "'inf' is not a finite number"),
    ("durations", "1h", "'1h' is not a number"),
    ("durations", "", "empty (give durations, or a mean)"),
    ("durations", "1;2", "2 run times for 3 tasks (give one, or one per task)"),
    ("durations", "1e13", "1e13 s is too large (is the option time_unit right?)"),
    ("tasks", "0", "0 is not a number of tasks (a whole number from 1 to 10,000,000)"),
    ("tasks", "2.5", "2.5 is not a number of tasks (a whole number from 1 to 10,000,000)"),
    ("tasks", "1e300", "1e300 is not a number of tasks (a whole number from 1 to 10,000,000)"),
    ("tasks", "many", "'many' is not a number"),
    ("cpu", "two", "not a quantity: 'two' (write a number such as 4, 500m, 1.5Gi)"),
    ("cpu", "-1", "negative quantity: '-1' (a resource is never below zero)"),
    ("cpu", "0", "the row asks for nothing (some demand must be above 0)"),
    ("memory", "4GB", "not a quantity: '4GB' (write a number such as 4, 500m, 1.5Gi)"),
    ("submit", "soon", "'soon' is neither a number nor a time such as 2024-01-31T10:00:00"),
    ("weight", "0", "0 is not a weight (above 0)"),
    ("hint", "-5", "-5 is negative (a duration is 0 or more)"),
    ("cov", "0.5", "only goes with mean"),
    ("mean", "3", "the row has durations too (give one of the two)"),
    ("parents", "mpa", "job 'a' has no stage 'mpa' (it has: map), did you mean 'map'?"),
    ("parents", "map", "job 'a': the stages form a cycle: map"),
    ("job", "", "empty (each row names its job)"),
]


@pytest.mark.parametrize(("column", "value", "message"), CELLS)
def test_a_wrong_cell_is_named(tmp_path: Path, column: str, value: str, message: str) -> None:
    row = {"job": "a", "stage": "map", "tasks": "3", "cpu": "1", "durations": "1", column: value}
    text = ",".join(row) + "\n" + ",".join(row.values()) + "\n"
    assert mistakes(tmp_path, text) == [f"jobs.csv:2 column '{column}': {message}"]


def test_an_unknown_distribution_names_the_nearest(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, "job,mean,distribution\na,1,lognorm\n")
    assert line.endswith("did you mean 'lognormal'?")


def test_an_unknown_column_names_the_nearest(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, "job,durations,sumbit\na,1,2\n")
    assert line.startswith("jobs.csv:1 column 'sumbit': not a known column")
    assert line.endswith("did you mean 'submit'?")


def test_unknown_columns_may_be_passed_over(tmp_path: Path) -> None:
    assert only(tmp_path, "job,durations,note,colour\na,1,x,y\n", ignore=["note", "colour"]).job.id == "a"
    assert only(tmp_path, "job,durations,note,colour\na,1,x,y\n", ignore=["*"]).job.id == "a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job\na\n", "jobs.csv:1: there is no column with run times (durations or mean)"),
        ("durations\n1\n", "jobs.csv:1: there is no column 'job'"),
        ("job,durations,job\na,1,b\n", "jobs.csv:1 column 'job': this column is there twice"),
        ("job,durations\n", "jobs.csv: a header but no rows"),
        ("", "jobs.csv: the file is empty"),
        (" \n\n", "jobs.csv: the file is empty"),
        (",,\n,,\n", "jobs.csv: there is no header line with column names"),
        ("job,durations\na,1\na,1,2\n", "jobs.csv:3: 3 cells, but the header has 2"),
        (
            "job;durations\na;1\n",
            "jobs.csv:1: the cells seem to be separated by ';', not by ',' "
            "(set the option delimiter: --option 'delimiter=;')",
        ),
        ('job,durations\na,1\nb,"1\n', "jobs.csv:3: not CSV from here on: unexpected end of data"),
    ],
)
def test_a_wrong_table_is_named(tmp_path: Path, text: str, message: str) -> None:
    assert mistakes(tmp_path, text) == [message]


def test_rows_of_a_job_must_agree(tmp_path: Path) -> None:
    text = "job,durations,stage,submit\na,1,x,5\na,1,y,6\n"
    assert mistakes(tmp_path, text) == ["jobs.csv:3 column 'submit': '6' differs from what line 2 says of the same job"]


def test_a_stage_is_there_once(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, "job,durations,stage\na,1,x\na,1,x\n")
    assert line.startswith("jobs.csv:3 column 'stage': job 'a' has a stage 'x' already, on line 2")


def test_a_cycle_is_found_where_it_begins(tmp_path: Path) -> None:
    text = "job,durations,stage,parents\na,1,x,\na,1,y,z\na,1,z,y\n"
    assert mistakes(tmp_path, text) == ["jobs.csv:3 column 'parents': job 'a': the stages form a cycle: y, z"]


def test_arrivals_before_zero_need_another_origin(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, "job,durations,submit\na,1,-5\n", origin="zero")
    assert "job 'a' arrives before time 0" in line


def test_lines_are_counted_through_quoted_line_breaks_and_empty_lines(tmp_path: Path) -> None:
    text = 'job,durations,name\na,1,"two\nlines"\n\nb,-1,x\n'
    assert mistakes(tmp_path, text)[0].startswith("jobs.csv:5 column 'durations'")


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    text = "job,durations,sumbit,tasks\na,-1,0,0\nb,x,0,1\n,1,0,1\n"
    assert [line.partition(": ")[0] for line in mistakes(tmp_path, text)] == [
        "jobs.csv:1 column 'sumbit'",
        "jobs.csv:2 column 'durations'",
        "jobs.csv:2 column 'tasks'",
        "jobs.csv:3 column 'durations'",
        "jobs.csv:4 column 'job'",
    ]


def test_only_the_first_20_mistakes_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        read(tmp_path, "job,durations\n" + "".join(f"j{n},-1\n" for n in range(1500)))
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-2], caught.value.count) == (22, "... and 1,480 more", 1500)
    assert lines[-1].startswith("--skip-bad-rows leaves out rows that cannot be read")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere\.csv: no such file"):
        formats.read("csv", tmp_path / "nowhere.csv")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is a folder; a file is needed"):
        formats.read("csv", tmp_path)


def test_bytes_that_are_not_text_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_bytes(b"job,durations\na,1\n\xff,1\n")
    with pytest.raises(TraceError, match=r"jobs\.csv:3: byte 0xff is not UTF-8 text"):
        formats.read("csv", tmp_path / "jobs.csv")


@pytest.mark.parametrize("size", [15, 30, 60])
def test_a_truncated_gzip_file_is_one_clear_error(tmp_path: Path, size: int) -> None:
    whole = gzip.compress("".join(f"job{n},{n}\n" for n in range(50)).encode())
    (tmp_path / "jobs.csv.gz").write_bytes(whole[:size])
    with pytest.raises(TraceError, match="truncated gzip file"):
        formats.read("csv", tmp_path / "jobs.csv.gz")


def test_a_damaged_gzip_file_is_one_clear_error(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(b"job,durations\na,1\n"))
    whole[-6] ^= 0xFF
    (tmp_path / "jobs.csv.gz").write_bytes(whole)
    with pytest.raises(TraceError, match="damaged gzip file"):
        formats.read("csv", tmp_path / "jobs.csv.gz")


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parquet") / "jobs.parquet"
    pl.DataFrame({"job": [f"j{n}" for n in range(50)], "durations": [float(n) for n in range(50)]}).write_parquet(path)
    return path


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_truncated_parquet_file_is_one_clear_error(parquet: Path, data: st.DataObject) -> None:
    whole = parquet.read_bytes()
    cut = parquet.with_name("cut.parquet")
    cut.write_bytes(whole[: data.draw(st.integers(4, len(whole) - 1))])
    with pytest.raises(TraceError) as caught:
        formats.read("csv", cut)
    assert str(caught.value).startswith(f"{cut}: truncated or damaged Parquet file")


def test_a_file_called_parquet_that_is_not_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.parquet").write_text("job,durations\na,1\n")
    with pytest.raises(TraceError, match=r"not a Parquet file \(it does not begin with PAR1\)"):
        formats.read("csv", tmp_path / "jobs.parquet")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet="job,durations\n;\"' 012.-ax", max_size=60))
def test_any_text_is_read_or_refused_with_a_trace_error(tmp_path: Path, text: str) -> None:
    with contextlib.suppress(TraceError):
        read(tmp_path, "job,durations,stage,parents\n" + text)
