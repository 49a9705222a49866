"""What holds in every tree of queues with limits, whatever the policy: nobody waits for nothing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.testing import job, stage
from schedulers.core.decisions import Preempt
from schedulers.core.events import ContainerEnded, Event, Heartbeat, JobSubmitted, NodeAdded, QueueChanged, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Limit, Node, PerUser, Queue
from schedulers.core.resources import Vector
from schedulers.core.scheduler import Scheduler

LEAVES = {"x": "root.a.x", "y": "root.a.y", "b": "root.b", "c": "root.c"}  # with their paths in YARN
USERS = ("ann", "bob")
CAPACITIES = ((2000, 2048), (4000, 1024), (1000, 4096), (6000, 6144))
SIZES = ((500, 256), (1000, 1024), (1000, 0), (2000, 512), (3000, 3072))

LIMITS = st.sampled_from((None, None, None, 0.3, 0.6, (2500, -1), (-1, 2048), (3000, 3072)))
COUNTS = st.sampled_from((None, None, None, 1, 2))
PER_USER = st.one_of(st.none(), st.none(), st.builds(PerUser, limit=LIMITS, max_running=COUNTS))


def queue(name: str, parent: str = "") -> st.SearchStrategy[Queue]:
    return st.builds(
        Queue,
        name=st.just(name),
        parent=st.just(parent),
        weight=st.sampled_from((1.0, 2.0, 3.0)),
        max=LIMITS,
        per_user=PER_USER,
        max_running=COUNTS,
    )


QUEUES = st.tuples(queue("a"), queue("x", "a"), queue("y", "a"), queue("b"), queue("c"))
NODES = st.lists(st.sampled_from(CAPACITIES), min_size=1, max_size=4)
SHAPES = st.lists(st.tuples(st.integers(1, 6), st.sampled_from(SIZES)), min_size=1, max_size=2)
JOBS = st.tuples(SHAPES, st.booleans(), st.sampled_from(sorted(LEAVES)), st.sampled_from(USERS))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), JOBS),
        st.tuples(st.just("end"), st.integers(0, 99), st.sampled_from((0, 0, 0, -102))),
        st.tuples(st.just("beat"), st.integers(0, 9)),
    ),
    min_size=2,
    max_size=16,
)


@dataclasses.dataclass(frozen=True)
class Waiting:
    """A task that could have started."""

    job: str
    stage: int
    node: str


class World:
    """A scheduler with its nodes, and books of its own about who may have what."""

    def __init__(
        self, config: SchedulerConfig, nodes: list[Vector], queues: tuple[Queue, ...], size: Vector | None = None
    ) -> None:
        self.size = size  # of all tasks, or None: as drawn
        self.scheduler = Scheduler(config)
        self.nodes = {f"n{number}": capacity for number, capacity in enumerate(nodes)}
        self.queues = {queue.name: queue for queue in queues}
        self.jobs: dict[str, Job] = {}
        self.at = 0
        for queue in queues:
            self.scheduler.handle(QueueChanged(0, queue))
        for name, capacity in self.nodes.items():
            self.scheduler.handle(NodeAdded(0, Node(id=name, capacity=capacity)))

    # -- what happens ---------------------------------------------------------------------------

    def step(self, word: str, *args: Any) -> None:
        self.at += 1
        getattr(self, word)(*args)

    def submit(self, drawn: Any) -> None:
        shapes, chained, leaf, user = drawn
        name = f"j{len(self.jobs)}"
        stages = [
            stage(tasks, self.size or demand, parents=tuple(range(number)) if chained else (), name=f"s{number}")
            for number, (tasks, demand) in enumerate(shapes)
        ]
        self.jobs[name] = job(name, *stages, queue=leaf, user=user)
        self.scheduler.handle(JobSubmitted(self.at, self.jobs[name]))

    def end(self, pick: int, code: int) -> None:
        there = list(self.scheduler.state.containers)
        if there:
            self.scheduler.handle(ContainerEnded(self.at, there[pick % len(there)], code, 1))

    def beat(self, pick: int) -> None:
        if self.scheduler.config.offers == "heartbeat":
            self.scheduler.handle(Heartbeat(self.at, list(self.nodes)[pick % len(self.nodes)]))
        else:
            self.scheduler.handle(Tick(self.at))

    def settle(self, patience: int, ms: int) -> None:
        """Beats of all nodes until so many rounds in a row have placed nothing."""
        quiet = 0
        while quiet < patience:
            before = len(self.scheduler.state.containers)
            for number in range(len(self.nodes)):
                self.at += ms
                self.beat(number)
            quiet = 0 if len(self.scheduler.state.containers) > before else quiet + 1

    # -- what should be -------------------------------------------------------------------------

    def held(self) -> Iterator[tuple[Job, str, Vector]]:
        """(job, node, demand) of each container."""
        for container in self.scheduler.state.containers.values():
            spec = self.jobs[container.job]
            yield spec, container.node, spec.stages[container.stage].demand

    def way(self, name: str) -> Iterator[Queue]:
        while name:
            yield self.queues[name]
            name = self.queues[name].parent

    def most(self, limit: Limit) -> Vector:
        total = [sum(column) for column in zip(*self.nodes.values(), strict=True)]
        if limit is None:
            return (10**9, 10**9)
        if isinstance(limit, float):
            return tuple(math.floor(limit * there + 1e-9) for there in total)
        return tuple(10**9 if part == -1 else part for part in limit)

    def within(self, spec: Job, demand: Vector) -> bool:
        """Whether the limits of the job's queues, and of its user in them, let one more such container start."""
        for above in self.way(spec.queue):
            mine = [(s, d) for s, _, d in self.held() if above in self.way(s.queue)]
            own = [(s, d) for s, d in mine if s.user == spec.user]
            each = above.per_user.limit if above.per_user is not None else None
            for limit, holders in ((above.max, mine), (each, own)):
                used = [sum(d[r] for _, d in holders) for r in range(len(demand))]
                if any(d and u + d > m for u, d, m in zip(used, demand, self.most(limit), strict=True)):
                    return False
        return True

    def could_start(self) -> Iterator[Waiting]:
        """Tasks that wait although a node has room for them and their queues' limits would allow them."""
        free = {name: list(capacity) for name, capacity in self.nodes.items()}
        for _, node, demand in self.held():
            free[node] = [f - d for f, d in zip(free[node], demand, strict=True)]
        for there in self.scheduler.state.jobs.values():
            spec = self.jobs[there.id]
            for number, each in enumerate(spec.stages):
                parents = [there.stages[parent] for parent in each.parents]
                waits = each.tasks - there.stages[number].finished - there.stages[number].running
                if not there.admitted or not waits or any(p.finished < p.tasks for p in parents):
                    continue
                fits = [n for n, f in free.items() if all(w <= h for w, h in zip(each.demand, f, strict=True) if w)]
                if fits and self.within(spec, each.demand):
                    yield Waiting(there.id, number, fits[0])

    def could_enter(self) -> Iterator[str]:
        """Jobs that were not let in although each of their queues would let one more in."""
        live = self.scheduler.state.jobs.values()
        for there in live:
            spec, full = self.jobs[there.id], False
            for above in self.way(spec.queue):
                inside = [j for j in live if j.admitted and above in self.way(self.jobs[j.id].queue)]
                own = [j for j in inside if self.jobs[j.id].user == spec.user]
                each = above.per_user.max_running if above.per_user is not None else None
                full |= above.max_running is not None and len(inside) >= above.max_running
                full |= each is not None and len(own) >= each
            if not there.admitted and not full:
                yield there.id


