"""History as prior, pilots as evidence: the combination that SLearn's authors leave to future work.

The model is that of A. Jajoo et al., SLearn, NSDI 2022, section 4.1, on a log scale: the mean task run time x
of a job has ln x ~ N(mu, so^2), where mu and so^2 are history's estimate and its own past error; a task's run
time given x varies by s1^2. Section 7 names the combination.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Any, Final, Literal

import msgspec

from schedulers.core.model import Job, PastJob
from schedulers.core.predictor import Estimate, FinishedTask, Predictor, SamplePlan, predictors
from schedulers.kit.beliefs import Belief, Beliefs, deviation, evidence, point, quantile, spread, weigh
from schedulers.kit.sampling import FixedPercent, SampledHistoryParams, Sampler

#: While the pilots of wider jobs run, where `rest` does not hold them, their estimate is this quantile of the prior.
_WIDE_CAUTION: Final = 0.99


@predictors.register("posterior", source="model: Jajoo et al., SLearn, NSDI 2022, sections 4.1 and 7; the rest is ours")
class Posterior(Predictor):
    """Both: history is the prior, pilots are the evidence; tasks wait by the prior while the pilots run.

    History counts by its past quality, pilots by the likeness of tasks in such jobs. SLearn's model (section 4.1) has
    prior and evidence, but its predictors use either; section 7 names the combination. The combination here is ours,
    on a log scale.

    **Prior.** The expert of history with the smallest past error of ln(run time) gives the estimate. The estimate is
    moved by the expert's mean error, its spread is the past error; both are drawn towards the population's by five
    observations. Errors of history are mostly small and sometimes enormous, so the prior is a mixture: half of it is
    the expert's own core and tail, the other half the 100 newest errors over all jobs. Pilots report errors at once,
    of long jobs as soon as of short jobs: when jobs change, history loses its weight, in the direction of its errors.

    **Pilots** run as under `slearn`, 1 % of the tasks (`fixed_percent: null` adapts the number): beside a prior, a
    single pilot says most, and pilots of long jobs take room from short jobs. The mean of the pilots is as good as the
    tasks of such jobs are alike: the variation within a job is learned from finished jobs with the same feature value,
    drawn towards the variation of all jobs, and corrected by several pilots of the job itself.

    **Posterior.** Each part of the mixture is combined with the evidence by precision, and gains weight as it foresaw
    the evidence: evidence far off belongs to the tail and is believed. Finished tasks count with their run times. In a
    DAG, later stages share the surprise of the root stages.

    **Other tasks need not all wait.** Jobs of up to `narrow` tasks stand in the queue of a high quantile (`caution`)
    of the prior while their pilots run, and move when the pilots end. An estimate far too low can only spoil tasks
    started before the pilots end, and narrow jobs have few; holding back costs every job the time of a task. Thin jobs
    are placed by history instead of going first blindly. Where history is unsure (a prior wider than `unsure_above`,
    possibly because of other jobs' pilots) or missing, both kinds are treated as under SLearn: they wait for the
    pilots, and thin jobs go first.
    """

    class Params(SampledHistoryParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings: history, sampling, and how the two meet."""

        rest: Annotated[
            Literal["queued", "sure", "narrow", "held"],
            msgspec.Meta(
                description="place of the other tasks while pilots run: the queue of history's estimate (queued; wide "
                "jobs by the 99 % quantile), the same only where history is not unsure (sure), the "
                "latter only for narrow jobs (narrow), or held back (held, as in SLearn)"
            ),
        ] = "narrow"
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
        thin: Annotated[
            Literal["history", "sure", "bypass"],
            msgspec.Meta(
                description="place of thin jobs: by history's estimate (history), the same only where history is not "
                "unsure (sure), or first without an estimate (bypass, as in SLearn)"
            ),
        ] = "sure"
        fixed_percent: FixedPercent = 1.0
        power: Annotated[
            float,
            msgspec.Meta(
                ge=-4,
                le=2,
                description="power of the estimate (E[t^power])^(1/power) over the posterior: -2 is 3Sigma's utility, "
                "0 the median (log mean), 1 the mean; larger: longer estimates",
            ),
        ] = 0.0
        task_cov: Annotated[
            float,
            msgspec.Meta(
                ge=0,
                description="variation of run times within a job before any measured, standard deviation over mean",
            ),
        ] = 0.5

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._sampler = Sampler(params, seed)
        self._beliefs = Beliefs(params, params.task_cov)
        self._history = self._beliefs.history
        self._priors: dict[str, list[Belief]] = {}
        self._estimates: dict[str, list[Estimate]] = {}

    def prime(self, history: Sequence[PastJob]) -> None:
        """Learns from past jobs, and from its own error on each."""
        self._beliefs.prime(history)

    def submitted(self, job: Job, at: int) -> SamplePlan | None:
        """Forms the prior and, unless the job is thin, draws pilots."""
        keys = self._history.opened(job, at)
        priors = self._priors[job.id] = self._beliefs.of(job, keys, at)
        unsure = any(not p.known or spread(self._beliefs.parts(p)) > self.params.unsure_above for p in priors)
        if job.width < self.params.thin_limit:
            return self._thin(job, priors, unsure)
        plan = self._sampler.plan(job, at)
        caution = self._caution(job, priors, unsure)
        if caution is None:
            return plan
        self._estimates[job.id] = [self._prior_estimate(p, caution) for p in priors]
        return SamplePlan(pilots=plan.pilots, rest="queued")

    def finished(self, task: FinishedTask, runtime_ms: int, node_speed: float, at: int) -> None:
        """Takes in a run time; the last pilot makes the posterior."""
        ms = runtime_ms * node_speed
        self._history.finished(task, ms)
        if self._sampler.finished(task, ms):
            self._estimates[task.job] = self._learned(task.job)
            self._judge_by_pilots(task.job)

    def job_done(self, job: Job, at: int) -> None:
        """Learns the job's run times, and how wrong history was."""
        ended, priors = self._history.running(job.id), self._priors.get(job.id, [])
        if ended is not None and self._sampler.get(job.id) is None:
            for prior, n, total in zip(priors, ended.counts, ended.sums, strict=True):
                if n:
                    self._beliefs.judge(prior, total / n)
        self._history.closed(job.id, at)
        self._sampler.done(job.id, at)
        self._drop(job.id)

    def job_gone(self, job: Job, at: int) -> None:
        """Forgets the job."""
        self._history.gone(job.id)
        self._sampler.gone(job.id)
        self._drop(job.id)

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """History's estimate while pilots run, then the posterior. None where tasks are held, or go first."""
        made = self._estimates.get(job)
        return None if made is None else made[stage]

    def dump(self) -> Any:
        """History, pilots, beliefs and estimates of the running jobs, and the population's error."""
        estimates = [[job, [[e.task_ms, e.spread_ms, e.source] for e in rows]] for job, rows in self._estimates.items()]
        return {
            "sampler": self._sampler.dump(),
            "priors": [[job, [list(belief) for belief in rows]] for job, rows in self._priors.items()],
            "estimates": estimates,
            **self._beliefs.dump(),
        }

    def load(self, data: Any) -> None:
        """Takes over the data of `dump`."""
        self._sampler.load(data["sampler"])
        self._beliefs.load(data)
        self._priors = {job: [Belief(*row) for row in rows] for job, rows in data["priors"]}
        self._estimates = {job: [Estimate(*row) for row in rows] for job, rows in data["estimates"]}

    def _judge_by_pilots(self, job: str) -> None:
        """A sampled job's pilots tell at once, and of long jobs as soon as of short ones, how wrong history is now."""
        sampled, priors = self._sampler.get(job), self._priors[job]
        for stage, values in sampled.values.items() if sampled else ():
            self._beliefs.judge(priors[stage], fmean(values))

    # -- the plan -------------------------------------------------------------------------------

    def _thin(self, job: Job, priors: Sequence[Belief], unsure: bool) -> SamplePlan | None:
        known = all(p.known for p in priors)
        if not known or self.params.thin == "bypass" or (self.params.thin == "sure" and unsure):
            return SamplePlan(thin=True)
        self._estimates[job.id] = [self._prior_estimate(p) for p in priors]
        return None

    def _caution(self, job: Job, priors: Sequence[Belief], unsure: bool) -> float | None:
        """The quantile of the prior to wait by while the pilots run; None to hold the other tasks back.

        An estimate far too low does harm by the number of tasks started before the pilots end, and such tasks are few
        in a narrow job; holding back delays every job alike, by a single task.
        """
        rest, narrow = self.params.rest, job.width <= self.params.narrow
        held = {"queued": False, "narrow": unsure or not narrow, "sure": unsure, "held": True}[rest]
        if held or not all(p.known for p in priors):
            return None
        return self.params.caution if narrow else _WIDE_CAUTION

    # -- the posterior --------------------------------------------------------------------------

    def _prior_estimate(self, prior: Belief, caution: float | None = None) -> Estimate:
        """The estimate of history alone: the point of the prior, or its quantile `caution`."""
        parts = self._beliefs.parts(prior)
        ms = point(parts, self.params.power) if caution is None else math.exp(quantile(parts, caution))
        return Estimate(ms, deviation(ms, parts), prior.source)

    def _learned(self, job: str) -> list[Estimate]:
        sampled, priors = self._sampler.get(job), self._priors[job]
        assert sampled is not None
        roots_said: dict[int, Estimate] = {}
        before = after = 0.0
        for stage, values in sampled.values.items():
            if values:
                roots_said[stage] = self._update(priors[stage], values, sampled.tasks[stage])
                before += sampled.tasks[stage] * self._prior_estimate(priors[stage]).task_ms
                after += sampled.tasks[stage] * roots_said[stage].task_ms
        pooled = fmean(sampled.pooled())
        shift = math.log(after / before)  # later stages share the surprise of the root stages
        made = []
        for stage, prior in enumerate(priors):
            if stage in roots_said:
                made.append(roots_said[stage])
            elif prior.known:
                made.append(
                    self._prior_estimate(prior._replace(mean=prior.mean + shift, source=f"posterior:{prior.source}"))
                )
            else:
                made.append(Estimate(pooled, source=f"pilots:{len(sampled.pooled())}"))
        return made

    def _update(self, prior: Belief, values: Sequence[float], tasks: int) -> Estimate:
        """The posterior mean run time of all `tasks` tasks: tasks seen, and tasks to come by the belief."""
        m = len(values)
        mean = max(1.0, fmean(values))
        variance = sum((ms - mean) ** 2 for ms in values) / max(1, m - 1)
        _, about, doubt = evidence(prior.noise, m, mean, variance)
        parts = weigh(self._beliefs.parts(prior), about, doubt) if prior.known else [(1.0, about, math.sqrt(doubt))]
        belief = point(parts, self.params.power)
        left = (tasks - m) / tasks
        ms = (1 - left) * mean + left * belief
        return Estimate(ms, deviation(left * belief, parts), f"posterior:{m}+{prior.source}")

    def _drop(self, job: str) -> None:
        self._priors.pop(job, None)
        self._estimates.pop(job, None)
