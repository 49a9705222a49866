"""For how long the API server has been heard without a break: the one clock of everything that acts on silence.

What was not heard may have happened. So a time-out ("the pod has not been bound for 30 s") counts only what was
heard since the last break, and nobody acts on the cache during one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: Seconds without a sign of life that make a break. A watch that ends as it should is open again sooner.
BREAK_S: Final = 5.0


class Hearing:
    """Told of every sign of life. last: when the last one came. clock: monotonic seconds."""

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
        """Since when everything has been heard, as a length of time; None: nothing is heard now."""
        now = self._clock()
        return round(1000 * (now - self._since)) if now - self.last < BREAK_S else None
