"""Decisions without a view of the cluster: schedulers ask workers, and workers take entries from their own queues.

Sparrow (SOSP 2013); radlab/sparrow. A stage is a job of the paper: workers are sought for its tasks when the stage is
asked for. The state is the emulator's own book of running tasks; no scheduler and no worker reads the state to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from schedulers.core.decisions import Decision, Place, Send
from schedulers.core.errors import InvalidParameters, InvalidTransition
from schedulers.core.events import (
    ContainerEnded,
    ContainerStarted,
    Delivered,
    Event,
    JobCancelled,
    JobChanged,
    JobSubmitted,
    NodeAdded,
)
from schedulers.core.explain import Explanation, WaitReason, explained, in_order, reasons_of_state
from schedulers.core.holds import Holds
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.policy import Policy
from schedulers.core.reasons import Reason, sentence
from schedulers.core.resources import Resources
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import ClusterState, JobState, StageState
from schedulers.core.vectors import fits
from schedulers.decentralised.messages import (
    AnyMessage,
    Cancellation,
    LateBindingProbe,
    Launch,
    Load,
    Message,
    NoTask,
    Probe,
    TaskRequest,
)
from schedulers.decentralised.queues import PROBE, QUEUES, Queue, QueueItem
from schedulers.decentralised.sampling import Sampling, count_probes
from schedulers.decentralised.settings import Probing
from schedulers.decentralised.worker_search import Allowed, LateBinding, LoadAnswers


class Worker:
    """A node with slots, and a queue of entries waiting for a slot.

    free: slots without a running task and without a requested task. asking: probes with an open request for a
    task; each keeps a slot.
    """

    __slots__ = ("asking", "free", "name", "queue", "slots")

    def __init__(self, name: str, slots: int, queue: Queue) -> None:
        self.name, self.slots, self.free, self.queue = name, slots, slots, queue
        self.asking: list[QueueItem] = []

    def answered(self, job: str, stage: int) -> QueueItem:
        """Take out the request that was answered. Raises LookupError where there is none."""
        for place, entry in enumerate(self.asking):
            if entry.job == job and entry.stage == stage:
                return self.asking.pop(place)
        raise LookupError(f"worker {self.name} has not requested a task of {job}/{stage}")


class Tally(msgspec.Struct):
    """Load of a scheduler: jobs, and messages sent and received."""

    jobs: int = 0
    messages: int = 0


class Decentraliser:
    """All schedulers and workers of a cluster.

    config: only resources, seed, offers and the settings in `decentralised` count. sampling: the choice of workers to
    ask; drawn by default. Raises InvalidParameters for unreadable settings.
    """

    def __init__(self, config: SchedulerConfig, *, log: Log | None = None, sampling: Sampling | None = None) -> None:
        try:
            self._settings = msgspec.convert(config.decentralised, Probing)
        except msgspec.ValidationError as error:
            raise InvalidParameters(f"decentralised: {error}") from None
        self.config, self._log = config, log
        self.state = ClusterState(Resources(config.resources))
        # Nobody knows whether there is room, so room is never the reason.
        self.holds = Holds(self.state, config.offers, lambda job: None, lambda job, stages: Reason.AT_WORKERS)
        self._sampling = sampling if sampling is not None else Sampling(config.seed)
        self._workers: dict[str, Worker] = {}
        self._searches: dict[tuple[str, int], LoadAnswers | LateBinding] = {}
        self._eligible: dict[int, list[str]] = {}
        self.tallies = [Tally() for _ in range(self._settings.schedulers)]
        """Load of each scheduler."""
        self.requests = self.no_tasks = 0
        """Requests for a task at a scheduler, and the number of requests in vain."""
        self.cancelled = 0
        """Probes taken out of queues."""
        self.decision_count = 0
        """Tasks started so far."""
        self._hears: dict[type[Message], Callable[[Any, list[Decision]], None]] = {
            Probe: self._probed,
            Load: self._load,
            LateBindingProbe: self._queue_probes,
            TaskRequest: self._task_requested,
            Launch: self._launched,
            NoTask: self._no_task,
            Cancellation: self._cancelled,
        }
        if log is not None:
            log.header(config)

    # -- facts ----------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Decision]:
        """Take in a fact and decide. Raises InvalidTransition on an impossible log."""
        decisions: list[Decision] = []
        kind = type(event)  # compared as it is, without a call: there are five messages for each task
        # The state forgets a container that has ended, so its worker is looked up before.
        ended = self.state.containers.get(event.container) if kind is ContainerEnded else None  # type: ignore[attr-defined]
        if (why := self.state.hear(event)) is not None:
            if self._log is not None:
                self._log.ignored(event, why)
            return decisions
        if kind is Delivered:
            message = event.message  # type: ignore[attr-defined]
            if type(message) not in self._hears:
                message = _read(message)
            self._hears[type(message)](message, decisions)
        elif ended is not None:
            self._slot_freed(self._workers[ended.node], decisions)
        elif kind is not ContainerStarted:
            self._follow_up(event, decisions)
        if self.holds.to_check.at < len(self.holds.to_check.entries):
            self.holds.report(decisions)
        if self._log is not None:
            self._log.add(event, decisions)
        return decisions

    def _follow_up(self, event: Event, decisions: list[Decision]) -> None:
        """Decide after a fact about nodes and jobs."""
        if isinstance(event, NodeAdded):
            node = event.node
            self._workers[node.id] = Worker(node.id, node.slots, QUEUES[self._settings.worker_order]())
            self._eligible.clear()
        elif isinstance(event, JobSubmitted):
            self.tallies[self._scheduler_of(self.state.jobs[event.job.id])].jobs += 1
        elif isinstance(event, JobChanged):
            job = self.state.jobs[event.job]
            for index in event.asked:
                self._search_workers(job, job.stages[index], decisions)
        elif isinstance(event, JobCancelled):
            for name, index in [each for each in self._searches if each[0] == event.job]:
                del self._searches[name, index]
            for worker in self._workers.values():
                worker.queue.cancel(event.job)

    def _scheduler_of(self, job: JobState) -> int:
        return job.seq % len(self.tallies)

    def _send(self, message: AnyMessage, decisions: list[Decision], count: int = 1) -> None:
        self.tallies[message.scheduler].messages += count
        decisions.append(Send(message))

    # -- why not --------------------------------------------------------------------------------

    def explain(self, job: str) -> Explanation:
        """The full record of why a live job waits: where its probes and tasks are, instead of the room left.

        Raises KeyError if the job is not live.
        """
        there = self.state.jobs[job]
        all_reasons = in_order(*reasons_of_state(there, self.state, self.config.offers))
        found = [each for each in all_reasons if each.reason not in _OF_ROOM]
        if self.reason(there) is Reason.AT_WORKERS:
            data = {"stage": there.spec.stages[there.open[0]].name, "where": self._describe_queues(there)}
            found.insert(0, WaitReason(Reason.AT_WORKERS, data, sentence(Reason.AT_WORKERS, data)))
        return explained(there, self.state, tuple(found))

    def reason(self, job: JobState) -> Reason | None:
        """See Holds.reason."""
        return self.holds.reason(job)

    def _describe_queues(self, job: JobState) -> str:
        """The whereabouts of a job's waiting entries, in words."""
        before: list[int] = []
        for worker in self._workers.values():
            before += [place for place, entry in enumerate(worker.queue) if entry.job == job.id]
        if not before:
            return "messages are on their way"
        what = "reservations" if self._settings.method == "late_binding" else "tasks"
        return f"{len(before)} {what} are in queues, the nearest behind {min(before)} others"

    # -- a scheduler ----------------------------------------------------------------------------

    def eligible(self, stage: StageState) -> list[str]:
        """Workers with slots open to a stage, and with room for its tasks."""
        found = self._eligible.get(stage.size)
        if found is None:
            found = self._eligible[stage.size] = [
                node.spec.id
                for node in self.state.nodes.values()
                if node.spec.slots and stage.size not in node.barred and fits(stage.demand, node.spec.room)
            ]
        return found

    def _search_workers(self, job: JobState, stage: StageState, decisions: list[Decision]) -> None:
        """Tasks of a stage may run: the job's scheduler looks for workers."""
        eligible = self.eligible(stage)
        if not eligible:
            return
        name, index, method = job.id, stage.index, self._settings.method
        allowed = self._allowed(job, stage)
        own = [eligible if each is None else each for each in allowed] or [eligible] * stage.tasks
        scheduler, ratio = self._scheduler_of(job), self._settings.probe_ratio
        if method == "random":
            for task, (worker,) in enumerate(self._sampling.apart(name, index, own, 1)):
                self._send(Launch(name, index, scheduler, worker, task), decisions)
        elif method == "per_task":
            asked = self._sampling.apart(name, index, own, count_probes(ratio, 1))
            self._searches[name, index] = LoadAnswers(stage.tasks, {task: len(each) for task, each in enumerate(asked)})
            for task, each in enumerate(asked):
                self._send(Probe(name, index, scheduler, tuple(each), task), decisions, len(each))
        elif method == "batch":
            together = self._sampling.together(name, index, stage.tasks, eligible, ratio)
            self._searches[name, index] = LoadAnswers(stage.tasks, {-1: len(together)})
            self._send(Probe(name, index, scheduler, tuple(together)), decisions, len(together))
        else:
            self._send_late_probes(job, stage, eligible, allowed, decisions)

    def _allowed(self, job: JobState, stage: StageState) -> list[Allowed]:
        """Allowed workers of each task, if any task is bound to the workers with its input."""
        spec = job.spec.stages[stage.index]
        if not self._settings.constraints or not spec.hosts:
            return []
        eligible = set(self.eligible(stage))
        bound = [[host for host in spec.hosts_of(task) if host in eligible] for task in range(stage.tasks)]
        return [hosts or None for hosts in bound]

    def _send_late_probes(
        self, job: JobState, stage: StageState, eligible: list[str], allowed: list[Allowed], decisions: list[Decision]
    ) -> None:
        """Late binding: probes for bound tasks are sent task by task, for other tasks together."""
        name, index, settings = job.id, stage.index, self._settings
        probed: list[Sequence[str]] = []
        if allowed:
            own = [each or () for each in allowed]
            probed = list(self._sampling.apart(name, index, own, count_probes(settings.constrained_probe_ratio, 1)))
        free = sum(each is None for each in allowed) if allowed else stage.tasks
        workers = [worker for each in probed for worker in each]
        if free:
            workers += self._sampling.together(name, index, free, eligible, settings.probe_ratio)
        self._searches[name, index] = LateBinding(stage.tasks, workers, allowed, probed)
        self._send(LateBindingProbe(name, index, self._scheduler_of(job), tuple(workers)), decisions, len(workers))

    def _load(self, message: Load, decisions: list[Decision]) -> None:
        finding = self._searches.get((message.job, message.stage))
        if not isinstance(finding, LoadAnswers):  # the job was cancelled
            return
        for task, worker in finding.answer(message.task, message.worker, message.load):
            self._send(Launch(message.job, message.stage, message.scheduler, worker, task), decisions)
        if finding.over:
            del self._searches[message.job, message.stage]

    def _task_requested(self, message: TaskRequest, decisions: list[Decision]) -> None:
        self.requests += 1
        job, stage, scheduler, worker = message.job, message.stage, message.scheduler, message.worker
        finding = self._searches.get((job, stage))
        task = finding.hand_out(worker) if isinstance(finding, LateBinding) else None
        if task is None:
            self.no_tasks += 1
            self._send(NoTask(job, stage, scheduler, worker), decisions)
            return
        self._send(Launch(job, stage, scheduler, worker, task, kept=True), decisions)
        assert isinstance(finding, LateBinding)
        if finding.over:
            del self._searches[job, stage]
            if self._settings.cancellation and finding.probed:
                workers = tuple(finding.probed)
                self._send(Cancellation(job, stage, scheduler, workers), decisions, len(workers))

    # -- a worker -------------------------------------------------------------------------------

    def _slot_freed(self, worker: Worker, decisions: list[Decision]) -> None:
        worker.free += 1
        if (entry := worker.queue.take()) is not None:
            self._begin(worker, entry, decisions)

    def _begin(self, worker: Worker, entry: QueueItem, decisions: list[Decision]) -> None:
        """A free slot takes an entry: a task starts; for a probe a task is requested."""
        worker.free -= 1
        if entry.task == PROBE:
            worker.asking.append(entry)
            self._send(TaskRequest(entry.job, entry.stage, entry.scheduler, worker.name), decisions)
        else:
            self._start(worker, entry.job, entry.stage, entry.task, decisions)

    def _start(self, worker: Worker, job: str, stage: int, task: int, decisions: list[Decision]) -> None:
        state = self.state
        attempt = state.jobs[job].stages[stage].attempts.get(task, 0)
        place = Place(state.next_container, worker.name, job, stage, task, attempt)
        state.apply(place)
        decisions.append(place)
        self.decision_count += 1

    def _group(self, job: str) -> str | int:
        """The group of a job's entries at a worker."""
        order = self._settings.worker_order
        if order == "fifo":
            return 0
        there, queues = self.state.jobs[job].spec, list(self.state.queues)
        if order == "user_round_robin":
            return there.user
        return queues.index(there.queue) if there.queue in queues else len(queues)

    def _probed(self, message: Probe, decisions: list[Decision]) -> None:
        job, stage, scheduler, task = message.job, message.stage, message.scheduler, message.task
        for name in message.workers:
            worker = self._workers[name]
            load = worker.slots - worker.free + len(worker.queue)
            self._send(Load(job, stage, scheduler, name, load, task), decisions)

    def _queue_probes(self, message: LateBindingProbe, decisions: list[Decision]) -> None:
        if message.job not in self.state.jobs:
            return
        entry = QueueItem(self._group(message.job), message.job, message.stage, message.scheduler)
        for name in message.workers:
            worker = self._workers[name]
            if worker.free:  # nobody waits where a slot is free
                self._begin(worker, entry, decisions)
            else:
                worker.queue.put(entry)

    def _launched(self, message: Launch, decisions: list[Decision]) -> None:
        worker, job, stage, task = self._workers[message.worker], message.job, message.stage, message.task
        there = self.state.jobs.get(job)
        if there is None or there.cancelled:
            if message.kept:
                worker.answered(job, stage)
                self._slot_freed(worker, decisions)
        elif message.kept:
            worker.answered(job, stage)
            self._start(worker, job, stage, task, decisions)
        else:
            entry = QueueItem(self._group(job), job, stage, message.scheduler, task)
            if worker.free:
                self._begin(worker, entry, decisions)
            else:
                worker.queue.put(entry)

    def _no_task(self, message: NoTask, decisions: list[Decision]) -> None:
        worker = self._workers[message.worker]
        asked = worker.answered(message.job, message.stage)
        worker.free += 1
        following = worker.queue.take_after(asked)
        if following is not None:
            self._begin(worker, following, decisions)

    def _cancelled(self, message: Cancellation, decisions: list[Decision]) -> None:
        for name in message.workers:
            self.cancelled += self._workers[name].queue.cancel(message.job, message.stage)


#: Reasons about the room left: no scheduler here knows of room.
_OF_ROOM: Final = frozenset(
    {Reason.NO_ROOM, Reason.NO_ROOM_FOR_GANG, Reason.BEHIND_OTHERS, Reason.WAITS_FOR_OFFER, Reason.AT_WORKERS}
)


def _read(message: Any) -> AnyMessage:
    """A message as written in a log. Raises InvalidTransition for anything else."""
    try:
        found: AnyMessage = msgspec.convert(message, AnyMessage)
    except msgspec.ValidationError as error:
        raise InvalidTransition(f"a message that cannot be read: {error}") from None
    return found


def decider(
    config: SchedulerConfig, *, log: Log | None = None, policy: Policy | None = None
) -> Scheduler | Decentraliser:
    """The decider by the settings: a single scheduler with a view of the cluster, or many without.

    policy: of the single scheduler, in place of the policy in its settings.
    """
    if config.decentralised is None:
        return Scheduler(config, log=log, policy=policy)
    return Decentraliser(config, log=log)
