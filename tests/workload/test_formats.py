"""The registry of trace formats, their options, and converting to a stored workload."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rm_emulator.issues import TraceError
from rm_emulator.workload import formats, storage
from rm_emulator.workload.formats import Column, Trace
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.errors import InvalidParameters, UnknownName
from schedulers.core.model import Job, Stage


@pytest.fixture
def plugin() -> Iterator[str]:
    @formats.register("one-line", source="tests")
    class OneLine:
        """Jobs, one per line."""

        columns = (Column("line", "name of a job", required=True),)

        class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
            """Settings."""

            seconds: int = 1

        @staticmethod
        def read(path: Path, options: Params) -> Trace:
            stage = Stage(name="s", tasks=1, demand=(1000, 0))
            entries = tuple(
                WorkloadJob(job=Job(id=line, stages=(stage,)), submit_ms=0, runtimes=(Fixed(options.seconds * 1000),))
                for line in path.read_text().split()
            )
            return Trace(workload=Workload(name="lines", jobs=entries))

    yield "one-line"
    formats.FORMATS._entries.pop("one-line")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text("job,durations\na,1\nb,2\n")
    return path


def test_the_formats_of_the_tree_are_there() -> None:
    assert {"alibaba2017", "alibaba2018", "csv", "decima"} <= set(formats.names())


@pytest.mark.parametrize("name", formats.names())
def test_a_format_describes_itself(name: str) -> None:
    about = formats.describe(name)
    assert about["name"] == name
    assert about["summary"]
    assert about["source"]
    assert all(column["meaning"] for column in about["columns"])
    assert all(parameter["description"] for parameter in about["parameters"])


def test_a_description_is_plain_data() -> None:
    about = formats.describe("csv")
    assert json.loads(json.dumps(about)) == json.loads(msgspec.json.encode(about))


def test_a_format_from_outside_is_listed_and_read(plugin: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a\nb\n")
    assert plugin in formats.names()
    assert [e.runtimes for e in formats.read(plugin, tmp_path / "x", {"seconds": 3}).workload.jobs] == [
        (Fixed(3000),)
    ] * 2


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown trace format 'alibaba18', did you mean 'alibaba2018'"):
        formats.read("alibaba18", "x")


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(
        InvalidParameters, match="trace format 'csv' has no setting 'delimeter', did you mean 'delimiter'"
    ):
        formats.read("csv", "x", {"delimeter": ";"})


def test_a_setting_of_the_wrong_type_is_named() -> None:
    with pytest.raises(
        InvalidParameters, match=r"trace format 'csv': Expected `int \| null`, got `str` - at `\$.limit`"
    ):
        formats.read("csv", "x", {"limit": "ten"})


def test_options_come_from_a_command_line() -> None:
    found = formats.options_from_text("csv", ["limit=10", "ignore=a, b", "time_unit=ms"])
    assert found == {"limit": 10, "ignore": ("a", "b"), "time_unit": "ms"}


def test_a_mapping_comes_from_a_command_line() -> None:
    found = formats.options_from_text("csv", ["map=job=JobID, submit=At@%d.%m.%Y, %H:%M,durations=End-Start"])
    assert found == {"map": {"job": "JobID", "submit": "At@%d.%m.%Y, %H:%M", "durations": "End-Start"}}


def test_an_option_may_be_switched_off_by_null() -> None:
    assert formats.options_from_text("alibaba2018", ["limit=null"]) == {"limit": None}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("limit", "'limit' is not a setting"),
        ("limt=3", "did you mean 'limit'"),
        ("limit=few", "setting 'limit': 'few'"),
        ("time_unit=days", "setting 'time_unit': 'days': expected h, min, ms, ns, s, us"),
        ("limit=0", "Expected `int` >= 1"),
    ],
)
def test_wrong_options_are_named(setting: str, message: str) -> None:
    with pytest.raises(InvalidParameters, match=message):
        formats.options_from_text("csv", [setting])


def test_convert_stores_the_workload(table: Path, tmp_path: Path) -> None:
    trace = formats.convert("csv", table, tmp_path / "out")
    assert storage.load(tmp_path / "out") == trace.workload


def test_convert_of_a_bad_file_leaves_nothing(table: Path, tmp_path: Path) -> None:
    table.write_text("job,durations\na,-1\n")
    with pytest.raises(TraceError):
        formats.convert("csv", table, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_convert_looks_at_the_target_before_it_reads(table: Path, tmp_path: Path) -> None:
    table.write_text("nonsense")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_text("mine")
    with pytest.raises(TraceError, match="not a stored workload is there already"):
        formats.convert("csv", table, tmp_path / "out")


def test_an_issue_reads_as_a_sentence() -> None:
    issues = formats.Issues("f.csv")
    issues.add("'x' is not a number", line=3, column="tasks", hint="task")
    with pytest.raises(TraceError) as caught:
        issues.check()
    assert str(caught.value) == "f.csv:3 column 'tasks': 'x' is not a number, did you mean 'task'?"


DOCS = Path(__file__).parents[2] / "docs"


def test_the_documented_table_is_read(tmp_path: Path) -> None:
    page = (DOCS / "operate" / "from-your-own-table.md").read_text()
    (tmp_path / "jobs.csv").write_text(page.partition("```csv\n")[2].partition("```")[0])
    jobs = formats.read("csv", tmp_path / "jobs.csv").workload.jobs
    assert [(entry.job.id, entry.submit_ms, len(entry.job.stages)) for entry in jobs] == [
        ("etl-7", 0, 3),
        ("adhoc-1", 30_000, 1),
    ]


@pytest.mark.parametrize("name", formats.names())
def test_the_overview_leads_to_every_format(name: str) -> None:
    assert f"reference/traces/{name}.md" in (DOCS / "traces.md").read_text()
