"""History as prior, pilots as evidence: the combination that SLearn's authors leave to future work.

The model is that of A. Jajoo et al., SLearn, NSDI 2022, section 4.1, on a log scale; section 7 names the combination.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Any, Final

import msgspec

from schedulers.core.model import Job, PastJob
from schedulers.core.predictor import Estimate, FinishedTask, Predictor, SamplePlan, predictors
from schedulers.kit.beliefs import (
    UNKNOWN_SPREAD,
    Belief,
    Beliefs,
    Part,
    centre,
    deviation,
    error_of,
    evidence,
    moved,
    quantile,
    spread,
    weigh,
)
from schedulers.kit.history import FEATURES, Features, HistoryParams, Key, WindowDays
from schedulers.kit.sampling import FirstTasks, Percent, ThinLimit, draw_pilots, pilot_count, roots
from schedulers.kit.surprises import root_error

#: Spread of the prior above which history is unsure about wide jobs, over that for narrow jobs: an estimate far too low
#: spoils more tasks. TPC-H's priors lie below (0.5 to 0.65), those of 2Sigma's jobs above (0.9 to 1.4).
_WIDE: Final = 0.5


class _Case(msgspec.Struct):
    """A running job: its features, its root stages, and by stage the prior and the evidence so far."""

    keys: tuple[Key, ...]
    roots: tuple[int, ...]
    priors: list[Belief]
    first: list[FirstTasks]
    awaits_pilots: bool = False
    bypasses: bool = False
    """Stands in the first queue, without an estimate."""
    judged: bool = False
    """Whether the pilots have told already how wrong history was about the roots."""


@predictors.register("posterior", source="model: Jajoo et al., SLearn, NSDI 2022, sections 4.1 and 7; the rest is ours")
class Posterior(Predictor):
    """Both: history is the prior, pilots are the evidence; tasks wait by the prior while the pilots run.

    Let x be ln(mean task run time) of a stage. SLearn's model (section 4.1) has prior and evidence, but its predictors
    use either; the combination here is ours.

    **1. Prior.** x ~ N(mu, so²): mu is the expert of history with the least mean square error, moved by its mean error;
    so² is that square. Both are drawn towards all jobs' by 5 errors. Errors are mostly small and sometimes enormous, so
    the prior is a mixture: 0.4 N(mu, core²) + 0.1 N(mu, tail²) + 0.5 (mu + the 100 newest errors over all jobs), where
    tail is 3 core, at least 1.5. Pilots report errors at once, so history loses weight as soon as jobs change.

    **2. Evidence.** m tasks with the mean y: ln y ~ N(x, ln(1 + (e^s1² - 1) / m)). s1², the variance of ln run time in
    a job, is learned from finished jobs of the feature value, drawn towards all jobs' and by several tasks of the job
    itself. The tasks are the pilots (`fixed_percent` of a root stage, at least 1), and in every stage the first 1, 2,
    4, ... tasks in an order fixed beforehand, once all have finished: short tasks that end first count no more.

    **3. Posterior.** Each part of the mixture is combined with the evidence by precision, and its weight multiplied by
    the density with which the part foresaw the evidence: far-off evidence belongs to the tail and is believed. The
    error of the roots moves the prior of a later stage by slope times the error; the slope is a regression per
    application and name, drawn to 0 by 5 jobs (`schedulers/kit/surprises.py`). The estimate is (1 - m / tasks) exp(E x)
    + m / tasks y, with the posterior's standard deviation.

    **4. Queue.** Where the prior is wider than `unsure_above`, or missing, jobs are treated as under SLearn: thin jobs
    go first, all others wait for their pilots; so do jobs of more than `narrow` tasks where it is wider than half of
    `unsure_above`. Elsewhere thin jobs are placed by the prior, and the others wait in the queue of its quantile
    `caution` while their pilots run: an estimate far too low can only spoil tasks started before the pilots end, and
    narrow jobs have few.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """What a user has a reason to turn; all else is a constant with its reason, or learned."""

        features: Features = FEATURES
        window_days: WindowDays = 14
        thin_limit: ThinLimit = 3
        fixed_percent: Annotated[
            Percent,
            msgspec.Meta(
                description="part of pilots among the tasks, in %; larger: better estimates, later. Beside a prior a "
                "single pilot says most"
            ),
        ] = 1.0
        narrow: Annotated[
            int,
            msgspec.Meta(
                ge=0, description="largest number of tasks of a narrow job: about an eighth of the cluster's slots"
            ),
        ] = 20
        caution: Annotated[
            float,
            msgspec.Meta(
                gt=0,
                lt=1,
                description="quantile of the prior that is a narrow job's estimate while its pilots run; larger: more "
                "cautious, in later queues",
            ),
        ] = 0.95
        unsure_above: Annotated[
            float,
            msgspec.Meta(
                ge=0,
                description="standard deviation of the prior (of ln run time) above which history is unsure; larger: "
                "more trust in history",
            ),
        ] = 1.5
        skip_sure: Annotated[
            bool,
            msgspec.Meta(
                description="no pilots for jobs whose experts of history are reliable: of the newest 50 errors (of ln "
                "run time, at least 5) the root mean square is at most 0.5, and at most 10 % are above a factor of 2"
            ),
        ] = False
        revise: Annotated[
            bool,
            msgspec.Meta(
                description="the size of a running job follows the evidence: estimated again at 1, 2, 4, 8, ... "
                "finished tasks of a stage; false: only when the last pilot ends"
            ),
        ] = False

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.revises_sizes = params.revise
        self._beliefs = Beliefs(HistoryParams(features=params.features, window_days=params.window_days))
        self._history = self._beliefs.history
        self._cases: dict[str, _Case] = {}
        self._estimates: dict[str, list[Estimate]] = {}

    def prime(self, history: Sequence[PastJob]) -> None:
        """Learns from past jobs, and from its own error on each."""
        self._beliefs.prime(history)

    def submitted(self, job: Job, at: int) -> SamplePlan | None:
        """Forms the prior, draws pilots and chooses the queue."""
        keys = self._history.opened(job, at)
        priors = self._beliefs.of(job, keys, at)
        first = [FirstTasks(stage.tasks) for stage in job.stages]
        case = self._cases[job.id] = _Case(keys, tuple(roots(job)), priors, first)
        apart = max(spread(self._beliefs.parts(p)) if p.known else math.inf for p in priors)
        unsure = apart > self.params.unsure_above
        thin = job.width < self.params.thin_limit or not case.roots
        if thin and unsure:
            case.bypasses = True
            return SamplePlan(thin=True)
        if thin or (self.params.skip_sure and all(map(self._beliefs.is_reliable, priors))):
            self._estimates[job.id] = self._posterior(case)
            return None
        pilots = self._draw(job, case)
        if unsure or (job.width > self.params.narrow and apart > _WIDE * self.params.unsure_above):
            return SamplePlan(pilots=pilots)
        self._estimates[job.id] = [self._cautious(p) for p in priors]
        return SamplePlan(pilots=pilots, rest="queued")

    def finished(self, task: FinishedTask, runtime_ms: int, node_speed: float, at: int) -> None:
        """Takes in a run time; the last pilot makes the posterior, and further evidence moves it."""
        ms = runtime_ms * node_speed
        self._history.finished(task, ms)
        case = self._cases.get(task.job)
        if case is None or case.bypasses or not case.first[task.stage].add(task.task, ms):
            return
        if case.awaits_pilots and not all(case.first[stage].run_times for stage in case.roots):
            return
        self._estimates[task.job] = self._posterior(case)
        if case.awaits_pilots:
            case.awaits_pilots, case.judged = False, True
            # After the posterior, which would count the pilots twice: the newest errors are a part of every prior.
            for stage in case.roots:
                self._beliefs.judge(case.priors[stage], case.first[stage].mean)

    def job_done(self, job: Job, at: int) -> None:
        """Learns the job's run times, and how wrong history was."""
        ended, case = self._history.running(job.id), self._cases.get(job.id)
        if ended is not None and case is not None:
            means = {
                stage: total / n for stage, (n, total) in enumerate(zip(ended.counts, ended.sums, strict=True)) if n
            }
            self._judge(case, job, means)
        self._history.closed(job.id, at)
        self._drop(job.id)

    def job_gone(self, job: Job, at: int) -> None:
        """Forgets the job."""
        self._history.gone(job.id)
        self._drop(job.id)

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """History's estimate while pilots run, then the posterior. None where tasks are held, or go first."""
        made = self._estimates.get(job)
        return None if made is None else made[stage]

    def dump(self) -> Any:
        """History, beliefs, and the running jobs with their evidence and estimates."""
        return {
            "cases": msgspec.to_builtins(self._cases),
            "estimates": msgspec.to_builtins(self._estimates),
            **self._beliefs.dump(),
        }

    def load(self, data: Any) -> None:
        """Takes over the data of `dump`; of a dump without cases, of an earlier version, what was learned."""
        self._beliefs.load(data)
        if "cases" in data:
            self._cases = msgspec.convert(data["cases"], dict[str, _Case])
            self._estimates = msgspec.convert(data["estimates"], dict[str, list[Estimate]])

    # -- the plan -------------------------------------------------------------------------------

    def _draw(self, job: Job, case: _Case) -> tuple[tuple[int, int], ...]:
        """(stage, task) of each pilot; they are the first tasks of the evidence."""
        pilots: list[tuple[int, int]] = []
        for stage in case.roots:
            tasks = job.stages[stage].tasks
            drawn = draw_pilots(self.seed, job.id, stage, tasks, pilot_count(tasks, self.params.fixed_percent))
            case.first[stage] = FirstTasks(tasks, drawn)
            pilots += [(stage, task) for task in drawn]
        case.awaits_pilots = True
        return tuple(pilots)

    def _cautious(self, prior: Belief) -> Estimate:
        """The quantile of the prior to wait by while the pilots run."""
        parts = self._beliefs.parts(prior)
        ms = math.exp(quantile(parts, self.params.caution))
        return Estimate(ms, deviation(ms, parts), prior.source)

    # -- the posterior --------------------------------------------------------------------------

    def _posterior(self, case: _Case) -> list[Estimate]:
        """The estimate of each stage: roots by their own evidence, later stages by the roots' error as well."""
        made = {stage: self._stage(case, stage, self._beliefs.parts(case.priors[stage])) for stage in case.roots}
        told = self._roots_error(case, made)
        for stage, prior in enumerate(case.priors):
            if stage not in made:
                parts = self._beliefs.parts(prior)
                if told is not None:
                    parts = moved(parts, prior.mean, *told, self._beliefs.surprises.carry(case.keys, stage))
                made[stage] = self._stage(case, stage, parts)
        return [made[stage] for stage in range(len(case.priors))]

    def _stage(self, case: _Case, stage: int, parts: list[Part]) -> Estimate:
        """A stage by its prior `parts`; without history by its own evidence, else by that of the roots."""
        prior, first = case.priors[stage], case.first[stage]
        if prior.known:
            return self._told(prior, parts, first)
        if first.run_times:
            return self._told(prior, [], first)
        seen = [case.first[root] for root in case.roots if case.first[root].run_times]
        if seen:
            pooled = max(1.0, fmean(ms for root in seen for ms in root.run_times))
            return self._told(prior._replace(source="pilots"), [(1.0, math.log(pooled), UNKNOWN_SPREAD)], first)
        return self._told(prior, parts, first)

    def _told(self, prior: Belief, parts: list[Part], first: FirstTasks) -> Estimate:
        """The posterior mean run time of all tasks of a stage: tasks seen, and tasks to come by the belief."""
        m = len(first.run_times)
        if not m:
            ms = centre(parts)
            return Estimate(ms, deviation(ms, parts), prior.source)
        mean = max(1.0, first.mean)
        variance = sum((ms - mean) ** 2 for ms in first.run_times) / max(1, m - 1)
        _, about, doubt = evidence(prior.noise, m, mean, variance)
        parts = weigh(parts, about, doubt) if parts else [(1.0, about, math.sqrt(doubt))]
        belief, left = centre(parts), 1 - m / first.tasks
        return Estimate(
            (1 - left) * mean + left * belief, deviation(left * belief, parts), f"posterior:{m}+{prior.source}"
        )

    def _roots_error(self, case: _Case, made: dict[int, Estimate]) -> tuple[float, float] | None:
        """The error of history on the roots by their evidence, mean and variance; None without evidence."""
        rows = []
        for stage in case.roots:
            prior, first = case.priors[stage], case.first[stage]
            if prior.known and first.run_times:
                rows.append((math.log(first.tasks) + prior.mean, error_of(prior, made[stage].task_ms)))
        if not rows:
            return None
        variances = [math.log1p(((e.spread_ms or 0.0) / e.task_ms) ** 2) for e in made.values()]
        return root_error(rows), fmean(variances)

    def _judge(self, case: _Case, job: Job, means: dict[int, float]) -> None:
        """Note how wrong history was, and what the roots' errors said of the later stages'."""
        known = {stage: ms for stage, ms in means.items() if case.priors[stage].known}
        for stage, ms in known.items():
            if not (case.judged and stage in case.roots):
                self._beliefs.judge(case.priors[stage], ms)
        errors = {stage: error_of(case.priors[stage], ms) for stage, ms in known.items()}
        rows = [(math.log(job.stages[s].tasks) + case.priors[s].mean, errors[s]) for s in case.roots if s in errors]
        for stage, error in errors.items():
            if rows and stage not in case.roots:
                self._beliefs.surprises.learn(case.keys, stage, root_error(rows), error)

    def _drop(self, job: str) -> None:
        self._cases.pop(job, None)
        self._estimates.pop(job, None)
