"""Whether the loops of a leader still turn: what `/healthz` says beyond that the event loop answers."""

from __future__ import annotations

import time
from collections.abc import Callable


class Turns:
    """When each loop last turned, while there are any. within_s: so long a turn may take. clock: monotonic seconds."""

    def __init__(self, within_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._within_s, self._clock = within_s, clock
        self._last: dict[str, float] = {}

    def begin(self, *loops: str) -> None:
        """These loops run from now on."""
        self._last = dict.fromkeys(loops, self._clock())

    def turned(self, loop: str) -> None:
        """This loop has just turned."""
        self._last[loop] = self._clock()

    def end(self) -> None:
        """No loop runs any more."""
        self._last = {}

    def stuck(self) -> str | None:
        """Which loop has not turned for too long, in a sentence; None if all do."""
        loop = min(self._last, key=self._last.__getitem__, default=None)
        if loop is None:
            return None
        silent_s = self._clock() - self._last[loop]
        return f"loop '{loop}' has not turned for {silent_s:.0f} s" if silent_s > self._within_s else None
