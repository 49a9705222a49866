"""Advantages of decisions: later costs, compared with other rollouts of the same arrivals at the same time.

Decima, section 5.3: the baseline of a decision is the mean over all rollouts of its sequence, at the time of the
decision. The paper interpolates between decisions; here the cost to go is known at any time from the jobs' arrivals and
ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from schedulers.learned.graph import Doubles


class EpisodeTimes(msgspec.Struct, frozen=True, eq=False):
    """Arrivals and ends of an episode, the source of costs."""

    arrivals: Doubles
    """Of each job that has arrived, ms."""
    ends: Doubles
    """Of each job, ms; an unfinished job ends with the episode."""
    end: int
    """End of the episode, ms."""

    @property
    def jct_s(self) -> float:
        """Mean completion time in s."""
        return float((self.ends - self.arrivals).mean() / 1000) if len(self.ends) else 0.0

    def makespan(self) -> EpisodeTimes:
        """The outcome of one job from 0 to the end, with the makespan as its cost."""
        return EpisodeTimes(np.zeros(1), np.array([float(self.end)]), self.end)


def cost_to_go(times: Doubles, outcome: EpisodeTimes, horizon_s: float | None = None) -> Doubles:
    """Future job seconds at each time (ms); with a horizon, discounted by exp(-time / horizon).

    [len(times)]. Costs are the number of live jobs, integrated over time, so their mean is the mean JCT (Little).
    """
    now = times[:, None]
    begins = np.maximum(outcome.arrivals[None, :] - now, 0.0) / 1000
    ends = np.maximum(outcome.ends[None, :] - now, 0.0) / 1000
    if horizon_s is not None:
        begins, ends = -horizon_s * np.exp(-begins / horizon_s), -horizon_s * np.exp(-ends / horizon_s)
    costs: Doubles = (ends - begins).sum(axis=1)
    return costs


def differential(times: Doubles, outcome: EpisodeTimes, rate: float) -> Doubles:
    """The cost of `rate` live jobs from each time (ms) to the end, to be subtracted (Decima, section 5.3)."""
    return rate * np.maximum(outcome.end - times, 0.0) / 1000


def advantages(
    times: Sequence[Doubles], outcomes: Sequence[EpisodeTimes], *, horizon_s: float | None = None, rate: float = 0.0
) -> list[Doubles]:
    """For each rollout of one sequence and each of its decisions: the mean cost of all rollouts minus its own cost.

    times: per rollout the times of its decisions, ms. rate: mean live jobs per time, for differential costs.
    """

    def costs(at: Doubles, outcome: EpisodeTimes) -> Doubles:
        return cost_to_go(at, outcome, horizon_s) - differential(at, outcome, rate)

    return [
        np.mean([costs(at, other) for other in outcomes], axis=0) - costs(at, own)
        for at, own in zip(times, outcomes, strict=True)
    ]
