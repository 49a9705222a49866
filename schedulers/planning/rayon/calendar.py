"""Rayon's plan: reserved amounts by time step, and the greedy agent that accepts or rejects a job's reservation.

Rayon (SoCC'14), sections 3 and 4, as Hadoop 3.3's GreedyReservationAgent places a chain of atoms (R_ORDER). Rayon
plans amounts of resources: nodes, wishes and fragments of room are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from schedulers.core.model import topological_order
from schedulers.core.resources import Vector

if TYPE_CHECKING:
    from schedulers.core.policy import ClusterView
    from schedulers.core.state import JobState

#: Length of a step: yarn.resourcemanager.reservation-system.planfollower.time-step.
STEP_MS: Final = 1000

Fit = Annotated[
    Literal["latest", "earliest"],
    msgspec.Meta(
        description="place of a reservation between arrival and deadline: as late as possible, as by default in "
        "Hadoop, or as early as possible (smart-allocation's allocate-left)"
    ),
]


class Atom(msgspec.Struct, frozen=True):
    """Atom(b, k, l, w) of Rayon's language: so many gangs, each with a demand (as a whole) for so many steps."""

    gangs: int
    demand: Vector
    steps: int


class Part(NamedTuple):
    """An amount reserved from step `first` to before step `last`."""

    first: int
    last: int
    amount: Vector


class Calendar:
    """Reservations by job. A job with no part was rejected."""

    def __init__(self, fit: Literal["latest", "earliest"] = "latest") -> None:
        self._fit = fit
        self.parts: dict[str, tuple[Part, ...]] = {}

    def reserve(self, name: str, atoms: Sequence[Atom], first: int, last: int, capacity: Vector) -> bool:
        """Reserve for a chain of atoms, each behind the one before, between two steps. False: rejected.

        capacity: of the cluster, in every step. A rejected job leaves nothing reserved.
        """
        free = self._free(first, last, capacity)
        forward = self._fit == "earliest"
        found = _earliest(free if forward else free[::-1], atoms if forward else atoms[::-1])
        if not forward:
            found = [Part(len(free) - part.last, len(free) - part.first, part.amount) for part in found]
        self.parts[name] = tuple(Part(first + part.first, first + part.last, part.amount) for part in found)
        return bool(found)

    def reserved(self, step: int) -> dict[str, Vector]:
        """By job the amount reserved in a step, of jobs with an amount."""
        found: dict[str, Vector] = {}
        for name, parts in self.parts.items():
            there = [part.amount for part in parts if part.first <= step < part.last]
            if there:
                found[name] = tuple(map(sum, zip(*there, strict=True)))
        return found

    def keep(self, names: Mapping[str, object]) -> None:
        """Release what is reserved for all other jobs."""
        for name in [name for name in self.parts if name not in names]:
            del self.parts[name]

    def dump(self) -> Any:
        """The reservations as plain data."""
        return {name: [list(part) for part in parts] for name, parts in self.parts.items()}

    def load(self, data: Any) -> None:
        """Take over what `dump` returned."""
        self.parts = msgspec.convert(data, dict[str, tuple[Part, ...]])

    def _free(self, first: int, last: int, capacity: Vector) -> NDArray[np.int64]:
        """Steps x resources: the amounts left to be reserved."""
        free = np.tile(np.array(capacity, dtype=np.int64), (max(0, last - first), 1))
        for parts in self.parts.values():
            for part in parts:
                free[max(0, part.first - first) : max(0, part.last - first)] -= part.amount
        return free


def _earliest(free: NDArray[np.int64], atoms: Sequence[Atom]) -> list[Part]:
    """The earliest places of a chain, from step 0 on; empty if the steps do not hold the chain. Uses `free` up."""
    found: list[Part] = []
    begin = 0
    for atom in atoms:
        demand = np.array(atom.demand, dtype=np.int64)
        asked = demand > 0
        fitting = np.maximum(0, (free[:, asked] // demand[asked]).min(axis=1))  # a smaller cluster may lack room
        first, left, end = begin, atom.gangs, begin
        while left:
            there = fitting[first : first + atom.steps]
            if len(there) < atom.steps:
                return []
            count = min(left, int(there.min()))
            if count:
                end = first + atom.steps
                found.append(Part(first, end, tuple(int(amount) for amount in count * demand)))
                there -= count
                free[first:end] -= count * demand
                left -= count
            if left:  # no gang runs across the last step without room
                first += int(np.flatnonzero(there == 0)[-1]) + 1
        begin = end
    return found


def reserve_for(calendar: Calendar, job: JobState, view: ClusterView, longer: float = 1.0) -> bool:
    """Have a job with a deadline ask for a reservation, once, and once all its stages have estimates.

    From now to the deadline; of jobs that are gone nothing is reserved any longer. longer: a factor of all times.
    Returns whether the job's reservation was accepted now.
    """
    deadline = job.spec.deadline
    if deadline is None or job.id in calendar.parts:
        return False
    atoms = _atoms_of(job, view, longer)
    if not atoms:
        return False
    calendar.keep(view.jobs)
    return calendar.reserve(job.id, atoms, -(-view.now // STEP_MS), deadline // STEP_MS, tuple(view.capacity))


def _atoms_of(job: JobState, view: ClusterView, longer: float) -> list[Atom] | None:
    """The chain of a job's stages, parents first; None while any of them lacks an estimate.

    A stage lasts as long as its tasks on the slowest nodes, by the least of its wishes: what is promised must hold
    wherever the tasks run. A gang is an atom of one gang; each task of any other stage is a gang.
    """
    wishes = job.spec.wishes
    slowest = max((wish.slowdown for wish in wishes.prefer), default=1.0) if wishes is not None else 1.0
    atoms = []
    for index in topological_order(job.spec.stages):
        stage = job.spec.stages[index]
        if stage.master:
            continue
        times = [view.task_ms_on(job.id, index, node) for node in view.nodes.values()]
        known = [time for time in times if time is not None]
        if not known:
            return None
        gangs, size = (1, stage.tasks) if stage.gang else (stage.tasks, 1)
        steps = max(1, -(-round(max(known) * slowest * longer) // STEP_MS))
        atoms.append(Atom(gangs, tuple(size * amount for amount in stage.demand), steps))
    return atoms