POLICIES: tuple[dict[str, Any], ...] = (
    {"kind": "fifo"},
    {"kind": "fair"},
    {"kind": "las"},
    {"kind": "gs"},
    {"kind": "drf"},
    {"kind": "drf", "level": "user", "inside": "fifo"},
    {"kind": "drf", "level": "job"},
    {"kind": "hdrf"},
    {"kind": "hdrf", "variant": "naive"},
)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: "-".join(map(str, policy.values())))
@given(
    nodes=NODES,
    queues=QUEUES,
    steps=STEPS,
    offers=st.sampled_from(("heartbeat", "cycle", "event")),
    one_a_beat=st.booleans(),
)
@settings(max_examples=60)
@pytest.mark.drawn(of=4)
def test_nobody_waits_while_something_that_fits_its_limits_is_free(
    policy: dict[str, Any],
    nodes: list[Vector],
    queues: tuple[Queue, ...],
    steps: list[Any],
    offers: Any,
    one_a_beat: bool,
) -> None:
    world = World(
        SchedulerConfig(
            resources=("cpu", "memory"), policy=policy, offers=offers, containers_per_offer=1 if one_a_beat else None
        ),
        nodes,
        queues,
    )
    for step in steps:
        world.step(*step)
    world.settle(1, 1)
    assert not list(world.could_start())
    assert not list(world.could_enter())


