"""Bounded waiting: what cannot start piecemeal starts, however many small tasks come after it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulers.core.abilities import KeepsNodes
from schedulers.core.checks import validate
from schedulers.core.decisions import Decision, Place, Reserve
from schedulers.core.events import (
    ContainerEnded,
    ContainerStarted,
    Estimated,
    Heartbeat,
    JobSubmitted,
    NodeAdded,
    QueueChanged,
    Tick,
)
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Queue, Stage
from schedulers.core.policy import policies
from schedulers.core.scheduler import Scheduler

STEP, AFTER, LONGEST = 1_000, 5_000, 10_000
#: Random puts nobody first, rank_up the longest, which the large one is not, and lachesis whom it has learned to put
#: there. YARN's two and those whose tasks wait in lines keep nodes themselves.
POLICIES = sorted(
    entry.name
    for entry in policies
    if not issubclass(entry.cls, KeepsNodes) and entry.name not in ("random", "rank_up", "lachesis")
)


def streams(*factors: float | None) -> st.SearchStrategy[list[Small]]:
    """Small tasks: cores, seconds, and the estimate as a factor of the truth; None: there is none."""
    small = st.tuples(st.integers(1, 2), st.integers(1, LONGEST // STEP), st.sampled_from(factors))
    return st.lists(small, min_size=3, max_size=12)


Small = tuple[int, int, float | None]


@dataclasses.dataclass
class World:
    """A cluster that small tasks fill again and again; what each truly takes is known to nobody but this."""

    policy: str
    nodes: int
    stream: list[Small]
    beats: bool
    at: int = 0
    jobs: int = 0

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(
            SchedulerConfig(
                resources=("cpu",),
                policy={"kind": self.policy},
                predictor={"kind": "oracle"},
                offers="heartbeat" if self.beats else "cycle",
                reserve_after=AFTER,
            )
        )
        self.takes: dict[str, int] = {}
        self.ends: dict[int, int] = {}
        self.starts: int | None = None
        self.reserved: int | None = None
        self.longest = 0
        self.began: int | None = None
        for queue in (Queue(name="large", weight=100.0), Queue(name="small")):
            self.hear(QueueChanged(0, queue))
        for number in range(self.nodes):
            self.hear(NodeAdded(0, Node(id=f"n{number}", capacity=(4,))))

    def hear(self, fact: Any) -> None:
        for decision in self.scheduler.handle(fact):
            self.obey(decision)

    def obey(self, decision: Decision) -> None:
        if isinstance(decision, Reserve) and decision.job == "large":
            self.starts, self.reserved = decision.starts, self.at
            self.longest = max(end - self.at for end in self.ends.values())
        elif isinstance(decision, Place):
            self.ends[decision.container] = self.at + self.takes[decision.job]
            if decision.job == "large" and self.began is None:
                self.began = self.at

    def submit(self, job: Job, ms: int, factor: float | None) -> None:
        self.takes[job.id] = ms
        if factor is not None:
            self.hear(Estimated(self.at, job.id, (max(1, int(ms * factor)),)))
        self.hear(JobSubmitted(self.at, job))

    def small(self) -> None:
        demand, steps, factor = self.stream[self.jobs % len(self.stream)]
        name = f"s{self.jobs}"
        self.jobs += 1
        self.submit(
            Job(id=name, stages=(Stage(name="s", tasks=1, demand=(demand,)),), queue="small"), steps * STEP, factor
        )

    def fill(self, there: list[tuple[int, float | None]]) -> None:
        """Tasks of one core on all there is, each with its seconds and the factor of its estimate; nobody waits."""
        for number, (steps, factor) in enumerate(there):
            job = Job(id=f"f{number}", stages=(Stage(name="s", tasks=1, demand=(1,)),), queue="small")
            self.submit(job, steps * STEP, factor)
        self.offer()

    def offer(self) -> None:
        """Everything is on offer; what was placed starts at once."""
        if self.beats:
            for number in range(self.nodes):
                self.hear(Heartbeat(self.at, f"n{number}"))
        else:
            self.hear(Tick(self.at))
        for container in list(self.ends):
            if self.scheduler.state.containers[container].started < 0:
                self.hear(ContainerStarted(self.at, container))

    def step(self) -> None:
        """A second: what is over ends, the stream goes on, everything is on offer."""
        self.at += STEP
        for container, end in list(self.ends.items()):
            if end <= self.at:
                job = self.scheduler.state.containers[container].job
                del self.ends[container]
                self.hear(ContainerEnded(self.at, container, runtime_ms=self.takes[job]))
        while len(self.scheduler.state.waiting) < 5:
            self.small()
        self.offer()
        self.check_takers()

    def check_takers(self) -> None:
        """What is remembered of nodes says the same as each node when it is asked."""
        state = self.scheduler.state
        reservations = state.reservations
        assert reservations is not None
        for job in state.waiting.values():
            for stage in job.open_stages():
                asked = [node for node in state.sizes.fitting(stage.size) if reservations.takes(node, job, stage)]
                assert list(reservations.allowed(job, stage)) == asked
                if reservations.is_offer_useful_to(job, stage, None, asked=False) and state.sizes.has_room():
                    assert reservations.is_offer_useful()


@pytest.mark.parametrize("beats", [False, True], ids=["cycles", "beats"])
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=4)
@given(nodes=st.integers(1, 3), stream=streams(0.1, 1.0, 10.0, None), gang=st.booleans(), data=st.data())
@pytest.mark.drawn(of=8)
def test_what_is_first_in_the_order_starts_by_its_reservation(
    policy: str, beats: bool, nodes: int, stream: list[Small], gang: bool, data: st.DataObject
) -> None:
    world = World(policy, nodes, stream, beats)
    seconds = st.lists(st.integers(1, LONGEST // STEP), min_size=4 * nodes, max_size=4 * nodes)
    world.fill([(each, 1.0) for each in data.draw(seconds)])
    most = 4 if beats else 4 * nodes
    stage = Stage(name="s", tasks=most, demand=(1,), gang=True) if gang else Stage(name="s", tasks=1, demand=(4,))
    world.submit(Job(id="large", stages=(stage,), queue="large"), 1, 1.0)
    asked = world.at
    while world.began is None and world.at < asked + AFTER + 14 * LONGEST:
        world.step()
    validate(world.scheduler.state)
    assert world.began is not None, "it never starts"
    if world.starts is None or world.reserved is None:
        return  # it found room before
    assert world.reserved <= asked + AFTER + LONGEST + STEP, "when something ends, it is next"
    assert world.starts <= world.reserved + 10 * LONGEST, "no estimate is longer"
    assert world.began <= world.starts + LONGEST + 2 * STEP, "what ran at its start is over then"
    assert world.began <= world.reserved + 2 * LONGEST + 2 * STEP, "what ran when nodes were reserved, then backfill"


@pytest.mark.parametrize("beats", [False, True], ids=["cycles", "beats"])
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=8)
@given(nodes=st.integers(1, 3), stream=streams(1.0, None), gang=st.booleans(), data=st.data())
@pytest.mark.drawn(of=8)
def test_where_no_estimate_is_wrong_it_starts_once_what_ran_then_is_over(
    policy: str, beats: bool, nodes: int, stream: list[Small], gang: bool, data: st.DataObject
) -> None:
    """Of some tasks nothing is known; they keep nobody waiting but by their own time."""
    world = World(policy, nodes, stream, beats)
    known = st.tuples(st.integers(1, LONGEST // STEP), st.sampled_from((1.0, None)))
    world.fill(data.draw(st.lists(known, min_size=4 * nodes, max_size=4 * nodes)))
    most = 4 if beats else 4 * nodes
    stage = Stage(name="s", tasks=most, demand=(1,), gang=True) if gang else Stage(name="s", tasks=1, demand=(4,))
    world.submit(Job(id="large", stages=(stage,), queue="large"), 1, 1.0)
    while world.began is None and world.at < 14 * LONGEST:
        world.step()
    assert world.began is not None, "it never starts"
    if world.reserved is not None:
        assert world.began <= world.reserved + world.longest + STEP
