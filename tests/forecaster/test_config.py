"""The forecaster's configuration: every mistake is said in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("evry: 10s", "there is no such field, did you mean 'every'?"),
        ("every: 10", "10 is not a duration (write a number with a unit, such as 50ms, 2s, 1.5m, 1h)"),
        ("every: 0s", "every: 0ms would play without a pause (at least 1s)"),
        ("management: {port: 70000}", "expected `int` <= 65535, got 70000"),
    ],
)
@pytest.mark.drawn(of=4)
def test_a_mistake_is_said_with_the_file_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    command = [sys.executable, "-m", "forecaster", "--config", str(file), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert str(file) in line
    assert said in line
