"""Machines to plan with: in sets, in classes alike for all sets, and their room over time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]


class Supply:
    """Machines over the slices of a window.

    sets: machines by the set's name. room: [machines, slices, resources], free amounts at the beginning of each slice;
    room never shrinks from slice to slice, as running tasks end and nothing else comes. quantum: length of a slice,
    now: beginning of the first slice. single: sets with at most a single task of a leaf per machine.
    """

    def __init__(
        self,
        sets: Mapping[str, Sequence[int]],
        room: Ints,
        *,
        quantum: int = 1,
        now: int = 0,
        single: Collection[str] = (),
    ) -> None:
        self.quantum, self.now, self.slices = quantum, now, int(room.shape[1])
        self.single = single
        self._room = room
        machines = room.shape[0]
        inside = np.zeros((machines, max(1, len(sets))), dtype=bool)
        for column, members in enumerate(sets.values()):
            inside[list(members), column] = True
        rows, of = np.unique(inside, axis=0, return_inverse=True)
        of = of.reshape(-1)
        self.classes = [np.flatnonzero(of == number) for number in range(len(rows))]
        """The machines of each class."""
        self.sets = {name: np.flatnonzero(rows[:, column]).tolist() for column, name in enumerate(sets)}
        """The classes of each set."""
        self.free = np.array([room[members].sum(axis=0) for members in self.classes]).reshape(
            len(self.classes), self.slices, room.shape[2]
        )
        """[classes, slices, resources]: free amounts in all, to be taken by `take`."""
        self._counts: dict[tuple[tuple[int, ...], bool], Ints] = {}

    def count(self, demand: Sequence[int], *, single: bool = False) -> Ints:
        """[classes, slices]: how many tasks of a demand there is room for, each whole on a machine.

        single: at most a single task on a machine.
        """
        asked = [(index, amount) for index, amount in enumerate(demand) if amount]
        key = (tuple(demand), single)
        if key not in self._counts:
            each = np.min([self._room[:, :, index] // amount for index, amount in asked], axis=0)
            each = np.clip(each, 0, 1 if single else None)
            self._counts[key] = np.array([each[members].sum(axis=0) for members in self.classes])
        left = np.min([self.free[:, :, index] // amount for index, amount in asked], axis=0)
        fitting: Ints = np.minimum(self._counts[key], np.maximum(left, 0))
        return fitting

    def slice_of(self, start: int) -> int | None:
        """The slice with this beginning; None outside the window. Between two beginnings the later slice counts."""
        number = -(-(start - self.now) // self.quantum)  # a start between two beginnings waits for the later one
        return number if start >= self.now and number < self.slices else None

    def last(self, first: int, dur: int) -> int:
        """Behind the last slice of the window touched by a planned start of some length."""
        return min(self.slices, first + -(-dur // self.quantum))

    def take(self, place: int, first: int, last: int, demand: Sequence[int], count: int) -> None:
        """Put so many tasks on a class from slice `first` to before `last`."""
        self.free[place, first:last] -= count * np.array(demand, dtype=np.int64)
