"""Graphene's online part: tasks by packing, place in their job's plan and remaining work, within bounded unfairness."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from schedulers.core.abilities import MindsQueues, Plans, TellsTurn
from schedulers.core.events import Event, Heartbeat, NodeAdded, NodeChanged, NodeLost, NodeRemoved, Tick
from schedulers.core.policy import ClusterView, Offer, Planned, Suggestions, policies
from schedulers.core.predictor import refined_ms
from schedulers.core.state import JobState, StageState
from schedulers.kit.bundles import (
    Bundle,
    Bundling,
    Candidate,
    Choices,
    Room,
    enough_to_fill,
    pick_best,
    pick_fullest,
)
from schedulers.kit.deficits import Balance, Factor, Kappa, Level
from schedulers.kit.inputs import Inputs, Near
from schedulers.kit.ordered import Order
from schedulers.planning.graphene.priorities import PlannerName, Priorities, by_path, plan_of

#: Passes that the averages behind eta remember, roughly.
_WINDOW = 1000


class JobRank(msgspec.Struct):
    """Facts about a live job."""

    priorities: Priorities
    """tpriScore per stage and task."""
    estimated: bool = False
    """Whether the priorities were made with nodes, and with an estimate of every stage."""
    srpt: float | None = None
    """Remaining work: sum of run time x demand over tasks to be scheduled; None: unknown."""
    planned: Planned | None = None
    """The job's own schedule in short, None without one."""


class ScoredCandidate(Candidate, eq=False, gc=False):
    """A stage with the parts of its score. far: some of its input may be on other nodes."""

    group: str
    rank: JobRank
    far: bool
    t_pri: float = 1.0

    def look(self) -> None:
        """Take the tpriScore of the stage's next task."""
        scores = self.rank.priorities[self.stage.index]
        self.t_pri = scores[min(self.stage.tasks - _to_start(self.stage), len(scores) - 1)]


class Mean(msgspec.Struct):
    """A running average with slow forgetting."""

    value: float = 0.0
    count: int = 0

    def plus(self, values: Sequence[float]) -> Mean:
        """The average with another observation, the mean of the values; unchanged without values."""
        if not values:
            return self
        count = min(self.count + 1, _WINDOW)
        return Mean(self.value + (math.fsum(values) / len(values) - self.value) / count, count)


