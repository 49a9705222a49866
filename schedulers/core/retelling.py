"""The present of a state as facts, for a scheduler that takes over and knows nothing.

Every fact is told with the time at which the fact became true, in the order of these times, so that waits, elapsed
times and history are as they were. Not told: the number of failed attempts of a task, copies of tasks, executors
between tasks, outputs of tasks where data takes time, and queues that were taken away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

from schedulers.core.events import (
    ContainerAdopted,
    ContainerObserved,
    ContainerStarted,
    Event,
    HistoryPrimed,
    JobCancelled,
    JobChanged,
    JobSubmitted,
    NodeAdded,
    NodeRemoved,
    QueueChanged,
    TaskFound,
)
from schedulers.core.live import RUNNING, ContainerState, JobState
from schedulers.core.model import PastJob, topological_order
from schedulers.core.state import ClusterState

#: Finished tasks of a job by (stage, task): end, and run time at node speed 1, ms.
Finished = Mapping[tuple[int, int], tuple[int, int]]
#: Time of a fact, and its place among the facts of the same instant.
_Order = tuple[int, int, int, int, int]
#: A stage opens with the end of its parents, so ends stand before adoptions.
_SUBMITTED, _ENDED, _OVER, _ADOPTED = range(4)


def retold(
    state: ClusterState,
    containers: Collection[int],
    *,
    history: tuple[PastJob, ...] = (),
    ended: Sequence[PastJob] = (),
    finished: Mapping[str, Finished] = MappingProxyType({}),
) -> Iterator[Event]:
    """The facts that tell the present of a state.

    containers: numbers of those that are there; the task of any other container waits. history: jobs that ended before
    time 0. ended: jobs that have ended since, oldest first. finished: by live job; a task that is not named has the
    mean run time of its stage, and is told with its job's submission.
    """
    yield from (QueueChanged(0, queue) for queue in state.queues.values())
    for node in state.nodes.values():
        yield NodeAdded(0, node.spec)
        yield from (ContainerObserved(0, node.id, name, use) for name, use in node.foreign.items())
    if history:
        yield HistoryPrimed(0, history)
    timed: list[tuple[_Order, Event]] = [
        ((job.finished, _OVER, number, 0, 0), HistoryPrimed(job.finished, (job,))) for number, job in enumerate(ended)
    ]
    held: dict[str, list[ContainerState]] = {}
    for container in state.containers.values():
        held.setdefault(container.job, []).append(container)
    for job in state.jobs.values():
        timed += _facts_of(job, held.get(job.id, []), finished.get(job.id, {}))
    for container in state.containers.values():
        if container.id in containers:
            timed += _container_facts(container)
    yield from (event for _, event in sorted(timed, key=lambda each: each[0]))
    yield from (JobCancelled(state.now, job.id) for job in state.jobs.values() if job.cancelled)
    yield from (NodeRemoved(state.now, node.id) for node in state.nodes.values() if node.draining)


def _facts_of(job: JobState, held: Collection[ContainerState], finished: Finished) -> Iterator[tuple[_Order, Event]]:
    at, seq = job.submitted, job.seq
    # 'asked', and then the asks, because only their sum is in the state.
    yield (at, _SUBMITTED, seq, 0, 0), JobSubmitted(at, job.spec, "asked")
    asked = tuple(stage.index for stage in job.stages if stage.asked)
    if asked:
        yield (at, _SUBMITTED, seq, 1, 0), JobChanged(at, job.id, asked)
    # Parents first: a task of a closed stage would be ignored.
    for place, index in enumerate(topological_order(job.spec.stages)):
        stage = job.stages[index]
        if not stage.finished:
            continue
        usual = at, round(stage.done_ms / stage.finished)
        under_way = {container.task for container in held if container.stage == index}
        for task in range(stage.tasks):
            if task not in under_way and not stage.is_waiting(task):
                ended, ms = finished.get((index, task), usual)
                yield (ended, _ENDED, seq, place, task), TaskFound(ended, job.id, index, task, ms)


def _container_facts(container: ContainerState) -> Iterator[tuple[_Order, Event]]:
    number, node, granted, started = container.id, container.node, container.granted, container.started
    adopted = ContainerAdopted(granted, number, node, container.job, container.stage, container.task)
    yield (granted, _ADOPTED, number, 0, 0), adopted
    if container.status == RUNNING:
        yield (started, _ADOPTED, number, 1, 0), ContainerStarted(started, number)
