"""Packaged scenarios that a page of docs/ runs whole: run once, as the page says it, and read by all who want them.

All workers of one run of the suite share the runs. Whoever comes first runs the command; others wait at its lock.
"""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.pages import Shell

#: The command of a page -> the name of the scenario. Its results are in out/NAME, where no --out is given.
WHOLE: Final = {
    f"rm-emulator run {name}": name
    for name in ("data-locality", "lachesis", "load-sweep", "mesos", "monolithic", "omega", "sparrow")
}


class Packaged:
    """The runs of a session of pytest."""

    def __init__(self, store: Path) -> None:
        store.mkdir(exist_ok=True)
        self._store = store

    @classmethod
    def of(cls, config: pytest.Config, made: pytest.TempPathFactory) -> Packaged:
        """Those of this session; the folders of all workers of pytest-xdist stand in one, which is the session's."""
        mine = made.getbasetemp()
        return cls((mine.parent if hasattr(config, "workerinput") else mine) / "packaged")

    def results(self, command: str) -> Path:
        """The run directory that the command has left; AssertionError when it failed. It is for reading."""
        self._run(command)
        return self._folder(command) / "page" / "out" / WHOLE[command]

    def as_if_run(self, command: str, folder: Path) -> str:
        """Puts into the folder all that the command leaves in a fresh one; what it printed."""
        printed = self._run(command)
        shutil.copytree(self._folder(command) / "page" / "out", folder / "out", dirs_exist_ok=True)
        return printed

    def _folder(self, command: str) -> Path:
        return self._store / WHOLE[command]

    def _run(self, command: str) -> str:
        folder = self._folder(command)
        printed = folder.with_suffix(".printed")
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not printed.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of an attempt that failed
                folder.mkdir()
                printed.write_text(Shell(folder).run(command), "utf-8")
        return printed.read_text("utf-8")
