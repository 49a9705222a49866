from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import load
from rm_emulator.workload import storage
from rm_emulator.workload.model import PerNode, Workload, WorkloadJob
from schedulers.core.model import Job, Stage

Write = Callable[..., Path]
Mistakes = Callable[..., list[str]]
JOBS = """\
    kind: jobs
    jobs:
    - name: a
      stages:
      - {name: m, tasks: 2, demand: {cpu: 1}, duration: 3s}
      - {name: r, demand: {cpu: 1}, parents: [m], duration: 2s}
"""


def test_a_gang_wider_than_the_empty_cluster_is_said(write: Write, mistakes: Mistakes) -> None:
    path = write(("profile: yarn", "profile: events"), ("tasks: 2, demand", "tasks: 40, gang: true, demand"))
    assert mistakes(path) == [
        "s.yaml:15:26 spec.workload.jobs[0].stages[0].tasks: the 40 tasks of a gang start together, and the empty "
        "cluster takes at most 4 of them"
    ]


def test_a_gang_as_wide_as_the_empty_cluster_is_accepted(write: Write) -> None:
    path = write(("profile: yarn", "profile: events"), ("tasks: 2, demand", "tasks: 4, gang: true, demand"))
    assert check(load(path)).workload.tasks == 5


@pytest.mark.parametrize(
    "copying",
    ["kind: played", "kind: planned, planner: dfrn", "kind: rank_up, placement: {kind: deft}"],
)
def test_copies_are_accepted_where_one_policy_alone_copies_tasks(write: Write, copying: str) -> None:
    path = write(
        ("profile: yarn", "profile: events"),
        ("  workload:", "  copies: {max: 2}\n  workload:"),
        ("{kind: fifo}", f"{{label: fifo, {copying}, predictor: {{kind: oracle}}}}"),
    )
    assert check(load(path)).workload.tasks == 3


