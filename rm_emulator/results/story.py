"""The story of one job, found by replaying its log.

Whenever something happens to the job, and now and then while it waits, the scheduler is asked why it waits.
What it says between two moments of the story is summed up by reason.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from rm_emulator.issues import InvalidInput, Issue, did_you_mean
from rm_emulator.results.replay import log_lines, reading
from schedulers.core.copies import COPY
from schedulers.core.decisions import Copy, Decision, Hold, Move, Place, Preempt, Reserve, Run
from schedulers.core.errors import nearest
from schedulers.core.events import (
    ClaimRefused,
    ContainerEnded,
    ContainerExpired,
    ContainerStarted,
    Event,
    JobCancelled,
    JobSubmitted,
    NodeLost,
    TaskEnded,
)
from schedulers.core.explain import show_nodes
from schedulers.core.model import Job
from schedulers.core.replay import Replay
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import RUNNING, ContainerState, JobState
from schedulers.core.transfers import Parcel, parcels
from schedulers.decentralised.decider import Decentraliser, decider

#: How often a waiting job is looked at, at first; the interval doubles after `_LOOKS` looks.
_LOOK_MS: Final = 1000
_LOOKS: Final = 512
#: Reason of a stretch in which all waiting tasks have their containers, and these are starting.
STARTING: Final = "starting"
#: The same, of one in which they wait for data.
FOR_DATA: Final = "waits_for_data"
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


class Part(msgspec.Struct):
    """For how long (ms) a job's waiting tasks waited for one reason, and how the scheduler put it at first.

    reason: a code of `schedulers.core.reasons`, STARTING or FOR_DATA.
    """

    reason: str
    ms: int
    sentence: str


class Moment(msgspec.Struct, frozen=True):
    """Something that happened to the job.

    kind: submitted, plan, estimate, choice, stage, task, data, copy, reserved, refused, lost, end.
    """

    at_ms: int
    kind: str
    text: str


class Waiting(msgspec.Struct, frozen=True):
    """A stretch of time in which tasks of the job waited. idle_ms: how long of it nothing of the job ran."""

    from_ms: int
    to_ms: int
    idle_ms: int
    parts: tuple[Part, ...]


class Story(msgspec.Struct, frozen=True):
    """All that a log tells of one job; times in ms.

    finished_ms: None when the log ends before the job. waited_ms + ran_ms is the JCT (so far): it waited while
    nothing of it ran. reasons: what it waited for in all, longest first.
    """

    job: str
    submitted_ms: int
    finished_ms: int | None
    waited_ms: int
    ran_ms: int
    moments: tuple[Moment, ...]
    waits: tuple[Waiting, ...]
    reasons: tuple[Part, ...]


def story(path: Path, job: str, task: str | int | None = None) -> Story:
    """Replay a log up to the end of a job and tell of it.

    task: STAGE/INDEX, or the task's number over all stages; its attempts become moments of their own.
    Raises InvalidInput for an unreadable log or an unknown job or task, LogDiffers when the replay decides otherwise.
    """
    with reading(path):
        replay = Replay(log_lines(path), decider)
        known = replay.scheduler.state.jobs.get(job)
        spec = known.spec if known is not None else _find(path, job)
        teller = _Teller(replay.scheduler, spec, None if task is None else _task_of(spec, str(task), path))
        last: int | None = None
        for step in replay:
            if last is None:
                teller.hear(step.event, step.decisions)
                last = step.line if teller.over else None
            elif replay.compared >= last:
                break  # nothing that was told is in doubt
        return teller.story()


def clock(ms: int) -> str:
    """A time or a duration for people: `0.3 s`, `47 s`, `12 m 03 s`, `2 h 00 m 07 s`."""
    if ms < 10_000:
        return f"{ms / 1000:.1f} s".replace(".0 s", " s")
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} m {seconds:02d} s"
    return f"{minutes} m {seconds:02d} s" if minutes else f"{seconds} s"


def show_bytes(amount: int) -> str:
    """A number of bytes for people: `120 MiB`, `1.5 GiB`, `17 bytes`."""
    unit, shown = 0, float(amount)
    while shown >= 1024 and unit < len(_UNITS) - 1:
        unit, shown = unit + 1, shown / 1024
    return f"{shown:.3g} {_UNITS[unit]}" if unit else f"{amount} {_plural(amount, 'byte', 'bytes')}"


def _find(path: Path, job: str) -> Job:
    """The job as the log submits it."""
    known: list[str] = []
    decoder = msgspec.json.Decoder(JobSubmitted)
    for number, line in enumerate(log_lines(path), start=1):
        if line.startswith(b'{"event":"JobSubmitted"'):
            try:
                spec = decoder.decode(line).job
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InvalidInput([Issue(str(path), f"cannot be read: {error}", number)]) from None
            if spec.id == job:
                return spec
            known.append(spec.id)
    near = did_you_mean(nearest(job, known))
    among = f" of {len(known)}, the first is '{known[0]}'" if known else ", it has none"
    raise InvalidInput([Issue(str(path), f"no job '{job}' in this log{'' if near else among}", hint=near)])


def _task_of(job: Job, task: str, path: Path) -> tuple[int, int]:
    """(stage, index) of a task named STAGE/INDEX (the stage by name or number), or by its number over all stages."""
    name, slash, index = task.rpartition("/")
    names = [stage.name for stage in job.stages]
    if index.isdecimal():
        number = int(index)
        if not slash:
            for stage, spec in enumerate(job.stages):
                if number < spec.tasks:
                    return stage, number
                number -= spec.tasks
        else:
            stage = names.index(name) if name in names else int(name) if name.isdecimal() else -1
            if 0 <= stage < len(names) and number < job.stages[stage].tasks:
                return stage, number
    have = ", ".join(f"{stage.name}/0..{stage.tasks - 1}" for stage in job.stages[:8])
    more = f" and {len(names) - 8} more stages" if len(names) > 8 else ""
    near = did_you_mean(nearest(name, names)) if slash and name not in names else ""
    raise InvalidInput([Issue(str(path), f"job '{job.id}' has no task '{task}' (it has {have}{more})", hint=near)])


class _Attempt(msgspec.Struct):
    """A task of the job in a container. parcel: what of its data is there last, if that was not there yet."""

    stage: int
    task: int
    attempt: int
    node: str
    pilot: bool
    started: int | None = None
    copy: bool = False
    parcel: Parcel | None = None


class _Tally:
    """What has happened to a stage so far; runtimes in ms."""

    def __init__(self) -> None:
        self.started = self.ended = self.lost = self.moved = self.total = self.longest = self.last_start = 0
        self.nodes: dict[str, None] = {}


class _Stretches:
    """Sums up, between two moments of the story, what the job waited for."""

    def __init__(self) -> None:
        self.waits: list[Waiting] = []
        self.waited = self.ran = 0
        self._since = self._last = self._idle = 0
        self._parts: dict[str, Part] = {}

    def begin(self, at: int) -> None:
        self._since = self._last = at

    def add(self, at: int, *, runs: bool, reason: str | None) -> None:
        """What was so from the last time until now."""
        ms, self._last = at - self._last, at
        if runs:
            self.ran += ms
        else:
            self.waited += ms
            self._idle += ms
        if reason is not None:
            self._parts[reason].ms += ms

    def __contains__(self, reason: str) -> bool:
        return reason in self._parts

    def note(self, part: Part) -> None:
        self._parts[part.reason] = part

    def close(self) -> None:
        """End the stretch: the story goes on with something else."""
        parts = tuple(sorted((p for p in self._parts.values() if p.ms), key=lambda p: -p.ms))
        if parts:
            self.waits.append(Waiting(self._since, self._last, self._idle, parts))
        self._since, self._idle, self._parts = self._last, 0, {}

    def in_all(self) -> list[Part]:
        """All stretches together, longest first."""
        sums: dict[str, Part] = {}
        for part in (part for wait in self.waits for part in wait.parts):
            if part.reason in sums:
                sums[part.reason].ms += part.ms
            else:
                sums[part.reason] = msgspec.structs.replace(part)
        return sorted(sums.values(), key=lambda part: -part.ms)


class _Teller:
    """Listens to a replay and keeps what concerns one job. task: (stage, index) to tell of in detail."""

    def __init__(self, scheduler: Scheduler | Decentraliser, spec: Job, task: tuple[int, int] | None) -> None:
        self._scheduler, self._spec, self._task = scheduler, spec, task
        self._about = scheduler.policy.about if isinstance(scheduler, Scheduler) else lambda job: {}
        self._moments: list[Moment] = []
        self._stretches = _Stretches()
        self._tallies = [_Tally() for _ in spec.stages]
        self._held: dict[int, _Attempt] = {}
        self._done: set[tuple[int, int]] = set()
        self._reason: str | None = None
        self._looked = self._looks = 0
        self._every = _LOOK_MS
        self._size: float | None = None
        self._rank: dict[str, Any] = {}
        self._allocation: int | None = None
        self._submitted = 0
        self._finished: int | None = None
        self._pilots_left = self._refusals = 0
        self.over = False
        self._state: JobState | None = scheduler.state.jobs.get(spec.id)
        self._hears: dict[type[Event], Callable[[Any], None]] = {
            ContainerStarted: self._started,
            ContainerEnded: self._ended,
            TaskEnded: self._task_ended,
            ContainerExpired: self._expired,
            ClaimRefused: self._refused,
            NodeLost: self._node_lost,
            JobCancelled: self._cancelled,
        }
        if self._state is not None:
            self._take_up(self._state)

    # -- listening ------------------------------------------------------------------------------

    def hear(self, event: Event, decisions: list[Decision]) -> None:
        """One fact and what was decided on it, after the scheduler has heard it."""
        at = event.at
        if self._state is None:
            if not isinstance(event, JobSubmitted) or event.job.id != self._spec.id:
                return
            self._submit(at)
        state = self._state
        assert state is not None
        hear = self._hears.get(type(event))
        before = len(self._moments), len(self._held), state.started
        self._stretches.add(at, runs=self._runs, reason=self._reason)
        if hear is not None:
            hear(event)
        for decision in decisions:
            self._decided(decision, at)
        self._note_data(decisions, at)
        self._notice(state, at)
        said = any(isinstance(decision, Hold) and decision.job == self._spec.id for decision in decisions)
        changed = said or before != (len(self._moments), len(self._held), state.started)
        if not state.left or (state.cancelled and not state.running):
            self._end(state, at)
        elif changed or at - self._looked >= self._every or at == self._looked:
            # Of several facts at one instant the last counts: what was so between them lasted no time.
            self._look(state, at)

    def story(self) -> Story:
        """What was heard, put together."""
        if self._state is not None and not self.over:
            left = self._state.left
            text = f"the log ends here; {left} of its {self._spec.tasks} tasks are not done"
            if self._spec.kind == "service":
                text = f"the log ends here; of this service {self._state.running} of {self._spec.tasks} tasks run"
            self._note("end", self._scheduler.state.now, text + self._why())
        stretches = self._stretches
        reasons = stretches.in_all()
        return Story(
            job=self._spec.id,
            submitted_ms=self._submitted,
            finished_ms=self._finished,
            waited_ms=stretches.waited,
            ran_ms=stretches.ran,
            moments=tuple(self._moments),
            waits=tuple(stretches.waits),
            reasons=tuple(reasons),
        )

    def _note(self, kind: str, at: int, text: str) -> None:
        """The story goes on: what was waited for until now is told before it."""
        self._stretches.close()
        self._reason = None
        self._moments.append(Moment(at, kind, text))

    # -- waiting --------------------------------------------------------------------------------

    @property
    def _runs(self) -> bool:
        """Whether a task does; copies of tasks that are done do not count."""
        return any(
            attempt.started is not None and (attempt.stage, attempt.task) not in self._done
            for attempt in self._held.values()
        )

    def _look(self, state: JobState, at: int) -> None:
        """Ask the scheduler why the job waits now."""
        self._looked, self._looks = at, self._looks + 1
        if self._looks % _LOOKS == 0:
            self._every *= 2
        reason = self._scheduler.reason(state)
        if reason is None and self._runs:
            self._reason = None
            return
        if reason is not None:
            self._reason = reason.value
        else:
            self._reason = FOR_DATA if self._awaited(at) else STARTING
        if self._reason not in self._stretches:
            self._stretches.note(self._part(self._reason))

    def _part(self, reason: str) -> Part:
        if reason == STARTING:
            return Part(reason, 0, "its containers are starting")
        if reason == FOR_DATA:
            return Part(reason, 0, _waits_for(self._awaited(self._looked)[-1]))
        explanation = self._scheduler.explain(self._spec.id)
        said = next((b for b in explanation.reasons if b.reason == reason), None)
        if said is None:
            return Part(reason, 0, reason.replace("_", " "))
        others = len(self._scheduler.state.waiting) - (self._spec.id in self._scheduler.state.waiting)
        also = f"; {others} other {_plural(others, 'job waits', 'jobs wait')}" if others else ""
        return Part(reason, 0, said.sentence + also)

    def _why(self) -> str:
        if self._spec.id not in self._scheduler.state.jobs:
            return ""
        sentences = [reason.sentence for reason in self._scheduler.explain(self._spec.id).reasons]
        return f": {'; '.join(sentences)}" if sentences else ""

    # -- arrival and estimates ------------------------------------------------------------------

    def _submit(self, at: int) -> None:
        state = self._state = self._scheduler.state.jobs[self._spec.id]
        self._submitted = at
        self._stretches.begin(at)
        spec = self._spec
        who = f" by {spec.user}" if spec.user else ""
        what = f" as a run of '{spec.name}'" if spec.name else ""
        self._note("submitted", at, f"submitted to queue {spec.queue}{who}{what}: {self._stages()}")
        self._note_plan(state, at)

    def _take_up(self, state: JobState) -> None:
        """The job was there when the log begins."""
        now = self._scheduler.state.now
        self._submitted = state.submitted
        self._stretches.begin(now)
        for container in self._scheduler.state.containers.values():
            if container.job == self._spec.id:
                self._take_up_container(container)
        for stage, tally in zip(state.stages, self._tallies, strict=True):
            tally.ended = stage.finished
            tally.started = stage.finished + stage.running
        text = f"the log begins with the job there since {clock(state.submitted)}: {self._stages()}"
        self._note("submitted", now, f"{text}; {state.left} tasks are not done")
        self._pilots_left = state.pilots_left
        self._look(state, now)

    def _take_up_container(self, container: ContainerState) -> None:
        started = container.started if container.status == RUNNING else None
        which = container.stage, container.task, container.attempt
        self._held[container.id] = _Attempt(*which, container.node, container.pilot, started, container.copy)

    def _stages(self) -> str:
        stages = self._spec.stages
        if len(stages) > 6:
            return f"{len(stages)} stages with {self._spec.tasks} tasks, the widest {self._spec.width}"
        texts = []
        for stage in stages:
            after = " and ".join(stages[parent].name for parent in stage.above)
            tasks = f"{stage.tasks} {_plural(stage.tasks, 'task', 'tasks')}"
            texts.append(f"stage {stage.name} of {tasks}" + (f" after {after}" if after else ""))
        return ", ".join(texts)

    def _note_plan(self, state: JobState, at: int) -> None:
        plan = state.plan
        if plan is None:
            return
        if plan.thin:
            self._note("plan", at, "too few tasks to sample: it goes first instead")
        elif plan.pilots:
            count = len(plan.pilots)
            rest = "the others are held back until they are done" if plan.rest == "held" else "the others queue too"
            tasks = _plural(count, "task runs", "tasks run")
            self._note("plan", at, f"{count} pilot {tasks} first to learn from; {rest}")
        self._pilots_left = state.pilots_left

    def _notice(self, state: JobState, at: int) -> None:
        """Tell of a new estimate, or another place in the policy's order."""
        if self._pilots_left and not state.pilots_left:
            self._note("plan", at, "its last pilot task is done")
        self._pilots_left = state.pilots_left
        if not state.left:
            return
        rank = self._about(state)
        told = self._promised(rank.pop("promise", None))
        if state.size_ms is not None and state.size_ms != self._size:
            source = f" ({state.size_source})" if state.size_source else ""
            told.append(f"estimated at {clock(round(state.size_ms))} of work in all{source}")
        if rank != self._rank:
            told += [
                f"{key} {value} of the policy" for key, value in rank.items() if value is not None and key != "said"
            ]
            if rank.get("said", "") != self._rank.get("said", ""):
                self._note("choice", at, rank["said"])
        self._size, self._rank = state.size_ms, rank
        if told:
            self._note("estimate", at, ", ".join(told))

    def _promised(self, promise: dict[str, int] | None) -> list[str]:
        """What the policy has promised, when it is another number of containers than before."""
        if promise is None or promise["containers"] == self._allocation:
            return []
        self._allocation = promise["containers"]
        finish, margin, deadline = (clock(promise[name]) for name in ("finish", "margin", "deadline"))
        to_have = _plural(self._allocation, "container", "containers")
        done = f"be done at {finish}, at most {margin} later, deadline {deadline}"
        return [f"is to have {self._allocation} {to_have} and {done}"]

    # -- data, copies ---------------------------------------------------------------------------

    def _awaited(self, at: int) -> list[Parcel]:
        """What its containers wait for that have not started, the last to be there at the end."""
        waiting = [attempt for attempt in self._held.values() if attempt.started is None]
        found = [attempt.parcel for attempt in waiting if attempt.parcel is not None and attempt.parcel.at > at]
        return sorted(found, key=lambda parcel: parcel.at)

    def _note_data(self, decisions: list[Decision], at: int) -> None:
        """Tell which of the tasks that were just granted wait for data; by stage, of several the last."""
        waits: dict[int, list[_Attempt]] = {}
        for decision in decisions:
            attempt = self._held.get(decision.container) if isinstance(decision, Place | Copy) else None
            if attempt is not None and attempt.parcel is not None:
                waits.setdefault(attempt.stage, []).append(attempt)
        for stage, attempts in waits.items():
            last = max(attempts, key=lambda attempt: attempt.parcel.at if attempt.parcel is not None else 0)
            assert last.parcel is not None
            said = f"{self._called(last)} on node {last.node} {_waits_for(last.parcel)}"
            if len(attempts) > 1:
                name = self._spec.stages[stage].name
                said = f"{len(attempts)} tasks of stage {name} wait for data; the last: {said}"
            self._note("data", at, said)

    def _parcel(self, stage: int, node: str, at: int) -> Parcel | None:
        """What a task of the stage takes that is there last, if that is not on the node yet."""
        state = self._scheduler.state
        if state.links is None or self._state is None or node not in state.nodes:
            return None
        found = parcels(self._state, self._state.stages[stage], state.nodes[node], state.links, state.nodes)
        return found[0] if found and found[0].at > at else None

    def _copied(self, decision: Copy, at: int) -> None:
        parcel = self._parcel(decision.stage, decision.node, at)
        attempt = _Attempt(
            decision.stage, decision.task, decision.attempt, decision.node, False, copy=True, parcel=parcel
        )
        self._held[decision.container] = attempt
        done = ", which is done," if (attempt.stage, attempt.task) in self._done else ""
        self._note("copy", at, f"{self._called(attempt)}{done} is copied to node {decision.node}")

    # -- tasks ----------------------------------------------------------------------------------

    def _decided(self, decision: Decision, at: int) -> None:
        if isinstance(decision, Place | Run | Move):
            if decision.job == self._spec.id:
                self._granted(decision, at)
            else:
                self._held.pop(decision.container, None)
        elif isinstance(decision, Copy) and decision.job == self._spec.id:
            self._copied(decision, at)
        elif isinstance(decision, Preempt) and decision.rule == COPY:
            return
        elif isinstance(decision, Preempt) and decision.container in self._held:
            attempt = self._held[decision.container]
            cause = f" to make room for {decision.cause}" if decision.cause else ""
            self._note("lost", at, f"{self._called(attempt)} is preempted ({decision.rule}){cause}")

        elif isinstance(decision, Reserve) and decision.job == self._spec.id:
            stage = self._spec.stages[decision.stage].name
            nodes, starts = show_nodes(decision), clock(decision.starts)
            self._note(
                "reserved", at, f"reserved for stage {stage}: {nodes}, where it is expected to start at {starts}"
            )

    def _granted(self, decision: Place | Run | Move, at: int) -> None:
        container = self._scheduler.state.containers.get(decision.container)
        node = container.node if container is not None else ""
        pilot = container is not None and container.pilot
        parcel = self._parcel(decision.stage, node, at)
        attempt = _Attempt(decision.stage, decision.task, decision.attempt, node, pilot, parcel=parcel)
        self._held[decision.container] = attempt
        self._tallies[attempt.stage].moved += isinstance(decision, Move)
        if (attempt.stage, attempt.task) == self._task:
            how = "placed" if isinstance(decision, Place) else "given an executor that stays"
            how = "given an executor of another job" if isinstance(decision, Move) else how
            self._note("task", at, f"{self._called(attempt)} is {how} on node {node}")
        if isinstance(decision, Run):
            self._begin(attempt, at)

    def _started(self, event: ContainerStarted) -> None:
        attempt = self._held.get(event.container)
        if attempt is not None and attempt.started is None:
            self._begin(attempt, event.at)

    def _begin(self, attempt: _Attempt, at: int) -> None:
        attempt.started = at
        if attempt.copy:
            return
        tally, stage = self._tallies[attempt.stage], self._spec.stages[attempt.stage]
        if not tally.started:
            pilot = ", a pilot," if attempt.pilot else ""
            self._note("stage", at, f"stage {stage.name} begins: task {attempt.task}{pilot} on node {attempt.node}")
        elif (attempt.stage, attempt.task) == self._task:
            self._note("task", at, f"{self._called(attempt)} starts")
        tally.started += 1
        tally.last_start = at
        tally.nodes[attempt.node] = None

    def _task_ended(self, event: TaskEnded) -> None:
        attempt = self._held.get(event.container)
        ended = event.stage, event.task, event.attempt
        if attempt is not None and (attempt.stage, attempt.task, attempt.attempt) == ended:
            del self._held[event.container]
            self._succeeded(attempt, event.runtime_ms, event.at)

    def _ended(self, event: ContainerEnded) -> None:
        attempt = self._held.pop(event.container, None)
        if attempt is None:
            return
        if event.code == 0:
            self._succeeded(attempt, event.runtime_ms, event.at)
        else:
            self._lost(attempt, event.at, f"ended with code {event.code}")

    def _succeeded(self, attempt: _Attempt, runtime_ms: int, at: int) -> None:
        if (attempt.stage, attempt.task) in self._done:
            return
        self._done.add((attempt.stage, attempt.task))
        tally, stage = self._tallies[attempt.stage], self._spec.stages[attempt.stage]
        tally.ended += 1
        tally.nodes[attempt.node] = None
        tally.total += runtime_ms
        tally.longest = max(tally.longest, runtime_ms)
        if (attempt.stage, attempt.task) == self._task:
            self._note("task", at, f"{self._called(attempt)} is done after {clock(runtime_ms)}")
        if tally.ended == stage.tasks:
            self._note("stage", at, self._stage_done(stage.name, stage.tasks, tally))

    @staticmethod
    def _stage_done(name: str, tasks: int, tally: _Tally) -> str:
        text = f"stage {name} is done"
        if tasks > 1:
            nodes = len(tally.nodes)
            text += (
                f": {tasks} tasks on {nodes} {_plural(nodes, 'node', 'nodes')}, the last began at "
                f"{clock(tally.last_start)}; they took {clock(tally.total // tasks)} on average, "
                f"the longest {clock(tally.longest)}"
            )
        if tally.moved:
            text += f"; {tally.moved} {_plural(tally.moved, 'executor', 'executors')} came from other jobs"
        if tally.lost:
            text += f"; {tally.lost} {_plural(tally.lost, 'attempt', 'attempts')} failed"
        return text

    def _expired(self, event: ContainerExpired) -> None:
        attempt = self._held.get(event.container)
        if attempt is not None and event.container not in self._scheduler.state.containers:
            del self._held[event.container]
            self._lost(attempt, event.at, "was not started in time")

    def _refused(self, event: ClaimRefused) -> None:
        """All refusals of an instant are one moment."""
        if self._held.pop(event.container, None) is None:
            return
        last = self._moments[-1]
        again = last.kind == "refused" and last.at_ms == event.at
        self._refusals = self._refusals + 1 if again else 1
        if again:
            self._moments.pop()
        claims = f"{self._refusals} {_plural(self._refusals, 'claim was', 'claims were')}"
        self._note("refused", event.at, f"{claims} refused: others were faster, or all or nothing was asked for")

    def _node_lost(self, event: NodeLost) -> None:
        for container, attempt in list(self._held.items()):
            if attempt.node == event.node:
                del self._held[container]
                self._lost(attempt, event.at, f"is lost with node {event.node}")

    def _lost(self, attempt: _Attempt, at: int, why: str) -> None:
        if (attempt.stage, attempt.task) in self._done:
            return
        others = [each for each in self._held.values() if (each.stage, each.task) == (attempt.stage, attempt.task)]
        if others or attempt.copy:
            self._note("lost", at, f"{self._called(attempt)} {why}; another copy of it goes on")
            return
        self._tallies[attempt.stage].lost += 1
        if attempt.started is not None:
            self._tallies[attempt.stage].started -= 1
        self._note("lost", at, f"{self._called(attempt)} {why}; it waits again")

    def _called(self, attempt: _Attempt) -> str:
        name = f"task {self._spec.stages[attempt.stage].name}/{attempt.task}"
        if attempt.pilot:
            name += " (a pilot)"
        return name + (f", attempt {attempt.attempt + 1}," if attempt.attempt else "")

    # -- the end --------------------------------------------------------------------------------

    def _cancelled(self, event: JobCancelled) -> None:
        if event.job == self._spec.id:
            self._note("end", event.at, f"{event.why or 'cancelled'}: nothing of it starts any more")

    def _end(self, state: JobState, at: int) -> None:
        self.over, self._finished = True, at
        self._note("end", at, "finished" if not state.left else "gone: what ran has ended")


def _waits_for(parcel: Parcel) -> str:
    until = clock(parcel.at) if parcel.at >= 60_000 else f"{parcel.at / 1000:.1f} s".replace(".0 s", " s")
    return f"waits for {show_bytes(parcel.data)} from {parcel.source} until {until}"


def _plural(count: int, one: str, many: str) -> str:
    return one if count == 1 else many
