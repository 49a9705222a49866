"""The core can be compiled, and then decides the same: `make test-compiled`, which `make nightly` runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_mypyc_turns_the_core_into_c(tmp_path: Path) -> None:
    for name in ("schedulers", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    # Only the C is made: to compile it takes half a minute more.
    command = [sys.executable, "setup.py", "--name"]
    environment = {**os.environ, "RM_EMULATOR_COMPILED": "1"}
    made = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    assert (tmp_path / "build" / "schedulers" / "core" / "scheduler.c").stat().st_size > 1000
