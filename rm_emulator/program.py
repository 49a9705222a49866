"""The end of a program: 0 done, 1 a check failed, 2 bad input, 130 interrupted; and its messages about causes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any, NoReturn

from schedulers.core.errors import SchedulerError, UserError


def end(command: Callable[[], object]) -> NoReturn:
    """Run a command, and end. Bad input, and a read-only folder or full disk, end with a line each and code 2.

    A bug keeps its traceback.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # until now nothing could be interrupted half-way
    _keep_stdout()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows ASCII only still gets the figures
    try:
        command()
    except KeyboardInterrupt:
        sys.exit(130)
    except UserError as error:
        sys.stderr.write("".join(f"{line}\n" for line in error.lines))
        sys.exit(2)
    except OSError as error:
        sys.stderr.write(f"{cause(error)}\n")
        sys.exit(2)
    sys.exit(0)


def _keep_stdout() -> None:
    """Send output of C libraries, such as HiGHS, to stderr: stdout is for our own output."""
    if sys.stdout is not sys.__stdout__ or not isinstance(sys.stdout, io.TextIOWrapper) or sys.__stderr__ is None:
        return
    sys.stdout.flush()
    line_by_line, encoding = sys.stdout.line_buffering or sys.stdout.write_through, sys.stdout.encoding
    ours = os.dup(sys.stdout.fileno())
    os.dup2(sys.__stderr__.fileno(), sys.stdout.fileno())
    sys.stdout = os.fdopen(ours, "w", 1 if line_by_line else -1, encoding)


def end_with_parent() -> None:
    """Let this process of multiprocessing end when its parent does, even if the parent is killed."""
    # Here, because every command imports this module.
    import multiprocessing
    from multiprocessing.connection import wait

    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def prints_apart() -> contextlib.AbstractContextManager[object]:
    """Whatever a plug-in prints meanwhile goes to standard error: standard output is for results."""
    return contextlib.redirect_stdout(sys.stderr)


def cause(error: BaseException) -> str:
    """The cause of a program's end in a single line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return "out of memory"
    text = " ".join(str(error).split())
    if isinstance(error, UserError | SchedulerError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def as_json(data: Any, indent: int | None = None) -> str:
    """A JSON document, in letters standard output can show."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return json.dumps(data, indent=indent, ensure_ascii=not unicode, allow_nan=False)


def _interrupt(number: int, frame: object) -> NoReturn:
    """A request to end counts as Ctrl-C: workers are ended, nothing half-written stays."""
    raise KeyboardInterrupt
