"""jobs.json and nodes.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.hadoop import sls
from rm_emulator.hadoop.sls import SlsNode, SlsRun, read_sls, same_starts
from rm_emulator.issues import TraceError

from .conftest import NODES, job, task


def read(tmp_path: Path, jobs: list[Any] | str, nodes: list[Any] | None = None) -> SlsRun:
    (tmp_path / "jobs.json").write_text(jobs if isinstance(jobs, str) else "\n".join(map(json.dumps, jobs)))
    if nodes is None:
        return read_sls(tmp_path / "jobs.json")
    (tmp_path / "nodes.json").write_text("\n".join(map(json.dumps, nodes)))
    return read_sls(tmp_path / "jobs.json", tmp_path / "nodes.json")


def said(tmp_path: Path, jobs: list[Any] | str, nodes: list[Any] | None = None) -> str:
    with pytest.raises(TraceError) as raised:
        read(tmp_path, jobs, nodes)
    return str(raised.value)


def test_objects_follow_each_other_over_lines(tmp_path: Path) -> None:
    text = json.dumps(job("one"), indent=1) + json.dumps(job("two")) + "\n\n" + json.dumps(job("three"))
    run = read(tmp_path, text)
    assert [j.id for j in run.jobs] == ["one", "two", "three"]
    lines = json.dumps(job("one"), indent=1).count("\n") + 1
    assert run.lines == {"one": 1, "two": lines, "three": lines + 2}


def test_a_task(tmp_path: Path) -> None:
    entry = {
        "container.host": "/rack/node7",
        "container.start.ms": 100,
        "container.end.ms": "2600",
        "container.priority": 10,
        "container.type": "reduce",
        "container.memory-mb": 2048,
        "container.vcores": 2,
    }
    found = read(tmp_path, [job(tasks=[entry])]).jobs[0].tasks[0]
    assert (found.duration_ms, found.host, found.rack) == (2500, "node7", "rack")
    assert (found.priority, found.type, found.memory_mb, found.vcores) == (10, "reduce", 2048, 2)


def test_defaults_of_a_task(tmp_path: Path) -> None:
    found = read(tmp_path, [job(tasks=[{"duration.ms": 5}])]).jobs[0].tasks[0]
    assert (found.host, found.priority, found.type, found.memory_mb) == ("", 20, "map", None)


def test_count_repeats_a_task_and_job_count_a_job(tmp_path: Path) -> None:
    run = read(tmp_path, [job("j", tasks=[task(count=3)], job__count=2)])
    assert [(j.id, len(j.tasks)) for j in run.jobs] == [("j_1", 3), ("j_2", 3)]


def test_the_size_of_an_application_master(tmp_path: Path) -> None:
    found = read(tmp_path, [job(am__vcores=2)]).jobs[0]
    assert (found.am_memory_mb, found.am_vcores) == (None, 2)


def test_nodes_with_sizes_and_racks(tmp_path: Path) -> None:
    nodes = [{"rack": "/r1", "nodes": [{"node": "a", "memory-mb": 4096}]}, {"rack": "r2", "nodes": [{"node": "b"}]}]
    run = read(tmp_path, [job()], nodes)
    assert run.nodes == (SlsNode("r1", "a", 4096, None), SlsNode("r2", "b"))


def test_without_a_file_of_nodes_they_are_counted(tmp_path: Path) -> None:
    run = read(tmp_path, [{"num.nodes": 3, "num.racks": 2}, job(tasks=[{"duration.ms": 1}])])
    assert run.nodes == (SlsNode("rack0", "node0"), SlsNode("rack1", "node1"), SlsNode("rack0", "node2"))


def test_without_a_file_of_nodes_they_are_those_of_the_tasks(tmp_path: Path) -> None:
    assert read(tmp_path, [job(tasks=[task(), task()])]).nodes == (SlsNode("r", "node1"),)


def test_jobs_of_one_instant_are_one_group() -> None:
    jobs = [sls.SlsJob(id=i, start_ms=s, queue="a", user="u", tasks=()) for i, s in [("a", 5), ("b", 0), ("c", 5)]]
    assert [[j.id for j in group] for group in same_starts(jobs)] == [["b"], ["a", "c"]]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"job.start.ms": "soon"}, 'jobs.json:1: job.start.ms: "soon" is not accepted (expected a whole number from 0'),
        ({"job.start.ms": -5}, "job.start.ms: -5 is not accepted"),
        ({"job.start.ms": True}, "job.start.ms: true is not accepted"),
        ({"job.start.ms": 1.5}, "job.start.ms: 1.5 is not accepted"),
        ({"job.queue.name": ""}, "job.queue.name"),
        ({"job.tasks": []}, "job.tasks: [] (expected a list with at least one task)"),
        ({"job.tasks": [7]}, "job.tasks[0]: 7 is not accepted (expected a JSON object)"),
        ({"job.usr": "x"}, "unknown key (accepted: "),
        ({"am.type": "stream"}, "am.type: 'stream' is not accepted (expected mapreduce)"),
        ({"job.tasks": [task(0)]}, "job.tasks[0].container.duration.ms: 0 is not accepted"),
        ({"job.tasks": [{"container.start.ms": 5, "container.end.ms": 5}]}, "5 is not after container.start.ms (5)"),
        ({"job.tasks": [{}]}, "container.duration.ms: missing"),
        ({"job.tasks": [task(container__host="node1")]}, "'node1' is not accepted (expected /rack/node)"),
        ({"job.tasks": [task(container__type="mapp")]}, "did you mean 'map'?"),
        ({"job.tasks": [task(contaner__host="/r/n")]}, "did you mean 'container.host'?"),
    ],
)
def test_mistakes_of_a_job(tmp_path: Path, entry: dict[str, Any], message: str) -> None:
    assert message in said(tmp_path, [{**job(), **entry}])


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([{"rack": "r"}], "nodes.json:1: nodes: null is not accepted"),
        ([{"rack": "r", "nodes": [{"node": "a b"}]}], "nodes[0].node: 'a b' is not accepted"),
        ([NODES, {"rack": "s", "nodes": [{"node": "node2"}]}], "node 'node2' is there already (in rack 'r')"),
        ([{"rack": "r", "nodes": [{"node": "a", "memory": 5}]}], "did you mean 'memory-mb'?"),
        ([{"num.nodes": 3}], "num.nodes belongs into the file of jobs"),
    ],
)
def test_mistakes_of_nodes(tmp_path: Path, nodes: list[Any], message: str) -> None:
    assert message in said(tmp_path, [job()], nodes)


def test_mistakes_of_both_files_come_together(tmp_path: Path) -> None:
    text = said(tmp_path, [{**job(), "job.start.ms": "x"}], [{"rack": "r"}])
    assert "jobs.json:1" in text
    assert "nodes.json:1" in text


def test_broken_json_names_the_line(tmp_path: Path) -> None:
    assert "jobs.json:2: not JSON: " in said(tmp_path, json.dumps(job()) + '\n{"a": }')


def test_an_array_is_told_from_a_run_of_objects(tmp_path: Path) -> None:
    assert "expected JSON objects, one after another, not in a list" in said(tmp_path, json.dumps([job()]))


def test_not_a_number_is_refused(tmp_path: Path) -> None:
    assert "NaN is not a number" in said(tmp_path, '{"job.start.ms": NaN}')


def test_nesting_without_end_is_refused(tmp_path: Path) -> None:
    assert "nested too deeply" in said(tmp_path, '{"a":' * 100_000)


def test_the_same_id_twice_is_refused(tmp_path: Path) -> None:
    assert "'j' is there already, in line 1" in said(tmp_path, [job("j"), job("j")])


def test_no_job_at_all_is_refused(tmp_path: Path) -> None:
    assert "there is no job in it" in said(tmp_path, [{"num.nodes": 3}])


def test_tasks_without_end_are_refused(tmp_path: Path) -> None:
    assert "tasks in all" in said(tmp_path, [job(tasks=[task(count=sls.MAX_TASKS + 1)])])


def test_keys_that_are_passed_over_are_noted(tmp_path: Path) -> None:
    run = read(tmp_path, [job(tasks=[task(container__request__delay=5), task()])])
    assert run.notes == ("container.request.delay is passed over (1 times)",)
