"""The questions of `simulate` to a run of the emulator: each is answered by plays from the moment on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from rm_emulator.engine.features.node_faults import NodeFaults
from rm_emulator.experiments.changes import CellSetting, apart_gangs, smaller_asks
from rm_emulator.forecasts.answers import (
    Answer,
    Compared,
    Expected,
    Judgement,
    NewJob,
    Record,
    Tried,
    course_of,
    delays,
    expected,
    job_answer,
    judge,
    most_frequent,
)
from rm_emulator.forecasts.arrivals import arrived, guessed, keeps_time_of_day, tonight
from rm_emulator.forecasts.changes import AskedChange, ReadChange, Takeover, compared, read_change
from rm_emulator.forecasts.job_file import read_jobs
from rm_emulator.forecasts.moment import Paused, PausedRun, paused, refuse_late
from rm_emulator.forecasts.plans import Here, Plan, Player
from rm_emulator.forecasts.plays import Courses
from rm_emulator.forecasts.present import Present, paused_present
from rm_emulator.forecasts.remote import Origin, RemotePlays
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.plugins import load_plugins
from rm_emulator.scenario.durations import show_duration
from rm_emulator.workload.model import WorkloadJob

if TYPE_CHECKING:
    from rm_emulator.experiments.dask_engine import DaskEngine

#: Draws of an earlier moment, asked only to judge the answers.
_EARLIER_DRAWS: Final = 20
#: Changes that are named in the answer, at most, and draws of each.
_BEST: Final = 3
_TRIED_DRAWS: Final = 20

Progress = Callable[[str], None]
replace = msgspec.structs.replace


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a run at a moment."""

    at_ms: int
    file: Path | None = None
    """Jobs to be asked about; None: all live jobs alone."""
    draws: int = 50
    earlier: int = 3
    """Number of earlier moments at which the same is asked, to judge the answers; 0: none."""
    tries: bool = True
    """Whether changes to a new job are tried."""
    arrivals_ms: int = 0
    """Jobs to come are drawn from those that arrived so long before the moment; 0: none come."""
    change: AskedChange = AskedChange()
    """A change to the present."""


def ask(
    folder: Path,
    question: Question,
    *,
    label: str | None = None,
    seed: int | None = None,
    plugins: Sequence[str | Path] = (),
    progress: Progress | None = None,
    engine: DaskEngine | None = None,
) -> Answer:
    """Answer a question to a cell of a run directory. progress: called with a line now and then.

    plugins: of the run, in place of those it was made with; with another policy, of the other policy. engine: whose
    workers play, in place of this machine.
    Raises InvalidInput, and PlayFailed where a policy fails in a play.
    """
    report, others = progress or (lambda _: None), list[str]()
    if question.change.policy is not None:
        # Plug-ins of the other policy: the run's own are found by its record.
        others, plugins = load_plugins(plugins), ()
    run = paused(folder, label, seed, plugins)
    change = _change(run, question)
    with _player(run, Origin(run.recorded.cell, tuple(others)), engine, report) as player:
        earlier = list(_earlier(run, question, report, player))
        run.advance(question.at_ms)
        refuse_late(run, question.at_ms)
        return _Asking(run, question, report, player).answer(_record(run, earlier), change)


def _change(run: Paused, question: Question) -> ReadChange | None:
    if question.change.is_none:
        return None
    if question.file is not None:
        raise InvalidInput([Issue(str(question.file), "a new job and a change are two questions: ask one at a time")])
    return read_change(run, question.change)


@contextmanager
def _player(run: Paused, origin: Origin, engine: DaskEngine | None, note: Progress) -> Iterator[Player]:
    if engine is None:
        yield Here(run)
        return
    with closing(RemotePlays(engine, origin, note)) as remote:
        yield remote


