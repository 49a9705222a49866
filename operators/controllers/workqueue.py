"""A queue of keys to look at: each at most once at a time, the latest state only, back-off per key after errors."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from operators.client import ApiError, Unreachable

log = structlog.get_logger()

_FIRST_S: Final = 0.2
_LAST_S: Final = 30.0
#: The longest pause while the API server does not answer: the object is not at fault then, and all objects wait.
_AWAY_S: Final = 1.0

#: Looks at one key; returns after how many seconds to look again, or None.
Reconcile = Callable[[str], Awaitable[float | None]]


class WorkQueue:
    """Runs `reconcile` for every key added, `workers` at a time."""

    def __init__(self, reconcile: Reconcile, *, workers: int = 4) -> None:
        self._reconcile, self._workers = reconcile, workers
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._busy: set[str] = set()
        self._added_meanwhile: set[str] = set()
        self._tries: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def length(self) -> int:
        """Keys that wait or are being looked at."""
        return len(self._waiting) + len(self._busy)

    def add(self, key: str) -> None:
        """Look at this key soon."""
        if key in self._busy:
            self._added_meanwhile.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    def add_later(self, key: str, seconds: float) -> None:
        """Look at this key after a while; an earlier time replaces a later one."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and not timer.cancelled() and timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    def _due(self, key: str) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._waiting.discard(key)
            self._busy.add(key)
            try:
                again = await self._reconcile(key)
                self._tries.pop(key, None)
                if again is not None:
                    self.add_later(key, again)
            except ApiError as error:
                self._failed(key, str(error), _AWAY_S if isinstance(error, Unreachable) else _LAST_S)
            except Exception:  # one object must not stop the others
                log.exception("cannot bring an object in line", key=key)
                self._failed(key, "see above")
            finally:
                self._busy.discard(key)
                if key in self._added_meanwhile:
                    self._added_meanwhile.discard(key)
                    self.add(key)

    def _failed(self, key: str, why: str, longest_s: float = _LAST_S) -> None:
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        pause = min(longest_s, _FIRST_S * 2 ** min(tries, 10)) * random.uniform(0.5, 1)  # noqa: S311 - jitter
        log.warning("an object is looked at again", key=key, why=why, in_s=round(pause, 1))
        self.add_later(key, pause)
