"""Simple rules for the next stage, as teachers of policies that learn, and for comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np

from schedulers.core import keyed
from schedulers.core.policy import ClusterView
from schedulers.learned.routes import LEFT_FEATURES, ROUTE_FEATURES, RouteChoices

#: Choices, view, number of earlier questions -> a valid row.
StageRule: TypeAlias = Callable[[RouteChoices, ClusterView, int], int]
_UP: Final = ROUTE_FEATURES.index("up")
_SCALE: Final = LEFT_FEATURES.index("scale")


def rank_up(choices: RouteChoices, view: ClusterView, asked: int) -> int:
    """As the policy `rank_up`: the longest way to the end, over all jobs."""
    return _best(choices, ups(choices))


def longest_job(choices: RouteChoices, view: ClusterView, asked: int) -> int:
    """The job with the longest way, finished stages included; in the job the stage with the longest way to the end."""
    return _best(choices, _of_jobs(choices, _SCALE) + 1e-3 * ups(choices))


def random(choices: RouteChoices, view: ClusterView, asked: int) -> int:
    """Any stage."""
    rows = np.flatnonzero(choices.valid)
    return int(rows[int(keyed.uniform(view.seed, "next stage", "row", asked) * len(rows))])


STAGE_RULES: Final[Mapping[str, StageRule]] = {"rank_up": rank_up, "longest_job": longest_job, "random": random}


def ups(choices: RouteChoices) -> np.ndarray:
    """[rows]: upward ranks, by the longest way left."""
    ranks = np.concatenate([route.nodes[:, _UP] for route in choices.routes])
    found: np.ndarray = ranks.astype(np.float64) * _of_jobs(choices, _SCALE)
    return found


def _of_jobs(choices: RouteChoices, feature: int) -> np.ndarray:
    sizes = [len(route.nodes) for route in choices.routes]
    return np.repeat(choices.features[:, feature].astype(np.float64), sizes)


def _best(choices: RouteChoices, values: np.ndarray) -> int:
    return int(np.where(choices.valid, values, -np.inf).argmax())
