"""The brain: changes of API objects become facts for the core, its decisions become gate releases.

It is synchronous and runs on the event loop's thread: `hear` takes in a change, `cycle` lets the core decide, `filter`
answers kube-scheduler. What it wants written goes to an `Outbox`; nothing here waits for the network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from operators.cache.cache import Cache, Change
from operators.extender.decisions import Decisions
from operators.extender.facts import Facts
from operators.extender.filter import Filter
from operators.extender.outbox import Outbox
from operators.extender.wire import FilterAnswer, Victims
from schedulers.core.model import PastJob
from schedulers.core.scheduler import Scheduler
from schedulers.objects.pod import Pod


class Brain:
    """The core with all that ties it to a cluster, for one term of leadership.

    clock: wall clock in ms. remember: told of each finished job and its queue. After `take_over`, every change has to
    be given to `hear`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        cache: Cache,
        outbox: Outbox,
        *,
        clock: Callable[[], int],
        remember: Callable[[PastJob, str], None] = lambda job, queue: None,
        expire_ms: int = 30_000,
    ) -> None:
        self.scheduler, self.cache = scheduler, cache
        self.decisions = Decisions(scheduler, cache, outbox, clock=clock, expire_ms=expire_ms)
        self.facts = Facts(self.decisions, remember)
        self._filter = Filter(self.decisions, self.facts)
        self.resources, self.ledger, self.jobs = self.decisions.resources, self.decisions.ledger, self.decisions.jobs

    def hear(self, change: Change) -> None:
        """An API object was added, changed, or is gone."""
        self.facts.hear(change)

    def cycle(self) -> None:
        """Let the core decide over all nodes, if anything has changed."""
        self.decisions.cycle()

    def expire(self) -> None:
        """Give up grants whose pod has not come, and releases that have not been seen to work."""
        self.decisions.expire()

    def filter(self, pod: Pod, nodes: Sequence[str]) -> FilterAnswer:
        """Which of these nodes the pod may be bound to."""
        return self._filter.filter(pod, nodes)

    def prioritize(self, pod: Pod, nodes: Sequence[str]) -> list[tuple[str, int]]:
        """(node, score) of each node that it has an opinion on."""
        return self._filter.prioritize(pod, nodes)

    def preempt(self, pod: Pod, victims: Victims) -> Victims:
        """Where kube-scheduler may preempt for the pod."""
        return self._filter.preempt(pod, victims)

    def snapshot(self) -> bytes:
        """The core's snapshot, and which pod has which container (msgpack of `Saved`)."""
        return msgspec.msgpack.encode(Saved(self.scheduler.snapshot(), self.ledger.dump()))


class Saved(msgspec.Struct):
    """What `Brain.snapshot` wrote. pods: container -> uid of its pod."""

    core: bytes
    pods: dict[int, str]
