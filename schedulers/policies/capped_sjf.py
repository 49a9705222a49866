"""Shortest job first, but no job gets all: each has a number of containers, growing with its work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, TieSetting, policies
from schedulers.core.state import JobState, StageState
from schedulers.kit.ordered import Key
from schedulers.kit.partition import Partitioned
from schedulers.kit.paths import Length, critical_first

#: The total work, in task ms, at which a job gets `containers`.
UNIT_MS = 5e5


@policies.register("capped_sjf", source="rm-emulator; SJF-CP of Decima (SIGCOMM'19) with a number of executors per job")
class CappedShortestJob(Partitioned, NeedsEstimates):
    """As `sjf_cp`, but a job is served first only up to containers x (total work / 500 s) ^ growth, at least 1.

    Room left by jobs below their number goes to the others in the same order. Jobs without an estimate come last and
    count as a job of 500 s. The policy needs a predictor.

    On clusters with executors, executors stay with their job until the job has nothing more to start, also while the
    job waits for a stage to end. Executors beyond all numbers are given away in the order of jobs.
    """

    bundles = True

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        containers: Annotated[
            float,
            msgspec.Meta(
                gt=0,
                description="number of containers up to which a job with 500 s of task time is served first; larger: "
                "wider jobs",
            ),
        ] = 8.0
        growth: Annotated[
            float,
            msgspec.Meta(
                ge=0,
                le=10,
                description="exponent of the number of containers over the job's work; 0: the same number for all jobs",
            ),
        ] = 0.75
        length: Length = "task"
        tie: TieSetting = "submit"

    params: Params

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        size = math.inf if job.size_ms is None else job.size_ms
        return (size, view.tie(job, self.params.tie))

    def arrange(self, job: JobState, stages: Sequence[StageState], view: ClusterView) -> Iterable[StageState]:
        """See Ordered.arrange."""
        return critical_first(job, stages, view, self.params.length)

    def most(self, job: JobState, view: ClusterView) -> float:
        """See Partitioned.most."""
        size = UNIT_MS if job.size_ms is None else job.size_ms
        return max(1, round(self.params.containers * math.pow(size / UNIT_MS, self.params.growth)))
