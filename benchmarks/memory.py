"""One run as `rm-emulator run` does a cell, with recorder and log on disk; prints its peak memory.

python -m benchmarks.memory TASKS
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path

from benchmarks import setups
from rm_emulator.results.record import Recorder, log_blocks
from schedulers.core.log import Log


def measure(tasks: int) -> dict[str, float]:
    """Run about so many tasks; returns how many it were and the process's peak memory in MB."""
    setup = setups.many_tasks(tasks)
    with tempfile.TemporaryDirectory(prefix="rm-emulator-bench-") as folder:
        directory = Path(folder)
        recorder = Recorder(setup.cluster.nodes, setup.cluster.resources, scratch=directory)
        with log_blocks(directory) as write:
            log = Log(write)
            ran = setups.run(setup, log, recorder)
            log.flush()
        recorder.write(directory)
        recorder.close()
    return {"tasks": ran.tasks, "peak_mb": peak_mb(), "cpu_s": ran.cpu_s}


def peak_mb() -> float:
    """Peak memory, MB; on Linux without that of the process that started this one, which ru_maxrss has in it."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))  # noqa: T201 (the answer)
