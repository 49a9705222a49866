"""The process that computes calls, one at a time: a fresh interpreter at the other end of a pipe (`worker`).

Plain subprocesses rather than a `multiprocessing` pool: a script calling `rm_emulator.run` needs no `__main__` guard,
Ctrl-C reaches the parent alone (the processes lead their own session), and a killed process takes only its own call
with it. Imports are light, because a Dask worker loads this module and not the engine.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing import Pipe
from pathlib import Path
from types import MappingProxyType
from typing import Final

_GRACE_S: Final = 2.0
#: Code of a policy that never returns looks like this; reported again after twice the time, and so on.
SILENCE_S: Final = 60.0
#: For a process to write down where it is.
_WRITING_S: Final = 0.5
#: The innermost frame of a stack as `faulthandler` writes it.
_FRAME: Final = re.compile(r'File "(.*)", line (\d+) in (\S+)\n')


class Watch:
    """How long nothing was heard of a call."""

    def __init__(self) -> None:
        self.heard()

    def heard(self) -> None:
        """Count from now on."""
        self._heard, self._wait_s = time.monotonic(), SILENCE_S

    @property
    def left_s(self) -> float:
        """Until a report is due."""
        return max(0.0, self._heard + self._wait_s - time.monotonic())

    @property
    def is_due(self) -> bool:
        """Whether the silence is to be reported."""
        return self.left_s == 0.0

    def reported(self) -> float:
        """Seconds of silence so far; the next report is due after twice the time."""
        passed = time.monotonic() - self._heard
        self._wait_s = 2 * passed
        return passed


class CallProcess:
    """A subprocess and the index of its current call."""

    def __init__(self) -> None:
        self.pipe, theirs = Pipe()
        self._stack = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `stop`, or with the worker)
        self.watch, self.is_ready = Watch(), False
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        # Workers fill the cores themselves; threads inside each would only get in each other's way.
        environment = {**os.environ, "PYTHONPATH": path, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
        passed = [theirs.fileno(), self._stack.fileno()]
        self._process = subprocess.Popen(  # noqa: S603 (this interpreter, our own module)
            [sys.executable, "-m", "rm_emulator.experiments.worker", *map(str, passed)],
            pass_fds=passed,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()  # else the pipe would stay open here, and a worker's death would go unheard
        self.index = -1

    def assign(self, index: int, call: bytes, directory: Path, moved: Mapping[str, str] = MappingProxyType({})) -> None:
        """Have a packed call computed. directory, moved: see `call.CallPlace`."""
        self.index = index
        self.send((call, directory, dict(moved)))

    def send(self, message: object) -> None:
        """Send what `worker.main` understands."""
        self.watch.heard()
        with contextlib.suppress(OSError):  # it died before it began: the pipe's end says so
            self.pipe.send(message)

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def where(self) -> str:
        """The line at which the process is at work, '' if unknown; it writes the stack down even while C code runs."""
        if not self.is_ready:  # the signal would end it
            return ""
        self._stack.truncate(0)
        self._process.send_signal(signal.SIGUSR1)
        until = time.monotonic() + _WRITING_S
        while time.monotonic() < until:
            time.sleep(_WRITING_S / 20)
            self._stack.seek(0)
            found = _FRAME.search(self._stack.read().decode(errors="replace"))
            if found is not None:
                return "{}:{}, {}".format(*found.groups())
        return ""

    def exit_cause(self) -> str:
        """Cause of a process's end, as far as known."""
        self._stack.close()
        try:
            code = self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.stop()
            code = self._process.returncode
        end = f"signal {-code}" if code < 0 else f"exit code {code}"
        memory = " (signal 9 is often the kernel running out of memory)" if code == -9 else ""
        return f"the worker process ended with {end} before its work was done{memory}"

    def stop(self) -> None:
        """End the process, with force after a grace period."""
        self.pipe.close()
        self._stack.close()
        self._process.terminate()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
