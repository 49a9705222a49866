"""What sharing costs each queue: its mean JCT over that of the same jobs under a baseline (`experiments.baselines`).

sharing
    mean JCT / mean JCT of the queue alone on the cluster: above 1 the others cost it time, below 1 it gains.
fragmentation
    mean JCT / mean JCT with all nodes as one: what small nodes, and wishes for nodes, cost.
unfairness
    mean JCT / mean JCT under ideal water-filling: what not having the fair share at every instant costs, together
    with heartbeats, fragmentation and all else that a fluid does not know. Below 1 where an order beats equal shares.

Each over the jobs of the queue that finished in both; null where there are none, or no such baseline was run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from rm_emulator.results.figures import Costs
from rm_emulator.results.metrics import average, figure

#: Baseline -> the cost that it shows.
COSTS: Final = {"alone": "sharing", "one_node": "fragmentation", "ideal": "unfairness"}


def costs(jobs: pl.DataFrame, references: Mapping[str, pl.DataFrame]) -> dict[str, Costs]:
    """Of each queue. references: baseline -> its jobs.

    Jobs have columns id, queue, submit_ms and finish_ms.
    """
    pairs = {name: _paired(jobs, reference) for name, reference in references.items()}
    return {
        queue: Costs(**{COSTS[name]: _ratio(each, queue) for name, each in pairs.items()})
        for queue in sorted(set(jobs["queue"].to_list()))
    }


def _paired(jobs: pl.DataFrame, reference: pl.DataFrame) -> pl.DataFrame:
    jct = pl.col("finish_ms") - pl.col("submit_ms")
    theirs = reference.select("id", reference=jct).drop_nulls()
    return jobs.select("id", "queue", jct=jct).drop_nulls().join(theirs, on="id")


def _ratio(pairs: pl.DataFrame, queue: str) -> float | None:
    mine = pairs.filter(pl.col("queue") == queue)
    if mine.is_empty():
        return None
    below = average(mine["reference"].to_list())
    return figure(average(mine["jct"].to_list()) / below) if below else None
