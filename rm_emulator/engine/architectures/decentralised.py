"""Architecture `decentralised`: messages between schedulers and workers, without any view of the cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

import msgspec

from rm_emulator.engine import containers
from rm_emulator.engine.calendar import BEAT, TICK
from rm_emulator.engine.config import Decentralised as Settings
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.features.failing_tasks import FailingTasks
from rm_emulator.engine.features.node_faults import NodeFaults
from rm_emulator.engine.profile import Profile, architectures
from rm_emulator.engine.simulation import Simulation
from rm_emulator.workload.model import Workload
from schedulers.core.decisions import Hold, Send
from schedulers.core.events import Delivered, Event, JobCancelled, JobChanged
from schedulers.core.reasons import Reason
from schedulers.core.resources import Vector
from schedulers.decentralised.messages import AnyMessage, Load, TaskRequest, alone, receivers, without

_first = itemgetter(0)
_End = tuple[int, Callable[[Any], object], Container]  # of a worker by its place; what to call, and with what
#: Waiting helps against none of these.
_NEVER: Final = frozenset({Reason.TOO_LARGE, Reason.NO_NODE_MATCHES, Reason.NO_NODES})


@architectures.register("decentralised", source="Sparrow (SOSP 2013)")
class DecentralisedProfile(Profile):
    """Sparrow (SOSP 2013): every message takes the same time, and is acted upon at its arrival.

    At each instant tasks end first (workers in the order of declaration), then messages are heard in the order of
    sending, then new jobs are looked at in turn.

    Sparrow handles no failures of workers (Li and Lin, PCCC 2014). Here a lost worker loses its queue, and all
    schedulers hear when the loss is noticed: the central list of live workers that the paper's outlook proposes
    (recalled, not read again).
    """

    offers = "cycle"
    prompt = True

    engine: Simulation

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine)
        settings = engine.config.architecture
        assert isinstance(settings, Settings)
        self._delay = settings.message_ms
        self._under_way: deque[Event] = deque()  # messages sent and not heard yet
        self._ends: dict[int, list[_End]] = {}  # ends of tasks by their time, ms
        self._given_up: dict[str, Master] = {}
        self._names = [node.id for node in engine.config.nodes]
        self._unheard: dict[str, list[AnyMessage]] = {}  # by worker out of hearing: messages that wait
        engine.actions[Send] = self._send
        # Ends of an instant are sorted by worker, whatever the order of starts: runs are then comparable.
        failing = engine.feature(FailingTasks)
        if failing is None:
            engine.enter_end = self._enter_end
        else:
            failing.enter = self._enter_end
        engine.actions[Hold] = self._give_up

    @classmethod
    def settled(cls, config: EngineConfig, workload: Workload) -> EngineConfig:
        """Give the nodes their slots: as set, or as many as fit of the stage that fits least often.

        Raises ValueError for a setting beyond the room of a node.
        """
        settings = config.architecture
        assert isinstance(settings, Settings)
        demands = {stage.demand: (job.job.id, stage.name) for job in workload.jobs for stage in job.job.stages}
        nodes = []
        for node in config.nodes:
            fitting = {demand: n for demand in demands if (n := _fitting_count(demand, node.room))}
            least = min(fitting.values(), default=0)
            slots = settings.slots_per_worker
            if slots is not None and fitting and slots > least:
                job, stage = demands[min(fitting, key=fitting.__getitem__)]
                raise ValueError(
                    f"{slots} slots per worker, but node '{node.id}' has room for {least} task"
                    f"{'' if least == 1 else 's'} of job '{job}' stage '{stage}'"
                )
            nodes.append(msgspec.structs.replace(node, slots=least if slots is None else slots))
        return msgspec.structs.replace(config, nodes=tuple(nodes))

    def _send(self, decision: Send) -> None:
        self._post(Delivered(self.engine.calendar.now + self._delay, decision.message))

    def _post(self, fact: Event) -> None:
        """Put a message on its way. All messages take equally long, so messages arrive in the order of sending."""
        line = self._under_way
        # One calendar entry for all messages of an instant: there are many probes for each job.
        if not line or line[-1].at < fact.at:
            self.engine.calendar.at(fact.at, BEAT, 1, self._arrive)
        line.append(fact)

    def _arrive(self, _: None) -> None:
        line, now, tell = self._under_way, self.engine.calendar.now, self.engine.tell
        while line and line[0].at == now:
            fact = self._heard(line[0]) if self._unheard else line[0]
            if fact is not None:
                tell(fact)
            line.popleft()  # only now, so that a message without delay sent meanwhile is heard in this turn

    def arrived(self, job: Master) -> None:
        """Look at a new job once no message of the instant is left."""
        now = self.engine.calendar.now
        self.engine.calendar.at(
            now, TICK, job.number, self.engine.tell, JobChanged(now, job.name, tuple(job.root_stages))
        )

    def stage_ended(self, job: Master, stage: int) -> None:
        """Tell the job's scheduler by a message; the scheduler looks for workers for the next stages."""
        if opened := job.end_stage(stage):
            self._post(JobChanged(self.engine.calendar.now + self._delay, job.name, tuple(opened)))

    def _give_up(self, hold: Hold) -> None:
        """Give up a job with a stage that fits no worker: no further task of the job starts."""
        engine = self.engine
        if hold.reason in _NEVER and hold.job not in self._given_up and self._is_hopeless(engine.jobs[hold.job]):
            why = engine.control.explain(hold.job).reasons[0].sentence
            job = self._given_up[hold.job] = engine.jobs[hold.job]
            engine.tell(JobCancelled(engine.calendar.now, hold.job, f"given up: {why}"))
            self.finish_if_over(job)

    def _is_hopeless(self, job: Master) -> bool:
        """Whether a stage fits no worker, also none of those that are lost for now."""
        if self.engine.feature(NodeFaults) is None:
            return True
        stages, nodes = job.source.job.stages, self.engine.config.nodes
        demands = [stages[index].demand for index in job.state.open]
        return not all(any(node.slots and _fitting_count(each, node.room) for node in nodes) for each in demands)

    def finish_if_over(self, job: Master) -> None:
        """End the job; a job that was given up ends with its last running task."""
        if job.name not in self._given_up:
            super().finish_if_over(job)
        elif not job.state.running:
            del self._given_up[job.name], self.engine.jobs[job.name]
            self.engine.record.job(containers.job_row(job, None))
            # The end of the run waits for batch jobs alone.
            if not job.is_service:
                self.engine.tell_job_over()

    def _enter_end(self, when: int, rank: int, key: int, callback: Callable[[Any], object], value: Any = None) -> None:
        """Enter the ends of an instant as a single entry of the calendar, workers in the order of declaration."""
        there = self._ends.get(when)
        if there is None:
            self._ends[when] = [(value.index, callback, value)]
            self.engine.calendar.at(when, rank, 0, self._end_all)
        else:
            there.append((value.index, callback, value))

    def _end_all(self, _: None) -> None:
        for _index, end, container in sorted(self._ends.pop(self.engine.calendar.now), key=_first):
            end(container)

    # -- nodes come and go ------------------------------------------------------------------------

    def silenced(self, node: int) -> None:
        """Let messages to the worker wait."""
        self._unheard.setdefault(self._names[node], [])

    def _heard(self, fact: Event) -> Event | None:
        """The fact for those within hearing; None: for nobody."""
        if not isinstance(fact, Delivered):
            return fact
        message: AnyMessage | None = fact.message
        for worker in dict.fromkeys(receivers(fact.message)):
            if worker in self._unheard and message is not None:
                self._unheard[worker].append(alone(fact.message, worker))
                message = without(message, worker)
        return None if message is None else Delivered(fact.at, message)

    def closed(self, node: int) -> None:
        """Let messages on their way to and from the worker be lost: all schedulers have given up its answers."""
        name = self._names[node]
        if name in self._unheard:
            self._unheard[name].clear()
        facts = (self._without(fact, name) for fact in self._under_way)
        self._under_way = deque(fact for fact in facts if fact is not None)
        for job in list(self._given_up.values()):
            self.finish_if_over(job)

    @staticmethod
    def _without(fact: Event, worker: str) -> Event | None:
        if not isinstance(fact, Delivered):
            return fact
        if isinstance(fact.message, Load | TaskRequest):
            return None if fact.message.worker == worker else fact
        left = without(fact.message, worker)
        return None if left is None else Delivered(fact.at, left)

    def heard_again(self, node: int) -> None:
        """Tell the worker the messages that wait."""
        for message in self._unheard.pop(self._names[node], ()):
            self.engine.tell(Delivered(self.engine.calendar.now, message))

    # -- ends ---------------------------------------------------------------------------------------

    def ended(self, container: Container) -> bool:
        """Let the worker hear of the end at once."""
        self.engine.count(container)
        self.engine.tell_end(container)
        return False  # nothing is ever on offer

    def offer(self) -> None:
        """Offer nothing: workers take tasks from their own queues."""


def _fitting_count(demand: Vector, room: Vector) -> int:
    """How often a demand fits into the room of a node."""
    return min((there // part for part, there in zip(demand, room, strict=True) if part), default=0)
