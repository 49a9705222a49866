"""What a predictor is: it learns from finished tasks and says what a task of a stage will take.

A predictor sees submissions, finished run times and history, never a true run time of the future.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

from schedulers.core.model import Job, PastJob
from schedulers.core.registry import NoParams, Registry


class Estimate(msgspec.Struct, frozen=True):
    """Mean run time of one task, in ms at node speed 1.

    spread_ms: standard deviation of the *estimate* (how unsure it is), None when unknown.
    source: where it comes from: `oracle`, `history:job_name`, `pilots:2`, `posterior`, `default`.
    """

    task_ms: float
    spread_ms: float | None = None
    source: str = ""


#: Finished tasks of a stage that say as much as the estimate made before any of them.
_WORTH: Final = 2


def refined_ms(estimate: Estimate | None, finished: int, done_ms: float) -> float | None:
    """An estimate with what finished tasks of the stage took: its mean with theirs (Graphene, OSDI'16, section 6).

    The estimate counts as two tasks. done_ms: of `finished` tasks in all, at node speed 1. None: nothing is known.
    """
    if estimate is None:
        return done_ms / finished if finished else None
    return (_WORTH * estimate.task_ms + done_ms) / (_WORTH + finished)


class SamplePlan(msgspec.Struct, frozen=True):
    """Which tasks of a job run first to learn from.

    pilots: (stage index, task index) of each pilot; empty for a thin job.
    thin: too few tasks to sample: the job bypasses sampling and goes to the highest-priority queue.
    rest: 'held' until the pilots are done (SLearn), or queued at once by the estimate at hand ('queued').
    """

    pilots: tuple[tuple[int, int], ...] = ()
    thin: bool = False
    rest: Literal["held", "queued"] = "held"


class FinishedTask(msgspec.Struct, frozen=True):
    """A task that succeeded."""

    job: str
    stage: int
    task: int
    pilot: bool


class Predictor:
    """Base of all predictors: knows nothing. Override what yours needs.

    seed: for keyed randomness (`schedulers.core.keyed`), the scenario's.
    """

    Params: type[msgspec.Struct] = NoParams
    #: Whether a shell that knows true run times tells them before each job (event Estimated). For bounds only.
    told_truth = False
    #: Whether what it says of a job changes only when it is told of this job, so that tasks need not be reported to it.
    stays = False

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        self.params, self.seed = params, seed

    def prime(self, history: Sequence[PastJob]) -> None:
        """Hears of jobs that finished before the scheduler began, oldest first."""

    def submitted(self, job: Job, at: int) -> SamplePlan | None:
        """Hears of a new job. Returns its pilots, or None for no sampling."""
        return None

    def told(self, job: str, runtimes_ms: Sequence[int]) -> None:
        """Hears an outside estimate (event Estimated): mean task run time per stage."""

    def told_by_node(self, job: str, runtimes_ms: Mapping[str, Sequence[int]]) -> None:
        """Hears the same by node, where times are no matter of its speed; 0 for a stage of which that is not so."""

    def finished(self, task: FinishedTask, runtime_ms: int, node_speed: float, at: int) -> None:
        """Hears that a task succeeded after `runtime_ms` on a node of that speed."""

    def job_done(self, job: Job, at: int) -> None:
        """Hears that all tasks of a job succeeded; what was kept for it may be forgotten."""

    def job_gone(self, job: Job, at: int) -> None:
        """Hears that a job was cancelled; nothing is to be learned from it."""

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """The estimate at this moment, or None while there is none (pilots still run)."""
        return None

    def estimate_on(self, job: str, stage: int, node: str) -> float | None:
        """Mean run time of one task on this very node, in ms; None where it is a matter of the node's speed."""
        return None

    def dump(self) -> Any:
        """All it has learned, as plain data (msgpack-able)."""
        return None

    def load(self, data: Any) -> None:
        """Takes over what `dump` returned."""


class Informed(Protocol):
    """The part of a predictor that policies use."""

    stays: bool

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """See Predictor.estimate."""

    def estimate_on(self, job: str, stage: int, node: str) -> float | None:
        """See Predictor.estimate_on."""


predictors: Registry[Predictor] = Registry("predictor", "schedulers.predictors")
