"""Predictors: a predictor learns from finished tasks and estimates the run time of the tasks of a stage.

A predictor sees submissions, finished run times and history, never a true run time of the future.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

from schedulers.core.model import Job, PastJob
from schedulers.core.old_names import OldName, TakesOldNames
from schedulers.core.registry import NoParams, Registry


class Estimate(msgspec.Struct, frozen=True):
    """Mean run time of a task, in ms at node speed 1."""

    task_ms: float
    spread_ms: float | None = None
    """Standard deviation of the *estimate* (its uncertainty), None when unknown."""
    source: str = ""
    """Source: `oracle`, `history:job_name`, `pilots:2`, `posterior`, `default`."""


#: Number of finished tasks with the same weight as the estimate made before them.
_WORTH: Final = 2


def refined_ms(estimate: Estimate | None, finished: int, done_ms: float) -> float | None:
    """An estimate combined with the run times of finished tasks: the mean of both (Graphene, OSDI'16, section 6).

    The estimate counts as two tasks. done_ms: sum over `finished` tasks, at node speed 1. None: nothing is known.
    """
    if estimate is None:
        return done_ms / finished if finished else None
    # A weighted mean instead of the tasks' own: the first tasks to finish are the short ones.
    return (_WORTH * estimate.task_ms + done_ms) / (_WORTH + finished)


class SamplePlan(msgspec.Struct, frozen=True):
    """Tasks of a job to run first, to learn from."""

    pilots: tuple[tuple[int, int], ...] = ()
    """(stage index, task index) of each pilot; empty for a thin job."""
    thin: bool = False
    """Too few tasks to sample: the job bypasses sampling and goes to the highest-priority queue."""
    rest: Literal["held", "queued"] = "held"
    """'held' until the pilots are done (SLearn), or 'queued' at once by the estimate at hand."""


class FinishedTask(msgspec.Struct, frozen=True):
    """A succeeded task."""

    job: str
    stage: int
    task: int
    pilot: bool


class Predictor(TakesOldNames):
    """Base of all predictors: knows nothing. Override only the methods needed.

    seed: for keyed randomness (`schedulers.core.keyed`), the scenario's.
    """

    Params: type[msgspec.Struct] = NoParams
    #: Whether a shell with true run times tells them before each job (event Estimated). For bounds only.
    told_truth = False
    #: Whether estimates of a job change only by facts on the whole job, so that single tasks need not be reported.
    estimates_stay = False
    stays = OldName("estimates_stay")
    #: Whether the size of a running job follows its estimates; an attribute of the instance where settings decide.
    revises_sizes = False

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        self.params, self.seed = params, seed

    def prime(self, history: Sequence[PastJob]) -> None:
        """Hears of jobs finished before the scheduler began, oldest first."""

    def submitted(self, job: Job, at: int) -> SamplePlan | None:
        """Hears of a new job. Returns its pilots, or None for no sampling."""
        return None

    def hear_estimates(self, job: str, runtimes_ms: Sequence[int]) -> None:
        """Hears an outside estimate (event Estimated): mean task run time per stage."""

    def hear_estimates_by_node(self, job: str, runtimes_ms: Mapping[str, Sequence[int]]) -> None:
        """Hears run times per node, for stages without a node-independent time; 0 for all other stages."""

    told = OldName("hear_estimates")
    told_by_node = OldName("hear_estimates_by_node")

    def finished(self, task: FinishedTask, runtime_ms: int, node_speed: float, at: int) -> None:
        """Hears of a task's success after `runtime_ms` on a node of the given speed, at time `at`."""

    def job_done(self, job: Job, at: int) -> None:
        """Hears of the success of all tasks of a job; data kept for the job may be forgotten."""

    def job_gone(self, job: Job, at: int) -> None:
        """Hears of a job's cancellation; nothing is to be learned from the job."""

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """The estimate at this moment, or None while there is none (pilots still run)."""
        return None

    def estimate_on(self, job: str, stage: int, node: str) -> float | None:
        """Mean run time of a task on the given node, in ms; None where the time follows from the node's speed."""
        return None

    def dump(self) -> Any:
        """Everything learned, as plain data (msgpack-able)."""
        return None

    def load(self, data: Any) -> None:
        """Takes over the data of `dump`."""


class EstimateSource(Protocol):
    """The part of a predictor used by policies."""

    estimates_stay: bool

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """See Predictor.estimate."""

    def estimate_on(self, job: str, stage: int, node: str) -> float | None:
        """See Predictor.estimate_on."""


predictors: Registry[Predictor] = Registry("predictor", "schedulers.predictors")
