"""A core that follows another core by the lines of the other's log: equal states, told equal facts, stay equal.

The follower decides on every fact as the other core did, and nobody carries the decisions out. The lines of both logs
are compared, so a follower that has gone astray is found out before anybody asks the follower.
"""

from __future__ import annotations

from schedulers.core.errors import SchedulerError
from schedulers.core.events import Event, Tick
from schedulers.core.log import Ignored, Log, parse
from schedulers.core.scheduler import Scheduler, log_to


class Astray(SchedulerError):
    """The follower's state is not the other core's; the follower is of no use any more."""


class Follower:
    """A scheduler restored from `Scheduler.snapshot`, with `line` lines in the log before the snapshot.

    Raises the errors of `Scheduler.restore`.
    """

    def __init__(self, snapshot: bytes, line: int = 0) -> None:
        self._said = bytearray()
        self._log = Log(self._said.extend)
        self.scheduler = Scheduler.restore(snapshot)
        log_to(self.scheduler, self._log)
        self.line = line
        """Lines of the followed log that have been heard, those before the snapshot included."""

    def hear(self, lines: bytes, now: int) -> None:
        """Hear the facts of the next whole lines, which end with all decisions on the last fact. Raises Astray.

        now: time of the followed core behind the lines, ms. Ticks without consequences move the time past the last
        fact, and stand in no log.
        """
        self._said.clear()
        told = lines.splitlines()
        try:
            for each in parse(line for line in told if not line.startswith(b'{"decision"')):
                event = each.event if isinstance(each, Ignored) else each
                if not isinstance(event, Event):
                    raise Astray("another log begins in the middle of the log that is followed")
                self.scheduler.handle(event)
            if now > self.scheduler.state.now:
                self.scheduler.handle(Tick(now))
        except (SchedulerError, LookupError) as error:
            raise Astray(f"a fact behind line {self.line} of the log cannot be: {error}") from None
        self._log.flush()
        if self._said != lines:
            own = bytes(self._said).splitlines()
            number = next((n for n, pair in enumerate(zip(told, own, strict=False)) if pair[0] != pair[1]), len(own))
            raise Astray(f"line {self.line + number + 1} of the log would be another here")
        self.line += len(told)

    def leave(self) -> Scheduler:
        """The scheduler, to go on elsewhere than the followed core; the follower hears no more."""
        log_to(self.scheduler, None)
        return self.scheduler
