"""How a run talks to a Dask scheduler: in a loop of its own, quietly, and what is raised when the scheduler is away."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


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


def in_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run in a thread with an event loop of its own, since a notebook has a loop in its own thread."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(main)
    with _quiet(), ThreadPoolExecutor(1) as thread:
        ended = thread.submit(loop.run_until_complete, task)
        try:
            ended.result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(task.cancel)
            with suppress(CancelledError, asyncio.CancelledError):
                ended.result()
            raise
        finally:
            if ended.done():
                loop.close()


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
