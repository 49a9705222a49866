"""Group `when`: what an answer of `simulate` costs on a full cluster of 5,000 nodes with 50,000 running tasks."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from typing import Final

from benchmarks.rows import Row, benchmark
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.simulation import Simulation
from rm_emulator.forecasts.draws import KnownRunTimes
from rm_emulator.forecasts.plays import Play, plays
from rm_emulator.forecasts.run_times import Listener
from rm_emulator.workload.model import Drawn, PerTask, Workload, WorkloadJob
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, PastJob, Stage
from schedulers.core.scheduler import Scheduler

_SLOTS: Final = 10
_WIDTH: Final = 100
_DRAWS: Final = 20
_AT_MS: Final = 60_000


def _paused(nodes: int, ahead: int) -> tuple[Simulation, Listener]:
    """A full cluster a minute after its jobs came, and so many tasks that wait before a new job."""
    stage = Stage(name="one", tasks=_WIDTH, demand=(1000,))
    times = (Drawn(mean_ms=600_000, cov=0.7),)
    running = [
        WorkloadJob(job=Job(id=f"j{number}", name=f"app-{number % 50}", stages=(stage,)), submit_ms=0, runtimes=times)
        for number in range(nodes * _SLOTS // _WIDTH)
    ]
    before = Job(id="before", name="app-0", stages=(Stage(name="one", tasks=ahead, demand=(1000,)),))
    past = [
        PastJob(name=f"app-{number % 50}", submitted=0, finished=number, stages=((_WIDTH, 600_000.0 + 10 * number),))
        for number in range(500)
    ]
    workload = Workload(
        name="full",
        jobs=(*running, WorkloadJob(job=before, submit_ms=1, runtimes=times)),
        history=tuple(past),
        resources=("cpu",),
    )
    cluster = tuple(Node(id=f"n{number}", capacity=(1000 * _SLOTS,)) for number in range(nodes))
    config = EngineConfig(nodes=cluster, resources=("cpu",), profile="events")
    scheduler = Scheduler(SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"}, offers="cycle"))
    listener = Listener(scheduler.state)
    simulation = Simulation(config, workload, scheduler)
    simulation.control.handle = listener.around(simulation.control.handle)
    simulation.begin()
    simulation.calendar.advance(_AT_MS)
    return simulation, listener


@benchmark("when", "when")
def when(tiny: bool) -> Iterator[Row]:
    """One job behind 1,000 and behind 10,000 waiting tasks, 20 draws: CPU time a draw; and what is known, made once."""
    nodes, near, far = (50, 10, 100) if tiny else (5000, 1000, 10_000)
    for ahead, target in ((near, "<= 100"), (far, None)):
        simulation, listener = _paused(nodes, ahead)
        begun = time.process_time()
        moment = KnownRunTimes(listener, _AT_MS, 1)
        cold_s = time.process_time() - begun
        if ahead == near:
            yield Row(
                name="when_cold",
                value=cold_s,
                unit="s",
                target="<= 5",
                note=f"CPU time of what is known of {len(simulation.containers)} running tasks",
            )
        used = _children_s()
        for _ in plays(simulation, [_what(moment, draw) for draw in range(_DRAWS)]):
            pass
        yield Row(
            name=f"when_draw_{ahead}",
            value=1000 * (_children_s() - used) / _DRAWS,
            unit="ms",
            target=target,
            note=f"CPU time of a draw to the start of a job behind {ahead} waiting tasks, {nodes} nodes full",
        )


def _what(moment: KnownRunTimes, draw: int) -> Callable[[], Play]:
    """A play that ends as soon as the new job has started: its only task takes a millisecond."""
    asked = Job(id="asked", stages=(Stage(name="one", tasks=1, demand=(1000,)),))
    new = WorkloadJob(job=asked, submit_ms=_AT_MS, runtimes=(PerTask((1,)),))
    return lambda: Play(moment.draw(draw), (new,), ("asked",))


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
