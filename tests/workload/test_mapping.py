"""Somebody else's table by a mapping of its columns: names, differences, dates, units, and the mapping to keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.workload import formats
from rm_emulator.workload.formats import Trace, TraceError
from rm_emulator.workload.mapping import map_text, mapping_of, read_map
from rm_emulator.workload.model import Fixed
from schedulers.core.errors import InvalidParameters


def read(folder: Path, text: str, mapping: str, **options: object) -> Trace:
    (folder / "jobs.csv").write_text(text)
    return formats.read("csv", folder / "jobs.csv", {"map": mapping_of([mapping], None), **options})


def refused(folder: Path, text: str, mapping: str) -> str:
    with pytest.raises(TraceError) as caught:
        read(folder, text, mapping)
    return str(caught.value).replace(f"{folder}/", "")


TEXT = "JobID,SubmitTime,Start,End,Who\n7,{0},{0},{1},ann\n8,{1},{1},{2},bob\n"


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        (("0", "60", "180"), "s"),
        (("1709287200", "1709287260", "1709287380"), "s"),
        (("1709287200000", "1709287260000", "1709287380000"), "ms"),
        (("1709287200000000", "1709287260000000", "1709287380000000"), "us"),
        (("2024-03-01T10:00:00", "2024-03-01T10:01:00", "2024-03-01T10:03:00"), ""),
        (("2024-03-01 10:00:00+01:00", "2024-03-01 09:01:00Z", "2024-03-01 09:03:00Z"), ""),
        (("2024/03/01 10:00", "2024/03/01 10:01", "2024/03/01 10:03"), "%Y/%m/%d %H:%M"),
        (("31/01/2024 10:00:00", "31/01/2024 10:01:00", "31/01/2024 10:03:00"), "%d/%m/%Y %H:%M:%S"),
        (("01/31/2024 10:00 ", "01/31/2024 10:01", "01/31/2024 10:03"), "%m/%d/%Y %H:%M"),
        (("31.01.2024 10:00", "31.01.2024 10:01", "31.01.2024 10:03"), "%d.%m.%Y %H:%M"),
        (("Fri Mar  1 10:00:00 2024", "Fri Mar  1 10:01:00 2024", "Fri Mar  1 10:03:00 2024"), "%a %b %d %H:%M:%S %Y"),
    ],
)
def test_times_are_seen_from_the_first_rows(tmp_path: Path, times: tuple[str, ...], unit: str) -> None:
    trace = read(tmp_path, TEXT.format(*times), "job=JobID,submit=SubmitTime,durations=End-Start")
    assert [(e.submit_ms, e.runtimes) for e in trace.workload.jobs] == [
        (0, (Fixed(60_000),)),
        (60_000, (Fixed(120_000),)),
    ]
    at = f"@{unit}" if unit else ""
    assert trace.mapping == {"job": "JobID", "submit": f"SubmitTime{at}", "durations": f"End-Start{at}"}


def test_a_day_that_may_be_a_month_must_be_said(tmp_path: Path) -> None:
    text = "j,t,d\na,01/02/2024,5\nb,03/02/2024,5\n"
    said = refused(tmp_path, text, "job=j,submit=t,durations=d")
    assert "dates such as '01/02/2024' may be %d/%m/%Y or %m/%d/%Y (write t@%d/%m/%Y)" in said
    trace = read(tmp_path, text, "job=j,submit=t@%d/%m/%Y,durations=d")
    assert trace.workload.jobs[1].submit_ms == 2 * 86_400_000


def test_a_column_of_dates_and_numbers_is_refused_with_both_lines(tmp_path: Path) -> None:
    text = "j,t,d\na,2024-03-01T10:00:00,5\nb,1709287200,5\n"
    assert refused(tmp_path, text, "job=j,submit=t,durations=d").partition("\n")[0] == (
        "jobs.csv:3 column 't': '1709287200' is not a date, as line 2 has ('2024-03-01T10:00:00'): one kind per column"
    )
    text = "j,t,d\na,1709287200,5\nb,2024-03-01T10:00:00,5\n"
    assert refused(tmp_path, text, "job=j,submit=t,durations=d").partition("\n")[0] == (
        "jobs.csv:3 column 't': '2024-03-01T10:00:00' is not a number, as line 2 has ('1709287200'): "
        "one kind per column"
    )


@pytest.mark.parametrize(
    ("mapping", "demand"),
    [
        ("cpu=C,memory=M@MiB", (2000, 512)),
        ("cpu=C@m,memory=M@KiB", (2, 1)),
        ("cpu=C@millicores,memory=M@GB", (2, 488_282)),
        ("cpu=C,memory=G", (2000, 15_259)),
        ("cpu=C,memory=M@Gi,res:nvidia.com/gpu=C", (2000, 524_288, 2)),
    ],
)
def test_amounts_have_units(tmp_path: Path, mapping: str, demand: tuple[int, ...]) -> None:
    trace = read(tmp_path, "job,durations,C,M,G\na,5,2,512,16 GB\n", mapping)
    assert trace.workload.jobs[0].job.stages[0].demand == demand


@pytest.mark.parametrize(("text", "ms"), [("1-02:03:04", 93_784_000), ("00:01:30", 90_000), ("2", 120_000)])
def test_durations_may_be_clocks_or_have_a_unit(tmp_path: Path, text: str, ms: int) -> None:
    assert read(tmp_path, f"job,T\na,{text}\n", "durations=T@min").workload.jobs[0].runtimes == (Fixed(ms),)


def test_columns_with_our_names_need_no_mapping_and_others_are_named(tmp_path: Path) -> None:
    trace = read(tmp_path, "job,durations,User,x,y\na,5,ann,1,2\n", "name=x")
    assert (trace.workload.jobs[0].job.user, trace.workload.jobs[0].job.name) == ("ann", "1")
    assert trace.notes == ("columns not used: y",)


def test_a_name_with_a_dash_or_an_at_counts_as_a_whole_first(tmp_path: Path) -> None:
    trace = read(
        tmp_path, "job,run-time,End-Time,Start-Time,a@s\nj,5,9,2,x\n", "durations=End-Time-Start-Time,name=a@s"
    )
    assert (trace.workload.jobs[0].runtimes, trace.workload.jobs[0].job.name) == ((Fixed(7000),), "x")


def test_mistakes_name_the_files_own_columns(tmp_path: Path) -> None:
    said = refused(tmp_path, "J,T,N\na,x,1\nb,5,none\n", "job=J,durations=T,tasks=N")
    assert "jobs.csv:2 column 'T': 'x' is not a number" in said
    assert "jobs.csv:3 column 'N': 'none' is not a number" in said


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ("job=Job,durations=T", "jobs.csv:1: there is no column 'Job' for job (the file has: J, T)"),
        ("job=J,durations=T@weeks", "'@weeks' is no unit of time (ns, us, ms, s, min, h)"),
        ("job=J,durations=T,memory=T@heaps", "'@heaps' is no unit of memory"),
        ("job=J,durations=T,tasks=T@s", "tasks has no unit ('@s')"),
        ("job=J,durations=T,cpu=T-T", "only times have a difference, not cpu"),
        ("job=J,durations=T,sumbit=T", "column 'sumbit': not a known column"),
        ("job=J,durations=T,submit=J", "'a' is no time that is known (write its form: J@%d/%m/%Y %H:%M)"),
    ],
)
def test_a_wrong_mapping_is_named(tmp_path: Path, mapping: str, message: str) -> None:
    assert message in refused(tmp_path, "J,T\na,5\n", mapping)


def test_an_end_before_its_start_is_named(tmp_path: Path) -> None:
    said = refused(tmp_path, "job,s,e\na,5,4\n", "durations=e-s")
    assert said == "jobs.csv:2 column 'e': '4' is before '5'"


def test_the_kept_mapping_reads_the_same(tmp_path: Path) -> None:
    text = TEXT.format("31/01/2024 10:00", "31/01/2024 10:01", "31/01/2024 10:02")
    first = read(tmp_path, text, "job=JobID,submit=SubmitTime,durations=End-Start,user=Who")
    (tmp_path / "map.yaml").write_text(map_text(first.mapping, "jobs.csv"))
    again = formats.read("csv", tmp_path / "jobs.csv", {"map": mapping_of((), tmp_path / "map.yaml")})
    assert (again.workload, again.mapping) == (first.workload, first.mapping)


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "a: {b: c}", "[" * 50_000])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "map.yaml").write_text(text)
    with pytest.raises(TraceError, match=r"map\.yaml: not a mapping"):
        read_map(tmp_path / "map.yaml")


def test_a_mapping_is_never_written_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text("mine")
    with pytest.raises(TraceError, match="is there already"):
        mapping_of(["job=J"], tmp_path / "map.yaml")


@pytest.mark.parametrize("text", ["job", "job=", "=J"])
def test_half_a_pair_is_refused(text: str) -> None:
    with pytest.raises((InvalidParameters, TraceError)):
        mapping_of([text], None)


def test_commas_inside_a_form_of_dates_do_not_part_pairs() -> None:
    assert mapping_of(["submit=T@%b %d, %Y,job=J"], None) == {"submit": "T@%b %d, %Y", "job": "J"}


def test_a_bad_row_of_a_mapped_table_may_be_left_out(tmp_path: Path) -> None:
    trace = read(tmp_path, "job,s,e\na,5,4\nb,4,5\n", "durations=e-s", skip_bad_rows=True)
    assert trace.notes == ("rows left out, they cannot be read: 1 (line 2 column 'e': '4' is before '5')",)


# -- tables with our own columns


def test_a_submit_column_of_dates_and_numbers_is_refused_with_both_lines(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,durations,submit\na,1,0\nb,1,2024-01-31T10:00:00\n")
    with pytest.raises(TraceError) as caught:
        formats.read("csv", tmp_path / "jobs.csv")
    first = str(caught.value).partition("\n")[0]
    assert first.endswith(
        "jobs.csv:3 column 'submit': '2024-01-31T10:00:00' is a date, line 2 has a number ('0'): one kind per column"
    )


def test_bad_rows_of_our_own_columns_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,durations,stage,parents\na,1,x,\nb,nan,x,\nc,1,x,y\nd,1\n")
    trace = formats.read("csv", tmp_path / "jobs.csv", {"skip_bad_rows": True})
    assert [entry.job.id for entry in trace.workload.jobs] == ["a"]
    assert trace.notes[0].startswith("rows left out, they cannot be read: 3 (line 3 column 'durations': 'nan'")


def test_a_file_of_a_mapping_to_no_column_is_named_with_the_nearest_column(tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text("submitt: Sub\n")
    with pytest.raises(TraceError, match=r"map\.yaml: column 'submitt': not a known column .*did you mean 'submit'\?"):
        mapping_of((), tmp_path / "map.yaml", formats.mappable("csv"))
