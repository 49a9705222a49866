"""Simulated time: callbacks on SimPy's event queue, in one total order.

Events of the same millisecond are ordered by rank (arrivals, asks, starts, ends, heartbeats, ticks)
and then by a stable key, never by the order of entry: a run that skips idle heartbeats must meet all other events in
the same order as a run without skipping.

SimPy's private names are used here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any, Final, cast

import numpy as np
import simpy

#: `Calendar.at`, or a stand-in.
Enter = Callable[[int, int, int, Callable[[Any], object], Any], None]
FIRST, ARRIVE, ASK, START, END, BEAT, TICK = range(7)
_SHIFT: Final = 44
_FACTS: Final = START << _SHIFT
_ENTRY: Final = 5  # parts of an entry: when, priority, number, callback, value; SimPy's own have four


def priority(rank: int, key: int) -> int:
    """The place of a rank and a key among the entries of an instant."""
    return rank << _SHIFT | key


class _Environment(simpy.Environment):
    """SimPy's environment, with bare callbacks and their values in the queue instead of events."""

    def __init__(self, calendar: Calendar) -> None:
        super().__init__()
        self._calendar = calendar

    def step(self) -> None:
        """Call entry after entry up to an entry of SimPy's own, such as the end of a run, and take that entry."""
        queue: Any = self._queue
        calendar = self._calendar
        while True:  # a condition here is never specialised by CPython 3.11 in a loop begun only once
            if not queue or len(queue[0]) != _ENTRY:
                break
            now, _, _, callback, value = heappop(queue)
            self._now = calendar.now = now
            callback(value)
        super().step()


class Calendar:
    """SimPy's queue with integer milliseconds. `shuffle` permutes facts of the same instant (seeded).

    `now`: simulated time in ms; an attribute rather than a property, since every callback reads the time.
    """

    def __init__(self, shuffle: np.random.Generator | None = None) -> None:
        self.now = 0
        self._env = _Environment(self)
        self._queue, self._number = cast("list[Any]", self._env._queue), self._env._eid
        self._shuffle = shuffle
        self._former: list[Any] = []
        self._waiting: list[Any] = []

    def is_turn(self, rank: int, key: int) -> bool:
        """Whether an entry of this instant with this rank and key would be the next to be called."""
        queue = self._queue
        return not queue or (queue[0][0], queue[0][1]) > (self.now, rank << _SHIFT | key)

    @property
    def next_entry(self) -> tuple[int, int] | None:
        """Time (ms) and priority (`priority`) of the next entry; None without entries."""
        return (self._queue[0][0], self._queue[0][1]) if self._queue else None

    def go_to(self, when: int, rank: int, key: int) -> bool:
        """Set the time to `when`, as an entry with this rank and key would; False where another entry comes first."""
        env: Any = self._env
        if env._queue and (env._queue[0][0], env._queue[0][1]) <= (when, rank << _SHIFT | key):
            return False
        env._now = self.now = when
        return True

    def at(self, when: int, rank: int, key: int, callback: Callable[[Any], object], value: Any = None) -> None:
        """Call `callback(value)` at `when`; among the same instant by rank, then key."""
        priority = rank << _SHIFT | key
        if self._shuffle is not None and FIRST < rank <= END:
            # All facts of an instant share a rank under disorder, so that any order among the facts is possible.
            priority = _FACTS | int(self._shuffle.integers(1 << 40))
        # Environment.schedule without an event, its call and its sum of now and delay: the engine's hottest line.
        heappush(self._queue, (when, priority, next(self._number), callback, value))

    def exchange(self, when: Callable[[int, Callable[[Any], object], Any], int | None]) -> None:
        """Enter each entry anew, at the time that `when(time, callback, value)` gives; None drops the entry."""
        kept = [
            (at, priority, number, callback, value)
            for time, priority, number, callback, value in self._entries()
            if (at := when(time, callback, value)) is not None
        ]
        # In place, because SimPy holds this very list.
        self._queue[:] = kept
        heapify(self._queue)

    def split(self, wanted: Callable[[Callable[[Any], object], Any], bool]) -> tuple[list[Any], list[Any]]:
        """Entries apart from the wanted ones, and the values of those; wanted: whether, by callback and value."""
        rest, values = list[Any](), list[Any]()
        for entry in self._entries():
            if wanted(*entry[3:]):
                values.append(entry[4])
            else:
                rest.append(entry)
        return rest, values

    def begin_anew(self, entries: Iterable[Any]) -> None:
        """Go on from the present time with these entries of `split` alone."""
        # The former list is kept: to let go of 50,000 entries would copy their memory in a forked process.
        self._former = self._queue
        env: Any = self._env
        env._queue = self._queue = list(entries)
        heapify(self._queue)

    def _entries(self) -> list[Any]:
        # SimPy leaves the event that ended `advance` in its queue, where the event does nothing more.
        return [entry for entry in self._queue if len(entry) == _ENTRY]

    def let_wait(self, waits: Callable[[int, Callable[[Any], object], Any], bool]) -> None:
        """Let some entries, there and to come, wait for `wait_no_more`; waits: whether, by rank, callback, value."""
        queue, enter, passing = self._queue, self.at, list[Any]()
        waiting = self._waiting = list[Any]()
        for entry in queue:
            is_ours = len(entry) == _ENTRY  # the end of the run is SimPy's
            (waiting if is_ours and waits(entry[1] >> _SHIFT, *entry[3:]) else passing).append(entry)
        queue[:] = passing
        heapify(queue)

        def at(when: int, rank: int, key: int, callback: Callable[[Any], object], value: Any = None) -> None:
            if waits(rank, callback, value):
                waiting.append((when, priority(rank, key), next(self._number), callback, value))
            else:
                enter(when, rank, key, callback, value)

        # Replaced rather than tested: the method is the engine's hottest.
        self.at = at  # type: ignore[method-assign]

    def wait_no_more(self, forgotten: Callable[[Any], object] | None = None) -> int:
        """Take up all entries that have waited, but those with a forgotten callback; returns the number of the latter.

        What was due keeps its time for `catch_up`; faults of nodes and offers are due now.
        """
        del self.at
        queue, now = self._queue, self.now
        kept = [entry for entry in self._waiting if entry[3] != forgotten]
        lost, self._waiting = len(self._waiting) - len(kept), []
        for entry in kept:
            is_fact = ARRIVE <= entry[1] >> _SHIFT <= END
            heappush(queue, entry if is_fact else (max(entry[0], now), *entry[1:]))
        return lost

    def catch_up(self) -> None:
        """Call what was due before the present time, in order."""
        queue, now = self._queue, self.now
        # An arrival enters the next one, which may be due as well.
        while queue and queue[0][0] < now:
            _, _, _, callback, value = heappop(queue)
            callback(value)

    def stop(self) -> None:
        """Drop all entries."""
        self._queue.clear()

    def run(self, until: int | None = None) -> None:
        """Call entry after entry, to the last entry or up to time `until` (ms)."""
        self._env.run(until)

    def advance(self, at: int) -> None:
        """Call all entries before time `at` (ms, after now); then the time is `at`, and more may be entered."""
        self._env.run(at)
        self.now = at
