"""How a run talks to a Dask scheduler: in a loop of its own, quietly, and what is raised when the scheduler is away."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class SchedulerAway(Exception):
    """The scheduler does not answer, or has gone."""


@contextmanager
def network() -> Iterator[None]:
    """Raise SchedulerAway for errors of the connection to the scheduler (OSError, CancelledError) inside the block."""
    try:
        yield
    except (OSError, CancelledError) as error:
        raise SchedulerAway(" ".join(str(error).split())) from error


def address_of(file: Path) -> str:
    """The address in a scheduler's file. Raises OSError for a file that is not there, or no such file."""
    try:
        return str(json.loads(file.read_text("utf-8"))["address"])
    except (ValueError, KeyError, TypeError):
        raise OSError("it is not a file that a Dask scheduler wrote") from None


class Beside(NamedTuple):
    """A coroutine at work in a thread with an event loop of its own."""

    loop: asyncio.AbstractEventLoop
    ended: Future[None]


@contextmanager
def beside(main: Coroutine[Any, Any, None]) -> Iterator[Beside]:
    """Run in a thread of its own, since a notebook's thread has a loop already. The end of the block cancels `main`."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(main)
    with _quiet(), ThreadPoolExecutor(1) as thread:
        ended = thread.submit(loop.run_until_complete, task)
        try:
            yield Beside(loop, ended)
        finally:
            loop.call_soon_threadsafe(task.cancel)
            wait([ended])
            loop.close()


def in_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end, likewise. Raises whatever `main` raises."""
    with beside(main) as running:
        running.ended.result()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Dask's own log, which takes every lost connection for a line and a traceback."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    heard = [log for name in names if not (log := logging.getLogger(name)).disabled]
    for log in heard:
        log.disabled = True
    try:
        yield
    finally:
        for log in heard:
            log.disabled = False
