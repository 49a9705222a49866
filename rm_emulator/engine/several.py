"""Several that decide behind one control, each about jobs of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    StageWithdrawn,
    Thought,
)
from schedulers.core.explain import Explanation
from schedulers.core.model import Job
from schedulers.core.policy import Planned, Triggers
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import ContainerState, JobState
from schedulers.core.transfers import arrival

#: Bits of a container's number that count; those above name its scheduler.
_BITS: Final = 32
_OF_CONTAINERS: Final = (ContainerStarted, ContainerEnded, ClaimRefused)
_OF_JOBS: Final = (Estimated, JobCancelled, JobChanged, StageWithdrawn, Thought)


def first_container(scheduler: int) -> int:
    """The number of the first container of the scheduler with this number."""
    return (scheduler << _BITS) + 1


def assigned(jobs: Sequence[WorkloadJob], schedulers: Sequence[Thinker]) -> dict[str, int]:
    """Each job's scheduler, by number: the first that takes it, those that take the same jobs in turn.

    Raises ValueError for a job that nobody takes.
    """
    alike = {each.jobs: [n for n, other in enumerate(schedulers) if other.jobs == each.jobs] for each in schedulers}
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


def group(jobs: Sequence[WorkloadJob], schedulers: Sequence[Thinker], number: int) -> list[str]:
    """The jobs that this scheduler shares with those that take the same ones. Raises ValueError as `assigned`."""
    alike = {n for n, other in enumerate(schedulers) if other.jobs == schedulers[number].jobs}
    return [job for job, of in assigned(jobs, schedulers).items() if of in alike]


class _Held(Mapping[int, ContainerState]):
    """The containers of all by number."""

    def __init__(self, schedulers: Sequence[Scheduler]) -> None:
        self._of = [scheduler.state.containers for scheduler in schedulers]

    def __getitem__(self, number: int) -> ContainerState:
        return self._of[number >> _BITS][number]

    def __iter__(self) -> Iterator[int]:
        return (number for each in self._of for number in each)

    def __len__(self) -> int:
        return sum(map(len, self._of))


class Several(Control):
    """All that the engine asks of who decides, where these are several.

    schedulers: with container numbers from `first_container` on. of: each job's scheduler by number.
    deaf: those that hear of no end as long as they think, with what they have to be told when they are through.
    """

    copies = False
    triggers = Triggers()
    next_change = None
    urged = ()

    def __init__(self, schedulers: Sequence[Scheduler], of: Mapping[str, int]) -> None:
        self.schedulers, self.of = list(schedulers), of
        self.deaf: dict[int, list[Event]] = {}
        self.held = _Held(self.schedulers)
        self.plans = any(ability(scheduler.policy, Plans) for scheduler in self.schedulers)

    def handle(self, event: Event) -> list[Decision]:
        """Tell whom it concerns; a fact about neither a job nor a container is told to all."""
        if isinstance(event, _OF_CONTAINERS):
            number = event.container >> _BITS
            if number in self.deaf and isinstance(event, ContainerEnded):
                self.deaf[number].append(event)
                return []
            return self.schedulers[number].handle(event)
        if isinstance(event, JobSubmitted):
            return self.schedulers[self.of[event.job.id]].handle(event)
        if isinstance(event, _OF_JOBS):
            return self.schedulers[self.of[event.job]].handle(event)
        return [decision for scheduler in self.schedulers for decision in scheduler.handle(event)]

    def explain(self, job: str) -> Explanation:
        """See Scheduler.explain."""
        return self.schedulers[self.of[job]].explain(job)

    @property
    def version(self) -> int:
        """See Control."""
        return sum(scheduler.state.version for scheduler in self.schedulers)

    @property
    def waiting(self) -> tuple[int, int]:
        """See Control."""
        states = [scheduler.state for scheduler in self.schedulers]
        return sum(len(state.waiting) for state in states), sum(sum(state.sizes.waiting) for state in states)

    def job(self, name: str) -> JobState:
        """See Control."""
        return self.schedulers[self.of[name]].state.jobs[name]

    def arrival(self, job: JobState, stage: int, node: str) -> int:
        """See Control."""
        state = self.schedulers[self.of[job.id]].state
        return arrival(job, job.stages[stage], state.nodes[node], state.links, state.nodes)

    def new_plans(self) -> Iterator[tuple[Job, Planned]]:
        """See Control."""
        for scheduler in self.schedulers:
            plans = ability(scheduler.policy, Plans)
            for name, planned in plans.new_plans().items() if plans is not None else ():
                yield scheduler.state.jobs[name].spec, planned
