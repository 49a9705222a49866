"""Reasons of waiting jobs: `Hold` when a job's first reason changes, `Resume` when no task waits any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from schedulers.core.decisions import Decision, Hold, Resume
from schedulers.core.explain import PASSED_BY, limit_reason, why_not_let_in
from schedulers.core.reasons import Reason
from schedulers.core.state import ClusterState, JobState, StageState

#: Limits come before reservations and room.
_FIRST_OF_ROOM: Final = Reason.QUEUE_AT_LIMIT.precedence


class Holds:
    """The first reason of each waiting job."""

    def __init__(
        self,
        state: ClusterState,
        offers: str,
        why: Callable[[JobState], tuple[Reason, dict[str, object]] | None],
        no_room: Callable[[JobState, list[StageState]], Reason] | None = None,
    ) -> None:
        self._state, self._policy_reason = state, why
        self.to_check = state.journal.reasons.cursor()
        """Jobs with a possibly changed reason since the last `report`."""
        self._unasked_reason = Reason.WAITS_FOR_RETRY if offers == "thought" else Reason.WAITS_FOR_ASK
        self._passed_by_reason = PASSED_BY[offers]
        # Workers with queues of their own have no nodes in this sense, and say their own reason.
        self._no_room = no_room if no_room is not None else self._reason_of_nodes

    def report(self, decisions: list[Decision]) -> None:
        """Append a `Hold` for each job with a changed reason; jobs without waiting tasks resume silently."""
        state = self._state
        # Only jobs to check are asked: asking all waiting jobs after each fact would be quadratic in a long queue.
        for name in self.to_check.read():
            job = state.jobs.get(name)
            if job is None:
                continue
            reason = self.reason(job)
            if reason is job.hold:
                continue
            if reason is None:
                # Applied but not logged: a started task already tells a reader that the job goes on.
                state.apply(Resume(name))
            else:
                hold = Hold(name, reason)
                state.apply(hold)
                decisions.append(hold)

    def reason(self, job: JobState) -> Reason | None:
        """The first reason for the job's next task to wait; None when no task waits. A function of state only."""
        if job.cancelled or (job.left == job.running and not job.waiting):
            return None
        if not job.admitted:
            return why_not_let_in(job, self._state)[0]
        if not job.waiting:
            ready = any(s.waiting and not s.parents_left for s in job.stages)
            return self._unasked_reason if ready else Reason.WAITS_FOR_STAGE
        stages = [job.stages[index] for index in job.open]
        # Before limits and room: only a change of the cluster can help here.
        of_cluster, said = self._reason_of_cluster(job, stages), self._policy_reason(job)
        if said is None:
            return of_cluster or self._reason_of_room(job, stages)
        # Fast path: a reason said before all reasons of limits and room. With limits room is asked for all the same,
        # since a size found at its limit is then woken when the limit is left.
        if of_cluster is None and said[0].precedence < _FIRST_OF_ROOM and not self._state.sizes.bounds:
            return said[0]
        # Both are asked, because a policy may hold a job back for a reason of higher precedence than room.
        of_room = of_cluster or self._reason_of_room(job, stages)
        return min(of_room, said[0], key=lambda reason: reason.precedence)

    def _reason_of_cluster(self, job: JobState, stages: list[StageState]) -> Reason | None:
        """The reason of stages that the cluster could not start even if nothing ran there."""
        state = self._state
        if not state.nodes:
            return Reason.NO_NODES
        never = [stage.size for stage in stages if not state.sizes.can_start(job, stage)]
        if never:
            return Reason.TOO_LARGE if any(map(state.sizes.count_matching_nodes, never)) else Reason.NO_NODE_MATCHES
        return None

    def _reason_of_room(self, job: JobState, stages: list[StageState]) -> Reason:
        """The first reason of limits and room, by precedence, over all launchable stages."""
        state = self._state
        if state.sizes.bounds:
            limits = [account for stage in stages if (account := state.sizes.limiting_account(job, stage)) is not None]
            if limits:
                return min((limit_reason(account) for account in limits), key=lambda reason: reason.precedence)
        reservations = state.reservations
        if reservations is not None and any((job.id, stage.index) in reservations.by_stage for stage in stages):
            return Reason.HAS_RESERVATION
        return self._no_room(job, stages)

    def _reason_of_nodes(self, job: JobState, stages: list[StageState]) -> Reason:
        """The reason of stages kept waiting by nothing but room."""
        state = self._state
        if not all(state.sizes.fits_some_node(stage.size) for stage in stages):
            return Reason.NO_ROOM
        if not all(state.sizes.has_room_for_all(stage) for stage in stages if job.is_waiting_gang(stage)):
            return Reason.NO_ROOM_FOR_GANG
        reservations = state.reservations
        if reservations is not None and any(reservations.keeps_out(job, stage) for stage in stages):
            return Reason.RESERVED
        return self._passed_by_reason
