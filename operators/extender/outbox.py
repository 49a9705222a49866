"""What the brain wants written, as far as it needs to know of it; `Releases` carries it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from schedulers.objects.pod import Pod


class Outbox(Protocol):
    """What the brain wants written; carried out in the background, in this order per gang."""

    def release(self, pod: Pod, node: str | None) -> None:
        """Drop our gate; with a node, narrow the pod to it."""

    def release_gang(
        self, dagjob: str, stage: str, members: Sequence[tuple[Pod, str | None]], plan: dict[str, str]
    ) -> None:
        """Write the plan {index: node} on the DagJob, then release all members."""

    def wake(self, pod: Pod, node: str) -> None:
        """Make kube-scheduler try a pod without gate again: a node is reserved for it now."""

    def is_pending(self, uid: str) -> bool:
        """Whether something of this pod is still to be written."""
