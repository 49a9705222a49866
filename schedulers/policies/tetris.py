"""Tetris: the task best aligned with the free room, weighed against the work left of its job (SIGCOMM'14)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

import msgspec

from schedulers.core.abilities import NeedsEstimates, OneTaskEach
from schedulers.core.events import Event, NodeAdded, NodeChanged, NodeLost, NodeRemoved
from schedulers.core.policy import ClusterView, Offer, Policy, Suggestion, Suggestions, TieSetting, policies
from schedulers.core.state import JobState, NodeState, StageState
from schedulers.core.vectors import alignment
from schedulers.kit.inputs import Inputs, Near


class _Candidate(NamedTuple):
    """A task with room on a node. fit: alignment after the remote penalty; task: its number, None for any."""

    fit: float
    job: JobState
    stage: StageState
    node: NodeState
    task: int | None


@policies.register("tetris", source="Tetris (SIGCOMM'14), sections 3.2 and 3.3; remote penalty: Graphene (OSDI'16)")
class Tetris(Policy, NeedsEstimates, OneTaskEach):
    """Serves the task and node with the best alignment of demand and free room, less a part for its job's work left.

    The score of a task on a node is demand . free room, both as fractions of the node, times `remote` where the task
    has input on other nodes alone; less m x (mean fit / mean work left) x (work left of its job), with means over the
    tasks that fit now. Work left is the estimated task time x the sum of the demand's fractions of the cluster, over
    all unfinished tasks; a job without an estimate counts as the largest job. With `m: 0` no predictor is needed.

    The score is about a task and a node together, so `tetris` names the node itself and leaves nothing to `placement`.
    The placer `dot` is the packing score without the order of tasks. Clusters with executors are refused. The paper's
    knob for fairness between jobs is left out.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        remote: Annotated[
            float,
            msgspec.Meta(
                ge=0,
                le=1,
                description="factor on the fit of a task on a node without its input; 1: no preference for local nodes",
            ),
        ] = 0.8
        m: Annotated[
            float,
            msgspec.Meta(
                ge=0,
                description="weight of the job's work left against the fit; larger: closer to shortest remaining work "
                "first, 0: packing alone",
            ),
        ] = 1.0
        tie: TieSetting = "submit"

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._racks: dict[str, str] | None = None
        self._inputs: dict[str, Inputs] = {}
        self._left: dict[str, float | None] = {}  # remaining work of jobs that have not changed since

    def observe(self, event: Event, view: ClusterView) -> None:
        """With other nodes, input is read elsewhere, and demands are other parts of the whole."""
        if isinstance(event, NodeAdded | NodeChanged | NodeLost | NodeRemoved):
            self._racks = None
            self._inputs.clear()
            self._left.clear()

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Serve the best candidate, weigh anew, until nothing fits."""
        refused: set[tuple[str, int]] = set()  # a gang without room for all its tasks, say
        while (best := self._best(view, offer, refused)) is not None:
            outcome = yield Suggestion(best.job.id, best.stage.index, node=best.node.id, task=best.task)
            if not outcome.placed:
                refused.add((best.job.id, best.stage.index))

    def _best(self, view: ClusterView, offer: Offer, refused: set[tuple[str, int]]) -> _Candidate | None:
        self._forget(view)
        candidates = list(self._candidates(view, offer))
        if refused:
            candidates = [c for c in candidates if (c.job.id, c.stage.index) not in refused]
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        scores = [c.fit - cost for c, cost in zip(candidates, self._costs(candidates, view), strict=True)]
        top = max(scores)
        ties = [c for c, score in zip(candidates, scores, strict=True) if score == top]
        return min(ties, key=lambda c: (view.tie(c.job, self.params.tie), c.stage.index))

    def _costs(self, candidates: Sequence[_Candidate], view: ClusterView) -> list[float]:
        """Cost of each candidate for its job's remaining work; the largest without an estimate."""
        if not self.params.m:
            return [0.0] * len(candidates)
        left = [self._work_left(c.job, view) for c in candidates]
        most = max((w for w in left if w is not None), default=0.0)
        if not most:
            return [0.0] * len(candidates)
        whole = [most if w is None else w for w in left]
        scale = self.params.m * sum(c.fit for c in candidates) / sum(whole)
        return [scale * w for w in whole]

    def _work_left(self, job: JobState, view: ClusterView) -> float | None:
        name = job.spec.id
        if name not in self._left:
            self._left[name] = remaining_work(job, view)
        return self._left[name]

    # -- what fits ------------------------------------------------------------------------------

    def _candidates(self, view: ClusterView, offer: Offer) -> Iterator[_Candidate]:
        """Each launchable stage with room on offer, on its best node."""
        # The best node, where input does not matter: by size, or by stage where nodes are reserved for some.
        roomiest: dict[object, tuple[float, NodeState] | None] = {}
        reserves = view.reserves
        for job in view.waiting.values():
            for stage in job.open_stages():
                if not offer.serves(job.id, stage.index):
                    continue
                if job.spec.stages[stage.index].hosts:
                    nearest = self._nearest(view, offer, job, stage)
                    if nearest is not None:
                        yield nearest
                    continue
                kind = (job.id, stage.index) if reserves else stage.size
                if kind not in roomiest:
                    fits = ((_fit(stage, node), node) for node in view.nodes_to_suggest(job, stage, offer))
                    roomiest[kind] = max(fits, key=_by_fit, default=None)
                best = roomiest[kind]
                if best is not None:
                    yield _Candidate(best[0], job, stage, best[1], None)

    def _nearest(self, view: ClusterView, offer: Offer, job: JobState, stage: StageState) -> _Candidate | None:
        """The stage on its best node, with the nearest task to its input there."""
        inputs = self._inputs_of(job, view)
        best: _Candidate | None = None
        for node in view.nodes_to_suggest(job, stage, offer):
            near, task = inputs.nearest(stage, node.spec)
            fit = _fit(stage, node) * (self.params.remote if near in (Near.RACK, Near.ANY) else 1.0)
            if best is None or fit > best.fit:
                best = _Candidate(fit, job, stage, node, task)
        return best

    def _inputs_of(self, job: JobState, view: ClusterView) -> Inputs:
        if job.id not in self._inputs:
            if self._racks is None:
                self._racks = {node.id: node.spec.rack for node in view.nodes.values() if not node.draining}
            self._inputs[job.id] = Inputs(job.spec, self._racks)
        return self._inputs[job.id]

    def _forget(self, view: ClusterView) -> None:
        for name in view.changed():
            self._left.pop(name, None)
            if name not in view.jobs:
                self._inputs.pop(name, None)


def _fit(stage: StageState, node: NodeState) -> float:
    return alignment(stage.demand, node.free, node.spec.capacity)


def _by_fit(pair: tuple[float, NodeState]) -> float:
    return pair[0]


def remaining_work(job: JobState, view: ClusterView) -> float | None:
    """Estimated task time (ms) x sum of the demand's fractions of the cluster, over all unfinished tasks.

    None while a stage with tasks left has no estimate. Source: Tetris (SIGCOMM'14), section 3.3.1.
    """
    total = 0.0
    for stage in job.stages:
        left = stage.tasks - stage.finished
        if left and not job.spec.stages[stage.index].master:
            estimate = view.estimate(job.id, stage.index)
            if estimate is None:
                return None
            total += estimate.task_ms * left * sum(d / c for d, c in zip(stage.demand, view.capacity, strict=True) if c)
    return total
