"""A large run with its report, as `rm-emulator run` does one; prints its CPU time and its peak memory.

python -m benchmarks.large_run JOBS
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import rm_emulator
from benchmarks.memory import peak_mb


def measure(jobs: int) -> dict[str, float]:
    """Run so many jobs of `2sigma-like` on 10,000 one-task nodes: 580 of them are 996,467 tasks."""
    scenario: dict[str, Any] = {
        "apiVersion": "rm-emulator.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "large"},
        "spec": {
            "cluster": {"nodes": [{"count": 10_000, "capacity": {"cpu": 1, "memory": "4Gi"}}], "profile": "yarn"},
            "workload": {"kind": "synthetic", "preset": "2sigma-like", "jobs": jobs, "load": 1.05},
            "policies": [{"kind": "gs", "predictor": {"kind": "slearn"}}],
            "seeds": [1],
        },
    }
    with tempfile.TemporaryDirectory(prefix="rm-emulator-bench-") as folder:
        results = rm_emulator.run(scenario, out=Path(folder) / "out", jobs=1)
        assert (Path(folder) / "out" / "report.html").is_file()
        return {"tasks": results.summary["runs"][0]["tasks"], "cpu_s": time.process_time(), "peak_mb": peak_mb()}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))  # noqa: T201 (the answer)