def test_a_good_scenario_gives_its_workload(write: Write) -> None:
    assert check(load(write())).workload.tasks == 3


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "demand: {cpu: 1}, duration",
            "demand: {cpu: 3}, duration",
            "s.yaml:15:37 spec.workload.jobs[0].stages[0].demand: a task of cpu 3 is larger than every node "
            "(every node has cpu 2, memory 4Gi)",
        ),
        (
            "demand: {cpu: 1}, duration",
            "demand: {cpu: 500}, duration",
            "s.yaml:15:37 spec.workload.jobs[0].stages[0].demand: a task of cpu 500 is larger than every node "
            "(every node has cpu 2, memory 4Gi), did you mean '500m'?",
        ),
        (
            "demand: {cpu: 1}, duration",
            "demand: {gpu: 1}, duration",
            "s.yaml:15:37 spec.workload.jobs[0].stages[0].demand: a task of gpu 1 is larger than every node "
            "(every node has cpu 2, memory 4Gi)",
        ),
        (
            "demand: {cpu: 1}, duration",
            "demand: {cpu: 0}, duration",
            "s.yaml:15:37 spec.workload.jobs[0].stages[0].demand: a task that asks for nothing",
        ),
        (
            "tasks: 2, demand: {cpu: 1}",
            "tasks: 3, gang: true, demand: {cpu: 1}",
            "s.yaml:15:26 spec.workload.jobs[0].stages[0].tasks: the 3 tasks of a gang start together, and "
            "profile 'yarn' offers one node at a time, which takes at most 2 of them (take a profile that offers "
            "all nodes at once, events or kubernetes, larger nodes, or a narrower gang)",
        ),
        (
            "tasks: 2, demand: {cpu: 1}",
            "demand: {cpu: 1}, places: {tolerations: [], terms: [[{key: zone, operator: In, values: [a]}]]}",
            "s.yaml:15:45 spec.workload.jobs[0].stages[0].places: no node that its places and the nodes' taints leave",
        ),
        (
            "parents: [m]",
            "parents: [mm]",
            "s.yaml:16:47 spec.workload.jobs[0].stages[1].parents[0]: no stage 'mm' in this job (stages: m, r), "
            "did you mean 'm'?",
        ),
        (
            "tasks: 2, demand: {cpu: 1}",
            "parents: [r], demand: {cpu: 1}",
            "s.yaml:15:7 spec.workload.jobs[0].stages: the stages form a cycle: m, r",
        ),
        ("name: r", "name: m", "s.yaml:16:16 spec.workload.jobs[0].stages[1].name: two stages of this job are called"),
        (
            "duration: 3s",
            "duration: [3s]",
            "s.yaml:15:57 spec.workload.jobs[0].stages[0].duration: 1 durations for 2 tasks (expected one per task)",
        ),
        (JOBS, "    kind: jobs\n    jobs: []\n", "s.yaml:12:11 spec.workload.jobs: the workload is empty"),
        (
            "baseline: fifo",
            "baseline: fif",
            "s.yaml:20:13 spec.baseline: no policy has the label 'fif' (labels: fifo, sjf), did you mean 'fifo'?",
        ),
        ("label: sjf", "label: fifo", "s.yaml:19:13 spec.policies[1].label: label 'fifo' is taken by policies[0]"),
        (
            "baseline: fifo",
            'expect: ["fifo.jct_s.men < 3"]',
            "s.yaml:20:12 spec.expect[0]: expectation 'fifo.jct_s.men < 3', column 12",
        ),
        ("baseline: fifo", 'expect: ["fifo.jct_s.mean <"]', "s.yaml:20:12 spec.expect[0]: expectation"),
        (
            "  workload:",
            "  queues: [{name: prod}]\n  workload:",
            "s.yaml:14:7 spec.workload.jobs[0].queue: queue 'default' is not declared (accepted: prod)",
        ),
        (
            "  workload:",
            "  queues: [{name: default}, {name: x, parent: defautl}]\n  workload:",
            "s.yaml:10:47 spec.queues[1].parent: no queue 'defautl' (queues: default, x), did you mean 'default'?",
        ),
        (
            "  workload:",
            "  queues: [{name: default, parent: default}]\n  workload:",
            "s.yaml:10:36 spec.queues[0].parent: queue 'default' is its own ancestor",
        ),
        (
            "nodes: [{count: 2, capacity: {cpu: 2, memory: 4Gi}}]",
            "nodes: [{name: a, capacity: {cpu: 2}}, {name: a1, capacity: {cpu: 2}}, {name: a, capacity: {cpu: 2}}]",
            "s.yaml:7:12 spec.cluster.nodes: two nodes would be called 'a1'",
        ),
        (
            "capacity: {cpu: 2, memory: 4Gi}",
            "capacity: {cpu: 0}",
            "s.yaml:7:34 spec.cluster.nodes[0].capacity: a node without any resource",
        ),
        (
            "kind: jobs\n",
            "kind: jobs\n    data: {replicas: 3}\n",
            "s.yaml:12:22 spec.workload.data.replicas: 3 replicas on 2 nodes (expected at most one a node)",
        ),
        (
            "kind: jobs\n",
            "kind: jobs\n    data: {replicas: 0}\n",
            "s.yaml:12:22 spec.workload.data.replicas: 0 is not accepted (expected at least 1)",
        ),
        (
            "kind: jobs\n",
            "kind: jobs\n    data: {remote: {rack: 0.9}}\n",
            "s.yaml:12:27 spec.workload.data.remote.rack: 0.9 is not accepted (expected at least 1.0)",
        ),
        (
            "kind: jobs\n",
            "kind: jobs\n    data: {remote: {off-rack: 2}}\n",
            "s.yaml:12:21 spec.workload.data.remote.off-rack: unknown key 'off-rack' (accepted: node, rack, off)",
        ),
        (
            "kind: jobs\n",
            "kind: jobs\n    asks: {error: [0.5, 0.2]}\n",
            "s.yaml:12:19 spec.workload.asks.error: [0.5, 0.2] is not accepted "
            "(expected two numbers, ascending, above -1)",
        ),
        (
            "kind: jobs\n",
            "kind: jobs\n    asks: {error: [-1, 0]}\n",
            "s.yaml:12:19 spec.workload.asks.error: [-1.0, 0.0] is not accepted (expected two numbers",
        ),
        (
            "kind: jobs\n",
            "kind: jobs\n    asks: {without: [memroy]}\n",
            "s.yaml:12:22 spec.workload.asks.without[0]: unknown resource 'memroy' (this cluster has cpu, memory), "
            "did you mean 'memory'?",
        ),
        (
            "kind: jobs\n",
            "kind: jobs\n    asks: {without: [cpu, memory]}\n",
            "s.yaml:12:21 spec.workload.asks.without: cpu, memory are all that there is "
            "(expected one at least to be asked for)",
        ),
        (
            "kind: jobs\n",
            "kind: jobs\n    asks: {without: [cpu]}\n",
            "s.yaml:11:5 spec.workload: job 'a' stage 'm' uses cpu alone, so it has to ask for it",
        ),
        (
            "    nodes:",
            "    overbook: {disk: 0.5}\n    nodes:",
            "s.yaml:7:22 spec.cluster.overbook.disk: no node has 'disk', so nothing is overbooked",
        ),
        ("count: 2", "count: 2, racks: 3", "s.yaml:7:31 spec.cluster.nodes[0].racks: 3 racks for 2 nodes"),
        (
            JOBS,
            "    {kind: synthetic, preset: 2sigma-liek}\n",
            "s.yaml:11:31 spec.workload.preset: unknown preset '2sigma-liek' (accepted: ",
        ),
        (
            JOBS,
            "    {kind: synthetic, preset: 2sigma-like, knobs: {jiter: 1}}\n",
            "s.yaml:11:52 spec.workload.knobs.jiter: the preset has no setting 'jiter' (accepted: ",
        ),
        (
            JOBS,
            "    {kind: synthetic, preset: 2sigma-like, jobs: 10, knobs: {memory_mib: [9999]}}\n",
            "s.yaml:11:5 spec.workload: job '",
        ),
        (
            JOBS,
            "    {kind: synthetic, preset: 2sigma-like, slots: 1e6}\n",
            "s.yaml:11:5 spec.workload: a preset's widths grow with the slots, and 1,000,000 are too many",
        ),
        (
            JOBS,
            "    {kind: tpch, jobs: 3, sises: [2]}\n",
            "s.yaml:11:27 spec.workload.sises: workload 'tpch' has no setting 'sises' (accepted: ",
        ),
        (
            JOBS,
            "    {kind: tpch, jobs: 3, durations: per_task, load: 0.5, demand: {}, drawn: {cpu: 1}}\n",
            "s.yaml:11:5 spec.workload: tpch: load needs slots, at least 1: set `slots` (unless given, they are the "
            "tasks of `demand` that the cluster runs at once)",
        ),
        (
            JOBS,
            "    {kind: tpch, jobs: 3, sizes: [3]}\n",
            "s.yaml:11:5 spec.workload: tpch: there is no query 1 at 3 GB",
        ),
        (
            JOBS,
            "    {kind: tpch, jobs: 3}\n",
            "s.yaml:7:5 spec.cluster: run times measured per executor need executors",
        ),
        (
            "{kind: fifo}",
            "{kind: replan, label: fifo, predictor: {kind: oracle}}",
            "s.yaml:18:12 spec.policies[0].kind: policy 'replan' plays executors that outlive their tasks, and here "
            "containers end with their tasks: give the cluster `executors`, or take policy 'curves'",
        ),
        (
            JOBS,
            "    {kind: trace, path: s.yml, format: csv}\n",
            "s.yaml:11:25 spec.workload.path: no such file: 's.yml' (relative to the scenario's folder, ",
        ),
        (
            JOBS,
            "    {kind: trace, path: s.yaml, format: cvs}\n",
            "s.yaml:11:41 spec.workload.format: unknown trace format 'cvs' (accepted: internal, alibaba2017,",
        ),
        (
            JOBS,
            "    {kind: trace, path: s.yaml, format: csv, options: {time_unit: sec}}\n",
            "s.yaml:11:67 spec.workload.options.time_unit: 'sec' is not accepted (expected ",
        ),
        (
            "{kind: fifo}",
            "{kind: fair_yarn, label: fifo, queues: {root.a: {weight: 2}}}",
            "s.yaml:18:53 spec.policies[0].queues[\"root.a\"]: there is no queue 'root.a' (queues: root, root.default)",
        ),
        (
            "{kind: fifo}",
            "{kind: capacity, label: fifo, queues: {root.default: {capacity: 60}}}",
            's.yaml:18:69 spec.policies[0].queues["root.default"].capacity: the capacities of root.default make 60 '
            "together, not 100",
        ),
        (
            "{kind: fifo}",
            "{kind: capacity, label: fifo, queues: {root.default: {capacity: 100, maximum_capacity: 50}}}",
            's.yaml:18:92 spec.policies[0].queues["root.default"].maximum_capacity: maximum_capacity 50 is below the '
            "capacity, 100",
        ),
        (
            JOBS,
            "    {kind: trace, path: s.yaml}\n",
            "s.yaml: not a stored workload",
        ),
    ],
)
def test_a_reference_that_does_not_hold_is_named(
    write: Write, mistakes: Mistakes, old: str, new: str, says: str
) -> None:
    lines = mistakes(write((old, new)))
    assert lines[0].startswith(says)


