"""Tables made straight from the columns of a file are those of the workload that the reader gives, object by object."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from rm_emulator.issues import TraceError
from rm_emulator.workload import formats, stage_table
from rm_emulator.workload.formats import TableTrace
from tests.workload import samples


def same(path: Path, name: str, *texts: str) -> TableTrace | None:
    """The tables of a file, after a comparison with those of its workload; None where there are none."""
    found = formats.tabulated(path, name, texts)
    if found is None:
        return None
    trace = formats.opened(path, name, texts)
    slow = stage_table.of(trace.workload)
    assert found.notes == trace.notes
    assert_frame_equal(found.table.jobs, slow.jobs)
    assert_frame_equal(found.table.stages, slow.stages, rel_tol=1e-12)
    facts = ("name", "source", "resources", "contents", "history", "began")
    assert [getattr(found.table, fact) for fact in facts] == [getattr(slow, fact) for fact in facts]
    return found


CELLS: dict[str, Any] = {
    "job": st.sampled_from(["a", "b", "c", "Z", " a", "é"]),
    "name": st.sampled_from(["", "", "etl"]),
    "user": st.sampled_from(["", "ann"]),
    "queue": st.sampled_from(["", "prod"]),
    "weight": st.sampled_from(["", "1", "2"]),
    "submit": st.sampled_from(["", "5", "7.0015", "1e3", "1709287200", "2024-03-01T10:00:00"]),
    "stage": st.sampled_from(["", "", "s", "t"]),
    "parents": st.sampled_from(["", "", "", "0", "s", "s;t", "s 0"]),
    "tasks": st.sampled_from(["", "1", "2", "3", "2.0", "x"]),
    "cpu": st.sampled_from(["", "1", "500m", "2"]),
    "memory": st.sampled_from(["", "1Gi", "4", "0"]),
    "res:gpu": st.sampled_from(["", "1"]),
    "durations": st.sampled_from(["3", "3", "0.0005", "1;2", "1; 2 ;4;", "1;;2", "", "-1", "1_0", "inf"]),
    "mean": st.sampled_from(["", "", "", "9.5"]),
    "cov": st.sampled_from(["", "", "0.5"]),
    "hint": st.sampled_from(["", "4", "x"]),
}


@st.composite
def tables(draw: st.DrawFn) -> str:
    """A table of a few rows; a cell may be wrong."""
    columns = ["job", *draw(st.lists(st.sampled_from(sorted(CELLS.keys() - {"job", "durations"})), unique=True))]
    columns.append("durations")
    rows = draw(st.lists(st.tuples(*(CELLS[column] for column in columns)), min_size=1, max_size=5))
    return "\n".join(",".join(row) for row in (columns, *rows)) + "\n"


WAYS = [(), ("limit=1",), ("time_unit=ms", "origin=zero"), ("delimiter=|", "decimal=,")]


@given(tables(), st.sampled_from(WAYS))
def test_a_table_by_columns_is_the_table_by_rows(
    tmp_path_factory: pytest.TempPathFactory, text: str, options: tuple[str, ...]
) -> None:
    path = tmp_path_factory.getbasetemp() / "jobs.csv"
    path.write_text(text.replace(",", "|").replace(".", ",") if "decimal=," in options else text)
    try:
        formats.opened(path, "csv", options)
    except TraceError:
        assert formats.tabulated(path, "csv", options) is None
    else:
        same(path, "csv", *options)


PLAIN = """\
job,name,user,queue,submit,stage,parents,tasks,cpu,memory,mean,cov,durations
b,etl,ann,prod,2024-03-01T10:00:01,read,,2,1,2Gi,30,0.2,
b,,,,,write,read,3,500m,,,,1;2;4
a,etl,bob,,2024-03-01 10:00:00,,,,,,,,7
"""


@pytest.mark.parametrize("change", [("", ""), ("\n", "\r\n"), (",", ";"), ("b,etl", "b , etl ")])
def test_plain_tables_are_read_by_columns(tmp_path: Path, change: tuple[str, str]) -> None:
    text = PLAIN.replace("1;2;4", "4") if change[1] == ";" else PLAIN
    (tmp_path / "jobs.csv").write_bytes(text.replace(*change).encode())
    options = ("delimiter=;",) if change[1] == ";" else ()
    found = same(tmp_path / "jobs.csv", "csv", *options)
    assert found is not None
    assert found.table.jobs["name"].to_list() == ["etl", "etl"]


def test_decimal_commas_are_read_by_columns(tmp_path: Path) -> None:
    text = "job|submit|cpu|memory|mean|cov|durations\na|0,5|0,5|1,5Gi|2,25|0,5|\nb|1|1||||1,5;2;2,5\n"
    (tmp_path / "jobs.csv").write_text(text)
    found = same(tmp_path / "jobs.csv", "csv", "delimiter=|", "decimal=,")
    assert found is not None
    assert found.table.stages["mean"].to_list() == [2250, 2000]


def test_the_text_of_recurring_jobs_is_held_once(tmp_path: Path) -> None:
    rows = "".join(f"j{n},a-long-name-of-a-nightly-run,ann,{n},30\n" for n in range(1000))
    (tmp_path / "jobs.csv").write_text("job,name,user,submit,durations\n" + rows)
    found = formats.tabulated(tmp_path / "jobs.csv", "csv")
    assert found is not None
    assert found.table.jobs.estimated_size() / 1000 < 24  # bytes a job
    assert found.table.runs().estimated_size() / 1000 < 60  # bytes a run


@pytest.mark.parametrize(
    "text",
    [
        'job,durations\n"a",1\n',
        "job,durations\na,1,2\n",
        "job,durations\na\n",
        "job,durations\n\na,1\n",
        "job,durations,what\na,1,2\n",
        "job,durations\n,1\n",
        "job,stage,parents,durations\na,s,t,1\na,t,s,1\n",
        "job,stage,parents,durations\na,s,s,1\n",
        "job,name,durations\na,x,1\na,y,1\n",
        "job,submit,durations\na,2024-13-01T10:00:00,1\n",
        "job,cpu,durations\na,many,1\n",
        "job,weight,durations\na,0,1\n",
        "job,durations\n",
        "",
    ],
)
def test_other_tables_are_left_to_the_reader_of_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "jobs.csv").write_text(text)
    assert formats.tabulated(tmp_path / "jobs.csv", "csv") is None


BATCH = st.tuples(
    st.sampled_from(["j_1", "j_2", "j_10"]),
    st.sampled_from(["M1", "R2_1", "J3_1_2", "task_x", "R1_2", "M2"]),
    st.integers(0, 9),
    st.integers(1, 40),
    st.integers(-1, 50),
    st.sampled_from(["Terminated", "Terminated", "Failed"]),
    st.sampled_from(["50", "100", ""]),
)


@given(
    st.lists(BATCH, min_size=1, max_size=8),
    st.sampled_from([(), ("parallel=2", "cov=0.4"), ("task_scale=0.25", "time_scale=0.3"), ("limit=1",)]),
)
def test_batch_tasks_by_columns_are_batch_tasks_by_rows(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, int, int, int, str, str]],
    options: tuple[str, ...],
) -> None:
    path = tmp_path_factory.getbasetemp() / "batch_task.csv"
    lines = [f"{stage},{n},{job},1,{state},{at},{at + s},{cpu},0.5\n" for job, stage, n, at, s, state, cpu in rows]
    path.write_text("".join(lines))
    try:
        formats.opened(path, "alibaba2018", options)
    except TraceError as error:
        with pytest.raises(TraceError, match=re.escape(str(error))):
            formats.tabulated(path, "alibaba2018", options)
    else:
        assert same(path, "alibaba2018", *options) is not None


def test_the_trace_of_2017_by_columns_is_that_by_rows(tmp_path: Path) -> None:
    (tmp_path / "batch_task.csv").write_text(samples.BATCH_2017)
    assert same(tmp_path / "batch_task.csv", "alibaba2017") is not None


def test_a_stored_workload_has_no_other_way(tmp_path: Path) -> None:
    formats.convert("swf", samples.write("swf", tmp_path), tmp_path / "stored")
    assert formats.tabulated(tmp_path / "stored") is None
    assert formats.tabulated(tmp_path / "log.swf") is None
