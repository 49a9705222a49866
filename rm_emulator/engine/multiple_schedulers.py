"""Several schedulers with think times behind one control, each with jobs of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from rm_emulator.engine.config import Thinker
from rm_emulator.engine.control import Control
from rm_emulator.workload.model import WorkloadJob
from schedulers.core.abilities import Plans, ability
from schedulers.core.decisions import Decision
from schedulers.core.events import (
    ClaimRefused,
    ContainerEnded,
    ContainerStarted,
    Estimated,
    Event,
    JobCancelled,
    JobChanged,
    JobSubmitted,
    OthersSeen,
    StageWithdrawn,
    Thought,
)
from schedulers.core.explain import Explanation
from schedulers.core.model import Job
from schedulers.core.nodes import OTHERS
from schedulers.core.policy import Planned
from schedulers.core.resources import Vector
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import ClusterState, ContainerState, JobState
from schedulers.core.vectors import dominant_share

#: Bits of a container's number for the count; the bits above name the scheduler.
_BITS: Final = 32
_OF_CONTAINERS: Final = (ContainerStarted, ContainerEnded, ClaimRefused)
_OF_JOBS: Final = (Estimated, JobCancelled, JobChanged, StageWithdrawn, Thought)


def first_container(scheduler: int) -> int:
    """The number of the first container of the scheduler with this number."""
    return (scheduler << _BITS) + 1


def assign_jobs(jobs: Sequence[WorkloadJob], schedulers: Sequence[Thinker]) -> dict[str, int]:
    """Each job's scheduler, by number: the first that takes the job; equal schedulers take jobs in turn.

    Raises ValueError for a job without a scheduler.
    """
    # Schedulers with the same choice share their jobs by turns; think times and policies may differ.
    alike = {
        each.selector: [n for n, other in enumerate(schedulers) if other.selector == each.selector]
        for each in schedulers
    }
    counts = dict.fromkeys(alike, 0)
    found: dict[str, int] = {}
    for source in jobs:
        job = source.job
        who = next((jobs_of for jobs_of in alike if jobs_of.takes(job)), None)
        if who is None:
            raise ValueError(
                f"job '{job.id}' ({job.kind}, queue '{job.queue}', user '{job.user}') goes to no scheduler: "
                "add one that takes all that is left"
            )
        found[job.id] = alike[who][counts[who] % len(alike[who])]
        counts[who] += 1
    return found


def peer_jobs(jobs: Sequence[WorkloadJob], schedulers: Sequence[Thinker], number: int) -> list[str]:
    """The jobs of all schedulers that choose jobs as scheduler `number` does. Raises ValueError as `assign_jobs`."""
    alike = {n for n, other in enumerate(schedulers) if other.selector == schedulers[number].selector}
    return [job for job, of in assign_jobs(jobs, schedulers).items() if of in alike]


class _AllContainers(Mapping[int, ContainerState]):
    """The containers of all schedulers by number."""

    def __init__(self, schedulers: Sequence[Scheduler]) -> None:
        self._by_scheduler = [scheduler.state.containers for scheduler in schedulers]

    def __getitem__(self, number: int) -> ContainerState:
        return self._by_scheduler[number >> _BITS][number]

    def __iter__(self) -> Iterator[int]:
        return (number for each in self._by_scheduler for number in each)

    def __len__(self) -> int:
        return sum(map(len, self._by_scheduler))


class MultipleSchedulers(Control):
    """Several schedulers with think times, each with jobs of its own, told apart by number."""

    def __init__(self, schedulers: Sequence[Scheduler], scheduler_of: Mapping[str, int]) -> None:
        super().__init__([scheduler.state for scheduler in schedulers])
        self.schedulers = list(schedulers)
        """With container numbers from `first_container` on."""
        self.scheduler_of = scheduler_of
        """Each job's scheduler."""
        self.containers = _AllContainers(schedulers)
        self.queues: list[Collection[str]] = [state.waiting for state in self._states]
        """Each scheduler's jobs with tasks to be placed, kept up to date."""
        self.plans = any(ability(scheduler.policy, Plans) for scheduler in schedulers)
        self._deferred: dict[int, list[Event]] = {}
        """Ends, and facts about nodes, heard during an attempt of their scheduler, to be told after the attempt."""

    def handle(self, event: Event) -> list[Decision]:
        """Tell a fact to the scheduler of its job or container; a fact about neither is told to all."""
        if isinstance(event, _OF_CONTAINERS):
            # The number names the scheduler, so that no table of containers is searched for each fact.
            number = event.container >> _BITS
            if number in self._deferred and isinstance(event, ContainerEnded):
                self._deferred[number].append(event)
                return []
            return self.schedulers[number].handle(event)
        if isinstance(event, JobSubmitted):
            return self.schedulers[self.scheduler_of[event.job.id]].handle(event)
        if isinstance(event, _OF_JOBS):
            return self.schedulers[self.scheduler_of[event.job]].handle(event)
        decisions = []
        for number, scheduler in enumerate(self.schedulers):
            if number in self._deferred:
                self._deferred[number].append(event)
            else:
                decisions += scheduler.handle(event)
        return decisions

    def explain(self, job: str) -> Explanation:
        """Why a live job waits, by its own scheduler."""
        return self.schedulers[self.scheduler_of[job]].explain(job)

    def _state_of(self, job: str) -> ClusterState:
        return self._states[self.scheduler_of[job]]

    def new_plans(self) -> Iterator[tuple[Job, Planned]]:
        """Jobs planned since the last call, of all schedulers."""
        for scheduler in self.schedulers:
            plans = ability(scheduler.policy, Plans)
            for name, planned in plans.new_plans().items() if plans is not None else ():
                yield scheduler.state.jobs[name].spec, planned

    # -- one of them ----------------------------------------------------------------------------

    def first_in_line(self, number: int) -> JobState | None:
        """The scheduler's next job to think about; None where the policy holds back all jobs."""
        name = self.schedulers[number].first_in_line()
        return None if name is None else self._states[number].jobs[name]

    def job_if_live(self, name: str) -> JobState | None:
        """As `job`, but None for a job that is over."""
        return self._state_of(name).jobs.get(name)

    def share(self, number: int) -> float:
        """The dominant share of the amounts held by the scheduler's tasks."""
        state = self._states[number]
        return dominant_share(state.used, state.capacity)

    def set_foreign_use(self, number: int, at: int, free: Iterable[tuple[str, Sequence[int]]]) -> None:
        """Tell the scheduler the use by others on these nodes, so that its view of free room is `free`."""
        # One fact for all nodes of a look, as a scheduler copies the cluster at once.
        state, seen = self._states[number], dict[str, Vector | None]()
        for name, there in free:
            node = state.nodes.get(name)  # None: lost, or drained
            # Most nodes are as seen before: a fact about all nodes at each look would be mostly repetition.
            if node is not None and node.free != there:
                held = node.foreign.get(OTHERS) or (0,) * len(there)
                now = tuple(map(sum, zip(held, node.free, map(int.__neg__, there), strict=True)))
                seen[name] = now if any(now) else None
        if seen:
            self.schedulers[number].handle(OthersSeen(at, seen))

    def defer_ends(self, number: int) -> None:
        """Begin an attempt: the scheduler hears of no end, and of no node, before `take_deferred`."""
        self._deferred[number] = []

    def take_deferred(self, number: int) -> list[Event]:
        """End an attempt: the scheduler hears of all facts again. Returns the missed facts, to be told now."""
        return self._deferred.pop(number, [])

    def handle_one(self, number: int, event: Event) -> list[Decision]:
        """Tell a fact to one scheduler alone."""
        return self.schedulers[number].handle(event)
