"""Overrun nodes: who is slowed down, how much, and that only network and disk can be overbooked."""

from __future__ import annotations

import itertools
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.engine.assemble import timing
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.features.overbooking import Sharers
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import Audit, MemoryRecording, job, scheduler, stage
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.checks import validate
from schedulers.core.errors import InvalidTransition
from schedulers.core.events import ContainerEnded, Heartbeat, JobSubmitted, NodeAdded, NodeChanged
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Node
from schedulers.core.scheduler import Scheduler

# cpu, network: half as much again of the network may be asked for.
NODE = Node(id="n", capacity=(8000, 1000), slack=(0, 500))
COPY, COUNT = (1000, 600), (1000, 0)


def ends(
    *tasks: tuple[int, tuple[int, int], int],
    uses: tuple[int, int] | None = None,
    am: tuple[int, int] | None = None,
    node: Node = NODE,
    **config: object,
) -> dict[str, int]:
    """When each task `(submitted, demand, run time alone)` ends, by its number. uses: what each truly uses.

    am: what the application master of each asks for.
    """
    usage = (uses,) if uses is not None else ()
    jobs = tuple(
        WorkloadJob(job=job(str(i), stage(1, demand)), submit_ms=at, runtimes=(Fixed(ms),), usage=usage, am=am or ())
        for i, (at, demand, ms) in enumerate(tasks)
    )
    settings: dict[str, object] = {"profile": "events", **config}
    cluster = EngineConfig(nodes=(node,), resources=("cpu", "network"), **settings)
    offers = timing(cluster).offers
    audit = Audit(Scheduler(SchedulerConfig(resources=("cpu", "network"), policy={"kind": "fifo"}, offers=offers)))
    kept = MemoryRecording()
    Simulation(cluster, Workload(name="test", jobs=jobs, resources=("cpu", "network")), audit, kept).run()
    validate(audit.state)
    audit.drained()
    return {task.job: task.ended_ms for task in kept.tasks if task.stage == 0}


def test_both_are_slowed_down_in_proportion() -> None:
    # 1200 of 1000: five sixths of the speed.
    assert ends((0, COPY, 1000), (0, COPY, 1000)) == {"0": 1200, "1": 1200}


def test_only_while_the_resource_is_overbooked() -> None:
    # The first: 500 alone, then 500 at 5/6. The second: 600 at 5/6, then 500 alone.
    assert ends((0, COPY, 1000), (500, COPY, 1000)) == {"0": 1100, "1": 1600}


def test_who_does_not_use_it_is_not_slowed_down() -> None:
    assert ends((0, COPY, 1000), (0, COPY, 1000), (0, COUNT, 1000))["2"] == 1000


def test_within_the_capacity_nobody_is_slowed_down() -> None:
    assert ends((0, (1000, 500), 1000), (0, (1000, 500), 1000)) == {"0": 1000, "1": 1000}


def test_no_more_than_the_slack_is_asked_for() -> None:
    assert ends((0, COPY, 1000), (0, COPY, 1000), (0, COPY, 1000)) == {"0": 1200, "1": 1200, "2": 2200}


def test_without_slack_one_waits_for_the_other() -> None:
    assert ends((0, COPY, 1000), (0, COPY, 1000), node=msgspec.structs.replace(NODE, slack=())) == {
        "0": 1000,
        "1": 2000,
    }


@pytest.mark.parametrize("profile", ["yarn", "sls"])
def test_heartbeats_that_are_skipped_change_nothing(profile: str) -> None:
    tasks = [(137 * i, COPY if i % 3 else COUNT, 900 + 311 * i) for i in range(12)]
    assert ends(*tasks, profile=profile) == ends(*tasks, profile=profile, skip=False)


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(100, 1000), st.integers(1, 2000)), max_size=8))
def test_no_task_ends_before_it_would_alone(tasks: list[tuple[int, int, int]]) -> None:
    tasks = sorted(tasks)
    found = ends(*((at, (1000, network), ms) for at, network, ms in tasks))
    assert len(found) == len(tasks)
    assert all(found[str(i)] >= at + ms for i, (at, _, ms) in enumerate(tasks))


@given(st.lists(st.tuples(st.integers(1, 900), st.integers(1, 3000)), min_size=1, max_size=8))
def test_what_is_run_together_is_what_the_network_gives(tasks: list[tuple[int, int]]) -> None:
    """All begin at once; the work done, demand x run time, never exceeds capacity x time."""
    sharers, due = Sharers([NODE]), {}
    for number, (network, ms) in enumerate(tasks):
        due |= dict(sharers.start(0, number, (0, network), ms, 0))
    work, done = {n: network * ms for n, (network, ms) in enumerate(tasks)}, 0.0
    while due:
        number = min(due, key=lambda n: (due[n], n))
        now = due.pop(number)
        done += work[number]
        assert done <= 1000 * (now + 1)
        assert now >= tasks[number][1]
        due |= dict(sharers.end(0, number, now))


@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 900), st.integers(0, 900), st.integers(1, 100)),
        min_size=1,
        max_size=6,
    )
)
def test_sharers_are_as_fast_as_a_clock_that_counts_every_ms(tasks: list[tuple[int, int, int, int]]) -> None:
    """Two resources of 1000 each, both of which can be overrun; a task is (start, uses of them, run time alone)."""
    assert shared(tasks) == counted(tasks)


