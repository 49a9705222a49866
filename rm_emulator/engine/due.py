"""Facts that are sure to come: told at a later time, whatever happens until then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rm_emulator.engine.profile import Engine


class DueFacts:
    """Facts on the calendar. A run with such facts to come is not stalled. `count`: how many there are."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.count = 0

    def later(self, at: int, rank: int, key: int, tell: Callable[[Any], None], about: Any) -> None:
        """Call `tell(about)`, which tells facts, at time `at`."""
        self.count += 1
        # In a tuple, since an entry of the calendar has a single value.
        self._engine.calendar.at(at, rank, key, self._tell, (tell, about))

    def _tell(self, due: tuple[Callable[[Any], None], Any]) -> None:
        tell, about = due
        self.count -= 1
        tell(about)
        self._engine.carry_on()
