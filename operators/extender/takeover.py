"""The first facts of a term: the API server's objects, held against the snapshot.

The order is fixed (leader, nodes, queues, history, use by others, jobs, pods, gangs), so that a scheduler restored from
the same snapshot and told the same objects decides alike.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter

import msgspec
import structlog

from operators.cache.cache import Change
from operators.extender.brain import Brain
from operators.extender.jobs import JobEntry, plain_id
from operators.extender.ledger import Task
from schedulers.core.errors import InvalidJob
from schedulers.core.events import HistoryPrimed, JobCancelled, LeaderStarted
from schedulers.core.model import PastJob
from schedulers.core.state import GRANTED
from schedulers.objects.dagjob import DagJob, read_indexes
from schedulers.objects.meta import whole_number
from schedulers.objects.names import GANG_PLAN
from schedulers.objects.pod import Pod

log = structlog.get_logger()

#: In which order the facts of a takeover come: by job, stage, attempt, pod.
_Order = tuple[str, int, float, str]
_Fact = tuple[_Order, Callable[[], None]]


def take_over(brain: Brain, *, identity: str, pods: Mapping[int, str], history: Sequence[PastJob]) -> None:
    """Bring the core up to date.

    `pods` has the uid of the pod by container, from the snapshot (empty: there was none); `history` is the predictor's
    start without a snapshot.
    """
    brain.driver.tell(LeaderStarted(brain.driver.now(), identity))
    _nodes(brain)
    for queue in sorted(brain.cache.queues.values(), key=lambda queue: queue.metadata.name):
        brain.translator.hear(Change("Queue", None, queue))
    for name in [name for name in brain.scheduler.state.queues if name not in brain.cache.queues]:
        brain.translator.lose_queue(name)
    if history:
        brain.driver.tell(HistoryPrimed(brain.driver.now(), tuple(history)))
    # Before the pods: each pod is then compared with the use noted of it.
    brain.translator.know_foreign()
    _jobs(brain)
    # Before the pods are heard: a pod with a container is then known as placed, not as new.
    _containers(brain, pods)
    hear = brain.translator.hear
    facts: list[_Fact] = [
        (_order(brain, pod), partial(hear, Change("Pod", None, pod))) for pod in brain.cache.pods.values()
    ]
    facts += _remembered(brain)
    for _, tell in sorted(facts, key=itemgetter(0)):
        tell()
    for dagjob in _in_order(brain):
        entry = brain.jobs.of_owner(dagjob.metadata.uid)
        if entry is not None and dagjob.is_over:
            brain.translator.cancel(entry.id)  # tasks without an end by now never get one
    # Jobs finished in an earlier term are in the history already.
    for entry in brain.jobs:
        entry.done = entry.id not in brain.scheduler.state.jobs
    for dagjob in _in_order(brain):
        _finish_gangs(brain, dagjob)
    brain.translator.taking_over = False


def _nodes(brain: Brain) -> None:
    for name in sorted(brain.cache.nodes):
        brain.translator.hear(Change("Node", None, brain.cache.nodes[name]))
    for name in [name for name in brain.scheduler.state.nodes if name not in brain.cache.nodes]:
        brain.translator.lose_node(name)


def _in_order(brain: Brain) -> list[DagJob]:
    return sorted(brain.cache.dagjobs.values(), key=lambda job: (job.metadata.creationTimestamp or "", job.key))


def _jobs(brain: Brain) -> None:
    """New jobs in the order of creation; jobs gone meanwhile are cancelled."""
    for dagjob in _in_order(brain):
        brain.translator.hear(Change("DagJob", None, dagjob))
        if brain.jobs.of_owner(dagjob.metadata.uid) is None:
            _enter_if_known(brain, dagjob)
    known = {entry.id for entry in brain.jobs} | {plain_id(pod) for pod in brain.cache.pods.values()}
    known |= {plain_id(group) for group in (brain.cache.pod_groups or {}).values()}
    for job in [job for job in brain.scheduler.state.jobs if job not in known]:
        brain.driver.tell(JobCancelled(brain.driver.now(), job))


def _enter_if_known(brain: Brain, dagjob: DagJob) -> None:
    """A job ended while nobody led: the core still holds room for its pods, whose end is to be heard."""
    if dagjob.metadata.uid in brain.translator.intake.aside:
        return
    with contextlib.suppress(InvalidJob):  # ended, and malformed for this version
        entry = brain.jobs.make(dagjob, brain.resources, brain.driver.now())
        if entry.id in brain.scheduler.state.jobs:
            brain.jobs.add(entry)


def _containers(brain: Brain, pods: Mapping[int, str]) -> None:
    """The snapshot's pods: waiting pods are released anew, containers of missing pods have ended."""
    by_uid = {pod.metadata.uid: pod for pod in brain.cache.pods.values()}
    for container in list(brain.scheduler.state.containers.values()):
        task = Task(container.job, container.stage, container.task)
        brain.ledger.grant(container.id, task)
        uid = pods.get(container.id)
        if uid is None:
            continue
        pod = by_uid.get(uid)
        if pod is None:
            brain.driver.end(container.id)
        elif not (pod.is_gated and container.status == GRANTED):
            # A granted pod still gated is left out: its release was perhaps never sent, and is made anew.
            brain.ledger.put(uid, pod.key, task, pod.attempt)
            brain.ledger.assign(container.id, uid)


def _remembered(brain: Brain) -> Iterator[_Fact]:
    """Tasks succeeded by their job's status, each stage's behind its pods: some pods may be gone."""
    for dagjob in brain.cache.dagjobs.values():
        entry = brain.jobs.of_owner(dagjob.metadata.uid)
        for status in dagjob.status.stages if entry is not None else ():
            assert entry is not None
            stage = entry.stage(status.name)
            if stage is not None and status.completedIndexes:
                done = sorted(read_indexes(status.completedIndexes, entry.job.stages[stage].tasks))
                yield (entry.key, stage, math.inf, ""), partial(brain.translator.pods.hear_done, entry, stage, done)


def _order(brain: Brain, pod: Pod) -> _Order:
    """Parents' pods before their children's: a DagJob lists its stages in that order."""
    entry: JobEntry | None = brain.jobs.of_owner(pod.dagjob_uid)
    task = entry.task(pod) if entry is not None else None
    if task is None:
        return (pod.metadata.creationTimestamp or "", 0, 0, pod.key)
    assert entry is not None
    return (entry.key, task.stage, pod.attempt, pod.key)


def _finish_gangs(brain: Brain, dagjob: DagJob) -> None:
    """A gang left partly released by the leader before is finished by its plan; a gang not begun is planned anew."""
    text = dagjob.metadata.annotations.get(GANG_PLAN)
    entry = brain.jobs.of_owner(dagjob.metadata.uid)
    job = brain.scheduler.state.jobs.get(entry.id) if entry is not None else None
    if not text or entry is None or job is None:
        return
    try:
        plans = msgspec.json.decode(text, type=dict[str, dict[str, str]])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        log.warning("the gang plan of a DagJob cannot be read; it is planned anew", dagjob=dagjob.key)
        return
    for index, stage in enumerate(entry.job.stages):
        plan = plans.get(stage.name)
        # A stage waiting as a whole has not begun, so its old plan binds nobody.
        if plan is None or not stage.gang or job.is_waiting_gang(job.stages[index]):
            continue
        for index_text, node in sorted(plan.items()):
            number = whole_number(index_text)
            if number is not None and number < stage.tasks:  # any other index is nobody's task
                brain.driver.place_as_planned(Task(entry.id, index, number), node)