def shared(tasks: list[tuple[int, int, int, int]]) -> dict[int, int]:
    sharers, due = Sharers([Node(id="n", capacity=(1000, 1000))], {0, 1}), dict[int, int]()
    starts, found = sorted((at, number) for number, (at, *_) in enumerate(tasks)), dict[int, int]()
    while starts or due:
        first = min(due, key=lambda n: (due[n], n), default=None)
        if first is not None and (not starts or due[first] <= starts[0][0]):
            found[first] = due.pop(first)
            due |= dict(sharers.end(0, first, found[first]))
        else:
            at, number = starts.pop(0)
            _, one, two, ms = tasks[number]
            due |= dict(sharers.start(0, number, (one, two), ms, at))
    return found


def counted(tasks: list[tuple[int, int, int, int]]) -> dict[int, int]:
    left, found = {number: Fraction(ms) for number, (*_, ms) in enumerate(tasks)}, dict[int, int]()
    for now in itertools.count():
        found |= {number: now for number, ms in left.items() if ms <= 0 and number not in found}
        if len(found) == len(tasks):
            return found
        there = {n: tasks[n][1:3] for n in left if n not in found and tasks[n][0] <= now}
        used = [sum(use[r] for use in there.values()) for r in (0, 1)]
        for number, use in there.items():
            left[number] -= min([Fraction(1), *(Fraction(1000, used[r]) for r in (0, 1) if use[r])])
    raise AssertionError("time is endless")


# -- tasks that use something else than they ask for ------------------------------------------------

CORE = Node(id="n", capacity=(1000, 1000))
HALF = (500, 0)


def test_two_tasks_of_three_quarters_share_a_core_that_they_asked_half_of() -> None:
    assert ends((0, HALF, 1000), (0, HALF, 1000), uses=(750, 0), node=CORE) == {"0": 1500, "1": 1500}


def test_who_uses_less_than_he_asks_for_is_no_faster() -> None:
    assert ends((0, HALF, 1000), (0, HALF, 1000), uses=(100, 0), node=CORE) == {"0": 1000, "1": 1000}


def test_room_is_what_was_asked_for() -> None:
    assert ends((0, (600, 0), 1000), (0, (600, 0), 1000), uses=(100, 0), node=CORE) == {"0": 1000, "1": 2000}


def test_what_nobody_asked_for_is_shared_too() -> None:
    assert ends((0, HALF, 1000), (0, HALF, 1000), uses=(500, 800), node=CORE) == {"0": 1600, "1": 1600}


def test_a_task_may_use_more_than_its_whole_node() -> None:
    assert ends((0, HALF, 1000), uses=(2000, 0), node=CORE) == {"0": 2000}


def test_an_overbooked_network_is_shared_by_what_is_used() -> None:
    assert ends((0, COPY, 1000), (0, COPY, 1000), uses=(1000, 400)) == {"0": 1000, "1": 1000}


def test_an_application_master_uses_what_it_asks_for() -> None:
    alone = ends((0, HALF, 1000), uses=(900, 0), am=(0, 100), node=CORE, profile="yarn")["0"]
    assert ends((0, HALF, 1000), uses=(900, 0), am=(500, 0), node=CORE, profile="yarn")["0"] == alone + 400


@pytest.mark.parametrize("uses", [(1000, 600), (1000, 100)])
def test_whoever_uses_no_more_than_he_asks_for_changes_nothing(uses: tuple[int, int]) -> None:
    tasks = [(137 * i, (1000, 600), 900 + 311 * i) for i in range(12)]
    plain = msgspec.structs.replace(NODE, slack=())
    assert ends(*tasks, uses=uses, node=plain) == ends(*tasks, node=plain)


@pytest.mark.parametrize("profile", ["yarn", "sls"])
def test_heartbeats_are_skipped_alike_where_tasks_use_more(profile: str) -> None:
    tasks = [(137 * i, HALF, 900 + 311 * i) for i in range(12)]
    assert ends(*tasks, uses=(700, 900), profile=profile) == ends(*tasks, uses=(700, 900), profile=profile, skip=False)


# -- the core -------------------------------------------------------------------------------------


def test_room_is_capacity_and_slack_and_shares_are_of_the_capacity() -> None:
    made = scheduler("fifo", offers="heartbeat", resources=("cpu", "network"))
    made.handle(NodeAdded(0, NODE))
    made.handle(JobSubmitted(0, job("j", stage(3, COPY))))
    made.handle(Heartbeat(1, "n"))
    state = made.state
    assert (state.used, state.nodes["n"].free) == ([2000, 1200], [6000, 300])
    assert state.share(state.jobs["j"]) == 1.2
    validate(state)
    again = Scheduler.restore(made.snapshot())
    validate(again.state)
    assert again.state.nodes["n"].spec.room == (8000, 1500)


def test_slack_can_change() -> None:
    made = scheduler("fifo", offers="heartbeat", resources=("cpu", "network"))
    made.handle(NodeAdded(0, NODE))
    made.handle(JobSubmitted(0, job("j", stage(3, COPY))))
    made.handle(Heartbeat(1, "n"))
    made.handle(NodeChanged(2, msgspec.structs.replace(NODE, slack=())))
    assert made.state.nodes["n"].free == [6000, -200]
    made.handle(ContainerEnded(3, 1, 0, 1))
    assert made.handle(Heartbeat(4, "n")) == []
    validate(made.state)


def test_slack_of_another_width_is_refused() -> None:
    made = scheduler("fifo", resources=("cpu", "network"))
    with pytest.raises(InvalidTransition, match="slack of node n has 1 resources, not 2"):
        made.handle(NodeAdded(0, msgspec.structs.replace(NODE, slack=(1,))))


def test_a_node_without_slack_is_logged_as_before() -> None:
    chunks: list[bytes] = []
    log = Log(chunks.append)
    made = scheduler("fifo", log=log, resources=("cpu", "network"))
    made.handle(NodeAdded(0, msgspec.structs.replace(NODE, slack=())))
    log.flush()
    assert b"slack" not in b"".join(chunks)
