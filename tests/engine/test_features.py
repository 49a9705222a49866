"""Features: a run has those that its cluster, workload and policy ask for, and calls the hooks that they override."""

from __future__ import annotations

from typing import Any

import pytest

from rm_emulator.engine.config import Disorder, EngineConfig, Executors
from rm_emulator.engine.containers import Container
from rm_emulator.engine.features import features_of
from rm_emulator.engine.features.feature import Feature, Hooks
from rm_emulator.engine.profile import Engine
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import job, node, scheduler, stage
from rm_emulator.workload.model import Fixed, PerNode, Workload, WorkloadJob
from schedulers.core.model import CopyRules, Edge, Job, Links, Node, Service

ONE = job("a", stage())
FED = job("a", stage(), stage(parents=(Edge(parent=0, data=1),)))


def made(
    of: Job = ONE, *, deciding: dict[str, Any] | None = None, source: dict[str, Any] | None = None, **config: Any
) -> Simulation:
    runtimes = tuple(Fixed(1) for _ in of.stages)
    entry = WorkloadJob(**{"job": of, "submit_ms": 0, "runtimes": runtimes, **(source or {})})
    cluster = EngineConfig(**{"nodes": (node("n"),), "profile": "events", **config})
    who = scheduler("fifo", **{"offers": "cycle", "executors": cluster.executors is not None, **(deciding or {})})
    return Simulation(cluster, Workload(name="w", jobs=(entry,)), who)


def names(simulation: Simulation) -> list[str]:
    return [type(feature).__name__ for feature in features_of(simulation)]


def test_a_plain_run_has_no_feature() -> None:
    assert names(made()) == []


@pytest.mark.parametrize(
    ("having", "found"),
    [
        ({"executors": Executors()}, ["KeptExecutors"]),
        ({"startup": Fixed(1)}, ["Startup"]),
        ({"disorder": Disorder()}, ["DisorderFeature"]),
        ({"links": Links(rate=1)}, []),  # nobody takes data
        ({"of": FED, "links": Links(rate=1)}, ["DataFeature"]),
        ({"of": FED}, []),  # which takes no time
        ({"of": FED, "links": Links(rate=1), "deciding": {"copies": CopyRules(max=2)}}, ["DataOfCopies", "Copies"]),
        ({"nodes": (node("n", speed=2.0),)}, ["UnlikeNodes"]),
        ({"source": {"apart": 1.5}}, ["UnlikeNodes"]),
        ({"source": {"runtimes": (PerNode(nodes=("n",), ms=((1,),)),)}}, ["UnlikeNodes"]),
        ({"nodes": (Node(id="n", capacity=(1000, 1024), slack=(0, 1)),)}, ["Overbooking"]),
        ({"source": {"usage": ((2000, 1024),)}}, ["Overbooking"]),
        ({"of": job("a", stage(), service=Service())}, ["ServicesFeature"]),
    ],
)
def test_a_run_has_the_features_that_it_asks_for(having: dict[str, Any], found: list[str]) -> None:
    assert names(made(**having)) == found


class Always(Feature):
    """Every run has it."""

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        return True


class Slow(Always):
    """Tasks take longer."""

    def run_time(self, container: Container, runtime: int) -> int:
        return runtime + 1


class Double(Always):
    """Tasks take twice as long."""

    def run_time(self, container: Container, runtime: int) -> int:
        return 2 * runtime

    def runs(self, container: Container) -> None:
        pass


class AlsoSeesToEnds(Double):
    """Two of them would each enter an end."""


def test_hooks_are_those_that_features_override_in_their_order() -> None:
    simulation = made()
    hooks = Hooks([Slow(simulation), Double(simulation)])
    runtime = 1
    for run_time in hooks.run_time:
        runtime = run_time(None, runtime)
    assert runtime == 4
    assert hooks.granted == hooks.started == hooks.over == hooks.removed == ()
    assert hooks.runs is not None
    assert hooks.ended is hooks.completed is None


def test_two_features_cannot_both_take_the_place_of_what_happens() -> None:
    simulation = made()
    with pytest.raises(AssertionError, match="two features say what happens in `runs`"):
        Hooks([Double(simulation), AlsoSeesToEnds(simulation)])
