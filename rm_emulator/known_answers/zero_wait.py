"""The probability that no task of a job has to wait under Sparrow's ways to choose workers (SOSP 2013, its analysis).

Each worker has one slot, busy with probability `load` whoever else is.
"""

from __future__ import annotations

from math import ceil, comb

from schedulers.decentralised.sampling import count_probes


def zero_wait(method: str, load: float, tasks: int, ratio: float) -> float:
    """Of a job of so many tasks. method: random, per_task or batch."""
    if method == "random":
        return float((1 - load) ** tasks)
    if method == "per_task":
        return float((1 - load ** ceil(ratio)) ** tasks)
    asked = count_probes(ratio, tasks)
    return sum(comb(asked, idle) * (1 - load) ** idle * load ** (asked - idle) for idle in range(tasks, asked + 1))


def zero_wait_among(workers: int, busy: int, tasks: int, ratio: float) -> float:
    """Of batch sampling among so many workers of which exactly `busy` are busy."""
    asked, idle = count_probes(ratio, tasks), workers - busy
    found = sum(comb(idle, n) * comb(busy, asked - n) for n in range(tasks, asked + 1))
    return found / comb(workers, asked)
