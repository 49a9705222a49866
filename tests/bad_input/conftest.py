"""Commands as a process of their own: what kills or hangs one is seen, and only that one ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Ended = subprocess.CompletedProcess[str]


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Ended]:
    """Runs one command in an empty folder; a hang ends the test."""

    def _program(*arguments: object, **environment: str) -> Ended:
        command = [sys.executable, "-m", "rm_emulator", *map(str, arguments)]
        paths = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        whole = {**paths, **environment}
        return subprocess.run(command, cwd=tmp_path, env=whole, capture_output=True, text=True, timeout=60, check=False)

    return _program
