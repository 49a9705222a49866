"""A present taken over by another scheduler: nothing is lost, doubled or over-committed; and policy-diff."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import rm_emulator
from rm_emulator.engine.recording import MemoryRecording, Recording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.takeover import Past, take_over, takeover_obstacle
from rm_emulator.experiments.assembly import assemble, cluster_of
from rm_emulator.experiments.cell import inputs_of
from rm_emulator.experiments.grid import cells
from rm_emulator.forecasts.changes import compared
from rm_emulator.forecasts.plays import JobCourse
from rm_emulator.issues import InvalidInput
from rm_emulator.scenario.load import load
from schedulers.core.checks import validate
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Node
from schedulers.core.retelling import retold
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import ClusterState
from tests.cli.conftest import Command, command
from tests.examples import examples
from tests.forecasts.test_branch import ends
from tests.forecasts.test_simulate import SCENARIO, middle, run
from tests.same.scenarios import SCENARIOS

pytestmark = pytest.mark.usefixtures("no_report")

__all__ = ["command", "middle", "run"]
#: Moments of each policy, by night.
MOMENTS = 6


class Paused(NamedTuple):
    """A run at a moment, with its scheduler and with what is over."""

    simulation: Simulation
    scheduler: Scheduler
    past: Past

    def taken_over(
        self, by: SchedulerConfig | None = None, drained: Sequence[str] = (), added: Sequence[Node] = ()
    ) -> tuple[Simulation, MemoryRecording]:
        record, state, history = MemoryRecording(), self.scheduler.state, self.simulation.workload.history
        told = retold(
            state, self.simulation.containers, history=history, ended=self.past.jobs, finished=self.past.tasks
        )
        other = Scheduler(by or self.scheduler.config)
        return take_over(self.simulation, record, other, told, drained=drained, added=added), record


class Runs:
    """Runs of seed 1 of a policy in a scenario."""

    def __init__(self, name: str, label: str) -> None:
        self._cell = next(cell for cell in cells(load(SCENARIOS[name], seeds="1"), []) if cell.label == label)
        self._scenario, self._built = inputs_of(self._cell)
        self._config = cluster_of(self._scenario, self._built)

    def begun(self, record: Recording) -> tuple[Simulation, Scheduler]:
        entry = self._cell.scenario["spec"]["policies"][0]
        made = assemble(self._scenario, entry, self._cell.seed, self._built, record, config=self._config)
        made.simulation.begin(self._scenario.spec.until)
        return made.simulation, made.deciders.schedulers[0]

    def whole(self) -> tuple[int, dict[str, tuple[int | None, int | None]]]:
        """End of the run, and start and end of each job."""
        record = MemoryRecording()
        simulation, _ = self.begun(record)
        simulation.go_on()
        return simulation.end_ms, ends(record)

    def paused(self, at_ms: int) -> Paused:
        jobs, nodes = self._built.workload.jobs, self._config.nodes
        past = Past({source.job.id: source for source in jobs}, {node.id: node.speed for node in nodes})
        simulation, scheduler = self.begun(past)
        simulation.calendar.advance(at_ms)
        return Paused(simulation, scheduler, past)


def state_of(simulation: Simulation) -> ClusterState:
    (state,) = simulation.control._states
    return state


def go_on(simulation: Simulation) -> None:
    simulation.carry_on()
    simulation.go_on()


@pytest.mark.parametrize("label", ["fifo", "fair", "drf", "las", "by_point_estimate", "by_three_sigma", "by_slearn"])
def test_taken_over_by_the_same_policy_every_job_ends_as_if_nothing_had_happened(label: str) -> None:
    """True of policies that decide by the state and by their predictor alone: fifo, fair, drf and las; sjf with
    point_estimate and three_sigma, whose estimates follow from the run times told; gs with slearn, whose pilots follow
    from the seed. Not of posterior, which remembers how wrong it was about the stages of jobs that still run; and not
    of the other profiles, in which launches, calls and creations of pods are on their way at most moments.
    """
    runs, draw = Runs("events", label), random.Random(label)
    end, before = runs.whole()
    for _ in range(examples(MOMENTS)):
        at = draw.randrange(0, end)
        made, record = runs.paused(at).taken_over()
        go_on(made)
        after = ends(record)
        assert after == {job: before[job] for job in after}, at
        assert set(after) == {job for job, (_, finish) in before.items() if finish is not None and finish >= at}


@pytest.mark.parametrize(
    ("name", "label", "other"),
    [
        ("events", "fifo", "by_posterior"),
        ("events", "by_posterior", "drf"),
        ("kubernetes", "fair", "by_slearn_dag"),
        ("yarn", "capacity", "fair_yarn"),
        ("yarn", "by_slearn", "fifo"),
        ("yarn-masters", "monitor", "monitor"),
        ("yarn-masters", "fifo", "graphene"),
        ("yarn-masters", "fair_yarn", "capacity"),
        ("sls", "drf", "by_three_sigma_dag"),
        ("sls", "delay", "capacity"),
    ],
)
@pytest.mark.drawn(of=4)
def test_under_another_policy_every_job_ends_no_task_runs_twice_and_no_node_holds_too_much(
    name: str, label: str, other: str
) -> None:
    runs, draw = Runs(name, label), random.Random(f"{name} {label} {other}")
    (_, theirs), (end, _) = Runs(name, other).begun(Recording()), runs.whole()
    for _ in range(examples(MOMENTS)):
        at = draw.randrange(0, end)
        paused = runs.paused(at)
        live = {**paused.simulation.jobs}
        over = {(job, *task) for job in live for task in paused.past.tasks.get(job, ())}
        made, record = paused.taken_over(theirs.config)
        validate(state_of(made))
        assert all(min(node.free) >= 0 for node in state_of(made).nodes.values())
        go_on(made)
        validate(state_of(made))
        after = ends(record)
        assert live.keys() <= after.keys()
        assert all(finish is not None and finish >= at for _, finish in after.values()), at
        succeeded = [(task.job, task.stage, task.task) for task in record.tasks if task.code == 0]
        assert len(set(succeeded)) == len(succeeded)
        assert not over.intersection(succeeded), at
        # All that were live or came later, and in these all tasks.
        sources = {source.job.id: source.job for source in made.workload.jobs if source.job.id in live}
        done = {*over, *succeeded}
        assert all(
            (job.id, index, task) in done
            for job in sources.values()
            for index, stage in enumerate(job.stages)
            for task in range(stage.tasks)
        ), at


def test_the_facts_of_a_state_tell_the_state_even_where_nothing_is_known_of_the_past() -> None:
    paused = Runs("yarn", "fifo").paused(40_000)
    state = paused.scheduler.state
    other = Scheduler(paused.scheduler.config)
    for fact in retold(state, state.containers):
        other.handle(fact)
    validate(other.state)
    assert other.state.containers.keys() == state.containers.keys()
    assert other.state.used == state.used

    def figures(state: ClusterState) -> dict[str, list[tuple[int, int, int, bool]]]:
        return {
            job.id: [(stage.finished, stage.running, stage.waiting, stage.is_open) for stage in job.stages]
            for job in state.jobs.values()
        }

    assert figures(other.state) == figures(state)
    for job in state.jobs.values():
        there = other.state.jobs[job.id]
        assert (there.submitted, there.used, there.left) == (job.submitted, job.used, job.left)
        assert there.started_sum == job.started_sum


@pytest.mark.parametrize("name", ["events", "kubernetes", "yarn", "sls"])
def test_a_drained_node_takes_nothing_new_and_loses_nothing(name: str) -> None:
    paused = Runs(name, "fifo").paused(30_000)
    node = paused.simulation.config.nodes[0].id
    there = {number for number, each in paused.simulation.containers.items() if each.node == node}
    assert there
    made, record = paused.taken_over(drained=[node])
    go_on(made)
    on_node = {task.container for task in record.tasks if task.node == node}
    assert on_node <= there
    assert node not in state_of(made).nodes
    assert all(finish is not None for _, finish in ends(record).values())


@pytest.mark.parametrize("name", ["events", "yarn"])
def test_with_more_nodes_fifo_ends_no_later_in_the_mean_and_uses_the_nodes(name: str) -> None:
    """The nodes are fast: with more of the slow ones fifo ends later here, as tasks no longer wait for the fast."""
    runs = Runs(name, "fifo")
    for at in (15_000, 30_000, 45_000):
        like = runs.paused(at).simulation.config.nodes[-1]
        assert like.speed > 1
        added = tuple(msgspec.structs.replace(like, id=f"more-{number}") for number in range(4))
        means, nodes = [], set[str]()
        for more in ((), added):
            paused = runs.paused(at)
            made, record = paused.taken_over(added=more)
            go_on(made)
            finished = [finish for _, finish in ends(record).values() if finish is not None]
            means.append(sum(finished) / len(finished))
            nodes = {task.node for task in record.tasks}
        assert means[1] <= means[0]
        assert nodes & {node.id for node in added}


@pytest.mark.parametrize(
    ("name", "label", "why"),
    [
        ("executors", "fifo", "executors outlive their tasks"),
        ("dags", "fifo", "data is on its way"),
        ("disorder-yarn", "fifo", "facts come in disorder"),
        ("overbooked", "fifo", "slow each other down"),
    ],
)
def test_a_present_that_facts_cannot_tell_is_refused(name: str, label: str, why: str) -> None:
    simulation, _ = Runs(name, label).begun(Recording())
    assert why in takeover_obstacle(simulation)


# -- policy-diff ------------------------------------------------------------------------------------


def courses(**finish_ms: int | None) -> dict[str, JobCourse]:
    return {job: JobCourse(0, end) for job, end in finish_ms.items()}


def test_a_draw_is_worse_without_end_where_a_job_never_ends_with_the_change() -> None:
    without = [courses(a=200, b=300), courses(a=200, b=None), courses(a=200, b=300)]
    with_ = [courses(a=200, b=None), courses(a=150, b=None), courses(a=300, b=None)]
    found = compared("", without, with_, {"a": 0, "b": 0}, 100)
    assert found.never == ("b",)
    # The second draw, in which only one job counts, is the best.
    assert (found.longer_pct.p10, found.longer_pct.p50, found.longer_pct.p90) == (-50, None, None)
    assert found.is_worse(1e9)


def test_time_to_the_end_is_compared_from_the_moment_on_and_jct_from_submission() -> None:
    found = compared("", [courses(a=200, b=400)], [courses(a=150, b=400)], {"a": 0, "b": 100}, 100)
    assert found.longer_pct.p50 == pytest.approx(100 * (175 / 200 - 1))
    assert (found.jct_before.p50_ms, found.jct_after.p50_ms) == (250, 225)
    assert [each.job for each in found.jobs] == ["a"]
    assert not found.is_worse(0)


NOBODY = """
from schedulers.core.policy import Policy, policies


