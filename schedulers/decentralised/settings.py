"""How schedulers and workers find each other: the settings, as a scenario and the header of a log have them."""

from __future__ import annotations

from typing import Annotated, Literal

from schedulers.core.fields import Count, written
from schedulers.core.written import Written


class Probing(Written, frozen=True, kw_only=True):
    """How schedulers that know nothing of the cluster find workers, which have queues (Sparrow, SOSP 2013)."""

    schedulers: Count = 1
    """How many; each job goes to the next one, e.g. `10`."""
    method: Literal["random", "per_task", "batch", "late_binding"] = "late_binding"
    """How workers are chosen, e.g. `batch`."""
    probe_ratio: Annotated[float, written(ge=1)] = 2.0
    """Probes for each task of a job, e.g. `1.05`."""
    constraints: bool = False
    """Whether a task with input runs only on nodes that hold it, e.g. `true`."""
    constrained_probe_ratio: Annotated[float, written(ge=1)] = 2.0
    """Probes for each task that does, e.g. `3`."""
    cancellation: bool = True
    """Whether reservations are taken back once a stage's last task is handed out, e.g. `false`."""
    worker_order: Literal["fifo", "user_round_robin", "priority"] = "fifo"
    """Who is next at a worker; `priority` goes by the order in which queues were declared, e.g. `user_round_robin`."""
