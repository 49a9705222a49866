"""Jobs with deadlines get as many containers as they need, and no more (Jockey), under any other policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

import msgspec

from schedulers.core import keyed
from schedulers.core.abilities import MindsDeadlines, NeedsEstimates, Rehearses, ability
from schedulers.core.errors import InvalidParameters
from schedulers.core.events import Event, Rehearsed, Tick
from schedulers.core.policy import ClusterView, Promise, Triggers, policies
from schedulers.core.predictor import refined_ms
from schedulers.core.rehearsal import Act, Indicator, Script, StageProfile, Table
from schedulers.core.state import JobState
from schedulers.kit.around import Around, Inside
from schedulers.planning.jockey.allocation import Utility, stepped, wanted
from schedulers.planning.jockey.progress import meter
from schedulers.planning.jockey.rehearsal import amdahl

#: A table has so many allocations at most, in equal steps.
_COLUMNS: Final = 10
#: Plays of each.
_DRAWS: Final = 10
#: A job is rehearsed anew when its work has changed by so large a part.
_DRIFT: Final = 0.1
#: The turn of all jobs without an allocation.
_OTHERS: Final = ""


class JobControl(msgspec.Struct):
    """Facts about a live job with a deadline. allocation None: not rehearsed yet.

    wished: the work (ms) and the largest allocation of the rehearsal that came last.
    """

    allocation: int | None = None
    profiles: tuple[StageProfile, ...] = msgspec.field(default=(), name="courses")
    table: Table | None = None
    wished: tuple[float, int] = (0.0, 0)
    promise: Promise | None = None


@policies.register("jockey", source="Jockey (EuroSys'12), section 4")
class Jockey(Around, NeedsEstimates, Rehearses, MindsDeadlines):
    """Gives each job with a deadline the containers needed to be done in time; another policy serves the rest.

    A job with a deadline (`deadline: 20m` of a written-out job; `spec.deadline` of a DagJob) is rehearsed: played
    forward on estimates to learn how its remaining time depends on progress and containers. Jobs below their
    allocation go first, least served first; then come jobs without a deadline, by the other policy; left-over room
    goes to anybody. The policy needs a predictor.

    **Table.** A rehearsal plays the job ten times on each of up to ten numbers of containers, with run times drawn
    from the predictor's estimates and their uncertainty. The table keeps a remaining time that nine of ten plays do
    not exceed. The shell around the scheduler plays and reports the table as the fact `Rehearsed`, so a replay needs
    no plays.

    **Allocation.** Once a period each job is to get the smallest number of containers with the best utility of `slack`
    times the remaining time, counted from `dead_zone_ms` later. The allocation goes the part `alpha` of the way there,
    rounded up. When finished tasks show that the work differs by 10 % from the rehearsal, the job is rehearsed anew;
    stages without a finished task are taken to be as wrong as the other stages.

    **Limits.** A table knows containers and stages, not nodes: a task is a single container of any size, and gangs
    start piecemeal in the table. Limits of queues hold as always. With a predictor that samples, estimates come with
    the end of the pilots; until then the job is served as a job without a deadline. Refused as the other policy are
    policies that count offers (`delay`, `capacity`, `fair_yarn`) or have a period of their own (`tetrisched`,
    `alsched`).

    `explain` gives the last promise beside a job's reasons: the expected end, its margin, and the allocation.
    `rm-emulator run deadlines` compares the policy with FIFO, an allocation without revision, and the largest usable
    allocation; docs/results-deadlines.md has the figures, and summary.json the number of deadlines met. `deadlines:
    {part: 0.5, factor: [1.5, 3]}` in a workload's block gives drawn jobs deadlines, as multiples of the longest time
    of the job alone on the cluster.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        policy: Inside = msgspec.field(default_factory=lambda: {"kind": "fifo"})
        control: Annotated[
            Literal["loop", "amdahl", "static", "max"],
            msgspec.Meta(
                description="source of allocations: the table, revised each period (loop); for contrast Amdahl's law "
                "(amdahl), the first allocation kept (static), or all usable containers (max)"
            ),
        ] = "loop"
        indicator: Indicator = "totalworkWithQ"
        period_ms: Annotated[
            int,
            msgspec.Meta(ge=1, description="period between revisions of allocations, in ms; larger: slower reactions"),
        ] = 60_000
        slack: Annotated[
            float,
            msgspec.Meta(
                ge=1, le=10, description="factor on remaining times; larger: more containers, fewer missed deadlines"
            ),
        ] = 1.2
        alpha: Annotated[
            float,
            msgspec.Meta(
                gt=0,
                le=1,
                description="part of the way to a new allocation taken at a revision; larger: faster and less steady "
                "changes",
            ),
        ] = 0.2
        dead_zone_ms: Annotated[
            int,
            msgspec.Meta(
                ge=0,
                description="margin before the deadline at which jobs are to be done, in ms; larger: more containers",
            ),
        ] = 180_000
        utility: Annotated[
            tuple[tuple[float, float], ...],
            msgspec.Meta(
                min_length=1,
                description="utility of a job's end: points [ms after the deadline, utility], straight between the "
                "points; times ascend, utilities do not",
            ),
        ] = ((0, 1), (600_000, -1), (60_000_000, -1000))
        variation: Annotated[
            float,
            msgspec.Meta(
                ge=0,
                le=10,
                description="variation of run times inside a stage, standard deviation over mean; larger: larger "
                "margins in rehearsals",
            ),
        ] = 0.2

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        for (time, worth), (later, then) in pairwise(params.utility):
            if later <= time or then > worth:
                raise InvalidParameters(
                    f"policy 'jockey': utility {[later, then]} after {[time, worth]} (times ascend, utilities do not)"
                )
        super().__init__(params, seed=seed)
        self.triggers = Triggers(period_ms=params.period_ms)
        self._jobs: dict[str, JobControl] = {}
        self._revised = 0  # the period in which allocations were looked at last
        self._scripts: dict[str, Script] = {}  # scripts not asked for yet
        self._promises: dict[str, Promise] = {}  # the same
        # `wished` of rehearsals under way. Never dumped: a process that takes over asks for these rehearsals again.
        self._under_way: dict[str, tuple[float, int]] = {}

    # -- whose turn it is ---------------------------------------------------------------------------

    def turns(self, view: ClusterView) -> Sequence[str]:
        """Jobs below their allocation, least served first, and then all jobs without allocation."""
        short = [
            (job.executors / standing.allocation, job.seq, name)
            for name, standing in self._jobs.items()
            if standing.allocation is not None
            and (job := view.waiting.get(name)) is not None
            and job.executors < standing.allocation
        ]
        return [*(name for _, _, name in sorted(short)), _OTHERS]

    def admits(self, turn: str, job: JobState) -> bool:
        """Whether the turn is the job's own, or the turn of all jobs without an allocation."""
        if turn != _OTHERS:
            return turn == job.id
        standing = self._jobs.get(job.id)
        return standing is None or standing.allocation is None

    def passes_by(self, job: JobState, view: ClusterView) -> str | None:
        """See TellsTurn.passes_by: jobs with their full allocation come after all others."""
        standing = self._jobs.get(job.id)
        if standing is None or standing.allocation is None or job.executors < standing.allocation:
            return super().passes_by(job, view)
        given = f"{standing.allocation} containers" if standing.allocation > 1 else "one container"
        return f"it has the {given} that it is to have for its deadline, and gets more where all others leave room"

    # -- what is known of jobs ----------------------------------------------------------------------

    def observe(self, event: Event, view: ClusterView) -> None:
        """Take in the end of a rehearsal; or of a period: then every allocation is looked at."""
        super().observe(event, view)
        if isinstance(event, Rehearsed):
            self._learn(event, view)
            return
        period = view.now // self.params.period_ms
        if isinstance(event, Tick) and period > self._revised:
            self._revised = period
            self._forget(view)
            for name, standing in self._jobs.items():
                self._revise(view.jobs[name], standing, view)
        for name in _news_of(event):
            job = view.jobs.get(name)
            if job is not None and job.spec.deadline is not None:
                self._wish(job, self._jobs.setdefault(name, JobControl()), view)

    def _forget(self, view: ClusterView) -> None:
        """Forget jobs that are gone."""
        for name in [name for name in self._jobs if name not in view.jobs]:
            del self._jobs[name]
            self._scripts.pop(name, None)
            self._promises.pop(name, None)
            self._under_way.pop(name, None)

    def _learn(self, event: Rehearsed, view: ClusterView) -> None:
        standing, job = self._jobs.get(event.job), view.jobs.get(event.job)
        if standing is None or job is None:
            return
        standing.profiles, standing.table = event.profiles, event.table
        standing.wished = self._under_way.pop(job.id, standing.wished)
        if standing.allocation is None:  # the first one is what is wanted, without hysteresis
            standing.allocation = self._wanted(job, standing, view)
        self._make_promise(job, standing, view)

    def _revise(self, job: JobState, standing: JobControl, view: ClusterView) -> None:
        if standing.table is not None and standing.allocation is not None and self.params.control in ("loop", "amdahl"):
            most = (1, standing.table.allocations[-1])
            raw = self._wanted(job, standing, view)
            standing.allocation = stepped(standing.allocation, raw, self.params.alpha, most)
        self._make_promise(job, standing, view)
        if self.params.control != "static" or standing.table is None:
            self._wish(job, standing, view)

    def _wanted(self, job: JobState, standing: JobControl, view: ClusterView) -> int:
        """The raw allocation, by the job's remaining time."""
        assert standing.table is not None
        allocations = standing.table.allocations
        if self.params.control == "max":
            return allocations[-1]
        due = _deadline(job) - job.submitted
        utility = Utility(tuple((due + after, worth) for after, worth in self.params.utility))
        remaining, _ = self._left(job, standing)
        elapsed, settings = view.now - job.submitted, self.params
        return wanted(utility, elapsed, remaining, allocations, slack=settings.slack, dead_zone=settings.dead_zone_ms)

    def _left(self, job: JobState, standing: JobControl) -> tuple[Sequence[float], Sequence[float]]:
        """How long the job still takes (ms) by allocation, in most plays and in half of them."""
        assert standing.table is not None
        done = [stage.finished for stage in job.stages[: len(standing.profiles)]]
        if self.params.control == "amdahl":
            left = amdahl(standing.profiles, done, standing.table.allocations, self.params.variation)
            return left, left
        row = standing.table.at(meter(self.params.indicator, standing.profiles)(done))
        return row.remaining_ms, row.usual_ms

    def _make_promise(self, job: JobState, standing: JobControl, view: ClusterView) -> None:
        if standing.table is None or standing.allocation is None:
            return
        most, usual = self._left(job, standing)
        # The largest played allocation within the job's own; the smallest, if the job has less.
        column = max((i for i, n in enumerate(standing.table.allocations) if n <= standing.allocation), default=0)
        finish, margin = view.now + round(usual[column]), max(0, round(most[column] - usual[column]))
        standing.promise = Promise(finish, margin, _deadline(job), view.now, standing.allocation)
        self._promises[job.id] = standing.promise

    # -- rehearsals ---------------------------------------------------------------------------------

    def _wish(self, job: JobState, standing: JobControl, view: ClusterView) -> None:
        """Ask for a rehearsal, the first as soon as there are estimates and nodes."""
        acts = _acts(job, view)
        slots = _slots(job, view)
        if acts is None or not slots:
            return
        work, most = sum(act.tasks * act.task_ms for act in acts), min(slots, sum(act.tasks for act in acts))
        before, most_before = self._under_way.get(job.id, standing.wished)
        if most == most_before and abs(work / before - 1) <= _DRIFT:
            return
        self._under_way[job.id] = (work, most)
        columns = min(_COLUMNS, most)
        self._scripts[job.id] = Script(
            acts=acts,
            allocations=tuple(-(-most * column // columns) for column in range(1, columns + 1)),
            indicator=self.params.indicator,
            draws=_DRAWS,
            variation=self.params.variation,
            seed=keyed.digest(self.seed, "rehearsal", job.id) & 0xFFFF_FFFF,
        )

    def new_scripts(self) -> Mapping[str, Script]:
        """See Rehearses.new_scripts."""
        scripts, self._scripts = self._scripts, {}
        inside = ability(self.inside, Rehearses)
        return scripts if inside is None else {**inside.new_scripts(), **scripts}

    def new_promises(self) -> Mapping[str, Promise]:
        """See Rehearses.new_promises."""
        promises, self._promises = self._promises, {}
        inside = ability(self.inside, Rehearses)
        return promises if inside is None else {**inside.new_promises(), **promises}

    def next_change(self, view: ClusterView) -> int | None:
        """See Policy.next_change: the next period, while any job has a deadline."""
        said = super().next_change(view)
        live = any(name in view.jobs for name in self._jobs)
        mine = (view.now // self.params.period_ms + 1) * self.params.period_ms if live else None
        return min((at for at in (said, mine) if at is not None), default=None)

    def about(self, job: JobState) -> dict[str, Any]:
        """The sayings of the policy inside, and the last promise."""
        standing = self._jobs.get(job.id)
        promise = {} if standing is None or standing.promise is None else msgspec.structs.asdict(standing.promise)
        return {**super().about(job), **({"promise": promise} if promise else {})}

    # -- memory -------------------------------------------------------------------------------------

    def dump(self) -> Any:
        """Tables, allocations and promises, and the memory of the policy inside."""
        return {"jobs": msgspec.to_builtins(self._jobs), "revised": self._revised, **super().dump()}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        super().load(data, view)
        self._jobs, self._revised = msgspec.convert(data["jobs"], dict[str, JobControl]), data["revised"]
        for name, standing in self._jobs.items():
            if standing.table is None:  # memories of older versions hold rehearsals under way, too
                standing.wished = (0.0, 0)
            if standing.promise is not None:  # the process before may not have shown the promise
                self._promises[name] = standing.promise


def _news_of(event: Event) -> Iterable[str]:
    """The job named by an event with news of the job: a rehearsal may be needed."""
    job = getattr(event, "job", None)
    if isinstance(event, Tick | Rehearsed) or job is None:
        return ()
    return (job if isinstance(job, str) else job.id,)


def _deadline(job: JobState) -> int:
    assert job.spec.deadline is not None
    return job.spec.deadline


def _acts(job: JobState, view: ClusterView) -> tuple[Act, ...] | None:
    """The job's stages on estimates, refined by finished tasks; None while estimates are missing.

    The estimate of a stage without finished tasks is taken to be as wrong as the others have been so far.
    """
    stages = [stage for stage in job.stages if not job.spec.stages[stage.index].master]
    estimates = [view.estimate(job.id, stage.index) for stage in stages]
    known = [estimate for estimate in estimates if estimate is not None and estimate.task_ms > 0]
    if len(known) < len(stages):
        return None
    expected = sum(stage.finished * each.task_ms for stage, each in zip(stages, known, strict=True))
    worth = 2 * sum(each.task_ms for each in known) / len(known)
    ratio = (worth + sum(stage.done_ms for stage in stages)) / (worth + expected)
    acts = []
    for stage, estimate in zip(stages, known, strict=True):
        refined = refined_ms(estimate, stage.finished, stage.done_ms)
        assert refined is not None
        acts.append(
            Act(
                tasks=stage.tasks,
                parents=job.spec.stages[stage.index].above,
                task_ms=max(1.0, refined if stage.finished else ratio * estimate.task_ms),
                spread=0.0 if stage.finished else (estimate.spread_ms or 0.0) / estimate.task_ms,
            )
        )
    return tuple(acts)


def _slots(job: JobState, view: ClusterView) -> int:
    """How many tasks of the job the cluster holds at once, at least: of the stage with the largest demand."""
    return min(
        min(whole // wanted for whole, wanted in zip(view.capacity, stage.demand, strict=True) if wanted)
        for stage in job.stages
    )
