"""A paused run with faults goes on as if it had never been paused; or meets other faults, as a draw has them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rm_emulator.engine.branch import branch
from rm_emulator.engine.config import Faults, NodeFault, NodeFaultRates, TaskFaults
from rm_emulator.engine.features.node_faults import NodeFaults
from rm_emulator.engine.simulation import Simulation
from rm_emulator.forecasts.plays import Play, play, plays
from rm_emulator.workload.model import Drawn, Fixed, WorkloadJob
from tests.engine.test_faults import DAY, HOUR, MINUTE, batch, fault, fifo, workload_of
from tests.engine.test_faults import faulty as faulty_cluster
from tests.examples import examples
from tests.forecasts.test_branch import Longer, ends, runs_of

CHECKPOINTS = {"every": "30s", "cost": "2s", "restart": "10s"}
FAULTS: dict[str, dict[str, Any]] = {
    "nodes": {"nodes": {"per_1000_node_days": 100_000, "repair": "2m"}},
    "silent": {
        "nodes": {"per_1000_node_days": 100_000, "repair": "3m", "kind": "silent"},
        "noticed_after": "1m",
        "evicted_after": "10s",
    },
    "tasks": {"tasks": {"probability": 0.1, "hangs": 0.05, "watchdog": "1m", "backoff": "5s", "attempts": 99}},
    "saved": {
        "nodes": {"per_1000_node_days": 100_000, "repair": "2m"},
        "tasks": {"per_hour": 5, "hangs": 0.05, "watchdog": "1m", "attempts": 99},
        "checkpoints": CHECKPOINTS,
    },
}


def faulty(kind: str, profile: str) -> dict[str, Any]:
    """Thirty jobs, gangs and others, on a cluster with such faults."""
    stage = {"tasks": 3, "demand": {"cpu": 2}, "duration": "90s"}
    jobs = [
        {
            "name": f"j{number}",
            "submit": f"{17 * number}s",
            "stages": [{"name": "a", **stage, "gang": number % 3 == 0}, {"name": "b", **stage, "parents": ["a"]}],
        }
        for number in range(30)
    ]
    spec = {
        "cluster": {"profile": profile, "nodes": [{"count": 5, "capacity": {"cpu": 6}}], "faults": FAULTS[kind]},
        "workload": {"kind": "jobs", "jobs": jobs},
        "policies": [{"kind": "fifo"}, {"kind": "fair"}],
    }
    return {"apiVersion": "rm-emulator.io/v1alpha1", "kind": "Scenario", "metadata": {"name": kind}, "spec": spec}


@pytest.mark.parametrize("profile", ["events", "yarn", "kubernetes"])
@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("truth", ["unchanged", "told again"])
@pytest.mark.drawn(of=4)
def test_under_the_same_faults_and_right_run_times_every_job_ends_as_before(
    kind: str, profile: str, truth: str
) -> None:
    draw = random.Random(f"{kind} {profile}")
    for label, make in runs_of(faulty(kind, profile)).items():
        whole, record = make()
        whole.go_on()
        before = ends(record)
        assert any(task.code for task in record.tasks)
        for _ in range(examples(3)):
            paused, again = make()
            at = draw.randrange(1, whole.end_ms)
            paused.calendar.advance(at)
            future = None if truth == "unchanged" else Longer(paused, 1)
            branch(paused, future, paused.workload.jobs[paused.arrivals.count :])
            paused.go_on()
            assert ends(again) == before, (label, at)


def at(
    moment: int, *jobs: WorkloadJob, nodes: int = 1, rates: NodeFaultRates | None = None, **faults: Any
) -> Simulation:
    """A run of `fifo` on nodes of one slot, at a moment."""
    config = faulty_cluster(nodes, "events", Faults(nodes=rates, **faults))
    simulation = Simulation(config, workload_of(config, jobs), fifo(config))
    simulation.begin()
    simulation.calendar.advance(moment)
    return simulation


def test_a_node_that_is_out_is_back_when_its_scheduled_fault_ends() -> None:
    paused = at(MINUTE, batch("a", 2, HOUR), outages=[fault(1000, until=2 * HOUR)])
    assert play(paused, Play(None, faults=0))["a"].finish_ms == 4 * HOUR


def test_scheduled_faults_to_come_are_not_known() -> None:
    paused = at(MINUTE, batch("a", 1, HOUR), outages=[fault(MINUTE + 1, until=2 * HOUR)])
    assert play(paused, Play(None, faults=0))["a"].finish_ms == HOUR


@pytest.mark.drawn(of=8)
def test_draws_meet_faults_at_the_rate_each_its_own_and_always_the_same() -> None:
    rates = NodeFaultRates(per_1000_node_days=24_000.0, repair=Fixed(1))  # one an hour
    paused = at(MINUTE, batch("a", 1, HOUR), rates=rates)
    whats = [lambda number=number: Play(None, faults=number) for number in (*range(100), *range(100))]
    finishes = [courses["a"].finish_ms for courses in plays(paused, whats)]
    first, again = finishes[:100], finishes[100:]
    assert first == again
    # Without a fault in 59 of 60 minutes: exp(-59/60) = 0.37.
    assert 0.25 < sum(finish == HOUR for finish in first) / 100 < 0.5
    assert len(set(first)) > 40


def test_a_repair_lasts_longer_than_so_far_and_ends_otherwise_in_each_draw() -> None:
    rates = NodeFaultRates(per_1000_node_days=24_000.0, repair=Drawn(HOUR, 0.3, "uniform"))

    def present(paused: Simulation) -> list[NodeFault]:
        found = paused.feature(NodeFaults)
        assert found is not None
        return found.present

    moment = next(ms for ms in range(MINUTE, 100 * HOUR, MINUTE) if present(at(ms, batch("a", 1, DAY), rates=rates)))
    found = []
    for number in range(5):
        paused = at(moment, batch("a", 1, DAY), rates=rates)
        outage = present(paused)
        branch(paused, None, (), draw=number)
        while present(paused) == outage:
            paused.calendar.advance(paused.calendar.now + 1000)
        found.append(paused.calendar.now)
    assert min(found) > moment
    assert len(set(found)) == 5


def test_an_attempt_that_has_not_failed_so_far_fails_less_often() -> None:
    # Half of all fail, evenly over their run time: of those still running after a half, 0.25 of 0.75 do.
    rules = TaskFaults(probability=0.5, attempts=1)
    paused = at(30 * MINUTE, *(batch(f"j{n}", 1, HOUR) for n in range(400)), nodes=400, tasks=rules)
    running = set(paused.jobs)
    courses = play(paused, Play(None, faults=3))
    failed = sum(courses[name].finish_ms is None for name in running)
    assert 0.23 < failed / len(running) < 0.43
