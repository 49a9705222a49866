"""What a decision cost: costs from then on, against those of other rollouts of the same arrivals at the same time.

Decima, section 5.3: the baseline of a decision is the mean over all rollouts of its sequence, at the time of the
decision. The paper interpolates between decisions; here the cost to go is known at any time, as it follows from when
jobs came and ended.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from schedulers.learned.graph import Doubles


class Outcome(msgspec.Struct, frozen=True, eq=False):
    """What costs follow from. arrivals, ends: per job, ms; of jobs that came. end: of the episode, ms.

    A job that did not finish ends with the episode.
    """

    arrivals: Doubles
    ends: Doubles
    end: int

    @property
    def jct_s(self) -> float:
        """Mean completion time in s."""
        return float((self.ends - self.arrivals).mean() / 1000) if len(self.ends) else 0.0

    def makespan(self) -> Outcome:
        """As if there were one job: what it costs is the makespan."""
        return Outcome(np.zeros(1), np.array([float(self.end)]), self.end)


def cost_to_go(times: Doubles, outcome: Outcome, horizon_s: float | None = None) -> Doubles:
    """Job seconds that are still to be paid at each time (ms); with a horizon, discounted by exp(-time / horizon).

    [len(times)]. Costs are the number of live jobs, integrated over time, so their mean is the mean JCT (Little).
    """
    now = times[:, None]
    begins = np.maximum(outcome.arrivals[None, :] - now, 0.0) / 1000
    ends = np.maximum(outcome.ends[None, :] - now, 0.0) / 1000
    if horizon_s is not None:
        begins, ends = -horizon_s * np.exp(-begins / horizon_s), -horizon_s * np.exp(-ends / horizon_s)
    costs: Doubles = (ends - begins).sum(axis=1)
    return costs


def differential(times: Doubles, outcome: Outcome, rate: float) -> Doubles:
    """What `rate` live jobs on average would cost from each time (ms) to the end: it is taken off (Decima, 5.3)."""
    return rate * np.maximum(outcome.end - times, 0.0) / 1000


def advantages(
    times: Sequence[Doubles], outcomes: Sequence[Outcome], *, horizon_s: float | None = None, rate: float = 0.0
) -> list[Doubles]:
    """For each rollout of one sequence and each of its decisions: by how much less it cost than the mean of all.

    times: per rollout those of its decisions, ms. rate: mean live jobs per time, for differential costs.
    """

    def costs(at: Doubles, outcome: Outcome) -> Doubles:
        return cost_to_go(at, outcome, horizon_s) - differential(at, outcome, rate)

    return [
        np.mean([costs(at, other) for other in outcomes], axis=0) - costs(at, own)
        for at, own in zip(times, outcomes, strict=True)
    ]
