"""What would have let a job end sooner: said with what a run with the change gives, or not said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from rm_emulator.experiments import grid
from rm_emulator.experiments.advice import Advice, TriedChange, advice_lines
from rm_emulator.experiments.changes import Change
from rm_emulator.experiments.explain import Explained, explain
from rm_emulator.issues import InvalidInput
from rm_emulator.results.story import Moment, Part, Story, Waiting
from rm_emulator.scenario.load import load

#: Memory binds: two tasks fit on a node by it, eight by CPU.
MEMORY = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: memory}
spec:
  cluster: {nodes: [{count: 2, capacity: {cpu: 8, memory: 8Gi}}], profile: events}
  workload:
    kind: jobs
    jobs:
    - {name: first, stages: [{name: m, tasks: 4, demand: {cpu: 1, memory: 4Gi}, duration: 30s}]}
    - {name: second, submit: 1s, stages: [{name: m, tasks: 6, demand: {cpu: 1, memory: 4Gi}, duration: 30s}]}
    - {name: third, submit: 2s, stages: [{name: m, tasks: 2, demand: {cpu: 1, memory: 4Gi}, duration: 30s}]}
  policies: [{kind: fifo}]
"""
#: `train` starts its four together, once `long` leaves room; `late` is after them.
GANG = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: gang}
spec:
  cluster: {nodes: [{count: 2, capacity: {cpu: 2}}], profile: events}
  workload:
    kind: jobs
    jobs:
    - {name: long, stages: [{name: m, tasks: 1, demand: {cpu: 1}, duration: 100s}]}
    - {name: train, submit: 1s, stages: [{name: g, tasks: 4, gang: true, demand: {cpu: 1}, duration: 30s}]}
  policies: [{kind: fifo}]
"""
#: `ann` waits for her limit, `queue` for its maximum and for room for jobs.
LIMITS = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: limits}
spec:
  cluster: {nodes: [{count: 4, capacity: {cpu: 4}}], profile: events}
  queues:
  - {name: narrow, max: {cpu: 4}}
  - {name: users, per_user: {limit: {cpu: 2}, max_running: 1}}
  - {name: one, max_running: 1}
  workload:
    kind: jobs
    jobs:
    - {name: a, queue: narrow, stages: [{name: m, tasks: 6, demand: {cpu: 1}, duration: 30s}]}
    - {name: b, queue: users, user: ann, stages: [{name: m, tasks: 3, demand: {cpu: 1}, duration: 30s}]}
    - {name: c, queue: users, user: ann, stages: [{name: m, tasks: 1, demand: {cpu: 1}, duration: 30s}]}
    - {name: d, queue: one, stages: [{name: m, tasks: 1, demand: {cpu: 1}, duration: 30s}]}
    - {name: e, queue: one, submit: 1s, stages: [{name: m, tasks: 1, demand: {cpu: 1}, duration: 30s}]}
  policies: [{kind: fifo}]
"""
#: Two queues on one slot; by weights the second has a third of what is placed.
WEIGHTS = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: weights}
spec:
  cluster: {nodes: [{count: 1, capacity: {cpu: 4}}], profile: events}
  queues: [{name: a, weight: 2}, {name: b}]
  workload:
    kind: jobs
    jobs:
    - {name: a, queue: a, stages: [{name: m, tasks: 40, demand: {cpu: 1}, duration: 10s}]}
    - {name: b, queue: b, stages: [{name: m, tasks: 12, demand: {cpu: 1}, duration: 10s}]}
  policies: [{kind: drf}]
