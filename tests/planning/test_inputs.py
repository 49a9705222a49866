"""Which waiting task is nearest to its input on a node."""

from __future__ import annotations

import pytest

from rm_emulator.testing import node, scheduler
from schedulers.core.events import ContainerEnded, JobSubmitted, Tick
from schedulers.core.model import Job, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.kit.inputs import Inputs, Near

HOSTS = (("n1",), ("n2", "gone"), (), ("gone",), ("n1", "n2"))
RACKS = {"n1": "a", "n2": "b", "n3": "a", "n4": "c", "n5": ""}


def started(tasks: int) -> Scheduler:
    """A scheduler under which so many tasks of the job run, the lowest first."""
    spec = Stage(name="s", tasks=5, demand=(1000, 1024), hosts=HOSTS)
    made = scheduler("fifo", *([node("n1", tasks)] if tasks else []), offers="cycle")
    made.handle(JobSubmitted(0, Job(id="j", stages=(spec,))))
    made.handle(Tick(0))
    return made


def nearest(made: Scheduler, name: str) -> tuple[Near, int | None]:
    job = made.state.jobs["j"]
    return Inputs(job.spec, RACKS).nearest(job.stages[0], node(name, rack=RACKS[name]))


@pytest.mark.parametrize(
    ("running", "name", "found"),
    [
        (0, "n1", (Near.NODE, 0)),
        (1, "n1", (Near.NODE, 4)),
        (0, "n2", (Near.NODE, 1)),
        (0, "n3", (Near.FREE, 2)),
        (3, "n3", (Near.FREE, 3)),
        (4, "n3", (Near.RACK, 4)),
        (4, "n4", (Near.ANY, None)),
        (4, "n5", (Near.ANY, None)),
    ],
)
def test_nearest(running: int, name: str, found: tuple[Near, int | None]) -> None:
    assert nearest(started(running), name) == found


def test_a_task_that_came_back_is_found_again() -> None:
    made = started(4)
    job = made.state.jobs["j"]
    inputs = Inputs(job.spec, RACKS)
    there = node("n1", rack="a")
    assert inputs.nearest(job.stages[0], there) == (Near.NODE, 4)
    made.handle(ContainerEnded(1, 1, 1, 1))
    assert job.stages[0].returned == [0]
    assert inputs.nearest(job.stages[0], there) == (Near.NODE, 0)
    assert inputs.nearest(job.stages[0], node("n3", rack="a")) == (Near.RACK, 0)


def test_what_is_counted() -> None:
    inputs = Inputs(started(0).state.jobs["j"].spec, RACKS)
    assert (inputs.tasks, inputs.replicas) == (3, pytest.approx(4 / 3))


def test_one_entry_stands_for_all_tasks_and_a_gang_has_no_input() -> None:
    stages = [Stage(name="s", tasks=4, demand=(1, 1), hosts=(("n1", "n2"),), gang=gang) for gang in (False, True)]
    inputs = [Inputs(Job(id="j", stages=(stage,)), RACKS) for stage in stages]
    assert [(found.tasks, found.replicas) for found in inputs] == [(4, 2.0), (0, 0.0)]
