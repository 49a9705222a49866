"""Random DAGs with edges of all kinds: every run ends, and no task begins before its edges let it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.testing import POLICY_CHECKS, Subject, case_for, replay, run_case
from schedulers.core.checks import validate
from schedulers.core.decisions import Decision, Place, Preempt
from schedulers.core.events import ContainerEnded, ContainerStarted, Event, JobSubmitted, NodeAdded, NodeLost, Tick
from schedulers.core.live import GRANTED, RUNNING, ContainerState
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Edge, Job, Node, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.core.ties import EARLY
from tests.examples import examples


@st.composite
def jobs(draw: st.DrawFn, name: str) -> Job:
    """A DAG of up to 4 stages, of which many have as many tasks as others."""
    stages: list[Stage] = []
    for index in range(draw(st.integers(1, 4))):
        tasks, parents = draw(st.sampled_from((1, 3, 3, 5))), []
        for parent in range(index):
            kind = draw(st.sampled_from(("none", "barrier", "one_to_one", "share", "share")))
            if kind == "share":
                parents.append(Edge(parent=parent, kind=kind, share=draw(st.sampled_from((0.05, 0.5, 0.99)))))
            elif kind == "one_to_one" and stages[parent].tasks == tasks:
                parents.append(Edge(parent=parent, kind=kind))
            elif kind == "barrier":
                parents.append(Edge(parent=parent))
        demand = draw(st.sampled_from(((1000, 1024), (2000, 1024))))
        stages.append(Stage(name=f"s{index}", tasks=tasks, demand=demand, parents=tuple(parents)))
    return Job(id=name, stages=tuple(stages))


class World:
    """A shell that starts and ends containers in any order, fails some, and loses a node now and then.

    A task behind a share starts, and so ends, only after the parent. Every container ordered to end ends in time.
    """

    def __init__(self, policy: str, nodes: int, jobs: list[Job], random: Random) -> None:
        self.now, self.random, self.troubles, self.ending = 0, random, 12, set[int]()
        self.done: set[tuple[str, int, int]] = set()
        self.config = SchedulerConfig(resources=("cpu", "memory"), policy={"kind": policy}, offers="cycle")
        self.lines: list[bytes] = []
        self.log = Log(self.lines.append)
        self.scheduler = Scheduler(self.config, log=self.log)
        self.restored: Scheduler | None = None
        self.nodes = [Node(id=f"n{number}", capacity=(2000, 2048)) for number in range(nodes)]
        for node in self.nodes:
            self.tell(NodeAdded(0, node))
        for job in jobs:
            self.tell(JobSubmitted(0, job, "all"))

    def tell(self, event: Event) -> None:
        decisions = self.scheduler.handle(event)
        assert self.restored is None or self.restored.handle(event) == decisions
        for decision in decisions:
            self._check(decision)
        validate(self.scheduler.state)
        for container in self._containers():
            job = self.scheduler.state.jobs[container.job]
            above = [edge.parent for edge in job.spec.stages[container.stage].edges if edge.kind == "share"]
            stays = container.id not in self.ending
            assert not (stays and any(job.stages[parent].waiting for parent in above)), "its parent waits for room"

    def _containers(self) -> list[ContainerState]:
        return list(self.scheduler.state.containers.values())

    def _check(self, decision: Decision) -> None:
        if isinstance(decision, Preempt):
            assert decision.rule == EARLY
            self.ending.add(decision.container)
        if not isinstance(decision, Place):
            return
        job = self.scheduler.state.jobs[decision.job]
        for edge in job.spec.stages[decision.stage].edges:
            above = job.stages[edge.parent]
            if edge.kind == "one_to_one":
                assert (job.id, edge.parent, decision.task) in self.done, f"{decision} begins before its task above"
            else:
                least = edge.least(above.tasks) if edge.kind == "share" else above.tasks
                assert above.finished >= least, f"{decision} begins before its parent lets it"
                assert above.finished + above.running == above.tasks, f"{decision} begins beside a waiting parent"

    def step(self) -> None:
        """Let something happen; something always can while jobs are left."""
        self.now += self.random.randint(0, 3)
        acts = [(self._start, c) for c in self._containers() if c.status == GRANTED and self._may_start(c)]
        acts += [(self._end, c) for c in self._containers() if c.status == RUNNING or c.id in self.ending]
        assert acts, "nothing can go on: the run is in a deadlock"
        act, container = self.random.choice(acts)
        if self.troubles and self.random.random() < 0.3:
            self.troubles -= 1
            act, container = self.random.choice((self._fail, self._lose)), self.random.choice(self._containers())
        act(container)
        self.tell(Tick(self.now))

    def _may_start(self, container: ContainerState) -> bool:
        job = self.scheduler.state.jobs[container.job]
        above = [job.stages[edge.parent] for edge in job.spec.stages[container.stage].edges if edge.kind == "share"]
        return container.id not in self.ending and all(parent.finished == parent.tasks for parent in above)

    def _start(self, container: ContainerState) -> None:
        self.tell(ContainerStarted(self.now, container.id))

    def _end(self, container: ContainerState) -> None:
        if container.id in self.ending:
            self._fail(container)
        else:
            self.done.add((container.job, container.stage, container.task))
            self.tell(ContainerEnded(self.now, container.id, 0, self.now - container.started))

    def _fail(self, container: ContainerState) -> None:
        self.tell(ContainerEnded(self.now, container.id, -102, 0))

    def _lose(self, container: ContainerState) -> None:
        """Lose the node of a container, and get the node back."""
        self.tell(NodeLost(self.now, container.node))
        self.tell(NodeAdded(self.now, next(node for node in self.nodes if node.id == container.node)))


@settings(max_examples=examples(400), deadline=None)
@given(
    policy=st.sampled_from(("fifo", "fair", "las", "random", "srpt", "tetris")),
    nodes=st.integers(1, 3),
    jobs=st.tuples(jobs("a"), jobs("b")),
    random=st.randoms(use_true_random=False),
    restore=st.integers(0, 40),
)
def test_whatever_fails_every_task_ends_once_and_none_begins_before_its_edges_let_it(
    policy: str, nodes: int, jobs: tuple[Job, Job], random: Random, restore: int
) -> None:
    world = World(policy, nodes, list(jobs), random)
    world.tell(Tick(0))
    for number in range(2000):
        if not world.scheduler.state.jobs:
            break
        if number == restore:
            world.restored = Scheduler.restore(world.scheduler.snapshot())
            validate(world.restored.state)
        world.step()
    assert not world.scheduler.state.jobs
    assert not world.scheduler.state.work.ties
    assert len(world.done) == sum(job.tasks for job in jobs)
    world.log.flush()
    lines = b"".join(world.lines).splitlines()
    assert replay(lines) == lines


#: Of every fourth number the edges are of all kinds; these have profiles sls, yarn and kubernetes.
TIED = (6, 10, 14)


@pytest.mark.slow
@pytest.mark.parametrize("seed", TIED)
@pytest.mark.parametrize("policy", ["fifo", "capacity"])
@pytest.mark.drawn(of=4)
def test_all_promises_hold_in_every_profile(policy: str, seed: int) -> None:
    for check in POLICY_CHECKS:
        check(Subject(policy={"kind": policy}), (seed,))


def test_the_scenarios_have_early_containers_and_pipelines() -> None:
    early = 0
    for seed in TIED:
        subject = Subject(policy={"kind": "fifo"})
        made = case_for(subject, seed)
        ran = run_case(subject, made)
        specs = {entry.job.id: entry.job for entry in made.workload.jobs}
        last: dict[tuple[str, int], int] = {}
        for task in ran.kept.tasks:
            last[task.job, task.stage] = max(task.ended_ms, last.get((task.job, task.stage), 0))
        for task in ran.kept.tasks:
            above = [edge.parent for edge in specs[task.job].stages[task.stage].ties]
            early += any(task.granted_ms < last[task.job, parent] for parent in above)
    assert early > 5
