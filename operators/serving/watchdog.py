"""Whether the loops of a leader still turn: the content of `/healthz`, beyond the event loop's answer."""

from __future__ import annotations

import time
from collections.abc import Callable


class LoopWatchdog:
    """When each loop last turned, while there are any. A turn may take `within_s`; `clock` gives monotonic seconds."""

    def __init__(self, within_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._within_s, self._clock = within_s, clock
        self._last: dict[str, float] = {}

    def begin(self, *loops: str) -> None:
        """Loops running from now on."""
        self._last = dict.fromkeys(loops, self._clock())

    def note_turn(self, loop: str) -> None:
        """The loop has just turned."""
        self._last[loop] = self._clock()

    def end(self) -> None:
        """No loop runs any more."""
        self._last = {}

    def stuck(self) -> str | None:
        """The loop without a turn for too long, in a sentence; None if all turn."""
        loop = min(self._last, key=self._last.__getitem__, default=None)
        if loop is None:
            return None
        silent_s = self._clock() - self._last[loop]
        return f"loop '{loop}' has not turned for {silent_s:.0f} s" if silent_s > self._within_s else None