@policies.register("graphene", source="Graphene (OSDI'16), sections 5 and 7")
class Graphene(Bundling, MindsQueues, Plans, TellsTurn):
    """Starts the task with the highest score, pScore x tpriScore - eta x srpt, unless a group is owed too much.

    The score prefers tasks that pack well, stand early in the plan of their job, and belong to a job with little work
    left. Deficits bound the unfairness of the order, as in `bounded`: while all deficits are below `kappa` times the
    cluster the score decides, then the queue or job with the largest deficit goes first. A predictor helps much, but
    is not required.

    - `pScore`: dot product of the task's demand and the free room of the node, both as parts of the node; times
      `remote` where the task's input is on other nodes.
    - `tpriScore`: 1 for the task that starts first in its job's plan, 1/n for the last of n tasks. The plan is the
      job's own schedule (BuildSchedule, docs/planning.md) on its part of the nodes: all nodes divided by the number of
      live jobs, each node as large as the mean node. The plan is made when the job comes, and once more when the job's
      first estimates come (from pilots, for example); with `replan_factor` also when the job's part of the nodes has
      changed by that factor.
    - `srpt`: run time times demand, summed over the job's tasks that have yet to start. `eta` is `k` times the average
      `pScore` over the average `srpt`, both averages updated with every decision.

    A job that cannot be planned or has no estimates goes by critical path, without estimates with all stages equally
    long; a job of which nothing is known counts with average work. Estimates are the predictor's, refined by the
    finished tasks of the stage; the estimate weighs as much as two of the tasks. A queue or job without a fitting task
    keeps its deficit, and others are served. The report draws the plan of a job above its run.

    The value of `k` in the paper cannot be read. With 0.2, a value from memory, mean completion times of random DAGs
    at a load of 0.7 to 0.9 were a sixth to a third longer than under `fifo`: `tpriScore` falls as a job goes on, so
    new jobs overtake old jobs. With 5 the times were a sixth to a third shorter; 3, 10 and the three kinds of plan
    differed little.

    For online decisions alone set `plan: none`; for jobs by turns, each in the order of its plan (Tez+G+CS), `packing:
    false`, `k: 0`, `kappa: 0`, `level: job`; for Tetris' score times the place in the plan (Tez+G+Tetris) `k: 1`. With
    `packing: false` and `k: 0` alone, places in plans are compared across jobs, and all jobs finish late. Plans take
    one-to-one edges for barriers. Not modelled: progress reports of running tasks as a source of estimates, and the
    separate score for tasks that overbook (its report is not available).
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        kappa: Kappa = 0.25
        deficit: Factor = "drf"
        level: Level = "queue"
        k: Annotated[
            float,
            msgspec.Meta(
                ge=0,
                description="weight of remaining work: eta = k x mean pScore / mean srpt; larger: shorter jobs go "
                "first, 0: no such preference",
            ),
        ] = 5.0
        remote: Annotated[
            float,
            msgspec.Meta(
                ge=0,
                le=1,
                description="factor of pScore where the task's input is on other nodes; 1: no preference for local "
                "nodes",
            ),
        ] = 0.8
        packing: Annotated[bool, msgspec.Meta(description="packing in the score; false: pScore is 1, for contrast")] = (
            True
        )
        plan: Annotated[
            PlannerName | Literal["path", "none"],
            msgspec.Meta(
                description="source of tpriScore: the job's own schedule; for contrast another planner's, the "
                "critical path (path), or 1 for all tasks (none)"
            ),
        ] = "schedule"
        replan_factor: Annotated[
            Annotated[float, msgspec.Meta(gt=1)] | None,
            msgspec.Meta(
                description="change of a job's part of the nodes, up or down, at which the job is planned again; none: "
                "never"
            ),
        ] = None
        budget: Annotated[
            int,
            msgspec.Meta(
                ge=0,
                description="effort for a job's plan, in stretches of machine time looked at (docs/planning.md); "
                "larger: shorter plans, slower",
            ),
        ] = 20_000
        bundling: Annotated[
            bool,
            msgspec.Meta(
                description="passes over the waiting tasks: true: a single pass per node, false: a pass per task, for "
                "contrast"
            ),
        ] = True
        enough: Annotated[
            Annotated[float, msgspec.Meta(gt=0)] | None,
            msgspec.Meta(
                description="end of a pass: tasks found so far fill the node this many times; larger: more tasks "
                "compared, none: all tasks"
            ),
        ] = None
        pick: Annotated[
            Literal["best", "fullest"],
            msgspec.Meta(
                description="choice from a bundle: the best task, repeatedly, or the set of tasks that packs most "
                "(fullest)"
            ),
        ] = "best"

    params: Params

    @classmethod
    def uses_of_queues(cls, params: Any) -> Collection[str]:
        """See MindsQueues.uses_of_queues."""
        return ("weight",)

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.bundled = params.bundling
        if params.plan in ("path", "none"):
            self.without = frozenset({Plans})
        self._fills = enough_to_fill(params.enough or 1.0)
        self.choices = Choices(
            enough=None if params.enough is None else self._is_enough,
            pick=pick_best if params.pick == "best" else pick_fullest,
        )
        self._balance = Balance(params.level, params.deficit, params.kappa)
        self._owed: list[str] = []  # groups that must be served first
        self._order = Order()  # waiting jobs, least remaining work first: the order of examination
        self._open: dict[str, list[ScoredCandidate]] = {}  # their open stages
        self._ranks: dict[str, JobRank] = {}
        self._news: dict[str, Planned] = {}  # plans that nobody has asked for yet
        self._packing, self._srpt = Mean(), Mean()
        self._next: tuple[Mean, Mean] = (self._packing, self._srpt)  # with the bundle at hand
        self._eta = 0.0
        self._inputs: dict[str, Inputs] = {}
        self._racks: dict[str, str] | None = None
        self._machines = 0  # of each live job, when plans were last compared with it

    # -- the loop -------------------------------------------------------------------------------

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """See Bundling.schedule."""
        self._balance.begin(view)
        self._owed = self._balance.owed()
        self._next = self._packing, self._srpt  # averages of a round in vain are forgotten
        self._view = view
        yield from super().schedule(view, offer)

    def candidates(self, view: ClusterView) -> Iterator[Candidate]:
        """Open stages of jobs, least remaining work first."""
        for name in self._order.jobs():
            yield from self._open[name]

    def collected(self, bundle: Bundle, view: ClusterView) -> None:
        """Let eta follow the bundle at hand."""
        bundled: Any = bundle.found
        jobs = {scored.job.seq: scored.rank.srpt for scored in bundled}
        known = [srpt for srpt in jobs.values() if srpt is not None]
        self._next = self._packing.plus(self._p_scores(bundled, bundle.room)), self._srpt.plus(known)
        mean_packing, mean_srpt = (mean.value for mean in self._next)
        self._eta = self.params.k * mean_packing / mean_srpt if mean_srpt else 0.0

    def allowed(self, bundle: Bundle, view: ClusterView) -> list[Candidate]:
        """Candidates of the group owed most, if owed too much; all candidates, where no such group has any."""
        for group in self._owed:
            bundled: Any = bundle.found
            theirs = [scored for scored in bundled if scored.group == group]
            if theirs:
                return theirs
            if bundle.placed and not bundle.whole:
                return []  # the pass stopped before it met them, for it was not their turn then
        return bundle.found

    def scores(self, candidates: Sequence[Any], room: Room) -> Sequence[float]:
        """The paper's perfScore: pScore x tpriScore - eta x srpt (section 5)."""
        eta, mean, p_scores = self._eta, self._next[1].value, self._p_scores(candidates, room)
        return [
            p_score * scored.t_pri - eta * (mean if (srpt := scored.rank.srpt) is None else srpt)
            for p_score, scored in zip(p_scores, candidates, strict=True)
        ]

    def passes_by(self, job: JobState, view: ClusterView) -> str | None:
        """See TellsTurn.passes_by."""
        if self._owed and self._owed[0] != self._balance.group_of(job.spec):
            return f"{self.params.level} {self._owed[0]} is owed most and is served first where its tasks fit"
        settings = self.params
        counts = {
            "how well they fill a node": settings.packing,
            "how early they come in their job's plan": settings.plan != "none",
            "how little work their job has left": settings.k > 0,
        }
        *ways, last = [way for way, does in counts.items() if does] or [""]
        by = f"{', '.join(ways)} and {last}" if ways else last
        return "tasks are chosen anew in each round" + (f": by {by}" if by else "")

    def started(self, candidate: Candidate, tasks: int, view: ClusterView) -> bool:
        """Charge the group, keep the averages seen, and look at changed jobs."""
        self._packing, self._srpt = self._next
        self._balance.charge(candidate.job, candidate.stage.demand, tasks, view)
        self._refresh(view)
        if isinstance(candidate, ScoredCandidate) and candidate.stage.waiting and self.params.plan != "none":
            candidate.look()
        before, self._owed = self._owed, self._balance.owed()
        return before != self._owed

    def _p_scores(self, candidates: Sequence[Any], room: Room) -> Sequence[float]:
        scores = room.packing(candidates) if self.params.packing else [1.0] * len(candidates)
        for i, scored in enumerate(candidates):
            if scored.far and self._is_remote(scored, room):
                scores[i] *= self.params.remote
        return scores

    def _is_enough(self, collected: Sequence[Any], room: Room) -> bool:
        """Whether a pass may stop: not before a task of the group to be served first was met."""
        if not self._fills(collected, room):
            return False
        return not self._owed or any(scored.group == self._owed[0] for scored in collected)

    # -- where input lies -------------------------------------------------------------------------

    def task(self, candidate: Candidate, room: Room) -> int | None:
        """The stage's nearest task to its input."""
        return self._nearest(candidate, room)[1]

    def _is_remote(self, candidate: Candidate, room: Room) -> bool:
        return self._nearest(candidate, room)[0] > Near.FREE

    def _nearest(self, candidate: Candidate, room: Room) -> tuple[Near, int | None]:
        # The next task of an executor is the stage's next one, wherever its input is.
        if room.node is None or self._view.has_executors or not candidate.job.spec.stages[candidate.stage.index].hosts:
            return Near.FREE, None
        inputs = self._inputs.get(candidate.job.id)
        if inputs is None:
            if self._racks is None:
                nodes = self._view.nodes.values()
                self._racks = {node.id: node.spec.rack for node in nodes if not node.draining}
            inputs = self._inputs[candidate.job.id] = Inputs(candidate.job.spec, self._racks)
        return inputs.nearest(candidate.stage, room.node.spec)

    # -- what is known of jobs --------------------------------------------------------------------

    def observe(self, event: Event, view: ClusterView) -> None:
        """Look at the jobs changed by a fact; beats and ticks change no job, and logs may lack them."""
        if isinstance(event, NodeAdded | NodeChanged | NodeLost | NodeRemoved):
            self._racks = None
            self._inputs.clear()
            for name, job in view.jobs.items():  # what remains of each is measured by the cluster
                self._update_rank(job, view)
                self._enlist(name, view)
        if not isinstance(event, Heartbeat | Tick):
            self._refresh(view)
            if self.params.replan_factor is not None and self._ranks:
                self._replan(self.params.replan_factor, view)

    def _replan(self, factor: float, view: ClusterView) -> None:
        """Plan the jobs again whose part of the machines has changed by the factor since their last plan."""
        machines = _part(view)
        if machines == self._machines:
            return
        self._machines = machines
        for name, rank in self._ranks.items():
            if rank.planned is not None and _ratio(machines, rank.planned.machines) >= factor:
                rank.estimated = False
                self._update_rank(view.jobs[name], view)
                self._enlist(name, view)

    def _refresh(self, view: ClusterView) -> None:
        for name in view.changed():
            job = view.jobs.get(name)
            if job is None:
                self._ranks.pop(name, None)
                self._news.pop(name, None)
                self._inputs.pop(name, None)
            else:
                self._update_rank(job, view)
            self._enlist(name, view)

    def _update_rank(self, job: JobState, view: ClusterView) -> None:
        """Plan the job on arrival, and once more when there are estimates; count its remaining work."""
        rank = self._ranks.get(job.id)
        if rank is None or not rank.estimated:
            times = [_task_ms(job, stage, view) for stage in job.stages]
            estimated = None not in times and bool(view.nodes)
            if rank is None or estimated:
                rank = self._ranks[job.id] = self._plan(job, times, view)
                rank.estimated = estimated
                if rank.planned is not None:
                    self._news[job.id] = rank.planned
        rank.srpt = _remaining(job, view)

    def _plan(self, job: JobState, times: Sequence[float | None], view: ClusterView) -> JobRank:
        """The job's own plan, on its present part of the machines."""
        spec, nodes, planner = job.spec, len(view.nodes), self.params.plan
        if planner == "none":
            return JobRank(())
        if planner == "path" or not nodes:  # jobs are planned again when there are nodes
            return JobRank(by_path(spec, times))
        # A machine is as large as the mean node, and as what the job asks for: every node of its size would do.
        largest = [max(stage.demand[r] for stage in spec.stages) for r in range(len(view.capacity))]
        capacity = tuple(max(whole // nodes, wanted) for whole, wanted in zip(view.capacity, largest, strict=True))
        machines = _part(view)
        plan = plan_of(spec, times, capacity, machines, self.params.budget, planner)
        if plan is None:
            return JobRank(by_path(spec, times))
        return JobRank(plan.scores(), planned=plan.in_short(machines))

    def new_plans(self) -> Mapping[str, Planned]:
        """See Plans.new_plans."""
        news, self._news = self._news, {}
        return news

    def _enlist(self, name: str, view: ClusterView) -> None:
        """Put the job in its place among waiting jobs, with its open stages."""
        job = view.waiting.get(name)
        if job is None:
            self._order.drop(name)
            self._open.pop(name, None)
            return
        rank, group = self._ranks[name], self._balance.group_of(job.spec)
        self._order.put(name, (math.inf if rank.srpt is None else rank.srpt, job.seq))
        self._open[name] = [
            ScoredCandidate(job, stage, group, rank, bool(job.spec.stages[stage.index].hosts))
            for stage in job.open_stages()
        ]
        if self.params.plan != "none":
            for scored in self._open[name]:
                scored.look()

    # -- memory -----------------------------------------------------------------------------------

    def dump(self) -> Any:
        """Plans, last counts of remaining work, averages and deficits."""
        return {
            "standings": msgspec.to_builtins(self._ranks),
            "means": msgspec.to_builtins([self._packing, self._srpt]),
            "balance": self._balance.dump(),
        }

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        self._ranks = msgspec.convert(data["standings"], dict[str, JobRank])
        self._packing, self._srpt = msgspec.convert(data["means"], list[Mean])
        self._balance.load(data["balance"])
        for name, rank in self._ranks.items():
            self._enlist(name, view)
            if rank.planned is not None:  # the process before may not have shown the plan
                self._news[name] = rank.planned


def _task_ms(job: JobState, stage: StageState, view: ClusterView) -> float | None:
    """Time of a task of the stage, the predictor's estimate refined by finished tasks, ms; None: unknown.

    An application master is no work of the job's.
    """
    if job.spec.stages[stage.index].master:
        return 0.0
    estimate = view.estimate(job.id, stage.index)
    return refined_ms(estimate, stage.finished, stage.done_ms)


def _to_start(stage: StageState) -> int:
    """Number of tasks yet to start, with the tasks kept back by a one-to-one edge."""
    return stage.waiting + stage.kept_back


def _part(view: ClusterView) -> int:
    """Each live job's part of the machines."""
    return max(1, math.ceil(len(view.nodes) / max(1, len(view.jobs))))


def _ratio(one: int, other: int) -> float:
    return max(one / other, other / one)


def _remaining(job: JobState, view: ClusterView) -> float | None:
    """srpt: over the tasks to be scheduled, run time x sum of demand as parts of the cluster (section 5).

    An unknown stage counts with the mean time of the others; None when all are unknown.
    """
    left = [(stage, count) for stage in job.stages if (count := _to_start(stage))]
    times = [_task_ms(job, stage, view) for stage, _ in left]
    if None in times or not any(times):
        known = [ms for stage in job.stages if (ms := _task_ms(job, stage, view))]
        if not known:
            return None
        mean = sum(known) / len(known)
        times = [mean if ms is None else ms for ms in times]
    whole = view.capacity
    return sum(
        (ms or 0.0) * count * sum([d / c for d, c in zip(stage.demand, whole, strict=True) if c])
        for ms, (stage, count) in zip(times, left, strict=True)
    )