# -- YARN's schedulers ----------------------------------------------------------------------------

#: Limits of the queues themselves come from YARN's settings there; the number of running jobs is the core's.
UNLIMITED = QUEUES.map(lambda queues: tuple(msgspec.structs.replace(q, max=None, per_user=None) for q in queues))
WIDE = {"user_limit_factor": 100.0}


def settled(
    policy: dict[str, Any], nodes: list[Vector], queues: tuple[Queue, ...], steps: list[Any], **more: Any
) -> World:
    """A cluster whose nodes have beaten long enough for every delay and every update."""
    world = World(
        SchedulerConfig(resources=("cpu", "memory"), policy=policy, offers="heartbeat"), nodes, queues, **more
    )
    for step in steps:
        world.step(*step)
    world.settle(6, 200)
    return world


@given(nodes=NODES, queues=UNLIMITED, steps=STEPS, size=st.sampled_from(SIZES))
@settings(max_examples=60)
def test_nobody_waits_for_nothing_under_capacity(
    nodes: list[Vector], queues: tuple[Queue, ...], steps: list[Any], size: Vector
) -> None:
    """Of equal tasks: YARN lets a large ask at the head of a queue hold up the small ones behind it."""
    policy = {"kind": "capacity", "queues": dict.fromkeys(LEAVES.values(), WIDE)}
    world = settled(policy, nodes, queues, steps, size=size)
    assert not list(world.could_start())
    assert not list(world.could_enter())


@pytest.mark.parametrize("settings_", [{}, {"default_ordering": "drf", "assign_multiple": True}])
@given(nodes=NODES, queues=UNLIMITED, steps=STEPS)
@settings(max_examples=60)
def test_nobody_waits_for_nothing_under_fair_yarn(
    settings_: dict[str, Any], nodes: list[Vector], queues: tuple[Queue, ...], steps: list[Any]
) -> None:
    """But for nodes that the starved have reserved."""
    world = settled({"kind": "fair_yarn", **settings_}, nodes, queues, steps)
    yarn = world.scheduler.policy._yarn  # type: ignore[attr-defined]
    reserved = {name for name, node in yarn.nodes.items() if node.reservation is not None} if yarn else set()
    assert not [task for task in world.could_start() if task.node not in reserved]
    assert not list(world.could_enter())


@pytest.mark.parametrize("policy", ["capacity", "fair_yarn"])
def test_under_yarn_a_task_beyond_a_declared_limit_holds_up_nobody_else(policy: str) -> None:
    queues = (Queue(name="b", max=0.3), Queue(name="c"))
    steps = [("submit", ([(1, (2000, 512))], False, "b", "ann")), ("submit", ([(2, (500, 256))], False, "c", "ann"))]
    world = settled({"kind": policy}, [(2000, 2048)] * 3, queues, steps)
    assert not list(world.could_start())


# -- preemption -----------------------------------------------------------------------------------

