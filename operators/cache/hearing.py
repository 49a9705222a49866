"""Length of time for which the API server has been heard without a break: the clock for acting on silence.

An event not heard may have happened. So a time-out ("the pod has not been bound for 30 s") counts only the time since
the last break, and nobody acts on the cache during a break.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: Seconds without a sign of life that make a break. A watch ended by the server is open again sooner.
BREAK_S: Final = 5.0


class Hearing:
    """Told of every sign of life; `last` is the time of the last. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = self.last = -BREAK_S + clock()

    def heard(self) -> None:
        """The API server answers, and every watch is open and goes on from a complete list."""
        now = self._clock()
        if now - self.last >= BREAK_S:
            self._since = now
        self.last = now

    def for_ms(self) -> int | None:
        """Milliseconds for which everything has been heard; None: nothing is heard now."""
        now = self._clock()
        return round(1000 * (now - self._since)) if now - self.last < BREAK_S else None
