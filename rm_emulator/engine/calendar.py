"""Simulated time: callbacks on SimPy's event queue, in one total order.

Events of the same millisecond are ordered by rank (arrivals, asks, starts, ends, heartbeats, ticks)
and then by a stable key, never by the order in which they were entered: a run that skips idle
heartbeats must meet the others in the same order as one that does not.

SimPy's private names are used here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final

import numpy as np
import simpy

ARRIVE, ASK, START, END, BEAT, TICK = range(1, 7)
_SHIFT: Final = 44
_FACTS: Final = START << _SHIFT


class _Environment(simpy.Environment):
    """SimPy's environment, in which an entry may be a callback with what it is called with: no event around it."""

    def __init__(self, calendar: Calendar) -> None:
        super().__init__()
        self._calendar = calendar

    def step(self) -> None:
        """Call what is next; whatever is no such entry is SimPy's own."""
        queue: Any = self._queue
        if not queue or type(queue[0][3]) is not tuple:
            super().step()
            return
        now, _, _, (callback, value) = heappop(queue)
        self._now = self._calendar.now = now
        callback(value)


class Calendar:
    """SimPy's queue with integer milliseconds. `shuffle` permutes facts of the same instant (seeded).

    now: simulated time in ms, an attribute because whoever is called asks for it again and again.
    """

    def __init__(self, shuffle: np.random.Generator | None = None) -> None:
        self.now = 0
        self._env = _Environment(self)
        self._shuffle = shuffle

    def is_turn(self, rank: int, key: int) -> bool:
        """Whether an entry of this instant with this rank and key would be the next to be called."""
        queue = self._env._queue
        return not queue or (queue[0][0], queue[0][1]) > (self.now, rank << _SHIFT | key)

    def go_to(self, when: int, rank: int, key: int) -> bool:
        """Be at that time, as if called by an entry with this rank and key; False where another one comes first."""
        env: Any = self._env
        if env._queue and (env._queue[0][0], env._queue[0][1]) <= (when, rank << _SHIFT | key):
            return False
        env._now = self.now = when
        return True

    def at(self, when: int, rank: int, key: int, callback: Callable[[Any], object], value: Any = None) -> None:
        """Call `callback(value)` at `when`; among the same instant by rank, then key."""
        env: Any = self._env
        priority = rank << _SHIFT | key
        if self._shuffle is not None and rank <= END:
            priority = _FACTS | int(self._shuffle.integers(1 << 40))
        # Environment.schedule without an event, its call and its sum of now and delay: the engine's hottest line.
        heappush(env._queue, (when, priority, next(env._eid), (callback, value)))

    def run(self, until: int | None = None) -> None:
        """Call entry after entry, to the last one or to those before `until` (ms)."""
        self._env.run(until)
