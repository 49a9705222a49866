"""Commands as a process of their own: what kills or hangs one is seen, and only that one ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rm_emulator.cli import main

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


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """Runs one command in this process, in an empty folder; what it says when it ends with 2. Anything else fails."""

    def _refused(*arguments: object) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.argv", ["rm-emulator", *map(str, arguments)])
        monkeypatch.setattr("signal.signal", lambda *_: None)
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        assert ended.value.code == 2, said
        assert "Traceback" not in said.err
        return said.err

    return _refused
