"""What the rule `priced` would do, for a network to look at: it learns where to do otherwise."""

from __future__ import annotations

from typing import Final

import numpy as np

from schedulers.learned.graph import Doubles, Floats, Graph
from schedulers.learned.orders import choosable, first_by_prices, nearest, prices

#: What a guided network is told of a job, beside JOB_FEATURES.
GUIDE_FEATURES: Final = (
    "chosen",  # 1: the rule would choose this job
    "turn",  # ln(1 + jobs before it in the rule's order) / 3
    "room",  # how many more executors the rule would give it, / 20; below 0: it has too many
    "limit",  # ln(the limit that the rule would say for it, if it may be chosen) / LOG_SCALE, else 0
)
LOG_SCALE: Final = 4.0
#: Logarithms of limits that are less apart are of the same one.
_SAME: Final = 1e-4


def guide(graph: Graph) -> Floats:
    """[jobs, len(GUIDE_FEATURES)]."""
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
    """1 where a limit is the one that the rule would say. logs: of limits; limit: the feature of that name."""
    return (np.abs(logs - LOG_SCALE * limit) < _SAME).astype(float)
