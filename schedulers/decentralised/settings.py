"""How schedulers and workers find each other: the settings, as a scenario and the header of a log have them."""

from __future__ import annotations

from typing import Annotated, Literal

from schedulers.core.fields import Count, written
from schedulers.core.written import Written


class Probing(Written, frozen=True, kw_only=True):
    """The search for workers with queues by schedulers without a view of the cluster (Sparrow, SOSP 2013)."""

    schedulers: Count = 1
    """Number of schedulers; jobs go to them in turn, e.g. `10`."""
    method: Literal["random", "per_task", "batch", "late_binding"] = "late_binding"
    """How workers are chosen, e.g. `batch`."""
    probe_ratio: Annotated[float, written(ge=1)] = 2.0
    """Probes for each task of a job, e.g. `1.05`."""
    constraints: bool = False
    """Whether a task with input runs only on nodes with the input, e.g. `true`."""
    constrained_probe_ratio: Annotated[float, written(ge=1)] = 2.0
    """Probes for each such task, e.g. `3`."""
    cancellation: bool = True
    """Whether reservations are taken back once a stage's last task is handed out, e.g. `false`."""
    worker_order: Literal["fifo", "user_round_robin", "priority"] = "fifo"
    """Order of entries at a worker; `priority`: in the order of the declared queues, e.g. `user_round_robin`."""
