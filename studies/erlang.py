"""M/M/c: tasks that come at random to servers with one queue, with exponential run times (Erlang, 1917).

A worker under Sparrow's `random` is such a queue, with its slots as the servers.
"""

from __future__ import annotations

from math import factorial, sqrt

import numpy as np


def waits(servers: int, load: float) -> float:
    """Erlang's C: the probability that a task waits. load: per server, below 1. Raises ValueError beyond."""
    if not 0 <= load < 1:
        raise ValueError(f"load {load:g} of M/M/{servers} (expected: at least 0 and below 1)")
    offered = servers * load
    all_busy = offered**servers / factorial(servers) / (1 - load)
    return all_busy / (sum(offered**n / factorial(n) for n in range(servers)) + all_busy)


def longest(servers: int, load: float, tasks: int) -> float:
    """Mean of the longest response time of so many independent tasks, in mean run times.

    A task waits with Erlang's C for an exponential time of rate `servers` x (1 - `load`), and runs at rate 1.
    """
    drain, waiting = servers * (1 - load), waits(servers, load)
    # Beyond the last instant less than 1e-12 of all jobs are left.
    times = np.linspace(0, log_of(tasks) / min(1.0, drain), 400_001)
    if abs(drain - 1) < 1e-9:  # both rates alike: a sum of two equal exponential times
        both = (1 + times) * np.exp(-times)
    else:
        both = (drain * np.exp(-times) - np.exp(-drain * times)) / (drain - 1)
    over = (1 - waiting) * np.exp(-times) + waiting * both
    return float(np.trapezoid(1 - (1 - np.clip(over, 0, 1)) ** tasks, times))


def log_of(tasks: int) -> float:
    """Mean times after which none of so many tasks of rate 1 is left, but for 1e-12 (and a factor for the wait)."""
    return 45.0 + float(np.log(tasks))


def relaxation(servers: int, load: float) -> float:
    """Relaxation time of the number of tasks there, in mean run times: 1 / (sqrt(c) - sqrt(c x load))^2.

    Long queues forget their start this slowly: near load 1; exact for one server (Morse, 1955).
    """
    return 1 / (sqrt(servers) - sqrt(servers * load)) ** 2
