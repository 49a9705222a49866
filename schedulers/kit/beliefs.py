"""Beliefs about run times: what history says of a stage's mean task run time, how wrong history was, and evidence.

The model is that of A. Jajoo et al., SLearn, NSDI 2022, section 4.1, on a log scale: the mean task run time x of a
stage has ln x ~ N(mu, so^2), where mu and so^2 are history's estimate and its own past error; a task's run time given x
varies by s1^2. Errors of history are mostly small and sometimes enormous, so a belief is read as a mixture of normals.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist, fmean, pstdev
from typing import Any, Final, NamedTuple

from schedulers.core.model import Job, PastJob
from schedulers.kit.history import EVERYTHING, History, HistoryParams, Key, Pane
from schedulers.kit.surprises import Carry, Surprises

#: Part of a mixture of normals over ln(mean run time): weight, mean, standard deviation.
Part = tuple[float, float, float]

_LEAST_VARIANCE: Final = 1e-9
_LEAST_GROUP: Final = 0.05
_GROUPS: Final = 10
#: Share of the prior that is its wide tail (surprises), its spread over that of the core, and its least spread (of ln
#: run time): even steady jobs change.
_TAIL, _TAIL_FACTOR, _TAIL_SPREAD = 0.2, 3.0, 1.5
#: Share of the prior that is the expert's own; the rest are all jobs' newest errors.
_OWN: Final = 0.5
#: Spread of ln run time before any error was seen.
UNKNOWN_SPREAD: Final = 1.0
#: Variation of run times within a job before any measured, standard deviation over mean (ours: between the variations
#: that SLearn's three traces have, table 4).
_TASK_COV: Final = 0.5
#: Observations that the population's error is worth to each expert.
_STRENGTH: Final = 5.0
#: Newest errors, over all jobs, that count as the population's.
_MEMORY: Final = 100
#: An expert is reliable whose newest `_JUDGED` errors (at least `_STRENGTH`) have at most this root mean square, and of
#: which at most this share is above `_MISS`.
_JUDGED, _RELIABLE, _MISSES, _MISS = 50, 0.5, 0.1, math.log(2)
#: Experts whose errors are kept; beyond, the errors of the expert not judged for the longest time are forgotten.
_KEPT: Final = 10_000


class Belief(NamedTuple):
    """Belief about ln(mean run time) of a stage: mean, standard deviation, source."""

    mean: float
    spread: float
    noise: float
    """Variance of log run times between the tasks of the stage."""
    source: str
    known: bool = True
    """False for a guess out of nothing."""
    key: tuple[str, str, int] = ("", "", 0)
    """Feature, value and stage of the expert of history, where one is known."""


class Beliefs:
    """What history says of the stages of new jobs, and how wrong history was so far.

    params: how history is kept. `history`: the run times themselves, by feature value and stage. `surprises`: what the
    error of a job's first stages says of its later stages.
    """

    def __init__(self, params: HistoryParams) -> None:
        self.history, self.surprises = History(params, per_stage=True), Surprises()
        self._error = UNKNOWN_SPREAD**2
        self._errors: deque[float] = deque(maxlen=_MEMORY)
        self._groups: list[tuple[float, float]] | None = None
        self._by_expert: dict[tuple[str, str, int], deque[float]] = {}

    def prime(self, past: Sequence[PastJob]) -> None:
        """Learn from past jobs, and from the error of history on each."""
        for job in sorted(past, key=lambda each: each.finished):
            keys, errors = self.history.keys_of_past(job), {}
            for stage, ms in self.history.means(job.stages):
                prior = self.prior(keys, stage, job.submitted)
                self.judge(prior, ms)
                self.history.learn(keys, stage, ms, job.finished)
                if prior.known:
                    errors[stage] = error_of(prior, ms)
            # A past job does not tell its edges; its first stage is a root.
            for stage in errors if 0 in errors else ():
                if stage:
                    self.surprises.learn(keys, stage, errors[0], errors[stage])

    def of(self, job: Job, keys: Sequence[Key], at: int) -> list[Belief]:
        """The belief about each stage of a job submitted at `at` (ms), before any of its tasks has ended."""
        return [self.prior(keys, stage, at) for stage in range(len(job.stages))]

    def prior(self, keys: Sequence[Key], stage: int, at: int) -> Belief:
        """The belief about a stage of a job with these feature values, submitted at `at` (ms)."""
        history = self.history
        choice = history.choose((*keys, EVERYTHING), stage, at, self._variance)
        if choice is None:
            if stage > 0:
                return self.prior(keys, 0, at)._replace(known=False)
            guess = math.log(history.params.default_task_ms)
            return Belief(guess, UNKNOWN_SPREAD, self._noise(None, None), "default", known=False)
        everything = history.overall(stage, at)
        return Belief(
            math.log(choice.point_ms) + self._bias(choice.pane, choice.estimator),
            math.sqrt(self._variance(choice.pane, choice.estimator)),
            self._noise(everything[1] if everything else None, choice.pane),
            f"history:{choice.feature}",
            key=(choice.feature, dict(keys).get(choice.feature, ""), stage),
        )

    def _bias(self, pane: Pane, estimator: int) -> float:
        """Correction of the expert's estimates (log), drawn to 0 by `_STRENGTH` observations."""
        return pane.off[estimator] / (pane.scored + _STRENGTH)

    def _variance(self, pane: Pane, estimator: int) -> float:
        """Mean square of the expert's error (log) once moved, drawn to the population's by `_STRENGTH`."""
        bias, n = self._bias(pane, estimator), pane.scored
        squares = pane.off_square[estimator] - 2 * bias * pane.off[estimator] + n * bias * bias
        return (_STRENGTH * self._error + max(0.0, squares)) / (_STRENGTH + n)

    def _noise(self, everything: Pane | None, pane: Pane | None) -> float:
        """Variance of log run times within a job: of such jobs, drawn to all jobs', drawn to `_TASK_COV`."""
        noise = math.log1p(_TASK_COV**2)
        for seen in (everything, pane):
            if seen is not None:
                noise = (_STRENGTH * noise + seen.noise) / (_STRENGTH + seen.noise_weight)
        return noise

    def judge(self, prior: Belief, ms: float) -> None:
        """Note how wrong history was."""
        if prior.known:
            error = error_of(prior, ms)
            self._error += (error * error - self._error) / _MEMORY
            self._errors.append(error)
            self._groups = None
            own = self._by_expert.pop(prior.key, None) or deque(maxlen=_JUDGED)
            own.append(error)
            self._by_expert[prior.key] = own  # at the end, see `_KEPT`
            if len(self._by_expert) > _KEPT:
                del self._by_expert[next(iter(self._by_expert))]

    def is_reliable(self, prior: Belief) -> bool:
        """Whether the newest errors of the prior's expert were small, with few exceptions."""
        own = self._by_expert.get(prior.key, ())
        return (
            prior.known
            and len(own) >= _STRENGTH
            and math.hypot(*own) <= _RELIABLE * math.sqrt(len(own))
            and sum(abs(error) > _MISS for error in own) <= _MISSES * len(own)
        )

    def population(self) -> list[tuple[float, float]]:
        """The newest errors of all jobs in a few groups of equal size: (mean, deviation), ascending."""
        if self._groups is None:
            errors, size = sorted(self._errors), len(self._errors) / _GROUPS
            cuts = [round(size * k) for k in range(_GROUPS + 1)]
            groups = [errors[low:high] for low, high in pairwise(cuts)] if size >= 1 else []
            self._groups = [(fmean(group), max(_LEAST_GROUP, pstdev(group))) for group in groups]
        return self._groups

    def parts(self, prior: Belief) -> list[Part]:
        """The prior as a mixture of normals: the expert's own core and tail, and the population's newest errors."""
        core = prior.spread / math.sqrt(1 - _TAIL + _TAIL * _TAIL_FACTOR * _TAIL_FACTOR)
        population = self.population()
        mine = _OWN if population else 1.0
        tail = mine * _TAIL, prior.mean, max(core * _TAIL_FACTOR, _TAIL_SPREAD)
        newest = [((1 - mine) / len(population), prior.mean + error, sd) for error, sd in population]
        return [(mine * (1 - _TAIL), prior.mean, core), tail, *newest]

    def dump(self) -> dict[str, Any]:
        """Plain data for `load`."""
        return {
            "history": self.history.dump(),
            "surprises": self.surprises.dump(),
            "error": self._error,
            "errors": list(self._errors),
            "judged": [[*key, list(own)] for key, own in self._by_expert.items()],
        }

    def load(self, data: Any) -> None:
        """Take over the data of `dump`."""
        self.history.load(data["history"])
        self.surprises.load(data.get("surprises", ()))  # none in dumps of earlier versions
        self._by_expert = {(f, v, s): deque(own, maxlen=_JUDGED) for f, v, s, own in data.get("judged", ())}
        self._error = data["error"]
        self._errors.clear()
        self._errors.extend(data["errors"])
        self._groups = None