TENTHS = st.lists(st.integers(1, 7), min_size=2, max_size=4).filter(lambda parts: sum(parts) <= 10)
MONITOR = st.fixed_dictionaries(
    {
        "enabled": st.just(True),
        "max_wait_before_kill_ms": st.sampled_from((0, 6000)),
        "total_per_round": st.sampled_from((0.1, 0.3, 1.0)),
        "max_ignored_over_capacity": st.sampled_from((0.0, 0.1)),
        "natural_termination_factor": st.sampled_from((0.2, 1.0)),
    }
)


class Contest:
    """Queues of whole containers' worth on nodes of ten; what is preempted waits again at once, and nothing ends."""

    def __init__(self, tenths: list[int], nodes: int, monitor: dict[str, Any]) -> None:
        self.names = [f"q{number}" for number in range(len(tenths))]
        rest = 10 - sum(tenths)
        self.owed = dict(zip(self.names, [tenths[0] + rest, *tenths[1:]], strict=True))
        shares = {f"root.{name}": {"capacity": 10.0 * part, **WIDE} for name, part in self.owed.items()}
        policy = {"kind": "capacity", "queues": shares, "preemption": monitor}
        self.scheduler = Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy=policy, offers="heartbeat"))
        self.at, self.preempted = 0, dict.fromkeys(self.names, 0)
        self.nodes = [f"n{number}" for number in range(nodes)]
        for name in self.names:
            self.tell(QueueChanged(0, Queue(name=name)))
        for name in self.nodes:
            self.tell(NodeAdded(0, Node(id=name, capacity=(10_000, 10_240))))

    def tell(self, event: Event) -> None:
        for decision in self.scheduler.handle(event):
            if isinstance(decision, Preempt):
                self.preempted[self.scheduler.state.containers[decision.container].job] += 1
                self.tell(ContainerEnded(self.at, decision.container, -102))

    def submit(self, name: str, tasks: int) -> None:
        self.tell(JobSubmitted(self.at, job(name, stage(tasks), queue=name)))

    def beats(self, rounds: int) -> None:
        for _ in range(rounds):
            for name in self.nodes:
                self.at += 100
                self.tell(Heartbeat(self.at, name))

    def rounds(self) -> None:
        """Rounds of the monitor, each after a beat of every node, until ten in a row have stopped nothing."""
        quiet = 0
        while quiet < 10:
            before = sum(self.preempted.values())
            self.at += 3000
            self.tell(Tick(self.at))
            self.beats(1)
            quiet = 0 if sum(self.preempted.values()) > before else quiet + 1

    def held(self) -> dict[str, int]:
        return {
            name: self.scheduler.state.jobs[name].running for name in self.names if name in self.scheduler.state.jobs
        }


@given(
    tenths=TENTHS,
    nodes=st.integers(1, 3),
    monitor=MONITOR,
    early=st.integers(1, 3),
    wanted=st.lists(st.integers(1, 40), min_size=4, max_size=4),
)
@settings(max_examples=40)
def test_who_was_preempted_never_preempts_in_turn(
    tenths: list[int], nodes: int, monitor: dict[str, Any], early: int, wanted: list[int]
) -> None:
    """Guarantees are whole containers: half of one too many is taken from whom it was given to, as in YARN."""
    contest = Contest(tenths, nodes, monitor)
    holders, late = contest.names[: min(early, len(tenths) - 1)], contest.names[min(early, len(tenths) - 1) :]
    for name in holders:
        contest.submit(name, 10 * nodes)
    contest.beats(10 * nodes)
    assert sum(contest.held().values()) == 10 * nodes
    for name, tasks in zip(late, wanted, strict=False):
        contest.submit(name, tasks)
    contest.rounds()
    held = contest.held()
    for name in late:
        assert not contest.preempted[name], f"{name} was served by preemption, and preempted: {contest.preempted}"
    # What came back took none of the room that was made; of several holders each gives a whole container.
    assert sum(contest.preempted.values()) >= sum(held[name] for name in late)
    if len(holders) == 1:
        assert sum(contest.preempted.values()) == sum(held[name] for name in late)
