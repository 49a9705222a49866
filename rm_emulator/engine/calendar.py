"""Simulated time: callbacks on SimPy's event queue, in one total order.

Events of the same millisecond are ordered by rank (arrivals, asks, starts, ends, heartbeats, ticks)
and then by a stable key, never by the order in which they were entered: a run that skips idle
heartbeats must meet the others in the same order as one that does not.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any, Final

import numpy as np
import simpy

ARRIVE, ASK, START, END, BEAT, TICK = range(1, 7)
_SHIFT: Final = 44
_FACTS: Final = START << _SHIFT

Callback = Callable[[simpy.Event], None]


class Calendar:
    """SimPy's queue with integer milliseconds. `shuffle` permutes facts of the same instant (seeded).

    Callbacks get the SimPy event; what was entered with it is its `_value`.
    """

    def __init__(self, shuffle: np.random.Generator | None = None) -> None:
        self.env = simpy.Environment()
        self._shuffle = shuffle

    @property
    def now(self) -> int:
        """Simulated time in ms."""
        now: int = self.env._now  # type: ignore[assignment]  # every delay here is a whole number of ms
        return now

    def is_turn(self, rank: int, key: int) -> bool:
        """Whether an entry of this instant with this rank and key would be the next to be called."""
        queue = self.env._queue
        return not queue or (queue[0][0], queue[0][1]) > (self.env._now, rank << _SHIFT | key)

    def at(self, when: int, rank: int, key: int, callback: Callback, value: Any = None) -> None:
        """Call back at `when`; among the same instant by rank, then key."""
        env = self.env
        event = simpy.Event(env)
        event._ok = True
        event._value = value
        event.callbacks.append(callback)
        priority: Any = rank << _SHIFT | key
        if self._shuffle is not None and rank <= END:
            priority = _FACTS | int(self._shuffle.integers(1 << 40))
        # Environment.schedule without its call and its sum of now and delay: this is the engine's hottest line.
        heappush(env._queue, (when, priority, next(env._eid), event))