def test_the_settings_that_are_accepted_are_named_once_each(write: Write, mistakes: Mistakes) -> None:
    (line,) = mistakes(write((JOBS, "    {kind: tpch, jobs: 3, sises: [2]}\n")))
    accepted = line.partition("(accepted: ")[2].partition(")")[0].split(", ")
    assert sorted(accepted) == sorted(set(accepted))


def test_slots_are_needed_for_a_load_only(write: Write) -> None:
    text = "    {kind: tpch, jobs: 3, sizes: [2], durations: per_task, demand: {}, drawn: {cpu: 1}}\n"
    assert len(check(load(write((JOBS, text)))).workload.jobs) == 3


def test_mistakes_of_several_kinds_come_at_once(write: Write, mistakes: Mistakes) -> None:
    path = write(
        ("baseline: fifo", "baseline: x"), ("parents: [m]", "parents: [z]"), ("{cpu: 1}, dur", "{cpu: 9}, dur")
    )
    assert [line.split()[0] for line in mistakes(path)] == ["s.yaml:15:37", "s.yaml:16:47", "s.yaml:20:13"]


def test_mistakes_of_a_trace_carry_its_own_lines(write: Write, mistakes: Mistakes, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job,tasks,cpu,durations\na,1,1,5\nb,-2,1,nan\n")
    lines = mistakes(write((JOBS, "    {kind: trace, path: t.csv, format: csv}\n")))
    assert [line.partition(":")[2].partition(" ")[0] for line in lines[:-1]] == ["3", "3"]
    assert lines[-1].startswith("--skip-bad-rows leaves out rows")


def test_an_unknown_column_of_a_trace_names_the_nearest(write: Write, mistakes: Mistakes, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job,tasks,cpu,duratoins\na,1,1,5\n")
    lines = mistakes(write((JOBS, "    {kind: trace, path: t.csv, format: csv}\n")))
    assert any("did you mean 'durations'?" in line for line in lines)


def test_a_truncated_parquet_file_is_refused(write: Write, mistakes: Mistakes, tmp_path: Path) -> None:
    frame = pl.DataFrame({"job": ["a"], "tasks": [1], "cpu": [1], "durations": ["5"]})
    frame.write_parquet(tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(whole[: len(whole) // 2])
    (line,) = mistakes(write((JOBS, "    {kind: trace, path: t.parquet, format: csv}\n")))
    assert line.startswith("t.parquet")


def test_a_task_of_a_trace_larger_than_every_node(write: Write, mistakes: Mistakes, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job,tasks,cpu,durations\na,1,1,5\nb,1,7,5\n")
    (line,) = mistakes(write((JOBS, "    {kind: trace, path: t.csv, format: csv}\n")))
    assert "job 'b' stage '0': a task of cpu 7 is larger than every node (every node has cpu 2, memory 4Gi)" in line


def test_a_stored_workload_with_times_by_node_needs_one_for_each_node(
    write: Write, mistakes: Mistakes, tmp_path: Path
) -> None:
    stage = Stage(name="m", tasks=1, demand=(1000, 1))
    entry = WorkloadJob(job=Job(id="a", stages=(stage,)), submit_ms=0, runtimes=(PerNode(("n1", "x"), ((1, 2),)),))
    storage.save(Workload(name="w", jobs=(entry,)), tmp_path / "stored")
    (line,) = mistakes(write((JOBS, "    {kind: trace, path: stored}\n")))
    assert line.endswith("job 'a' stage 'm' has run times by node (n1, x), but none for node 'n2'")
