"""The answer of the rule `priced` as features of a network, which learns where to differ from the rule."""

from __future__ import annotations

from typing import Final

import numpy as np

from schedulers.learned.graph import Doubles, Floats, Graph
from schedulers.learned.orders import choosable, first_by_prices, nearest, prices

#: Features of a job for a guided network, in addition to JOB_FEATURES.
GUIDE_FEATURES: Final = (
    "chosen",  # 1: the rule would choose this job
    "turn",  # ln(1 + jobs before it in the rule's order) / 3
    "room",  # how many more executors the rule would give it, / 20; below 0: it has too many
    "limit",  # ln(the limit that the rule would say for it, if it may be chosen) / LOG_SCALE, else 0
)
LOG_SCALE: Final = 4.0
#: Logarithms of one limit differ by less than this.
_SAME: Final = 1e-4


def guide(graph: Graph) -> Floats:
    """Features of all jobs: [jobs, len(GUIDE_FEATURES)]."""
    (order, most), may = prices(graph), choosable(graph)
    told = np.zeros((len(graph.jobs), len(GUIDE_FEATURES)), np.float32)
    told[first_by_prices(graph, order, most, may), 0] = 1
    told[order, 1] = np.log1p(np.arange(len(order))) / 3
    least = [job.least for job in graph.jobs]
    told[:, 2] = (np.array(most) - least + 1) / 20
    limits = [
        graph.executors if job.features[1] > 0 or job.least > count else nearest(job.least, graph.executors, count)
        for job, count in zip(graph.jobs, most, strict=True)
    ]
    told[:, 3] = np.log(limits) * may / LOG_SCALE
    return told


def is_said(logs: Doubles, limit: float) -> Doubles:
    """1 where a limit is the rule's. logs: logarithms of limits; limit: the feature `limit`."""
    return (np.abs(logs - LOG_SCALE * limit) < _SAME).astype(float)
