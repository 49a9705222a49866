"""`traces describe` as a command: sizes by its options, progress, and files of two ways in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rm_emulator.workload import description
from tests.cli.conftest import Command

ROWS = "job,name,user,submit,tasks,durations\n" + "".join(f"j{n},etl,ann,{n * 60},8,{600 + n}\n" for n in range(20))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "jobs.csv").write_text(ROWS)
    return tmp_path / "jobs.csv"


def test_the_answer_has_sizes(command: Command, trace: Path) -> None:
    sizes = json.loads(command("traces", "describe", trace, "--json").out)["sizes"]
    assert (sizes["node"], sizes["derived"], sizes["least"], sizes["wait_s"]) == ({"cpu": "16"}, True, 1, 600)
    assert sizes["enough"] in [row["nodes"] for row in sizes["waits"]]


def test_the_node_and_the_wait_are_options(command: Command, trace: Path) -> None:
    of = ("traces", "describe", trace, "--json", "--node", "cpu=4", "--wait", "30s", "--nodes", "3")
    sizes = json.loads(command(*of).out)["sizes"]
    assert (sizes["node"], sizes["derived"], sizes["wait_s"]) == ({"cpu": "4"}, False, 30)
    assert 3 in [row["nodes"] for row in sizes["waits"]]


def test_the_text_tells_how_many_nodes_are_enough(command: Command, trace: Path) -> None:
    text = command("traces", "describe", trace).out
    assert "nodes of cpu=16 (from the largest task and the work's proportions; --node changes it): nothing is" in text
    assert "90% of the jobs wait 10 min at most from" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--wait", "soon"), "--wait: not a duration: 'soon'"),
        (("--node", "cpu"), "'cpu' is no resource of a node (write cpu=32,memory=128Gi)"),
        (("--node", "cpu=500m"), "a task asks for 1 of cpu, the node has 500m"),
        (("--node", "cpu=4,tpu=1"), "no task asks for 'tpu'"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(
    command: Command, trace: Path, options: tuple[str, ...], said: str
) -> None:
    answer = command("traces", "describe", trace, *options)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_a_large_file_is_told_of_on_standard_error(
    command: Command, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(description, "LARGE", 10)
    answer = command("traces", "describe", trace, "--json")
    assert answer.err.splitlines() == ["reading jobs.csv, 0 MB", "describing 20 jobs"]
    assert json.loads(answer.out)["jobs"] == 20


def test_rows_and_columns_give_the_same_description(command: Command, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "quoted").mkdir()
    (tmp_path / "quoted" / "jobs.csv").write_text(ROWS.replace(",etl,", ',"etl",'))
    by_columns, by_rows = (
        json.loads(command("traces", "describe", path, "--json").out) for path in (trace, tmp_path / "quoted/jobs.csv")
    )
    assert by_columns == by_rows