def _earlier(
    run: PausedRun, question: Question, report: Progress, player: Player
) -> Iterator[tuple[int, list[Judgement]]]:
    """Moments before, and what was answered then."""
    count = 0 if run.told_truth else question.earlier
    for number in range(1, count + 1):
        run.advance(question.at_ms * number // (count + 1))
        moment, live = run.moment(), _live(run)
        assert moment is not None  # without true run times
        known = [job for job in live if job not in moment.unknown]
        if not known:
            continue
        report(f"asking what would have been answered at {show_duration(run.at_ms)} ({len(known)} jobs)")
        draws = player.play(Plan(at_ms=run.at_ms, draws=range(_EARLIER_DRAWS), watched=tuple(known)))
        ends = {job: expected(course.finish_ms for course in course_of(draws, job)) for job in known}
        yield run.at_ms, [Judgement(job, end.p10_ms, end.p90_ms) for job, end in ends.items()]


def _live(run: Paused) -> list[str]:
    return [name for name, job in run.simulation.jobs.items() if not (job.is_service or job.state.cancelled)]


def _faults(run: Paused) -> Iterator[str]:
    """Notes on what is known of faults at the moment."""
    faults, nodes = run.simulation.config.faults, run.simulation.feature(NodeFaults)
    if faults is None:
        return
    if out := [f"{fault.node} ({fault.kind})" for fault in (nodes.present if nodes is not None else ())]:
        yield f"nodes with a fault, whether or not anybody has noticed: {', '.join(out)}"
    if any(fault.at_ms >= run.at_ms for fault in faults.outages):
        yield "faults that are scheduled for later are left out, since nobody knows of them"
    if faults.nodes is not None or faults.tasks is not None:
        yield "faults to come are drawn anew in each draw, at the rates of the run"


def _record(run: PausedRun, earlier: Sequence[tuple[int, list[Judgement]]]) -> Record | None:
    """How good the earlier answers were, by the ends that came up to now."""
    scores = [judge(judgements, run.past.ended, run.at_ms) for _, judgements in earlier]
    answers, held = sum(a for a, _ in scores), sum(h for _, h in scores)
    return Record(answers, held, tuple(at for at, _ in earlier)) if answers else None


def ask_present(
    present: Present,
    question: Question,
    *,
    plugins: Sequence[Path] = (),
    progress: Progress | None = None,
    engine: DaskEngine | None = None,
) -> Answer:
    """Answer a question to the memory of a brain, at the moment of its reading. engine: see `ask`.

    plugins: of the brain's policy and predictor, and of another policy.
    Raises InvalidInput and PlayFailed.
    """
    origin, report = Origin(present, tuple(load_plugins(plugins))), progress or (lambda _: None)
    run = paused_present(present)
    change = _change(run, question)
    with _player(run, origin, engine, report) as player:
        answer = _Asking(run, replace(question, at_ms=run.at_ms), report, player).answer(None, change)
    return replace(answer, wall_clock=True)


def ask_paused(run: Paused, question: Question, *, at_once: int) -> Answer:
    """Answer a question to the present of a brain, by plays on this machine. Raises InvalidInput and PlayFailed."""
    asking = _Asking(run, replace(question, at_ms=run.at_ms), lambda _: None, Here(run, at_once))
    return replace(asking.answer(None, None), wall_clock=True)


class _Asking:
    """A question about a cluster at a moment."""

    def __init__(self, run: Paused, question: Question, report: Progress, player: Player) -> None:
        self.run, self.question, self._report, self._player = run, question, report, player
        arrived(run, question.arrivals_ms)  # refused here, since a play would tell of its failure alone
        self.moment = run.moment()
        self.live = _live(run)
        drawn = question.arrivals_ms or run.simulation.config.faults is not None
        self.draws = question.draws if drawn or not run.told_truth else 1

    def answer(self, record: Record | None, change: ReadChange | None) -> Answer:
        question, run = self.question, self.run
        new = self._new_jobs()
        self._report(f"{len(self.live)} live jobs, {self.draws} draws")
        without = self._play_all(())
        unknown = self.moment.unknown if self.moment is not None else []
        asked = self._asked(new, without) if new else ()
        jobs = run.simulation.jobs
        notes = ["run times are true ones: the policy's predictor is told them"] if run.told_truth else []
        notes += [*(change.notes if change is not None else ()), *guessed(run, question.arrivals_ms), *_faults(run)]
        return Answer(
            at_ms=question.at_ms,
            policy=run.policy,
            draws=self.draws,
            jobs=tuple(job_answer(jobs[name], without, known=name not in unknown) for name in self.live),
            asked=asked,
            compared=None if change is None else self._compared(change),
            unknown=tuple(unknown),
            record=record,
            notes=tuple(notes),
        )

    def _new_jobs(self) -> list[WorkloadJob]:
        """The jobs asked about. Raises InvalidInput for a job whose id is taken."""
        question, run = self.question, self.run
        if question.file is None:
            return []
        if self.moment is None:
            why = "the policy's predictor is told true run times, and nobody knows those of a new job"
            raise InvalidInput([Issue(str(question.file), f"cannot be asked about: {why}")])
        config = run.simulation.config
        new = read_jobs(question.file, run.scenario, config.resources, question.at_ms)
        taken = {source.job.id for source in run.simulation.workload.jobs}
        if again := next((job.job.id for job in new if job.job.id in taken), None):
            raise InvalidInput([Issue(str(question.file), f"job '{again}' is in the run already (expected a new job)")])
        return new

    def _play_all(
        self,
        new: Sequence[WorkloadJob],
        draws: int | None = None,
        only: Sequence[str] = (),
        by: Takeover | None = None,
    ) -> list[Courses]:
        """A play for each draw with these new jobs.

        only: jobs to watch; all live and new jobs by default. by: who takes the present over; None: nobody.
        """
        watched = only or [*self.live, *(job.job.id for job in new)]
        plan = Plan(
            at_ms=self.question.at_ms,
            draws=range(draws or self.draws),
            watched=tuple(watched),
            new=tuple(new),
            arrivals_ms=self.question.arrivals_ms,
            by=by,
        )
        return self._player.play(plan)

    def _compared(self, change: ReadChange) -> Compared:
        """The effect of a change; both plays are taken over, so that all else about a takeover cancels."""
        self._report(f"the same {change.words}")
        without, with_ = (self._play_all((), by=by) for by in (change.without, change.with_))
        jobs = self.run.simulation.jobs
        submitted = {name: jobs[name].source.submit_ms for name in self.live}
        return compared(change.words, without, with_, submitted, self.question.at_ms)

    def _asked(self, new: Sequence[WorkloadJob], without: Sequence[Courses]) -> tuple[NewJob, ...]:
        """The answers for the new jobs, which come together."""
        self._report(f"the same with {', '.join(job.job.id for job in new)}")
        with_ = self._play_all(new)
        late = delays(without, with_, self.question.at_ms)
        found = []
        for job in new:
            courses = course_of(with_, job.job.id)
            known = all(prior.known for prior in self.run.listener.prior(job.job, self.question.at_ms))
            found.append(
                NewJob(
                    job=job.job.id,
                    start=expected(course.start_ms for course in courses),
                    finish=expected(course.finish_ms for course in courses) if known else Expected(None, None, None),
                    known=known,
                    nodes=most_frequent((course.nodes for course in courses), len(courses)),
                    delays=late,
                    sooner=self._sooner(job, new, with_) if known and self.question.tries else (),
                )
            )
        return tuple(found)

    def _sooner(self, job: WorkloadJob, new: Sequence[WorkloadJob], with_: Sequence[Courses]) -> tuple[Tried, ...]:
        """The changes to a new job that let it end sooner after its submission, in as many draws as are tried."""
        name, count = job.job.id, min(self.draws, _TRIED_DRAWS)
        before = [course.finish_ms for course in course_of(with_, name)[:count]]
        tried = []
        for kind, words, changed in self._changes(job):
            self._report(f"trying {name} {words}")
            jobs = [changed if each is job else each for each in new]
            courses = course_of(self._play_all(jobs, count, [name]), name)
            after = [course.finish_ms for course in courses]
            pairs = zip(before, after, strict=True)
            later = changed.submit_ms - job.submit_ms
            gains = sorted(a + later - b for a, b in pairs if a is not None and b is not None)
            if gains and gains[len(gains) // 2] > 0:
                start, finish = (expected(getattr(c, field) for c in courses) for field in ("start_ms", "finish_ms"))
                tried.append(Tried(kind, words, start, finish, gains[len(gains) // 2]))
        return tuple(sorted(tried, key=lambda each: -each.sooner_ms)[:_BEST])

    def _changes(self, job: WorkloadJob) -> Iterator[tuple[str, str, WorkloadJob]]:
        """Kind and words of each change worth a try, and the job with the change."""
        setting = self.run.setting
        own = replace(setting.built.workload, jobs=(job,))
        alone: CellSetting = replace(setting, built=replace(setting.built, workload=own))
        for change in (*smaller_asks(alone, job), *apart_gangs(alone, job)):
            if change.kind == "fewer_tasks":
                continue  # run times are drawn by stage, and nobody knows those of a task with twice the work
            yield change.kind, change.words, change.setting.built.workload.jobs[0]
        tree = self.run.scheduler.state.queues
        parents = {queue.parent for queue in tree.values()}
        for queue in sorted(tree):
            if queue not in parents and queue != job.job.queue:
                yield "other_queue", f"in queue {queue}", replace(job, job=replace(job.job, queue=queue))
        # Only where jobs to come have their time of day: else the cluster would just be emptier at any later time.
        if keeps_time_of_day(self.question.arrivals_ms):
            yield "tonight", "submitted tonight at 22:00", replace(job, submit_ms=tonight(job.submit_ms))
