"""Processes that outlive the one that started them, found again by pid and start time, ended in order."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_GRACE_S: Final = 10.0


class Process:
    """One program in a folder of its own: `NAME.pid` and `NAME.log`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self._folder = name, folder
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it has said."""
        return self._folder / f"{self.name}.log"

    @property
    def _pid_file(self) -> Path:
        return self._folder / f"{self.name}.pid"

    def start(self, command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        """Start it in a session of its own; raises RuntimeError when it runs already."""
        if self.pid() is not None:
            raise RuntimeError(f"{self.name} runs already (pid {self.pid()})")
        self._folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(  # noqa: S603 - programs that we have found or built
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(env) if env is not None else None,
                cwd=cwd,
                start_new_session=True,
            )
        pid = self._child.pid
        beside = self._pid_file.with_suffix(".new")  # a reader must not find half of it
        beside.write_text(f"{pid} {_started(pid)}\n")
        beside.rename(self._pid_file)

    def run(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, seconds: float) -> int | None:
        """Run it to its end; its exit code, or None if it was killed after so many seconds."""
        with self.log.open("ab") as log:
            try:
                return subprocess.run(  # noqa: S603 - as above
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=env,
                    cwd=cwd,
                    timeout=seconds,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                return None

    def pid(self) -> int | None:
        """Its pid while it runs. A pid that was given to another process since is not it."""
        try:
            pid, started = self._pid_file.read_text().split()
        except (OSError, ValueError):
            return None
        if self._child is not None and self._child.poll() is not None:
            return None
        return int(pid) if _started(int(pid)) == started else None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        pid = self.pid()
        if pid is not None:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self.stop(signal.SIGKILL)

    def stop(self, number: signal.Signals = signal.SIGTERM, *, grace_s: float = _GRACE_S) -> None:
        """End it and wait; SIGKILL after the grace."""
        self.send(number)
        until = time.monotonic() + grace_s
        while self.pid() is not None:
            if time.monotonic() > until:
                self.send(signal.SIGKILL)
            time.sleep(0.02)
        if self._child is not None:
            self._child.wait()
            self._child = None
        self._pid_file.unlink(missing_ok=True)

    def tail(self, lines: int = 15) -> str:
        """The last lines that it has said."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""


def _started(pid: int) -> str:
    """When a process started, in the kernel's ticks; '' when there is none, or only its remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat[stat.rindex(")") + 2 :].split()
    return "" if fields[0] in "ZX" else fields[19]
