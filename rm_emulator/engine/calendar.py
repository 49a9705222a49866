"""Simulated time: callbacks on SimPy's event queue, in one total order.

Events of the same millisecond are ordered by rank (arrivals, asks, starts, ends, heartbeats, ticks)
and then by a stable key, never by the order in which they were entered: a run that skips idle
heartbeats must meet the others in the same order as one that does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
import simpy
from simpy.events import EventPriority

ARRIVE, ASK, START, END, BEAT, TICK = range(1, 7)
_SHIFT: Final = 44
_FACTS: Final = START << _SHIFT

Callback = Callable[[Any], None]


class Calendar:
    """SimPy's queue with integer milliseconds. `shuffle` permutes facts of the same instant (seeded)."""

    def __init__(self, shuffle: np.random.Generator | None = None) -> None:
        self.env = simpy.Environment()
        self.pending = 0  # entries that are not heartbeats
        self._shuffle = shuffle

    @property
    def now(self) -> int:
        """Simulated time in ms."""
        return int(self.env._now)

    def at(self, when: int, rank: int, key: int, callback: Callback, value: Any = None) -> None:
        """Call `callback(value)` at `when`."""
        env = self.env
        event = simpy.Event(env)
        event._ok = True
        event._value = value
        event.callbacks.append(lambda event: self._call(callback, event))
        priority = rank << _SHIFT | key
        if self._shuffle is not None and rank <= END:
            priority = _FACTS | int(self._shuffle.integers(1 << 40))
        self.pending += 1
        env.schedule(event, cast(EventPriority, priority), when - env._now)

    def _call(self, callback: Callback, event: simpy.Event) -> None:
        self.pending -= 1
        callback(event._value)

    def beat(self, when: int, node: int, callback: Callable[[simpy.Event], None], value: Any) -> None:
        """Like `at`, for heartbeats: not counted as pending."""
        env = self.env
        event = simpy.Event(env)
        event._ok = True
        event._value = value
        event.callbacks.append(callback)
        env.schedule(event, cast(EventPriority, BEAT << _SHIFT | node), when - env._now)
