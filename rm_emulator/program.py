"""How a program of ours ends: 0 done, 1 a check failed, 2 bad input, 130 interrupted."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from schedulers.core.errors import UserError


def end(command: Callable[[], object]) -> NoReturn:
    """Run a command, and end. Bad input ends with its mistakes and code 2; a bug keeps its traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        command()
    except UserError as error:
        sys.stderr.write("".join(f"{line}\n" for line in error.lines))
        sys.exit(2)
    sys.exit(0)


def _interrupt(number: int, frame: object) -> NoReturn:
    """A request to end is treated like Ctrl-C: workers are ended, nothing half-written stays."""
    raise KeyboardInterrupt
