"""A Dask scheduler and its workers on this machine, which can be killed and come back: for the grid demo and tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final

ROOT: Final = Path(__file__).parents[1]
#: Settings of the recipes in docs/operate/many-machines.md.
SETTINGS: Final = {
    "DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING": "False",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
}
_GRACE_S: Final = 10.0
_START_S: Final = 60.0
_LOOK_S: Final = 0.2


class DaskCluster:
    """A scheduler and workers of a thread each, as processes that are started again whenever they end.

    folder: for their output, and a folder of its own for each worker: its working directory and its TMP.
    """

    def __init__(self, folder: Path, workers: int, *, environment: dict[str, str] | None = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.folder, self._environment = folder, environment or {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._names = ["scheduler", *(f"worker-{number}" for number in range(workers))]
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._keep)

    @property
    def engine(self) -> str:
        """For `run --engine`."""
        return f"dask://{self.address}"

    def __enter__(self) -> DaskCluster:
        for name in self._names:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._watch.start()
        until = time.monotonic() + _START_S
        while time.monotonic() < until and not self._answers():
            time.sleep(_LOOK_S)
        return self

    def _answers(self) -> bool:
        host, port = self.address.split(":")
        try:
            socket.create_connection((host, int(port))).close()
        except OSError:
            return False
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._watch.join()
        for process in reversed(self._processes.values()):  # workers first
            process.terminate()
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:  # Dask's own end may hang
                process.kill()
                process.wait()

    def kill(self, name: str) -> int:
        """End a process with signal 9; returns its id. The process is started again."""
        process = self._processes[name]
        process.send_signal(signal.SIGKILL)
        return process.pid

    def _keep(self) -> None:
        """Start what is not there, until the cluster ends."""
        while not self._over.wait(_LOOK_S):
            for name in self._names:
                if name not in self._processes or self._processes[name].poll() is not None:
                    self._processes[name] = self._start(name)

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        host, port = self.address.split(":")
        if name == "scheduler":
            command = ["distributed.cli.dask_scheduler", "--port", port]
        else:
            one = ["--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--name", name]
            command = ["distributed.cli.dask_worker", f"tcp://{self.address}", *one]
        folder = self.folder / name
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 (this interpreter)
                [sys.executable, "-m", *command, "--host", host, "--no-dashboard"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
                    "TMPDIR": str(folder),
                    **SETTINGS,
                    **self._environment,
                },
            )
