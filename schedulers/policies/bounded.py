"""Any other policy, with unfairness between queues or jobs bounded by deficit counters (Graphene's, for all)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from schedulers.core.policy import ClusterView, policies
from schedulers.core.state import JobState, StageState
from schedulers.kit.around import Around, Inside
from schedulers.kit.deficits import Balance, Factor, Kappa, Level


@policies.register("bounded", source="Graphene (OSDI'16), section 5: deficit counters, around any policy")
class Bounded(Around):
    """Serves by another policy, as long as no queue or job is owed too much; then the queue or job goes first.

    A deficit is the amount by which a queue or job got less than its share by weight, among the queues or jobs with
    something to start; deficits sum to 0. While all deficits are below `kappa` times the cluster, the other policy
    decides, as in `{kind: bounded, policy: {kind: sjf}, kappa: 0.1}`. A queue or job without a fitting task keeps its
    deficit: the next in debt is asked, and at last everybody.

    The predictor stands beside `bounded`, not inside `policy`. Refused inside are `delay` and the YARN policies,
    because they count the offers they pass up, and the policies with a period of their own: `tetrisched`, `alsched`,
    `jockey`.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        policy: Inside = msgspec.field(default_factory=lambda: {"kind": "fifo"})
        kappa: Kappa = 0.25
        deficit: Factor = "drf"
        level: Level = "queue"

    params: Params

    @classmethod
    def uses_of_queues(cls, params: Any) -> Collection[str]:
        """See MindsQueues.uses_of_queues: by the deficits, and by the policy inside."""
        return {"weight", *super().uses_of_queues(params)}

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._balance = Balance(params.level, params.deficit, params.kappa)

    def begin(self, view: ClusterView) -> None:
        """Look up the groups with waiting tasks."""
        self._balance.begin(view)

    def turns(self, view: ClusterView) -> Sequence[str]:
        """Groups owed too much, most owed first."""
        return self._balance.owed()

    def admits(self, turn: str, job: JobState) -> bool:
        """Whether the job is of the group."""
        return self._balance.group_of(job.spec) == turn

    def started(self, job: JobState, stage: StageState, tasks: int, view: ClusterView) -> None:
        """Charge the group."""
        self._balance.charge(job, stage.demand, tasks, view)

    def dump(self) -> Any:
        """The deficits, and the memory of the policy inside."""
        return {"balance": self._balance.dump(), **super().dump()}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        self._balance.load(data["balance"])
        super().load(data, view)