def error_of(prior: Belief, ms: float) -> float:
    """How wrong a belief was about a mean run time: above 0 for a longer time."""
    return math.log(max(1.0, ms)) - prior.mean


def normal_posterior(mean: float, variance: float, evidence: float, doubt: float) -> tuple[float, float]:
    """Mean and variance of x ~ N(mean, variance) after seeing `evidence` ~ N(x, doubt) (SLearn, section 4.1)."""
    precision = 1 / doubt + 1 / variance
    return (evidence / doubt + mean / variance) / precision, 1 / precision


def evidence(noise: float, n: int, mean: float, variance: float) -> tuple[float, float, float]:
    """What n > 0 finished tasks of a stage say: (variance of ln run time among its tasks, ln(mean), its variance).

    noise: the variance expected before. mean, variance: of the run times (ms, at least 1; by n - 1).
    """
    if n > 1:
        noise = (_STRENGTH * noise + (n - 1) * math.log1p(variance / mean**2)) / (_STRENGTH + n - 1)
    # The mean of n log-normal run times: ln(mean) has about this variance, and lies too low by half the variance.
    doubt = max(_LEAST_VARIANCE, math.log1p(math.expm1(noise) / n))
    return noise, math.log(mean) + doubt / 2, doubt


def weigh(parts: Sequence[Part], about: float, doubt: float) -> list[Part]:
    """A mixture of normals (weight, mean, deviation) after seeing `about` with variance `doubt`.

    A part gains weight by foreseeing the evidence: far-off evidence belongs to the tail, and is believed.
    """
    logs, after = [], []
    for weight, mean, sd in parts:
        variance = max(_LEAST_VARIANCE, sd * sd)
        foreseen = variance + doubt
        logs.append(math.log(weight) - 0.5 * math.log(foreseen) - 0.5 * (about - mean) ** 2 / foreseen)
        after.append(normal_posterior(mean, variance, about, doubt))
    most = max(logs)
    weights = [math.exp(log - most) for log in logs]
    total = sum(weights)
    return [(w / total, mean, math.sqrt(var)) for w, (mean, var) in zip(weights, after, strict=True)]