"""
DOCS = Path(__file__).parents[2] / "docs" / "explain.md"


pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture
def ran(tmp_path: Path) -> Callable[..., Path]:
    """Runs a scenario, with changes as in `--set`; its run directory."""

    def _ran(text: str, *overrides: str) -> Path:
        path = tmp_path / "scenario.yaml"
        path.write_text(text)
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        grid.run(load(path, overrides=overrides), out, jobs=1)
        return out

    return _ran


def jobs_of(out: Path) -> dict[str, tuple[int, int]]:
    """By job when it ended, and its JCT; ms."""
    (path,) = out.glob("runs/*/1/jobs.parquet")
    rows = pl.read_parquet(path).select("id", "submit_ms", "finish_ms").iter_rows()
    return {job: (done, done - submitted) for job, submitted, done in rows}


def tried(out: Path, job: str, **settings: Any) -> dict[str, TriedChange]:
    found = explain(out, job, advise=True, **settings)
    assert found.advice is not None
    return {each.change: each for each in found.advice.tried}


def words(found: Explained) -> list[str]:
    assert found.advice is not None
    return advice_lines(found.advice, found.story)


def is_as_run(each: TriedChange, job: str, without: Path, with_it: Path) -> bool:
    """Whether the figures of a change are those of two real runs."""
    before, after = jobs_of(without), jobs_of(with_it)
    others = [sum(jct for name, (_, jct) in ran.items() if name != job) for ran in (before, after)]
    return (
        each.finished_ms == after[job][0]
        and each.sooner_pct == pytest.approx(100 * (1 - after[job][1] / before[job][1]))
        and each.others_pct == pytest.approx(100 * (others[1] / others[0] - 1))
    )


def test_less_cpu_is_not_advised_where_memory_binds(ran: Callable[..., Path]) -> None:
    out = ran(MEMORY)
    less = tried(out, "second")["with 500m cpu instead of 1 a task"]
    assert (less.finished_ms, less.sooner_pct, less.helped) == (90_000, 0.0, False)
    assert not any("cpu" in line for line in words(explain(out, "second", advise=True)) if "(tried)" in line)


@pytest.mark.parametrize("profile", ["events", "yarn", "kubernetes"])
def test_less_memory_is_advised_with_what_a_run_with_it_gives(ran: Callable[..., Path], profile: str) -> None:
    profiled = f"spec.cluster.profile={profile}"
    out = ran(MEMORY, profiled)
    less = tried(out, "second")["with 2Gi memory instead of 4Gi a task"]
    assert less.helped
    assert is_as_run(less, "second", out, ran(MEMORY, profiled, "spec.workload.jobs[1].stages[0].demand.memory=2Gi"))


def test_a_gain_within_the_noise_of_heartbeats_is_not_advised(ran: Callable[..., Path]) -> None:
    """Two nodes: the second's last two begin at 1,030 s, and third's; three: at 1 s and 1,001 s."""
    out = ran(MEMORY, "spec.workload.jobs[1].stages[0].duration=1000s")
    more = tried(out, "third")["with 3 nodes instead of 2"]
    assert more.sooner_pct == pytest.approx(100 * 29 / 1058)
    assert not more.helped


def test_advice_says_what_it_would_have_been(ran: Callable[..., Path]) -> None:
    said = words(explain(ran(MEMORY), "second", advise=True))
    assert (
        "with 2Gi memory instead of 4Gi a task it would have ended at 1 m 00 s instead of 1 m 30 s: "
        "34 % sooner; the others take as long as before on average (tried)"
    ) in said
    assert said[-1] == (
        "Tried, and would not have helped: with 888m cpu instead of 1 a task; with 500m cpu instead of 1 a task."
    )


def test_half_of_all_is_tried_where_less_of_one_resource_does_not_help(ran: Callable[..., Path]) -> None:
    both = "with 2 cpu and 2Gi memory instead of 4 and 4Gi a task"
    assert both not in tried(ran(MEMORY), "second")
    bound = [f"spec.workload.jobs[{number}].stages[0].demand.cpu=4" for number in range(3)]
    found = tried(ran(MEMORY, *bound), "second")
    assert [each.change for each in found.values() if each.helped] == [both, "with 3 nodes instead of 2"]


def test_more_nodes_are_tried_as_the_run_with_them(ran: Callable[..., Path]) -> None:
    out = ran(MEMORY)
    more = tried(out, "third")["with 3 nodes instead of 2"]
    assert is_as_run(more, "third", out, ran(MEMORY, "spec.cluster.nodes[0].count=3"))


def test_what_helped_most_comes_first(ran: Callable[..., Path]) -> None:
    found = explain(ran(GANG), "train", advise=True)
    assert found.advice is not None
    sooner = [each.sooner_pct or 0.0 for each in found.advice.tried]
    assert sooner == sorted(sooner, reverse=True)
    assert sooner[0] > 0


def test_a_gang_is_tried_without_being_one(ran: Callable[..., Path]) -> None:
    out = ran(GANG)
    alone = tried(out, "train")["with tasks that start one by one instead of in gangs"]
    assert alone.helped
    assert is_as_run(alone, "train", out, ran(GANG, "spec.workload.jobs[1].stages[0].gang=false"))


def test_a_gang_is_tried_with_half_its_tasks_and_the_same_work(ran: Callable[..., Path]) -> None:
    out = ran(GANG)
    fewer = tried(out, "train")["with half as many tasks in its gangs, each with the work of two"]
    half = ("spec.workload.jobs[1].stages[0].tasks=2", "spec.workload.jobs[1].stages[0].duration=60s")
    assert is_as_run(fewer, "train", out, ran(GANG, *half))
    assert (fewer.finished_ms, jobs_of(out)["train"][0]) == (61_000, 130_000)


def test_an_odd_task_of_a_gang_stays_as_long_as_it_is(ran: Callable[..., Path]) -> None:
    duration = "spec.workload.jobs[1].stages[0].duration={kind: lognormal, mean: 30s, cov: 1}"
    tasks = [f"spec.workload.jobs[{job}].stages[0].tasks={count}" for job, count in ((0, 2), (1, 3))]
    out = ran(GANG, *tasks, duration)
    fewer = tried(out, "train")["with half as many tasks in its gangs, each with the work of two"]
    times = pl.read_parquet(out / "runs/fifo/1/tasks.parquet").filter(pl.col("job") == "train").sort("task")
    first, second, third = (times["ended_ms"] - times["started_ms"]).to_list()
    assert fewer.finished_ms == 1000 + max(first + third, second)


@pytest.mark.parametrize(
    ("job", "change", "lifted"),
    [
        ("a", "without max of queue narrow", "spec.queues[0].max={cpu: 16}"),
        ("b", "without per_user.limit of queue users", "spec.queues[1].per_user.limit={cpu: 16}"),
        ("c", "without per_user.max_running of queue users", "spec.queues[1].per_user.max_running=9"),
        ("e", "without max_running of queue one", "spec.queues[2].max_running=9"),
    ],
)
def test_the_limit_that_it_waited_for_is_lifted(ran: Callable[..., Path], job: str, change: str, lifted: str) -> None:
    out = ran(LIMITS)
    found = tried(out, job)
    assert [name for name in found if name.startswith("without")] == [change]
    assert is_as_run(found[change], job, out, ran(LIMITS, lifted))


def test_weights_are_tried_where_the_policy_follows_them(ran: Callable[..., Path]) -> None:
    out = ran(WEIGHTS)
    heavier = tried(out, "b")["with weight 2 instead of 1 of queue b"]
    assert heavier.helped
    assert is_as_run(heavier, "b", out, ran(WEIGHTS, "spec.queues[1].weight=2"))
    assert not any("weight" in change for change in tried(ran(WEIGHTS, "spec.policies[0].kind=fifo"), "b"))


def test_asks_that_are_rounded_up_again_are_not_tried(ran: Callable[..., Path]) -> None:
    rounded = tried(ran(MEMORY, "spec.cluster.sizes={minimum: {cpu: 1, memory: 4Gi}}"), "second")
    assert list(rounded) == ["with 3 nodes instead of 2"]


def test_what_cannot_be_less_is_not_part_of_a_change(ran: Callable[..., Path]) -> None:
    bound = [f"spec.workload.jobs[{number}].stages[0].demand.cpu=4" for number in range(3)]
    seat = ["spec.cluster.nodes[0].capacity.seat=4", "spec.workload.jobs[1].stages[0].demand.seat=1"]
    assert "with 2 cpu and 2Gi memory instead of 4 and 4Gi a task" in tried(ran(MEMORY, *bound, *seat), "second")


def test_stages_with_different_asks_are_cut_alike(ran: Callable[..., Path]) -> None:
    stages = [f"{{name: s{gib}, tasks: 4, demand: {{memory: {gib}Gi}}, duration: 30s}}" for gib in (4, 2)]
    both = f"spec.workload.jobs[1].stages=[{', '.join(stages)}]"
    out = ran(MEMORY, both)
    half = tried(out, "second")["with half the memory a task"]
    cut = [f"spec.workload.jobs[1].stages[{stage}].demand.memory={gib}Gi" for stage, gib in ((0, 2), (1, 1))]
    assert is_as_run(half, "second", out, ran(MEMORY, both, *cut))


def test_where_nothing_helped_that_is_said(ran: Callable[..., Path]) -> None:
    """Its short task waits for room; its long one, which starts at once, is what it ends with."""
    long = "{name: long, tasks: 1, demand: {memory: 4Gi}, duration: 300s}"
    short = "{name: short, tasks: 1, demand: {memory: 4Gi}, duration: 10s}"
    out = ran(MEMORY, "spec.workload.jobs[0].stages[0].tasks=3", f"spec.workload.jobs[1].stages=[{long}, {short}]")
    found = explain(out, "second", advise=True)
    assert [part.reason for part in found.story.reasons] == ["no_room"]
    assert words(found) == [
        "None of the 3 changes tried would have helped: with 2730Mi memory instead of 4Gi a task; "
        "with 2Gi memory instead of 4Gi a task; with 3 nodes instead of 2."
    ]


def test_a_job_that_did_not_wait_is_not_tried(ran: Callable[..., Path]) -> None:
    found = explain(ran(MEMORY), "first", advise=True)
    assert found.advice is not None
    assert found.advice.tried == ()
    assert words(found) == [
        "Nothing was tried: it waited for nothing that another ask, more nodes or its queue could shorten."
    ]


def test_nothing_in_the_run_directory_changes(ran: Callable[..., Path]) -> None:
    out = ran(MEMORY)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    tried(out, "second")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("struct", [Explained, Story, Moment, Waiting, Part, Advice, TriedChange])
def test_every_field_of_the_document_is_described(struct: type[msgspec.Struct]) -> None:
    described = DOCS.read_text("utf-8")
    assert [
        name for name in struct.__struct_fields__ if not re.search(rf"`[\w.]*\b{name}\b[\w.\[\]]*`", described)
    ] == []


def test_every_kind_of_change_is_described() -> None:
    rows = [line.split("|")[1] for line in DOCS.read_text("utf-8").splitlines() if line.startswith("| `")]
    described = {kind for row in rows for kind in re.findall(r"`([\w.\[\]]+)`", row)}
    assert set(re.findall(r"(\w+_\w+)", Change.__doc__.partition("kind:")[2].partition("setting")[0])) <= described


def test_each_run_is_announced(ran: Callable[..., Path]) -> None:
    lines: list[str] = []
    tried(ran(MEMORY), "second", progress=lines.append)
    assert lines[0].startswith("trying 6 changes, each in a run of its own")
    assert lines[-1] == "[6/6] with 3 nodes instead of 2: 34 % sooner; the others take 25 % less on average"


def test_a_log_outside_of_a_run_directory_cannot_be_tried(ran: Callable[..., Path], tmp_path: Path) -> None:
    log = (ran(MEMORY) / "runs/fifo/1/events.jsonl").rename(tmp_path / "events.jsonl")
    with pytest.raises(InvalidInput, match="is not in a run directory, whose scenario could be run again"):
        explain(log, "second", advise=True)
    assert explain(log, "second").advice is None


def test_the_run_of_another_version_cannot_be_tried(ran: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    out = ran(MEMORY)
    monkeypatch.setattr("rm_emulator.experiments.grid.__version__", "0.0.0")
    with pytest.raises(InvalidInput, match="made by another version of rm-emulator, from another trace or with other"):
        explain(out, "second", advise=True)


def test_plug_ins_of_the_run_are_found_again(ran: Callable[..., Path]) -> None:
    plugin = Path(__file__).parents[2] / "docs" / "examples" / "widest_first.py"
    out = ran(MEMORY, f"spec.plugins=[{plugin}]", "spec.policies[0].kind=widest_first")
    assert tried(out, "second")["with 2Gi memory instead of 4Gi a task"].helped


def test_a_trace_that_is_gone_is_named(
    ran: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.csv").write_text("job,submit,stage,tasks,mean\na,0,m,9,30\nb,1,m,4,30\n")
    trace = "{kind: trace, format: csv, path: mine.csv, options: {time_unit: s}}"
    out = ran(MEMORY[: MEMORY.index("    kind: jobs")] + f"    {trace}\n  policies: [{{kind: fifo}}]\n")
    (tmp_path / "mine.csv").unlink()
    monkeypatch.setattr("rm_emulator.experiments.assembly._last", [])  # as in another process
    with pytest.raises(InvalidInput, match=r"mine\.csv"):
        explain(out, "b", advise=True)
