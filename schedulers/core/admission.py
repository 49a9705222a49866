"""Admission: jobs wait outside a queue full of jobs; every container is charged to accounts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from schedulers.core.queues import QueueTree
from schedulers.core.resources import Vector
from schedulers.core.sizes import Sizes

if TYPE_CHECKING:
    from schedulers.core.live import ContainerState, JobState


class Admission:
    """Jobs waiting to be let in, and the payer of every container.

    `tree` holds the queues and their accounts.
    """

    __slots__ = ("_tree", "payers", "pending")

    def __init__(self, tree: QueueTree) -> None:
        self._tree = tree
        self.pending: dict[tuple[str, str], dict[str, JobState]] = {}
        """Jobs not let in yet, by queue and user, first come first; from `JobState.admitted`."""
        self.payers: dict[int, tuple[str, str]] = {}
        """Queue and user paying for each container, once there are queues; from the job of the container."""

    # -- jobs -----------------------------------------------------------------------------------

    def may_enter(self, job: JobState) -> bool:
        """Whether the queue, all queues above, and the user's part of each have room for a job, and none is gone."""
        spec = job.spec
        return self._tree.full(spec.queue, spec.user) is None and self._tree.closed(spec.queue, job.seq) is None

    def wait(self, job: JobState) -> None:
        """The job waits to be let in."""
        self.pending.setdefault((job.spec.queue, job.spec.user), {})[job.id] = job

    def leave(self, job: JobState) -> None:
        """Stop waiting to be let in; nothing happens for a job already inside."""
        where = (job.spec.queue, job.spec.user)
        jobs = self.pending.get(where)
        if jobs is not None and jobs.pop(job.id, None) is not None and not jobs:
            del self.pending[where]

    def next(self) -> JobState | None:
        """The job to let in now, first come first served (YARN's maximum of running applications), or None."""
        # Jobs of one queue and user differ in nothing that admission looks at, so only the first of each can be next.
        first = [next(iter(jobs.values())) for jobs in self.pending.values()]
        return min(filter(self.may_enter, first), key=lambda job: job.seq, default=None)

    def count(self, job: JobState, by: int) -> None:
        """A job was let in (1) or is gone (-1)."""
        self._tree.count(job.spec.queue, job.spec.user, by)

    # -- containers -----------------------------------------------------------------------------

    def charge(self, container: int, job: JobState, demand: Vector) -> None:
        """Charge a container to the queue and user of its job."""
        payer = self.payers[container] = job.spec.queue, job.spec.user
        self._tree.charge(*payer, demand, 1)

    def discharge(self, container: int, demand: Vector) -> bool:
        """End the charge of a container. Returns whether any account of the container has a limit."""
        return self._tree.charge(*self.payers.pop(container), demand, -1)

    def recount(
        self, jobs: dict[str, JobState], containers: Iterable[ContainerState], sizes: Sizes, capacity: list[int]
    ) -> None:
        """The tree is another: charge every container and count every job anew, and sort sizes by their limits."""
        tree = self._tree
        tree.resize(capacity)
        for job in jobs.values():
            if job.admitted:
                self.count(job, 1)
            group = tree.path(job.spec.queue, job.spec.user).group
            for stage in job.stages:
                stage.size = sizes.number(stage.demand, sizes.places[stage.size], group)
        for container in containers if tree.queues else ():
            # Containers placed before the first queue was declared were never charged.
            if container.id not in self.payers:
                spec = jobs[container.job].spec
                self.payers[container.id] = spec.queue, spec.user
            payer, demand = self.payers[container.id], sizes.demands[container.size]
            tree.charge(*payer, demand, 1)
            container.size = sizes.number(demand, sizes.places[container.size], tree.path(*payer).group)
