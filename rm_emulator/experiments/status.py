"""Progress of a cell. A module of its own for whoever passes it on and computes nothing."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Status(msgspec.Struct, frozen=True):
    """Progress of a cell: finished tasks and jobs, their totals, and waiting tasks and jobs."""

    tasks: int
    of_tasks: int
    jobs: int = 0
    of_jobs: int = 0
    """0 for baselines, which count tasks only."""
    now_ms: int = 0
    """Time on the simulated clock."""
    waiting_jobs: int = 0
    waiting_tasks: int = 0


Progress = Callable[[Status], None]
