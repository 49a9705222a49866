"""Group `learned`: what a decision of `decima` takes, one of `lachesis` with DEFT, and a plan of `played`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from benchmarks import setups
from benchmarks.rows import Row, benchmark
from schedulers.core.live import JobState, StageState
from schedulers.core.policy import ClusterView
from schedulers.kit.ordered import Contest
from schedulers.learned.dispatch import Allotment
from schedulers.learned.observation import OfferedClasses, Source
from schedulers.planning.unrelated.followed import Layout
from schedulers.planning.unrelated.timelines import TimelinePlan
from schedulers.policies.decima import Decima
from schedulers.policies.lachesis import Lachesis
from schedulers.policies.played import Played

#: Jobs in the cluster. What is aimed at is aimed at 100.
_JOBS: Final = (100, 10, 50, 300)
_TINY: Final = 5
#: Jobs of LACHESIS's batch.
_BATCH: Final = 20
#: So many decisions are timed: by then no more than a fifth of the jobs is done.
_DECISIONS_PER_JOB: Final = 4


class _EnoughError(Exception):
    """So many decisions were timed."""


class _Timed(Decima):
    """Keeps the CPU time of each decision, from what the state says to what is suggested, in ms."""

    def __init__(self, decisions: int) -> None:
        super().__init__(Decima.Params())
        self._left, self.taken = decisions, list[float]()

    def _use(self, weights: str) -> None:
        super()._use(weights)
        self.fallback.ranges = {}  # the network is timed, also with more jobs than in training

    def _pick_stage(self, view: ClusterView, source: Source, classes: OfferedClasses | None = None) -> Allotment | None:
        begun = time.thread_time_ns()
        choice = super()._pick_stage(view, source, classes)
        if choice is not None:
            self.taken.append((time.thread_time_ns() - begun) / 1e6)
            if len(self.taken) == self._left:
                raise _EnoughError
        return choice


@benchmark("decision", "learned")
def decision(tiny: bool) -> Iterator[Row]:
    """TPC-H jobs that came at once on 50 executors; their mean task times are known."""
    for jobs in (_TINY,) if tiny else _JOBS:
        taken = _taken_ms(jobs)
        where = "" if jobs in (_TINY, _JOBS[0]) else f"/{jobs}"
        note = f"of {len(taken)} decisions on 50 executors, {jobs} TPC-H jobs at first; CPU time"
        for name, value, target in (
            ("decision_mean", float(np.mean(taken)), "<= 1"),
            ("decision_p98", float(np.quantile(taken, 0.98)), "<= 6"),
        ):
            aim = None if where else target
            yield Row(name=f"{name}/decima{where}", value=value, unit="ms", target=aim, note=note)


def _taken_ms(jobs: int) -> list[float]:
    """The first decision, for which nothing is known of any job, is one of them."""
    policy = _Timed(_DECISIONS_PER_JOB * jobs)
    with suppress(_EnoughError):
        setups.run(setups.tpch_executors(jobs, batch=True), policy=policy)
    return policy.taken


class _TimedContest(Contest):
    """Keeps the CPU time from each question to the next one, by which its tasks have their nodes, in ms."""

    def __init__(self, inner: Contest, begun: int, taken: list[float]) -> None:
        self._inner, self._begun, self._taken, self._asked = inner, begun, taken, False

    def enter(self, job: JobState, stages: Sequence[StageState]) -> None:
        """See Contest."""
        self._inner.enter(job, stages)

    def take(self) -> tuple[JobState, StageState] | None:
        """See Contest. The first decision has in it what it takes to look at all jobs."""
        now = time.thread_time_ns()
        if self._asked:
            self._taken.append((now - self._begun) / 1e6)
            self._begun = now
        self._asked = True
        return self._inner.take()


class _TimedOrder(Lachesis):
    """Keeps what each decision takes."""

    def __init__(self) -> None:
        super().__init__(Lachesis.Params())
        self.taken: list[float] = []

    def contest(self, view: ClusterView) -> Contest:
        """See Sequencing."""
        begun = time.thread_time_ns()
        return _TimedContest(super().contest(view), begun, self.taken)


@benchmark("next_stage", "learned")
def next_stage(tiny: bool) -> Iterator[Row]:
    """LACHESIS's batch on 50 executors of unlike speed: which stage is next, and by DEFT where, copies included."""
    jobs, policy = 2 if tiny else _BATCH, _TimedOrder()
    setups.run(setups.lachesis_batch({"kind": "rank_up"}, jobs), policy=policy)
    note = f"of {len(policy.taken)} decisions on 50 executors, {jobs} of LACHESIS's jobs; DEFT included; CPU time"
    yield Row(name="decision_mean/lachesis", value=float(np.mean(policy.taken)), unit="ms", target="<= 3", note=note)
    p98 = float(np.quantile(policy.taken, 0.98))
    yield Row(name="decision_p98/lachesis", value=p98, unit="ms", target="<= 10", note=note)


class _TimedPlans(Played):
    """Keeps what each plan takes, in ms."""

    def __init__(self) -> None:
        super().__init__(Played.Params())
        self.taken: list[float] = []

    def plan(self, layout: Layout, most: int, view: ClusterView) -> TimelinePlan:
        """See Followed."""
        begun = time.thread_time_ns()
        made = super().plan(layout, most, view)
        self.taken.append((time.thread_time_ns() - begun) / 1e6)
        return made


@benchmark("plan", "learned")
def plan(tiny: bool) -> Iterator[Row]:
    """LACHESIS's batch laid out at once by as many plays as `played` has unless it is told otherwise."""
    jobs, policy = 2 if tiny else _BATCH, _TimedPlans()
    setups.run(setups.lachesis_batch({"kind": "played"}, jobs), policy=policy)
    note = f"{policy.params.plays} plays of {jobs} of LACHESIS's jobs on 50 executors; CPU time"
    yield Row(name="plan/played", value=max(policy.taken), unit="ms", note=note)
