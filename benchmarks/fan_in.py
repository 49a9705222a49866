"""The summary of a run of many small cells; prints its CPU time and its peak memory.

python -m benchmarks.fan_in CELLS
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import rm_emulator
from benchmarks.memory import peak_mb
from rm_emulator.api import example
from rm_emulator.results import summary

#: Runs that are computed; all others are links to their files.
_SEEDS: Final = 5


def measure(cells: int) -> dict[str, float]:
    """Sum up so many cells of the example `hello`, its three policies with different seeds."""
    with tempfile.TemporaryDirectory(prefix="rm-emulator-bench-") as folder:
        out, scenario = Path(folder) / "out", example("hello")
        rm_emulator.run(scenario, out=out, seeds=range(1, _SEEDS + 1), jobs=1)
        labels = [str(policy.get("label", policy["kind"])) for policy in scenario["spec"]["policies"]]
        seeds = list(range(1, cells // len(labels) + 1))
        for label in labels:
            for seed in seeds[_SEEDS:]:
                cell = out / "runs" / label
                shutil.copytree(cell / str(1 + seed % _SEEDS), cell / str(seed), copy_function=os.link)
        spec: dict[str, Any] = {**scenario["spec"], "seeds": seeds}
        begun, before = time.process_time(), peak_mb()
        summary.build(out, {**scenario, "spec": spec})
        return {
            "cells": len(labels) * len(seeds),
            "cpu_s": time.process_time() - begun,
            "before_mb": before,
            "peak_mb": peak_mb(),
        }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))  # noqa: T201 (the answer)