@policies.register("nobody", source="a test")
class Nobody(Policy):
    def schedule(self, view, offer):
        return
        yield
"""


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_the_same_policy_changes_nothing(run: Path, middle: str, command: Command) -> None:
    done = command(
        "simulate", "--from", f"{run}@{middle}", "--policy", "fifo", "--draws", "3", "--earlier", "0", "--json"
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)["compared"]
    assert found["longer_pct"] == {"p10": 0, "p50": 0, "p90": 0}
    assert (found["jobs"], found["never"]) == ([], [])
    assert found["jct_before"] == found["jct_after"]


@pytest.mark.slow
def test_a_policy_that_serves_nobody_is_worse_whatever_is_tolerated(
    run: Path, middle: str, tmp_path: Path, command: Command
) -> None:
    plugin = tmp_path / "nobody.py"
    plugin.write_text(NOBODY)
    question = ("simulate", "--from", f"{run}@{middle}", "--draws", "2", "--earlier", "0", "-q", "--plugin", plugin)
    done = command(*question, "--policy", "nobody", "--tolerance", "1e6")
    assert done.code == 1, done.err
    assert "without end" in done.out
    assert "Never: " in done.out


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_fewer_nodes_fail_a_check_that_tolerates_little_and_pass_a_generous_one(
    run: Path, middle: str, command: Command
) -> None:
    question = ("simulate", "--from", f"{run}@{middle}", "--draws", "4", "--earlier", "0", "-q")
    drained = ("--drain", "n1", "--drain", "n2", "--drain", "n1")
    strict, generous = (command(*question, *drained, "--tolerance", pct) for pct in ("1", "1e6"))
    assert (strict.code, generous.code) == (1, 0)
    assert "The present without n1, n2, against the present as it is" in strict.out
    assert "worse than the tolerance of 1 %" in strict.out


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_all_changes_are_made_together_and_answered_as_a_frame(run: Path, middle: str) -> None:
    policy = {"kind": "gs", "predictor": {"kind": "slearn"}}
    forecast = rm_emulator.simulate(run, middle, draws=3, earlier=0, policy=policy, drain="n1", add=["2xn2", "1xn2"])
    found = forecast.answer.compared
    assert found is not None
    assert found.change == "under slearn, without n1, with 2 more like n2, with 1 more like n2"
    assert forecast.compared["job"].to_list() == [each.job for each in found.jobs]
    assert rm_emulator.simulate(run, middle, draws=1, earlier=0).compared.is_empty()


@pytest.mark.slow
def test_an_oracle_that_takes_over_is_told_the_run_times_of_each_draw(run: Path, middle: str) -> None:
    """sjf with true means ends the mean job sooner than fifo on the same draws, in the median."""
    policy = {"kind": "sjf", "predictor": {"kind": "oracle"}}
    found = rm_emulator.simulate(run, middle, draws=4, earlier=0, policy=policy).answer.compared
    assert found is not None
    assert found.longer_pct.p50 is not None
    assert found.longer_pct.p50 < 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--policy", "fifp"), "--policy fifp kind: unknown policy 'fifp'"),
        (("--policy", "{kind: fifo, tied: 1}"), "'fifo' has no setting 'tied'"),
        (("--policy", "[fifo]"), "a list is not accepted"),
        (("--policy", "{kind: "), "not YAML"),
        (("--drain", "n01"), "no node of the run is called 'n01' (nodes: n1, n2, n3, n4), did you mean 'n1'?"),
        (("--add", "2xn01"), "no node of the run is called 'n01'"),
        (("--add", "n1"), "expected NxNODE with N from 1 to 10000"),
        (("--add", "0xn1"), "expected NxNODE with N from 1 to 10000"),
        (("--drain", "n1", "-f", "job.yaml"), "a new job and a change are two questions"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused_in_one_line(
    run: Path, middle: str, command: Command, options: tuple[str, ...], says: str
) -> None:
    done = command("simulate", "--from", f"{run}@{middle}", "-q", *options)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert done.err.count("\n") == 1


@pytest.mark.slow
def test_a_run_that_facts_cannot_tell_is_refused(tmp_path: Path) -> None:
    nodes = [{"count": 4, "capacity": {"cpu": 4, "memory": "16Gi"}}]
    cluster = {"nodes": nodes, "profile": "events", "executors": {}}
    spec = {**SCENARIO["spec"], "cluster": cluster, "policies": [{"kind": "fifo"}], "queues": []}
    rm_emulator.run({**SCENARIO, "spec": spec}, out=tmp_path / "out", jobs=1)
    with pytest.raises(InvalidInput, match="cannot be taken over from a moment on: executors outlive their tasks"):
        rm_emulator.simulate(tmp_path / "out", "1h", policy="fair")


def test_services_of_a_run_stay_where_another_policy_takes_over_and_every_batch_job_ends(tmp_path: Path) -> None:
    nodes = [{"count": 2, "capacity": {"cpu": 2, "memory": "4Gi"}}]
    one = {"tasks": 1, "demand": {"cpu": 1, "memory": "1Gi"}}
    jobs = [{"name": "web", "submit": 0, "service": {}, "stages": [{"name": "s", **one}]}]
    jobs += [
        {"name": f"b{n}", "submit": f"{n}s", "stages": [{"name": "s", **one, "duration": "30s"}]} for n in range(9)
    ]
    workload = {"kind": "jobs", "jobs": jobs}
    cluster = {"nodes": nodes, "profile": "kubernetes"}
    spec = {**SCENARIO["spec"], "cluster": cluster, "policies": [{"kind": "fifo"}], "queues": [], "workload": workload}
    rm_emulator.run({**SCENARIO, "spec": spec}, out=tmp_path / "out", jobs=1)
    found = rm_emulator.simulate(tmp_path / "out", "40s", draws=2, earlier=0, policy="fair", add="1xn1")
    compared_ = found.answer.compared
    assert compared_ is not None
    assert compared_.never == ()
    assert compared_.longer_pct.p50 is not None
    assert compared_.longer_pct.p50 < 0
    assert "web" not in found.jobs["job"].to_list()