def moved(parts: Sequence[Part], centre: float, x: float, variance: float, carry: Carry) -> list[Part]:
    """The prior of a later stage, a mixture around `centre`, when x is known with this variance."""
    kept, doubt = math.sqrt(carry.unexplained), carry.slope**2 * variance
    return [
        (w, centre + carry.slope * x + kept * (mean - centre), math.sqrt(kept * kept * sd * sd + doubt))
        for w, mean, sd in parts
    ]


def centre(parts: Sequence[Part]) -> float:
    """exp(E[ln t]) where ln t is a mixture of normals (weight, mean, deviation)."""
    return math.exp(sum(w * mean for w, mean, _ in parts))


def quantile(parts: Sequence[Part], q: float) -> float:
    """The q-quantile, 0 < q < 1, of a mixture of normals (weight, mean, deviation), to 1e-3."""
    z = NormalDist().inv_cdf(q)
    low = min(mean + z * sd for _, mean, sd in parts)
    high = max(mean + z * sd for _, mean, sd in parts)
    while high - low > 1e-3:
        middle = (low + high) / 2
        below = sum(w * 0.5 * math.erfc((mean - middle) / (max(sd, 1e-9) * math.sqrt(2))) for w, mean, sd in parts)
        low, high = (middle, high) if below < q else (low, middle)
    return (low + high) / 2


def spread(parts: Sequence[Part]) -> float:
    """Standard deviation of a mixture of normals (weight, mean, deviation)."""
    centre = sum(w * mean for w, mean, _ in parts)
    return math.sqrt(sum(w * (sd * sd + (mean - centre) ** 2) for w, mean, sd in parts))


def deviation(ms: float, parts: Sequence[Part]) -> float:
    """Standard deviation, in ms, of a log-normal around `ms` with the variance of a mixture."""
    return ms * math.sqrt(math.expm1(min(spread(parts) ** 2, 50.0)))
