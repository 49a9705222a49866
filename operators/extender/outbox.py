"""What the brain wants written, on its way: releases to the API server, finished jobs to history."""

from __future__ import annotations

from collections.abc import Sequence

from operators.extender.history import History
from operators.extender.releases import Releases
from schedulers.core.model import PastJob
from schedulers.objects.pod import Pod


class Outbox:
    """See `operators.extender.brain.Outbox`, which says what is meant by each."""

    def __init__(self, releases: Releases, history: History) -> None:
        self._releases, self._history = releases, history

    def release(self, pod: Pod, node: str | None) -> None:
        """Drop our gate; with a node, narrow the pod to it."""
        self._releases.release(pod, node)

    def release_gang(
        self, dagjob: str, stage: str, members: Sequence[tuple[Pod, str | None]], plan: dict[str, str]
    ) -> None:
        """Write the plan, then release all members."""
        self._releases.release_gang(dagjob, stage, members, plan)

    def wake(self, pod: Pod, node: str) -> None:
        """Make kube-scheduler try a pod without gate again."""
        self._releases.wake(pod, node)

    def is_pending(self, uid: str) -> bool:
        """Whether something of this pod is still to be written."""
        return self._releases.is_pending(uid)

    def past(self, job: PastJob, queue: str) -> None:
        """Remember a finished job."""
        self._history.add(job, queue=queue)
