"""Decisions without a view of the cluster: schedulers ask workers, and workers take entries from their own queues.

Sparrow (SOSP 2013); radlab/sparrow. A stage is a job of the paper: workers are sought for its tasks when the stage is
asked for. The state is the emulator's own book of running tasks; no scheduler and no worker reads the state to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    NodeLost,
    NodeRemoved,
)
from schedulers.core.explain import Explanation, WaitReason, explained, in_order, reasons_of_state
from schedulers.core.holds import Holds
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Node
from schedulers.core.policy import Policy
from schedulers.core.reasons import Reason, sentence
from schedulers.core.resources import Resources
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import ClusterState, ContainerState, JobState, StageState
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
    TaskFailed,
    TaskRequest,
)
from schedulers.decentralised.queues import PROBE, QUEUES, Queue, QueueItem
from schedulers.decentralised.sampling import Sampling, count_probes
from schedulers.decentralised.settings import Probing
from schedulers.decentralised.worker_search import Allowed, Answered, LateBinding, LoadAnswers


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
        self._sent_to: dict[tuple[str, int, int], str] = {}  # workers of tasks sent there and not started yet
        self._stranded: dict[tuple[str, int], list[int]] = {}  # by stage: tasks without any eligible worker
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
            TaskFailed: self._task_failed,
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
        lost = self._containers_on(event.node) if kind is NodeLost else ()  # type: ignore[attr-defined]
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
            if (worker := self._workers.get(ended.node)) is not None:
                self._slot_freed(worker, decisions)
            if event.code:  # type: ignore[attr-defined]
                self._tell_failure(ended, decisions)
        elif kind is not ContainerStarted:
            self._follow_up(event, lost, decisions)
        if self.holds.to_check.at < len(self.holds.to_check.entries):
            self.holds.report(decisions)
        if self._log is not None:
            self._log.add(event, decisions)
        return decisions

    def _follow_up(self, event: Event, lost: Sequence[ContainerState], decisions: list[Decision]) -> None:
        """Decide after a fact about nodes and jobs. lost: containers of a lost node."""
        if isinstance(event, NodeAdded):
            self._worker_added(event.node, decisions)
        elif isinstance(event, NodeRemoved | NodeLost):
            self._worker_closed(event.node, lost, decisions)
        elif isinstance(event, JobSubmitted):
            self.tallies[self._scheduler_of(self.state.jobs[event.job.id])].jobs += 1
        elif isinstance(event, JobChanged):
            job = self.state.jobs[event.job]
            for index in event.asked:
                stage = job.stages[index]
                self._search_workers(job, stage, range(stage.tasks), decisions)
        elif isinstance(event, JobCancelled):
            tables: tuple[dict[Any, Any], ...] = (self._searches, self._stranded, self._sent_to)
            for table in tables:
                for key in [each for each in table if each[0] == event.job]:
                    del table[key]
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
                if node.spec.slots
                and node.spec.id in self._workers
                and stage.size not in node.barred
                and fits(stage.demand, node.spec.room)
            ]
        return found

    def _search_workers(
        self, job: JobState, stage: StageState, tasks: Sequence[int], decisions: list[Decision], *, again: bool = False
    ) -> None:
        """Tasks of a stage may run, perhaps `again`: the job's scheduler looks for workers."""
        eligible, name, index = self.eligible(stage), job.id, stage.index
        if not eligible:
            self._stranded.setdefault((name, index), []).extend(tasks)
            return
        sampling = self._sampling.again(self.state.now) if again else self._sampling
        method, scheduler, ratio = self._settings.method, self._scheduler_of(job), self._settings.probe_ratio
        allowed = self._allowed(job, stage, tasks)
        if method == "late_binding":
            self._send_late_probes(job, stage, dict(zip(tasks, allowed, strict=True)), sampling, decisions)
            return
        own = [eligible if each is None else each for each in allowed]
        if method == "random":
            for task, (worker,) in zip(tasks, sampling.apart(name, index, own, 1), strict=True):
                self._launch(Launch(name, index, scheduler, worker, task), decisions)
            return
        finding = self._searches.setdefault((name, index), LoadAnswers())
        assert isinstance(finding, LoadAnswers)
        # Together only for the first time: answers about later tasks would be taken for answers about the first.
        if method == "batch" and not again:
            together = sampling.together(name, index, stage.tasks, eligible, ratio)
            finding.ask(-1, tasks, together)
            self._send(Probe(name, index, scheduler, tuple(together)), decisions, len(together))
            return
        asked = sampling.apart(name, index, own, count_probes(ratio, 1))
        for task, each in zip(tasks, asked, strict=True):
            finding.ask(task, (task,), each)
            self._send(Probe(name, index, scheduler, tuple(each), task), decisions, len(each))

    def _allowed(self, job: JobState, stage: StageState, tasks: Sequence[int]) -> list[Allowed]:
        """Allowed workers of each task: those with its input, if there are any."""
        spec = job.spec.stages[stage.index]
        if not self._settings.constraints or not spec.hosts:
            return [None] * len(tasks)
        eligible = set(self.eligible(stage))
        return [[host for host in spec.hosts_of(task) if host in eligible] or None for task in tasks]

    def _send_late_probes(
        self,
        job: JobState,
        stage: StageState,
        allowed: dict[int, Allowed],
        sampling: Sampling,
        decisions: list[Decision],
    ) -> None:
        """Late binding: probes for bound tasks are sent task by task, for other tasks together."""
        name, index, settings = job.id, stage.index, self._settings
        finding = self._searches.setdefault((name, index), LateBinding())
        assert isinstance(finding, LateBinding)
        bound = {task: hosts for task, hosts in allowed.items() if hosts is not None}
        workers: list[str] = []
        if bound:
            # Drawn for all tasks in turn, so that a task bound elsewhere changes no draw of a later task.
            own = [hosts or () for hosts in allowed.values()]
            probed = sampling.apart(name, index, own, count_probes(settings.constrained_probe_ratio, 1))
            for task, each in zip(allowed, probed, strict=True):
                if task in bound:
                    finding.add_bound(task, bound[task], each)
                workers += each
        if free := [task for task in allowed if task not in bound]:
            finding.add_free(free)
            workers += sampling.together(name, index, len(free), self.eligible(stage), settings.probe_ratio)
        self._reserve(job, index, finding, workers, decisions)

    def _reserve(
        self, job: JobState, stage: int, finding: LateBinding, workers: Sequence[str], decisions: list[Decision]
    ) -> None:
        finding.reserve(workers)
        self._send(LateBindingProbe(job.id, stage, self._scheduler_of(job), tuple(workers)), decisions, len(workers))

    def _launch(self, message: Launch, decisions: list[Decision]) -> None:
        self._sent_to[message.job, message.stage, message.task] = message.worker
        self._send(message, decisions)

    def _load(self, message: Load, decisions: list[Decision]) -> None:
        finding = self._searches.get((message.job, message.stage))
        if isinstance(finding, LoadAnswers):  # else the job was cancelled
            answered = finding.answer(message.task, message.worker, message.load)
            self._place(self.state.jobs[message.job], message.stage, answered, decisions)

    def _place(self, job: JobState, stage: int, answered: Answered, decisions: list[Decision]) -> None:
        """Send tasks to workers that have answered, and look for workers for tasks left by lost workers."""
        for task, worker in answered.placed:
            self._launch(Launch(job.id, stage, self._scheduler_of(job), worker, task), decisions)
        if self._searches[job.id, stage].over:
            del self._searches[job.id, stage]
        if answered.left:
            self._search_workers(job, job.stages[stage], answered.left, decisions, again=True)

    def _task_requested(self, message: TaskRequest, decisions: list[Decision]) -> None:
        self.requests += 1
        job, stage, scheduler, worker = message.job, message.stage, message.scheduler, message.worker
        finding = self._searches.get((job, stage))
        task = finding.hand_out(worker) if isinstance(finding, LateBinding) else None
        if task is None:
            self.no_tasks += 1
            self._send(NoTask(job, stage, scheduler, worker), decisions)
            return
        self._launch(Launch(job, stage, scheduler, worker, task, kept=True), decisions)
        assert isinstance(finding, LateBinding)
        if finding.over:
            del self._searches[job, stage]
            if self._settings.cancellation and finding.probed:
                workers = tuple(finding.probed)
                self._send(Cancellation(job, stage, scheduler, workers), decisions, len(workers))

    def _task_failed(self, message: TaskFailed, decisions: list[Decision]) -> None:
        self._search_again([(message.job, message.stage, message.task)], decisions)

    def _search_again(self, tasks: Iterable[tuple[str, int, int]], decisions: list[Decision]) -> None:
        """Look for workers for tasks (job, stage, task) that are to run again."""
        by_stage: dict[tuple[str, int], list[int]] = {}
        for name, index, task in tasks:
            by_stage.setdefault((name, index), []).append(task)
        for (name, index), those in by_stage.items():
            job = self.state.jobs.get(name)
            if job is not None and not job.cancelled:
                self._search_workers(job, job.stages[index], sorted(those), decisions, again=True)

    # -- workers come and go --------------------------------------------------------------------

    def _containers_on(self, node: str) -> list[ContainerState]:
        there = self.state.nodes.get(node)
        return [] if there is None else [self.state.containers[number] for number in sorted(there.containers)]

    def _worker_added(self, node: Node, decisions: list[Decision]) -> None:
        worker = self._workers[node.id] = Worker(node.id, node.slots, QUEUES[self._settings.worker_order]())
        # A drained node may be back before its last task has ended.
        worker.free -= len(self.state.nodes[node.id].containers)
        self._eligible.clear()
        stranded, self._stranded = self._stranded, {}
        self._search_again([(*stage, task) for stage, tasks in stranded.items() for task in tasks], decisions)

    def _worker_closed(self, name: str, lost: Sequence[ContainerState], decisions: list[Decision]) -> None:
        """A worker takes nothing more: all schedulers look for other workers for what waited and was lost there."""
        self._workers.pop(name, None)
        self._eligible.clear()
        again = [(each.job, each.stage, each.task) for each in lost]
        again += [task for task, worker in self._sent_to.items() if worker == name]
        for (job, stage), finding in list(self._searches.items()):
            there = self.state.jobs[job]
            if isinstance(finding, LoadAnswers):
                self._place(there, stage, finding.lose(name), decisions)
                continue
            bound, reservations = finding.lose(name)
            again += [(job, stage, task) for task in bound]
            if (workers := self.eligible(there.stages[stage])) and reservations:
                sampling = self._sampling.again(self.state.now)
                found = sampling.together(job, stage, reservations, workers, 1.0)
                self._reserve(there, stage, finding, found, decisions)
            elif not workers:
                again += [(job, stage, task) for task in finding.take_free()]
        for task in again:
            self._sent_to.pop(task, None)
        self._search_again(again, decisions)

    # -- a worker -------------------------------------------------------------------------------

    def _tell_failure(self, container: ContainerState, decisions: list[Decision]) -> None:
        """Let the worker tell the job's scheduler that a task has failed."""
        job = self.state.jobs.get(container.job)
        if job is not None and not job.cancelled:
            self._send(TaskFailed(job.id, container.stage, self._scheduler_of(job), container.task), decisions)

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
        self._sent_to.pop((job, stage, task), None)
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
