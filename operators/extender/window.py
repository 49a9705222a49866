"""How many pods may be released and not bound yet: as many as kube-scheduler binds in a few seconds.

A released pod waits in kube-scheduler's queue, where the core can change nothing any more, and each release costs the
API server time needed for bindings, too. So a window is kept, as TCP keeps one for packets on their way: the window
doubles with each round trip while bindings come soon, and shrinks where bindings take longer than a target (Brakmo,
Peterson, "TCP Vegas", 1995). By Little's law a window of rate x target keeps the binder busy at any rate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: Seconds that a pod should wait to be bound: many times what an idle kube-scheduler takes.
TARGET_S: Final = 2.0
#: The window is never smaller: so many are bound by the slowest binder before anybody notices.
FLOOR: Final = 100


class Window:
    """Pods on their way from release to binding. `clock` gives monotonic seconds, `floor` is the smallest window."""

    def __init__(self, clock: Callable[[], float], *, floor: int = FLOOR) -> None:
        self._clock, self._floor = clock, floor
        self._out: dict[str, float] = {}  # uid -> when its release was sent, or answered
        self._shrunk = 0.0  # earlier releases waited in a larger window, and say nothing of the present
        self.size: float = floor
        """How many may be on their way."""

    def __contains__(self, uid: str) -> bool:
        return uid in self._out

    def __len__(self) -> int:
        return len(self._out)

    @property
    def is_open(self) -> bool:
        """Whether another pod may go."""
        return len(self._out) < self.size

    def sent(self, uid: str) -> None:
        """A release is on its way, or has been answered: from now on its binding is awaited."""
        self._out[uid] = self._clock()

    def waited_s(self, uid: str) -> float | None:
        """Seconds since the pod was released; None: not awaited."""
        sent = self._out.get(uid)
        return None if sent is None else self._clock() - sent

    def bound(self, uid: str) -> None:
        """The pod is bound: the time taken says whether more may be on their way."""
        was_full, now = not self.is_open, self._clock()
        sent = self._out.pop(uid, None)
        if sent is None:
            return
        took = now - sent
        if took <= TARGET_S:
            self.size += was_full  # one more for each, so it doubles with each round trip
        elif sent >= self._shrunk:
            self.size = max(self._floor, self.size * TARGET_S / took)
            self._shrunk = now

    def drop(self, uid: str) -> None:
        """The pod will not be bound: it is gone, refused, or has waited in vain."""
        self._out.pop(uid, None)
