"""Who is let in, and who pays: jobs wait outside a queue that is full of jobs, containers are charged to accounts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from schedulers.core.queues import QueueTree
from schedulers.core.resources import Vector
from schedulers.core.sizes import Sizes

if TYPE_CHECKING:
    from schedulers.core.live import ContainerState, JobState


class Admission:
    """The jobs that were not let in, and the payer of every container. tree: the queues and their accounts."""

    def __init__(self, tree: QueueTree) -> None:
        self._tree = tree
        self.pending: dict[tuple[str, str], dict[str, JobState]] = {}
        """Jobs that were not let in by queue and user, first come first; from `JobState.admitted`."""
        self.payers: dict[int, tuple[str, str]] = {}
        """Queue and user that pay for a container, once there are queues; from whom it is for."""

    # -- jobs -----------------------------------------------------------------------------------

    def may_enter(self, job: JobState) -> bool:
        """Whether neither the queue, nor any above it, nor the user's part of one is full of jobs or gone."""
        spec = job.spec
        return self._tree.full(spec.queue, spec.user) is None and self._tree.closed(spec.queue, job.seq) is None

    def wait(self, job: JobState) -> None:
        """The job waits to be let in."""
        self.pending.setdefault((job.spec.queue, job.spec.user), {})[job.id] = job

    def leave(self, job: JobState) -> None:
        """The job waits no more to be let in; nothing happens when it did not."""
        where = (job.spec.queue, job.spec.user)
        jobs = self.pending.get(where)
        if jobs is not None and jobs.pop(job.id, None) is not None and not jobs:
            del self.pending[where]

    def next(self) -> JobState | None:
        """Who may enter now, first come first served (YARN's maximum of running applications), or None."""
        first = [next(iter(jobs.values())) for jobs in self.pending.values()]
        return min(filter(self.may_enter, first), key=lambda job: job.seq, default=None)

    def count(self, job: JobState, by: int) -> None:
        """A job was let in (1) or is gone (-1)."""
        self._tree.count(job.spec.queue, job.spec.user, by)

    # -- containers -----------------------------------------------------------------------------

    def charge(self, container: int, job: JobState, demand: Vector) -> None:
        """Whoever the container is now for pays for it."""
        payer = self.payers[container] = job.spec.queue, job.spec.user
        self._tree.charge(*payer, demand, 1)

    def discharge(self, container: int, demand: Vector) -> bool:
        """The container is gone, or for somebody else. Returns whether any account of it has a limit."""
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
            if container.id not in self.payers:
                spec = jobs[container.job].spec
                self.payers[container.id] = spec.queue, spec.user
            payer, demand = self.payers[container.id], sizes.demands[container.size]
            tree.charge(*payer, demand, 1)
            container.size = sizes.number(demand, sizes.places[container.size], tree.path(*payer).group)
