"""What people see of data that moves and of tasks that have copies: explain, the report's Gantt, Perfetto, tables."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
import yaml

import rm_emulator
from rm_emulator.experiments.api import Results
from rm_emulator.results.chart import Cells
from rm_emulator.results.charts.gantt import gantt
from rm_emulator.results.story import show_bytes
from rm_emulator.results.summary import read_summary

#: A policy that copies the first task of `map` to n3 as soon as something waits.
COPYING = '''
from schedulers.core import abilities
from schedulers.core.policy import Suggestion, policies
from schedulers.policies.fifo import Fifo


@policies.register("copies_to_n3", source="a test")
class Copying(Fifo, abilities.Copies):
    """Copies."""


    def schedule(self, view, offer):
        for job in list(view.jobs.values()):
            if "n3" in view.nodes and view.may_copy(job, job.stages[0], 0, view.nodes["n3"]):
                yield Suggestion(job.id, 0, node="n3", task=0, copy=True)
        yield from super().schedule(view, offer)
'''
SCENARIO = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: moves}
spec:
  plugins: [copying.py]
  cluster:
    profile: events
    nodes:
    - {name: n1, capacity: {cpu: 1, memory: 1Gi}}
    - {name: n2, capacity: {cpu: 1, memory: 1Gi}}
    - {name: n3, capacity: {cpu: 2, memory: 1Gi}}
    links: {rate: 10MiB}
  workload:
    kind: jobs
    jobs:
    - name: a
      stages:
      - {name: map, tasks: 2, demand: {cpu: 1}, duration: {by_node: {n1: 4s, n2: 6s, n3: 9s}}}
      - {name: reduce, parents: [{stage: map, data: 120MiB}], demand: {cpu: 1}, duration: 5s}
  copies: {max: 2, others: run}
  policies: [{kind: copies_to_n3}]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """n1 and n2 make 60 MiB each for one task of `reduce`, at 4 s and 6 s; n3 makes the first again."""
    folder = tmp_path_factory.mktemp("moves")
    (folder / "copying.py").write_text(COPYING)
    (folder / "s.yaml").write_text(SCENARIO)
    return rm_emulator.run(folder / "s.yaml", out=folder / "out")


def texts(run: Results, task: str | None, kind: str) -> list[str]:
    story = rm_emulator.explain(run, "a", task).story
    return [moment.text for moment in story.moments if moment.kind == kind]


def test_explain_says_what_a_task_waits_for_from_where_and_until_when(run: Results) -> None:
    assert texts(run, None, "data") == ["task reduce/0 on node n1 waits for 60 MiB from n2 until 12 s"]


def test_explain_says_for_how_long_a_job_waited_for_data(run: Results) -> None:
    (wait,) = [part for part in rm_emulator.explain(run, "a").story.reasons if part.reason == "waits_for_data"]
    assert (wait.ms, wait.sentence) == (6000, "waits for 60 MiB from n2 until 12 s")


def test_explain_says_what_is_copied_where(run: Results) -> None:
    assert texts(run, None, "copy") == ["task map/0, which is done, is copied to node n3"]


def test_a_copy_is_no_task_of_its_own_to_explain(run: Results) -> None:
    assert [text for text in texts(run, None, "stage") if text.startswith("stage map")] == [
        "stage map begins: task 0 on node n1",
        "stage map is done: 2 tasks on 2 nodes, the last began at 0 s; they took 5 s on average, the longest 6 s",
    ]


def test_rows_of_attempts_say_when_data_arrived_and_which_are_copies(run: Results) -> None:
    wanted = ["stage", "task", "node", "granted_ms", "arrived_ms", "started_ms", "copy"]
    rows = run.tasks.sort("started_ms", "node").select(wanted).rows()
    assert rows == [
        (0, 0, "n1", 0, None, 0, False),
        (0, 1, "n2", 0, None, 0, False),
        (0, 0, "n3", 6000, None, 6000, True),
        (1, 0, "n1", 6000, 12_000, 12_000, False),
    ]


def test_figures_count_a_task_once(run: Results) -> None:
    (figures,) = read_summary(run.path).runs
    assert (figures.tasks, figures.failed_tasks) == (3, 0)


def cells(run: Results) -> Cells:
    return Cells(run.path, read_summary(run.path), yaml.safe_load((run.path / "scenario.yaml").read_text())["spec"])


def bars(run: Results) -> list[dict[str, Any]]:
    chart = gantt(cells(run))
    assert chart is not None
    ((_, figure),) = chart.variants
    return figure["data"]


def test_the_gantt_shows_the_wait_for_data_lighter_and_before_the_run(run: Results) -> None:
    (light,) = [trace for trace in bars(run) if trace.get("opacity")]
    assert (light["base"], light["x"]) == ([6.0], [6.0])
    plain = next(trace for trace in bars(run) if not trace.get("opacity") and not trace["marker"]["pattern"]["shape"])
    assert (12.0, 5.0) in zip(plain["base"], plain["x"], strict=True)


def test_the_gantt_hatches_copies(run: Results) -> None:
    (copies,) = [trace for trace in bars(run) if trace["marker"]["pattern"]["shape"]]
    assert (copies["base"], copies["x"]) == ([6.0], [9.0])


def slices(run: Results) -> list[dict[str, Any]]:
    folder = next(run.path.glob("runs/*/1"))
    plain = folder / "trace.json"
    data = plain.read_bytes() if plain.is_file() else gzip.decompress((folder / "trace.json.gz").read_bytes())
    return msgspec.json.decode(data)["traceEvents"]


def test_perfetto_shows_the_wait_for_data_and_says_what_is_a_copy(run: Results) -> None:
    waits = [(each["ts"], each["dur"]) for each in slices(run) if each["name"] == "waits for data"]
    assert waits == [(6_000_000, 6_000_000)]
    assert not [each for each in slices(run) if each["name"] == "start-up"]
    assert [each["args"]["copy"] for each in slices(run) if each["name"] == "a" and "task" in each["args"]].count(
        True
    ) == 1


def test_a_run_that_is_resumed_is_the_same(run: Results) -> None:
    folder = next(run.path.glob("runs/*/1"))
    before = (folder / "tasks.parquet").read_bytes()
    shutil.rmtree(folder)
    rm_emulator.run(run.path.parent / "s.yaml", out=run.path)
    assert (folder / "tasks.parquet").read_bytes() == before


def test_without_links_and_copies_there_are_no_such_columns(tmp_path: Path) -> None:
    made = rm_emulator.run("hello", out=tmp_path / "out", seeds=[1])
    assert not {"arrived_ms", "copy"} & set(pl.read_parquet_schema(next(made.path.glob("runs/*/1/tasks.parquet"))))


@pytest.mark.parametrize(
    ("amount", "shown"), [(1, "1 byte"), (1023, "1023 bytes"), (120 * 2**20, "120 MiB"), (3 * 2**29, "1.5 GiB")]
)
def test_bytes_are_shown_with_a_unit(amount: int, shown: str) -> None:
    assert show_bytes(amount) == shown
