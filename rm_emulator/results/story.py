"""The story of one job, found by replaying its log.

Whenever something happens to the job, and now and then while it waits, the scheduler is asked why it waits.
What it says between two moments of the story is summed up by reason.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl

from rm_emulator.issues import InvalidInput, Issue, did_you_mean
from rm_emulator.results.chapters.data import DataChapter
from rm_emulator.results.chapters.diary import (
    FOR_DATA,
    STARTING,
    Diary,
    Moment,
    Part,
    Story,
    Waiting,
    clock,
    plural,
    show_bytes,
)
from rm_emulator.results.chapters.outages import Outage, Outages, Turn
from rm_emulator.results.chapters.outlook import Outlook
from rm_emulator.results.chapters.reasons import Reasons
from rm_emulator.results.chapters.tasks import Tasks
from rm_emulator.results.replay import log_lines, reading
from schedulers.core.decisions import Decision, Hold
from schedulers.core.errors import nearest
from schedulers.core.events import Event, JobCancelled, JobSubmitted
from schedulers.core.model import Job
from schedulers.core.replay import Replay
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import JobState
from schedulers.decentralised.decider import Decentraliser, decider

_Scheduler = Scheduler | Decentraliser

__all__ = ["FOR_DATA", "STARTING", "Moment", "Part", "Story", "Waiting", "clock", "plural", "show_bytes", "story"]


def story(path: Path, job: str, task: str | int | None = None) -> Story:
    """Replay a log up to the end of a job and tell of it.

    task: STAGE/INDEX, or the task's number over all stages; its attempts become moments of their own.
    Raises InvalidInput for an unreadable log or an unknown job or task, LogDiffers when the replay decides otherwise.
    """
    with reading(path):
        replay = Replay(log_lines(path), decider)
        known = replay.scheduler.state.jobs.get(job)
        spec = known.spec if known is not None else _find(path, job)
        of = None if task is None else _task_of(spec, str(task), path)
        outages = Outages(replay.scheduler.state, _faults(path.parent / "faults.parquet"))
        told = None if known is None else _StoryBuilder.taken_up(replay.scheduler, known, of, outages)

        def before(event: Event) -> None:
            for turn in outages.unnoticed(event.at):
                if told is not None and not told.over:
                    told.turned(turn)

        last: int | None = None
        replay.before = before
        for step in replay:
            if last is not None:
                if replay.compared >= last:
                    break  # nothing that was told is in doubt
                continue
            event = step.event
            outages.hear(event)
            if isinstance(event, JobSubmitted) and event.job.id == job and (told is None or event.again):
                state = replay.scheduler.state.jobs[job]
                told = _StoryBuilder.submitted(replay.scheduler, state, of, outages, event.at, told)
            if told is not None and not told.over:
                told.hear(event, step.decisions)
                last = step.line if told.is_whole else None
        assert told is not None, "a job of the log is submitted in it, or there when it begins"
        return told.story()


def _faults(path: Path) -> list[Outage]:
    """The faults of nodes beside a log; none without a record."""
    if not path.is_file():
        return []
    try:
        rows = pl.read_parquet(path, columns=list(Outage.__struct_fields__)).drop_nulls("node")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InvalidInput([Issue(str(path), f"cannot be read: {error}")]) from None
    return [Outage(**row) for row in rows.to_dicts()]


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


class _StoryBuilder:
    """Listens to a replay: leads each fact and decision that concerns the job to the chapters of its story."""

    def __init__(
        self,
        scheduler: _Scheduler,
        state: JobState,
        task: tuple[int, int] | None,
        outages: Outages,
        begin: int,
        diary: Diary | None = None,
    ) -> None:
        self._scheduler, self._state, self._spec = scheduler, state, state.spec
        self._diary = diary or Diary()
        self._diary.stretches.begin(begin)
        self._tasks = Tasks(scheduler, state, task, outages, self._diary)
        self._data = DataChapter(state, self._tasks, self._diary)
        about = scheduler.policy.about if isinstance(scheduler, Scheduler) else lambda job: {}
        self._outlook = Outlook(about, state, self._diary)
        self._reasons = Reasons(scheduler, state, self._tasks, self._data, outages, self._diary.stretches)
        self._submitted = begin
        self._finished: int | None = None
        self._runs = False  # since the last fact or turn
        self.over = False

    @classmethod
    def submitted(
        cls,
        scheduler: _Scheduler,
        state: JobState,
        task: tuple[int, int] | None,
        outages: Outages,
        at: int,
        former: _StoryBuilder | None,
    ) -> _StoryBuilder:
        """The job comes now, perhaps anew."""
        told, spec = cls(scheduler, state, task, outages, at, former._diary if former else None), state.spec
        if former is not None:
            told._submitted = former._submitted
            told._tasks.losses.go_on_from(former._tasks.losses)
            told._diary.note("submitted", at, "submitted anew")
            return told
        who = f" by {spec.user}" if spec.user else ""
        what = f" as a run of '{spec.name}'" if spec.name else ""
        told._diary.note("submitted", at, f"submitted to queue {spec.queue}{who}{what}: {told._stages()}")
        told._outlook.planned(at)
        return told

    @classmethod
    def taken_up(
        cls, scheduler: _Scheduler, state: JobState, task: tuple[int, int] | None, outages: Outages
    ) -> _StoryBuilder:
        """The job was there when the log begins."""
        now = scheduler.state.now
        told = cls(scheduler, state, task, outages, now)
        told._submitted = state.submitted
        told._tasks.take_up()
        told._runs = told._tasks.run
        text = f"the log begins with the job there since {clock(state.submitted)}: {told._stages()}"
        told._diary.note("submitted", now, f"{text}; {state.left} tasks are not done")
        told._reasons.look(now)
        return told

    @property
    def is_whole(self) -> bool:
        """Whether the job has ended, and not as a withdrawn job that may be submitted anew."""
        return self.over and not self._state.cancelled

    def turned(self, turn: Turn) -> None:
        """Take in that a node falls silent, or is heard again, and no fact tells."""
        self._diary.stretches.add(turn.at, runs=self._runs)
        self._runs = self._tasks.run
        if self._tasks.turned(turn):
            self._reasons.look(turn.at)

    def hear(self, event: Event, decisions: list[Decision]) -> None:
        """Take in one fact and the decisions on the fact, after the scheduler has heard the fact."""
        at, state, tasks, moments = event.at, self._state, self._tasks, self._diary.moments
        before = len(moments), len(tasks.held), state.started
        self._diary.stretches.add(at, runs=self._runs)
        tasks.hear(event)
        if isinstance(event, JobCancelled) and event.job == self._spec.id:
            self._diary.note("end", at, f"{event.why or 'cancelled'}: nothing of it starts any more")
        for decision in decisions:
            tasks.decided(decision, at)
        self._data.tell(decisions, at)
        self._outlook.notice(at)
        said = any(isinstance(decision, Hold) and decision.job == self._spec.id for decision in decisions)
        changed = said or before != (len(moments), len(tasks.held), state.started)
        if not state.left or (state.cancelled and not state.running):
            self.over, self._finished = True, at
            self._diary.note("end", at, "finished" if not state.left else "gone: what ran has ended")
        elif changed or self._reasons.due(at):
            self._reasons.look(at)
        self._runs = tasks.run

    def story(self) -> Story:
        """What was heard, put together."""
        if not self.over:
            left = self._state.left
            text = f"the log ends here; {left} of its {self._spec.tasks} tasks are not done"
            if self._spec.kind == "service":
                text = f"the log ends here; of this service {self._state.running} of {self._spec.tasks} tasks run"
            self._diary.note("end", self._scheduler.state.now, text + self._reasons.in_words())
        stretches = self._diary.stretches
        reasons = stretches.in_all()
        return Story(
            job=self._spec.id,
            submitted_ms=self._submitted,
            finished_ms=self._finished,
            waited_ms=stretches.waited,
            ran_ms=stretches.ran,
            moments=tuple(self._diary.moments),
            waits=tuple(stretches.waits),
            reasons=tuple(reasons),
            ended_early=self._tasks.losses.count,
            in_vain_ms=self._tasks.losses.ran_ms,
        )

    def _stages(self) -> str:
        stages = self._spec.stages
        if len(stages) > 6:
            return f"{len(stages)} stages with {self._spec.tasks} tasks, the widest {self._spec.width}"
        texts = []
        for stage in stages:
            after = " and ".join(stages[parent].name for parent in stage.above)
            tasks = f"{stage.tasks} {plural(stage.tasks, 'task', 'tasks')}"
            texts.append(f"stage {stage.name} of {tasks}" + (f" after {after}" if after else ""))
        return ", ".join(texts)
