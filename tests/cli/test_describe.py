"""`traces describe` as a command: sizes by its options, progress, and files of two ways in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.workload import description, sizes, stage_table
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from rm_emulator.workload.sizes import Wanted
from schedulers.core.model import Job, Stage
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


SCENARIO = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {{name: own}}
spec:
  cluster: {{nodes: {nodes}}}
  workload: {{kind: trace, format: csv, path: jobs.csv}}
  policies: [{{kind: fifo}}]
"""
ALIKE = "[{count: 2, capacity: {cpu: 8, memory: 16Gi}}, {count: 1, name: late, capacity: {memory: 16Gi, cpu: 8000m}}]"


def of_scenario(command: Command, trace: Path, nodes: str, *options: str) -> Any:
    path = trace.with_name("own.yaml")
    path.write_text(SCENARIO.format(nodes=nodes))
    return json.loads(command("traces", "describe", path, "--json", *options).out)["sizes"]


def test_a_scenario_is_sized_by_its_own_nodes(command: Command, trace: Path) -> None:
    sizes = of_scenario(command, trace, ALIKE)
    assert (sizes["node"], sizes["derived"], sizes["own"]) == ({"cpu": "8", "memory": "16Gi"}, False, 3)
    assert 3 in [row["nodes"] for row in sizes["waits"]]


def test_the_text_tells_the_scenarios_number_of_nodes(command: Command, trace: Path) -> None:
    of_scenario(command, trace, ALIKE)
    text = command("traces", "describe", trace.with_name("own.yaml")).out
    assert "nodes of cpu=8,memory=16Gi (the scenario has 3; --node changes them): nothing is refused from" in text
    assert "  on 3 nodes: a job waits" in text


def test_a_given_node_takes_the_place_of_a_scenarios(command: Command, trace: Path) -> None:
    sizes = of_scenario(command, trace, ALIKE, "--node", "cpu=4")
    assert (sizes["node"], sizes["own"]) == ({"cpu": "4"}, None)


@pytest.mark.parametrize(
    "nodes",
    ["[{capacity: {cpu: 8}}, {name: b, capacity: {cpu: 16}}]", "[{speed: 2, capacity: {cpu: 8}}]"],
)
def test_unlike_or_fast_nodes_leave_the_shape_to_the_demands(command: Command, trace: Path, nodes: str) -> None:
    sizes = of_scenario(command, trace, nodes)
    assert (sizes["node"], sizes["derived"], sizes["own"]) == ({"cpu": "16"}, True, None)


def test_fewer_nodes_than_the_widest_gang_needs_have_no_waits(command: Command, trace: Path) -> None:
    """A gang that never starts is a mistake of the scenario for `check`; a given number of nodes says so itself."""
    table = stage_table.of(
        Workload(
            name="w",
            jobs=(
                WorkloadJob(
                    job=Job(id="a", stages=(Stage(name="s", tasks=8, demand=(1000, 0), gang=True),)),
                    submit_ms=0,
                    runtimes=(Fixed(1000),),
                ),
            ),
        )
    )
    found = sizes.size(table, Wanted(node={"cpu": "2"}, own=3))
    assert found is not None
    assert (found.least, [row.nodes for row in found.waits]) == (4, [4, 8])


@pytest.mark.parametrize("at", ["2024-03-01T10:00:0{n}", "170928720{n}"])
def test_the_date_of_time_0_is_told(command: Command, trace: Path, at: str) -> None:
    rows = "".join(f"j{n},{at.format(n=n)},60\n" for n in range(1, 4))
    trace.write_text("job,submit,durations\n" + rows)
    found = json.loads(command("traces", "describe", trace, "--json").out)
    day = "2024-03-01T10:00:01Z"
    assert (found["began"], "dates" in found["contents"]["lacks"]) == (day, False)
    assert "time 0 is 2024-03-01 10:00:01 UTC" in command("traces", "describe", trace).out.splitlines()


def test_a_trace_without_dates_has_no_date_of_time_0(command: Command, trace: Path) -> None:
    assert json.loads(command("traces", "describe", trace, "--json").out)["began"] is None
    assert "time 0" not in command("traces", "describe", trace).out


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
