"""A single queue; jobs go back to its end."""

from __future__ import annotations

from typing import Any

import msgspec

from schedulers.core.events import Event, JobChanged, JobSubmitted
from schedulers.core.policy import ClusterView, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, Ordered


@policies.register("requeue", source="google/cluster-scheduler-simulator: pendingQueue")
class Requeue(Ordered):
    """Serves jobs in the order of joining the queue; a job with new asks joins the queue again, at its end.

    A job joins at its submission and whenever its asks change. Under an architecture with think times
    (docs/architectures.md), a job with tasks left over after an attempt joins the end as well: the order of Omega's
    simulator. The policy needs no estimates.
    """

    bundles = True

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._joined: dict[str, int] = {}
        self._turns = 0

    def observe(self, event: Event, view: ClusterView) -> None:
        """See Policy.observe."""
        if isinstance(event, JobSubmitted | JobChanged):
            name = event.job.id if isinstance(event, JobSubmitted) else event.job
            if name in view.jobs:
                self._turns += 1
                self._joined[name] = self._turns

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        return (self._joined.get(job.id, 0), job.seq)

    def _leave(self, name: str, view: ClusterView) -> None:
        super()._leave(name, view)
        if name not in view.jobs:
            self._joined.pop(name, None)

    def dump(self) -> Any:
        """See Policy.dump."""
        return {"joined": list(self._joined.items()), "turns": self._turns}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        self._joined, self._turns = dict(data["joined"]), data["turns"]
        super().load(None, view)
