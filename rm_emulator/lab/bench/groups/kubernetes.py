"""The Kubernetes side measures itself, in a process of its own: the two shells do not import each other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from rm_emulator.lab.bench.rows import Row, benchmark


@benchmark("kubernetes", "kubernetes")
def kubernetes(tiny: bool) -> Iterator[Row]:
    """Extender latency, cold start, gate releases and pods per second on a real control plane.

    What cannot run here is a row that says so: the others are not lost with it.
    """
    command = [sys.executable, "-m", "operators.bench", *(["--tiny"] if tiny else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own module
        assert process.stdout is not None
        for line in process.stdout:
            yield Row(**json.loads(line))
    if process.returncode:
        why = f"ended with status {process.returncode} (its last words are on standard error)"
        yield Row(name="kubernetes", value=None, unit="", note=why)
