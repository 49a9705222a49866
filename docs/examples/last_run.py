"""Says that a job will take what its last run took: a predictor from outside the tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from schedulers.core.model import Job, PastJob
from schedulers.core.predictor import Estimate, FinishedTask, Predictor, predictors


@predictors.register("last_run", source="Peloton (EuroSys 2018) and others: 'the last run of the same job'")
class LastRun(Predictor):
    """The mean run time of each stage in the last run of a job by the same name."""

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        unknown_ms: Annotated[
            Annotated[int, msgspec.Meta(ge=1)] | None,
            msgspec.Meta(description="what a task of an unknown name or stage takes; null: nothing is said of it"),
        ] = None

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        assert isinstance(params, LastRun.Params)
        super().__init__(params, seed=seed)
        self._unknown = params.unknown_ms
        self._last: dict[str, list[float]] = {}  # by name: mean run time per stage of the last run
        self._said: dict[str, list[float]] = {}  # by live job: what was known of its name when it came
        self._sums: dict[str, dict[int, list[float]]] = {}  # by live job and stage: finished tasks, their run times

    def prime(self, history: Sequence[PastJob]) -> None:
        """Earlier runs, the oldest first, so that the last word is the last run's."""
        for past in history:
            self._last[past.name] = [mean for _, mean in past.stages]

    def submitted(self, job: Job, at: int) -> None:
        """An estimate is fixed now: another job's end must not move this one in the order of a policy."""
        self._said[job.id] = self._last.get(job.name, [])
        self._sums[job.id] = {}

    def finished(self, task: FinishedTask, runtime_ms: int, node_speed: float, at: int) -> None:
        """Run times are kept at node speed 1."""
        tasks = self._sums.get(task.job, {}).setdefault(task.stage, [0.0, 0.0])
        tasks[0] += 1
        tasks[1] += runtime_ms * node_speed

    def job_done(self, job: Job, at: int) -> None:
        """This run is the last one now."""
        sums = self._sums.get(job.id, {})
        self._last[job.name] = [sums[s][1] / sums[s][0] if s in sums else 0.0 for s in range(len(job.stages))]
        self._forget(job)

    def job_gone(self, job: Job, at: int) -> None:
        """A cancelled job teaches nothing."""
        self._forget(job)

    def _forget(self, job: Job) -> None:
        self._said.pop(job.id, None)
        self._sums.pop(job.id, None)

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """None for a job that is not live, so that nobody goes by what is over."""
        said = self._said.get(job)
        if said is None:
            return None
        if stage < len(said) and said[stage]:
            return Estimate(said[stage], source="history:job_name")
        return Estimate(float(self._unknown), source="default") if self._unknown is not None else None

    def dump(self) -> Any:
        """A copy, which later facts do not change: lists in `_last` and `_said` are replaced, never changed."""
        sums = [(job, [(stage, *tasks) for stage, tasks in stages.items()]) for job, stages in self._sums.items()]
        return {"last": dict(self._last), "said": dict(self._said), "sums": sums}

    def load(self, data: Any) -> None:
        """See Predictor.load."""
        self._last, self._said = dict(data["last"]), dict(data["said"])
        self._sums = {job: {stage: [count, ms] for stage, count, ms in stages} for job, stages in data["sums"]}
