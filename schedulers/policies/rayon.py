"""Rayon's reservations over YARN's CapacityScheduler: deadlines as promised parts of the cluster."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from schedulers.core.abilities import MindsDeadlines, NeedsEstimates, Preempts
from schedulers.core.model import Job
from schedulers.core.policy import ClusterView, Triggers, policies
from schedulers.core.resources import Vector
from schedulers.core.state import JobState
from schedulers.planning.rayon.calendar import STEP_MS, Calendar, Fit, reserve_for
from schedulers.yarn.capacity import CapacityConfig
from schedulers.yarn.plan_queue import PlanScheduler
from schedulers.yarn.policy import Units, YarnPolicy
from schedulers.yarn.preemption import Preemption
from schedulers.yarn.queues import ROOT, QueueConfig

#: The queue of all jobs without a reservation now.
_OTHERS: Final = "unreserved"
#: So much larger are shares of queues, since Hadoop cuts them off and a guarantee must hold a whole gang.
_NUDGE: Final = 1 + 1e-6


@policies.register("rayon", source="Rayon (SoCC'14), sections 3 and 4; Hadoop 3.3 reservation system")
class Rayon(YarnPolicy[PlanScheduler], Preempts, MindsDeadlines, NeedsEstimates):
    """Reserves capacity for jobs with a deadline from their arrival on, and enforces it by queues of `capacity`.

    The first time that all stages of a job with a deadline have estimates, the job asks for a reservation: for the
    tasks of each stage (together for a gang, in any waves for others), stage after stage, between now and the deadline.
    A calendar of the cluster's capacity, in steps of a second, accepts or rejects. In its reserved time an accepted job
    stands in a queue of its own, guaranteed the reserved amount; before and after, like jobs rejected or without a
    deadline, in the common queue, first come, first served, with the rest guaranteed. Idle capacity is used by all.
    A job that outlives its reservation is not extended; a job that ends early gives the rest back.

    Queues of the scenario are not followed (the core keeps their limits), and clusters with executors are refused. The
    guarantee is of amounts: Rayon sees neither nodes nor wishes, and reserves for the time on the slowest nodes.

    **Unlike Hadoop:** the core starts a gang at once, so nobody may use what a reserved gang waits for, where Hadoop's
    containers would idle one by one. Reservations stay when nodes go. Nothing is reserved for application masters.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        fit: Fit = "latest"
        padding: Annotated[
            float,
            msgspec.Meta(
                ge=0,
                description="part by which each reservation is longer than estimated, for late starts and for the "
                "slowest task of a gang; larger: fewer jobs accepted, more of them in time",
            ),
        ] = 0.0
        preemption: Annotated[
            Preemption,
            msgspec.Meta(
                description="monitor that takes containers of queues above their capacity, as of `capacity`; disabled: "
                "a reservation waits until others' tasks end"
            ),
        ] = Preemption()

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.triggers = Triggers(every_beat=True, period_ms=STEP_MS)
        self._calendar = Calendar(params.fit)
        self._current: dict[str, Vector] = {}  # reserved amounts of now, by job with a queue of its own
        if not params.preemption.enabled:
            self.without = frozenset({Preempts})

    @property
    def _whole(self) -> bool:
        return False

    def _make(self, view: ClusterView, units: Units) -> PlanScheduler:
        self._current = {name: amount for name, amount in self._current.items() if name in view.jobs}
        return PlanScheduler(
            CapacityConfig(
                root=self._root(view),
                resources=units.names,
                calculator="dominant",
                minimum=units.size(None, 0),
                maximum=units.size(None, 2**31),
                most_off_switch=-1,
                monitor=self.params.preemption.config(),
            )
        )

    def _path(self, job: Job, view: ClusterView) -> str:
        return f"{ROOT}.{_queue(job.id) if job.id in self._current else _OTHERS}"

    # -- reservations -----------------------------------------------------------------------------

    def _let_in(self, yarn: PlanScheduler, job: JobState, view: ClusterView) -> None:
        """A job with a deadline asks for a reservation, once."""
        super()._let_in(yarn, job, view)
        if job.admitted:
            reserve_for(self._calendar, job, view, 1 + self.params.padding)

    def _monitor(self, yarn: PlanScheduler, view: ClusterView) -> None:
        """The plan follower in each step, the preemption monitor in each of its periods."""
        self._follow(yarn, view)
        monitor = yarn.config.monitor
        if monitor is not None and view.now % monitor.period < STEP_MS:
            super()._monitor(yarn, view)

    def _follow(self, yarn: PlanScheduler, view: ClusterView) -> None:
        """AbstractSchedulerPlanFollower.synchronizePlan: the queues of this step's reservations."""
        self._calendar.keep(view.jobs)
        before, now = self._current, self._calendar.reserved(view.now // STEP_MS)
        self._current = {name: amount for name, amount in now.items() if name in yarn.apps}
        for name in before:
            if name in yarn.apps and name not in self._current:
                yarn.move(name, f"{ROOT}.{_OTHERS}")
        root = self._root(view)
        if root != yarn.config.root:
            yarn.set_queues(root)
        for name in self._current:
            if name not in before:
                yarn.move(name, f"{ROOT}.{_queue(name)}")

    def _root(self, view: ClusterView) -> QueueConfig:
        """A queue for each reservation of now, and one for all others, which leave to a reserved gang its room."""
        cluster = tuple(view.capacity)
        shares = {name: _share(amount, cluster) for name, amount in self._current.items()}
        rest = max(0.0, 1 - sum(shares.values()))
        awaited = [_awaited(view.jobs[name], reserved) for name, reserved in self._current.items()]
        left = 1 - sum(_share(amount, cluster) for amount in awaited)
        others = _leaf(_OTHERS, rest, min(1.0, max(rest, left * _NUDGE)))
        total = rest + sum(shares.values())  # more than 1 once nodes have gone
        kids = (others, *(_leaf(_queue(name), share / total, 1.0) for name, share in shares.items()))
        return QueueConfig(name=ROOT, kids=kids)

    # -- what is told -----------------------------------------------------------------------------

    def about(self, job: JobState) -> dict[str, Any]:
        """Whether the calendar has accepted the job's deadline."""
        parts = self._calendar.parts.get(job.id)
        return {} if parts is None else {"accepted": bool(parts)}

    # -- memory -----------------------------------------------------------------------------------

    def dump(self) -> Any:
        """The books and the calendar."""
        return {"yarn": super().dump(), "calendar": self._calendar.dump(), "current": self._current}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        super().load(data["yarn"], view)
        self._calendar.load(data["calendar"])
        self._current = msgspec.convert(data["current"], dict[str, tuple[int, ...]])


def _queue(job: str) -> str:
    """Name of a reservation's queue."""
    return f"reserved for {job}"


def _leaf(name: str, capacity: float, maximum: float) -> QueueConfig:
    """A queue in which no user and no application master is limited."""
    return QueueConfig(name=name, capacity=capacity, maximum=maximum, user_limit_factor=1e6, am_share=1.0)


def _share(amount: Vector, capacity: Vector) -> float:
    """Largest part of a capacity, of any resource; 0 while there are no nodes."""
    return _NUDGE * max((part / whole for part, whole in zip(amount, capacity, strict=True) if whole), default=0.0)


def _awaited(job: JobState, reserved: Vector) -> Vector:
    """Room for a job's waiting gangs, within its reservation."""
    specs = job.spec.stages
    gangs = [stage for stage in job.open_stages() if specs[stage.index].gang]
    wanted = (sum(stage.waiting * specs[stage.index].demand[i] for stage in gangs) for i in range(len(reserved)))
    return tuple(map(min, wanted, reserved))
