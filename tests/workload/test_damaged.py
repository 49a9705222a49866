"""Damaged files of every format: each is one clear message, or a tolerance that docs/traces.md describes."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.workload import formats, tables
from rm_emulator.workload.formats import Trace, TraceError
from tests.workload import samples

ROWS = ("swf", "sacct", "google2011", "google2019", "openb")
LISTS = ("yarn_apps", "pods")


def read(name: str, folder: Path, text: str | bytes, **options: Any) -> Trace:
    path = folder / samples.FILES[name][0]
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return formats.read(name, path, options)


def refused(name: str, folder: Path, text: str | bytes) -> str:
    with pytest.raises(TraceError) as caught:
        read(name, folder, text)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize("name", samples.FILES)
@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"], ids=["nothing", "blank", "mark"])
def test_an_empty_file(name: str, content: bytes, tmp_path: Path) -> None:
    said = refused(name, tmp_path, content)
    assert "the file is empty" in said or "not JSON, or cut off" in said


@pytest.mark.parametrize("name", samples.FILES)
def test_a_truncated_gzip(name: str, tmp_path: Path) -> None:
    packed = gzip.compress(samples.FILES[name][1].encode() * 50)
    assert "truncated gzip file" in refused(name, tmp_path, packed[: len(packed) // 2])


@pytest.mark.parametrize("name", samples.FILES)
def test_a_damaged_gzip(name: str, tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(samples.FILES[name][1].encode()))
    packed[-6] ^= 0xFF
    assert "damaged gzip file" in refused(name, tmp_path, bytes(packed))


@pytest.mark.parametrize("name", samples.FILES)
def test_binary_rubbish(name: str, tmp_path: Path) -> None:
    said = refused(name, tmp_path, bytes(range(256)) * 40)
    assert "is not UTF-8 text" in said or "not JSON" in said


@pytest.mark.parametrize("name", samples.FILES)
def test_a_folder_or_nothing_in_place_of_a_file(name: str, tmp_path: Path) -> None:
    for path, words in ((tmp_path / "nowhere", "no such file"), (tmp_path, "is a folder"), (tmp_path, "there is no ")):
        with pytest.raises(TraceError) as caught:
            formats.read(name, path)
        assert words in str(caught.value) or path == tmp_path


@pytest.mark.parametrize("name", samples.FILES)
def test_a_file_cut_in_the_middle_of_a_row(name: str, tmp_path: Path) -> None:
    text = samples.FILES[name][1]
    said = refused(name, tmp_path, text[: len(text) - len(text.rstrip().splitlines()[-1]) // 2 - 1])
    assert said.partition("\n--skip-bad-rows")[0].count("\n") == 0


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("text", ["[]", "7", '"x"', '{"a": 1}', "{" * 100_000, "[" * 100_000])
def test_other_json(name: str, text: str, tmp_path: Path) -> None:
    assert refused(name, tmp_path, text)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("swf", "0 10  60  4", "-5 10  60  4", "log.swf:3 column 'submit time': -5 is negative"),
        ("swf", "0 10  60  4", "0 10  x  4", "log.swf:3 column 'run time': 'x' is not a number"),
        ("swf", "0 10  60  4", "0 10  -2  4", "log.swf:3 column 'run time': -2 is below -1"),
        ("swf", "0 10  60  4", "0 10  1e300  4", "log.swf:3 column 'run time': 1e300 is too large (at most 1e+15)"),
        ("swf", "0 10  60  4", "0 10  nan  4", "log.swf:3 column 'run time': 'nan' is not a finite number"),
        ("swf", "0 10  60  4", "0 10  60  99999999", "column 'allocated processors': 99,999,999 processors (at most"),
        ("swf", "0 10  60  4", "0 10  60", "log.swf:3: 17 numbers, but a job has 18"),
        ("swf", "2  30", "1  30", "log.swf:4 column 'job number': job '1' is there already, on line 3"),
        ("sacct", "JobID|", "Id|", "sacct.txt:1: there is no column 'JobID' or 'JobIDRaw' (the header line has: Id,"),
        ("sacct", "|Elapsed|", "|Elapsd|", "sacct.txt:1: there is no column 'Elapsed' or 'ElapsedRaw'"),
        ("sacct", "1-02:03:04|2-", "1:2:3:4|2-", "column 'Elapsed': '1:2:3:4' is not a duration such as 1-02:03:04"),
        ("sacct", "1-02:03:04|2-", "-5|2-", "sacct.txt:2 column 'Elapsed': '-5' is not a duration"),
        ("sacct", "|COMPLETED|b", "|COMPLETD|b", "'COMPLETD' is not a state of Slurm's, did you mean 'COMPLETED'?"),
        ("sacct", "\n100|", "\nabc|", "sacct.txt:2 column 'JobID': 'abc' is not a job's id"),
        ("sacct", "|train|ann", "|train|x|ann", "sacct.txt:2: 13 cells, but the header has 12"),
        ("sacct", "mem=32G,node=2\n", "mem=lots,node=2\n", "'lots' is not an amount of memory such as 4000M"),
        ("sacct", "cpu=8,gres", "cpu,gres", "sacct.txt:2 column 'AllocTRES': 'cpu' is not a resource such as cpu=8"),
        ("sacct", "node=2\n", "node=99999999\n", "99,999,999 nodes (at most 10,000,000)"),
        (
            "sacct",
            "gpu|2024-03-01T10:00:00",
            "gpu|31.1.24",
            "column 'Submit': '31.1.24' is neither a number nor a time",
        ),
        ("yarn_apps", '"user": "ann"', '"user": 5', "apps.json:1 column 'user': Expected `str`, got `int`"),
        ("yarn_apps", "_0002", "_0001", "application 'application_1476912658570_0001' is there already, on line 1"),
        (
            "yarn_apps",
            '"finishedTime": 1476913478000',
            '"finishedTime": 5',
            "ends at 5, before it starts at 1476913458",
        ),
        ("yarn_apps", '"startedTime": 1476913457000', '"startedTime": -1', "column 'startedTime': Expected `int` >= 0"),
        ("yarn_apps", '"vcoreSeconds": 60', '"vcoreSeconds": 99999999999', "would have 5,000,000,000 tasks (at most"),
        ("yarn_apps", '"apps"', '"app"', "apps.json: there is no 'apps' in it (a list at apps.app is needed)"),
        ("google2011", "601000000,,3418309,0,4155527081,1", "601000000,,3418309,0,4155527081,11", "'11' is not a type"),
        ("google2011", "601000000,", "-1,", "column 'time': -1 is negative"),
        ("google2011", "601000000,", "1e30,", "column 'time': 1e30 is too large"),
        ("google2011", "0.125", "-0.125", "column 'cpu request': -0.125 is negative"),
        ("google2011", "601000000,,", "601000000,", "part-00000-of-00500.csv:3: 12 columns, but task events have 13"),
        ("google2019", '"instance_index": 0', '"instance_index": "a"', "column 'task index': 'a' is not a number"),
        ("google2019", '"type": 6', '"type": "DONE"', "'DONE' is not a type of event"),
        ("google2019", '{"time": "740000000"', '{"time": "740000000', 'instance_events.json:3: \'{"time"'),
        ("openb", "cpu_milli,", "cpu,", "pods.csv:1: there is no column 'cpu_milli' (the header line has: name, cpu,"),
        ("openb", "4000,15258", "4000.5,15258", "pods.csv:3 column 'cpu_milli': '4000.5' is not a whole number"),
        ("openb", "0022", "0017", "pods.csv:3 column 'name': pod 'openb-pod-0017' is there already, on line 2"),
        ("openb", "9973826,9679176", "1,9679176", "created at 9.67918e+06, scheduled at 9.67918e+06, deleted at 1"),
        ("openb", "1,220,", "1,2200,", "pods.csv:3 column 'gpu_milli': 2200 is too large (at most 1000)"),
        ("pods", '"500m"', '"half"', "column 'spec.containers': cpu: not a quantity: 'half'"),
        (
            "pods",
            "-fghij",
            "-abcde",
            "pods.json:2 column 'metadata.name': pod 'team-a/nightly-28487520-abcde' is there",
        ),
        ("pods", "10:01:05Z", "09:00:00Z", "pod nightly-28487520-abcde finishes before it starts"),
        ("pods", "T10:01:05Z", "yesterday", "neither a number nor a time such as 2024-01-31T10:00:00"),
        ("pods", '"name": "nightly-28487520-abcde"', '"nom": ""', "Object missing required field `name`"),
    ],
)
def test_a_wrong_cell(name: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    text = samples.FILES[name][1]
    assert old in text
    assert message in refused(name, tmp_path, text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("name", "old", "new", "left"),
    [
        ("swf", "0 10  60  4", "0 10  x  4", "1 (line 3 column 'run time': 'x' is not a number)"),
        ("sacct", "1-02:03:04|2-", "x|2-", "1 (line 2 column 'Elapsed': 'x' is not a duration such as 1-02:03:04)"),
        ("yarn_apps", '"user": "ann"', '"user": 5', "1 (line 1 column 'user': Expected `str`, got `int`)"),
        ("google2011", "661000000,", "x,", "1 (line 8 column 'time': 'x' is not a number)"),
        (
            "google2019",
            '"type": 6',
            '"type": 66',
            "1 (line 3 column 'event type': '66' is not a type of event (0 SUBMIT",
        ),
        ("openb", "4000,15258", "4000.5,15258", "1 (line 3 column 'cpu_milli': '4000.5' is not a whole number)"),
        ("pods", "T10:01:05Z", "nan", "1 (line 1 column 'finishedAt': '2024-03-01nan' is neither a number nor a time"),
    ],
)
def test_a_bad_row_may_be_left_out(name: str, old: str, new: str, left: str, tmp_path: Path) -> None:
    trace = read(name, tmp_path, samples.FILES[name][1].replace(old, new, 1), skip_bad_rows=True)
    assert trace.notes[0].startswith(f"rows left out, they cannot be read: {left}")
    assert trace.workload.jobs


@pytest.mark.parametrize("name", ROWS)
def test_where_no_row_is_left_the_file_is_refused(name: str, tmp_path: Path) -> None:
    first = samples.FILES[name][1].splitlines()[0]
    text = (first if name in ("sacct", "openb") else "{" if name == "google2019" else "; x") + "\n" + "a,b|c\n" * 30
    with pytest.raises(TraceError) as caught:
        read(name, tmp_path, text, skip_bad_rows=True)
    assert "... and 1" in str(caught.value)


@pytest.mark.parametrize("name", ["swf", "sacct", "openb", "google2011", "yarn_apps", "pods"])
def test_a_file_without_a_job_is_refused(name: str, tmp_path: Path) -> None:
    first = samples.FILES[name][1].splitlines()[0]
    text = {"yarn_apps": '{"apps":{"app":[]}}', "pods": '{"items":[]}', "google2011": "600000000,,1,0,,0,u,3,9,1,1,1,0"}
    assert "no job is left" in (said := refused(name, tmp_path, text.get(name, first))) or "no rows" in said


# -- size


def test_a_packed_file_that_holds_too_much_is_refused(tmp_path: Path) -> None:
    text, packer = b"a,1\n" * 2**18, zlib.compressobj(9, wbits=31)
    packed = b"".join(packer.compress(text) for _ in range(60)) + packer.flush()
    for name in ("csv", "alibaba2018", "swf", "yarn_apps"):
        (tmp_path / "bomb.csv.gz").write_bytes(packed)
        with pytest.raises(TraceError, match=r"bytes of gzip that hold more than [0-9,]+: no table packs like that"):
            formats.read(name, tmp_path / "bomb.csv.gz")


def test_more_bytes_than_are_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_BYTES", 2**20)
    for name in ("sacct", "pods"):
        assert "the most that is read" in refused(name, tmp_path, samples.FILES[name][1] * 3000)


def test_more_rows_than_are_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_ROWS", 5)
    assert "sacct.txt:6: more than 5 rows (the most that is read: take a part of it)" in refused(
        "sacct", tmp_path, samples.SACCT
    )


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_LINE", 1000)
    assert "a line of more than 1,000 characters" in refused("sacct", tmp_path, "JobID|" * 1000)


def test_what_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, options: object) -> Trace:
        raise MemoryError

    monkeypatch.setattr(formats.FORMATS.entry("swf").cls, "read", staticmethod(full))
    with pytest.raises(TraceError, match="does not fit into this machine's memory"):
        formats.read("swf", samples.write("swf", tmp_path))


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="is not a regular file"):
        formats.read("swf", tmp_path / "pipe")


# -- alibaba2020, a folder


@pytest.mark.parametrize(
    ("table", "old", "new", "message"),
    [
        ("task", "j1,ps,1.0", "j1,ps,1.5", "pai_task_table.csv:1 column 'inst_num': '1.5' is not a whole number"),
        ("task", "600.0", "-600.0", "pai_task_table.csv:1 column 'plan_cpu': -600.0 is negative"),
        ("task", ",MISC", "", "pai_task_table.csv:1: 9 columns, but there should be 10: job_name, task_name, inst_num"),
        (
            "instance",
            "420.0",
            "20.0",
            "pai_instance_table.csv:1 column 'end_time': ends at 20, before it starts at 120",
        ),
        ("job", "100.0", "soon", "pai_job_table.csv:1 column 'start_time': 'soon' is not a number"),
    ],
)
def test_alibaba2020_a_wrong_cell(table: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    folder = samples.write("alibaba2020", tmp_path)
    file = folder / f"pai_{table}_table.csv"
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(TraceError) as caught:
        formats.read("alibaba2020", folder)
    assert message in str(caught.value)
    if table != "job":
        assert formats.read("alibaba2020", folder, {"skip_bad_rows": True}).notes[0].startswith("rows left out")


def test_alibaba2020_without_its_table_of_tasks(tmp_path: Path) -> None:
    (tmp_path / "pai_task_table.tar.gz").write_bytes(b"x")
    with pytest.raises(
        TraceError, match=r"there is no pai_task_table.csv in it \(unpack pai_task_table.tar.gz first\)"
    ):
        formats.read("alibaba2020", tmp_path)


# -- alibaba2018


def test_alibaba2018_nan_is_named_by_the_traces_own_column(tmp_path: Path) -> None:
    path = tmp_path / "batch_task.csv"
    rows = ["M1,1,j_1,1,Terminated,1,5,100,1", "M2,nan,j_1,1,Terminated,1,5,100,1", "M3,1,j_2,1,Terminated"]
    path.write_text("\n".join(rows))
    with pytest.raises(TraceError, match=r"batch_task\.csv:3: 5 columns, but there should be 9"):
        formats.read("alibaba2018", path)
    trace = formats.read("alibaba2018", path, {"skip_bad_rows": True})
    assert trace.notes[0] == (
        "rows left out, they cannot be read: 2 (line 3: 5 columns, but there should be 9: task_name, instance_num, "
        "job_name, task_type, status, start_time, end_time, plan_cpu, plan_mem; line 2 column 'instance_num': 'nan' is "
        "not a whole number)"
    )
    assert trace.workload.tasks == 1


def test_alibaba2018_lines_keep_their_numbers_where_others_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "batch_task.csv"
    path.write_text("M1,1,j\nM2,1,j_1,1,Terminated,1,5,100,1\nM3,x,j_1,1,Terminated,1,5,100,1\n")
    trace = formats.read("alibaba2018", path, {"skip_bad_rows": True})
    assert "line 3 column 'instance_num': 'x'" in trace.notes[0]
