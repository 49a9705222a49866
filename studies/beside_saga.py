"""Makespans and times of SAGA (ANRGUSC/saga, `anrg-saga` on PyPI) on given instances, in a Python that has it.

    PYTHON beside_saga.py < instances > answers

It is no dependency of this project: `heuristics` runs this file in another environment, if it is told of one. An
instance is a line `{"sizes": [...], "speeds": [...], "edges": [[parent, child, data], ...], "rate": x}`, an answer a
line `{"HEFT": [makespan, seconds], ...}`.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module

SCHEDULERS = {"HEFT": ("heft", "HeftScheduler"), "CPOP": ("cpop", "CpopScheduler"), "ETF": ("etf", "ETFScheduler")}


def main() -> None:
    """Answer line by line."""
    saga = import_module("saga")
    schedulers = {
        name: getattr(import_module(f"saga.schedulers.{module}"), kind)() for name, (module, kind) in SCHEDULERS.items()
    }
    for line in sys.stdin:
        given = json.loads(line)
        names = [f"m{number:04d}" for number in range(len(given["speeds"]))]
        # A rate within a machine that nothing real comes near stands for no time.
        links = [(a, b, 1e18 if a == b else given["rate"]) for a in names for b in names if a <= b]
        network = saga.Network.create(nodes=list(zip(names, given["speeds"], strict=True)), edges=links)
        graph = saga.TaskGraph.create(
            tasks=[(f"t{number:04d}", size) for number, size in enumerate(given["sizes"])],
            dependencies=[(f"t{parent:04d}", f"t{child:04d}", data) for parent, child, data in given["edges"]],
        )
        answers = {}
        for name, scheduler in schedulers.items():
            begun = time.process_time()
            made = scheduler.schedule(network, graph)
            answers[name] = [made.makespan, time.process_time() - begun]
        sys.stdout.write(json.dumps(answers) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
