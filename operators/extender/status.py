"""Reports why jobs wait, on the DagJob's status and on each of its waiting pods, and how DagJobs are planned.

Never in the way of deciding.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from operators.client import stamp
from operators.extender.brain import Brain
from operators.extender.intake import Aside
from operators.extender.jobs import JobEntry
from operators.extender.ledger import Task
from operators.extender.reports import ReportWriter
from schedulers.core.abilities import Plans, Rehearses, TellsTurn, ability
from schedulers.core.model import Job
from schedulers.core.policy import Planned, Promise
from schedulers.core.reasons import Reason
from schedulers.objects.dagjob import PlannedStage, PlanStatus, PromiseStatus
from schedulers.objects.names import PODS_REFUSED, PODS_UNPLACED, RESERVED_TAINT

#: Explaining looks at every node: so much of each half second may go to it.
_BUDGET_S: Final = 0.02
_PERIOD_S: Final = 0.5
#: Places in a queue change without the reason changing: look again now and then.
_AGAIN_S: Final = 15.0
#: Of each stage so many waiting pods get Events; all have the condition, and the DagJob has an Event of its own.
_PODS_WITH_EVENTS: Final = 3


class WaitReport(msgspec.Struct, frozen=True):
    """Why a job waits, in one sentence with numbers: reason, blocking resource, place in the queue, share.

    Place and share are given only where they tell something: others wait there too, the job holds something.
    """

    reason: str
    """CamelCase."""
    message: str
    position: int | None
    """1 is served first of its queue; None for a job waiting for its own stages or pods."""


class QueuePlace(NamedTuple):
    """A job's place among the waiting jobs of its queue."""

    number: int
    queue_length: int
    is_by_policy: bool
    """True: by the policy's own order; False: by submission."""


Places = dict[str, QueuePlace]


class StatusWriter:
    """Goes round the jobs with a changed reason, and in between round all waiting jobs.

    Reports left on pods and DagJobs by an earlier leader are taken over: they have to end, too.
    """

    def __init__(self, brain: Brain, reports: ReportWriter) -> None:
        self._brain, self._reports = brain, reports
        self._jobs: dict[str, str] = {}  # with a reason now: job -> uid of its object
        self._pods: dict[str, str] = {}  # with a reason: uid -> key
        self._asides: dict[str, Aside] = {}  # reported to their owners, by uid
        self._recheck: dict[str, None] = {}  # jobs to look at when there is no news
        self._all_at = time.monotonic()
        for pod in brain.cache.pods.values():
            if pod.waiting is not None and pod.waiting.status == "True":
                self._pods[pod.metadata.uid] = pod.key
        for dagjob in brain.cache.dagjobs.values():
            entry = brain.jobs.of_owner(dagjob.metadata.uid)
            if dagjob.status.reason and entry is not None:
                self._jobs[entry.id] = entry.owner
            elif dagjob.status.reason:
                self._reports.report_dagjob(dagjob.key, uid=dagjob.metadata.uid)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            self.go_round()

    def go_round(self) -> None:
        """Report on as many jobs as the budget allows: three quarters of it are for news while there are any."""
        jobs, state = self._brain.jobs, self._brain.scheduler.state
        if time.monotonic() - self._all_at > _AGAIN_S:
            self._all_at = time.monotonic()
            self._recheck.update(dict.fromkeys(state.waiting))
            for aside in self._asides.values():
                self._report_pods_of(aside)
        # A wait's end is news too, though no decision tells of the end.
        jobs.to_report.update((job, None) for job in self._jobs if self._is_over(job))
        if jobs.to_report or self._recheck:
            began, places = time.perf_counter(), places_of(self._brain)
            # News first, but never the whole budget: jobs without news would starve behind a busy queue.
            self._report_jobs(jobs.to_report, places, began + 0.75 * _BUDGET_S)
            self._report_jobs(self._recheck, places, began + _BUDGET_S)
        self._report_asides()
        self._report_released()
        self._report_plans()

    def _report_asides(self) -> None:
        """Objects set aside since the last round, and objects let in since."""
        intake, cache = self._brain.translator.intake, self._brain.cache
        for uid in intake.to_report:
            aside = intake.aside.get(uid)
            told = self._asides.pop(uid, None)
            if aside is None:
                entry = self._brain.jobs.of_owner(uid)
                if entry is not None:  # let in: waits as others do from here on, or starts
                    self._jobs[entry.id] = entry.owner
                    self._brain.jobs.to_report[entry.id] = None
                elif told is not None and told.kind == "DagJob" and told.meta.key in cache.dagjobs:
                    self._reports.report_dagjob(told.meta.key, uid=uid)
                continue
            self._asides[uid] = aside
            if aside.kind == "DagJob":
                self._reports.report_dagjob(aside.meta.key, uid=uid, reason=aside.reason, message=aside.message)
                self._report_pods_of(aside)
            elif aside.kind == "Pod" and (pod := cache.pods.get(aside.meta.key)) is not None:
                self._pods[uid] = pod.key
                self._reports.report_pod(pod, aside.reason, aside.message)
            if aside.kind in ("DagJob", "Pod"):
                self._reports.report_event(aside.kind, aside.meta, aside.reason, aside.message)
        intake.to_report.clear()

    def _report_pods_of(self, aside: Aside) -> None:
        """The pods of a DagJob set aside wait for the same reason."""
        self._report_pods(enumerate(self._brain.translator.pods_kept_back(aside.meta.uid)), aside, with_events=True)

    def _report_pods(self, keys: Iterable[tuple[int, str]], wait: Aside | WaitReport, *, with_events: bool) -> None:
        for number, key in keys:
            pod = self._brain.cache.pods.get(key)
            if pod is not None and not pod.is_terminal:
                self._pods[pod.metadata.uid] = key
                self._reports.report_pod(pod, wait.reason, wait.message)
                if with_events and number < _PODS_WITH_EVENTS:
                    self._reports.report_event("Pod", pod.metadata, wait.reason, wait.message)

    def _is_over(self, job: str) -> bool:
        """Whether nothing of the job waits any more."""
        live = self._brain.scheduler.state.jobs.get(job)
        return live is None or live.hold is None or live.cancelled

    def _report_jobs(self, jobs: dict[str, None], places: Places, until: float) -> None:
        while jobs and time.perf_counter() < until:
            job = next(iter(jobs))
            del jobs[job]
            self._recheck.pop(job, None)
            entry = self._brain.jobs.get(job)
            if entry is not None:
                self._report(entry, places)
            elif job in self._jobs:
                self._reports.forget_dagjob(self._jobs.pop(job))

    def _report_plans(self) -> None:
        """Plans and promises made since the last round."""
        policy = self._brain.scheduler.policy
        plans, rehearses = ability(policy, Plans), ability(policy, Rehearses)
        for job, planned in plans.new_plans().items() if plans is not None else ():
            entry = self._brain.jobs.get(job)
            if entry is not None and not entry.plain:
                self._reports.report_plan(entry.key, uid=entry.owner, plan=plan_status(entry.job, planned))

        for job, promise in rehearses.new_promises().items() if rehearses is not None else ():
            entry = self._brain.jobs.get(job)
            if entry is not None and not entry.plain:
                self._reports.report_promise(entry.key, uid=entry.owner, promise=promise_status(promise))

    def _report_released(self) -> None:
        """Pods reported to wait, and released, ended or gone since."""
        for uid, key in list(self._pods.items()):
            pod, known = self._brain.cache.pods.get(key), self._brain.ledger.pods.get(uid)
            if pod is None or pod.metadata.uid != uid:
                self._reports.forget_pod(uid)
            elif pod.is_terminal or pod.spec.nodeName:
                self._reports.report_released(pod, pod.spec.nodeName or None)
            elif known is not None and known.container is not None and not pod.is_gated:
                self._reports.report_released(pod, pod.narrowed_to)
            else:
                continue
            del self._pods[uid]

    def _report(self, entry: JobEntry, places: Places) -> None:
        waits = wait_report(self._brain, entry, places)
        if waits is None and self._jobs.pop(entry.id, None) is None:
            return
        if not entry.plain:
            job = self._brain.scheduler.state.jobs.get(entry.id)
            said = msgspec.structs.asdict(waits) if waits is not None else {}
            estimate_s = job.size_ms / 1000 if job is not None and job.size_ms is not None else None
            self._reports.report_dagjob(entry.key, uid=entry.owner, **said, estimate_s=estimate_s)
        if waits is None:
            return
        self._jobs[entry.id] = entry.owner
        dagjob = self._brain.cache.dagjobs.get(entry.key) if not entry.plain else None
        is_told = waits.reason not in _REPORTED_BY_CONTROLLERS
        if dagjob is not None and is_told:
            self._reports.report_event("DagJob", dagjob.metadata, waits.reason, waits.message)
        self._report_pods(waiting_pods(self._brain, entry), waits, with_events=is_told)


def places_of(brain: Brain) -> Places:
    """Places of all jobs waiting for others: open jobs as the policy serves them, then jobs not let in yet."""
    scheduler, state = brain.scheduler, brain.scheduler.state
    # A policy without an order of its own serves by submission, as far as anybody can tell.
    tells = ability(scheduler.policy, TellsTurn)
    line = None if tells is None else tells.line(scheduler.view)
    # A job set back is not open for the moment, and waits at its place as before.
    back = [name for name in dict.fromkeys(brain.driver.backoffs.jobs(brain.driver.now())) if name in state.jobs]
    if line is None:
        found = sorted({*state.waiting, *back}, key=lambda name: state.jobs[name].seq)
    else:
        found = [*line, *(name for name in back if name not in state.waiting)]
    outside = (name for jobs in state.admission.pending.values() for name in jobs)
    found += sorted(outside, key=lambda name: state.jobs[name].seq)
    queues: dict[str, list[str]] = {}
    for name in found:
        queues.setdefault(state.jobs[name].spec.queue, []).append(name)
    return {
        name: QueuePlace(number, len(queue), line is not None)
        for queue in queues.values()
        for number, name in enumerate(queue, 1)
    }


def wait_report(brain: Brain, entry: JobEntry, places: Places | None = None) -> WaitReport | None:
    """Why the job waits; None: nothing does. O(stages x nodes): not for the hot path. `places`: from `places_of`."""
    scheduler, state = brain.scheduler, brain.scheduler.state
    job = state.jobs.get(entry.id)
    if job is None or job.cancelled:
        return None
    reasons = scheduler.reasons(entry.id)
    if not reasons:
        return None
    first = reasons[0]
    reason, parts = camel_case(first.reason), [entry.in_owners_words(first.sentence)]
    now = brain.driver.now()
    backoff = next(brain.driver.backoffs.of(entry.id, now), None)
    dagjob = brain.cache.dagjobs.get(entry.key) if not entry.plain else None
    place = (places if places is not None else places_of(brain)).get(job.id)
    if backoff is not None:
        again = f"try {backoff.rounds + 1} comes in {backoff.wait_ms // 1000} s or sooner"
        reason, parts = PODS_UNPLACED, [backoff.why, again]
    elif first.reason is Reason.WAITS_FOR_ASK and dagjob is not None and dagjob.refused is not None:
        reason, parts = PODS_REFUSED, [f"its pods cannot be made: {dagjob.refused}"]
    elif first.reason is Reason.NO_NODES and brain.translator.reserved and brain.cache.nodes:
        parts = [_none_reserved(len(brain.cache.nodes))]
    if place is not None and place.queue_length > 1:
        by = "" if place.is_by_policy else " by submission"
        parts.append(f"number {place.number} of {place.queue_length} waiting in queue {job.spec.queue}{by}")
    if job.running:
        parts.append(f"holds {100 * state.share(job):.1f} % of the cluster (dominant share)")
    return WaitReport(reason, "; ".join(parts), place.number if place is not None else None)


def _none_reserved(nodes: int) -> str:
    """Why there is no node for us although the cluster has some."""
    none = f"none of the {nodes} nodes has" if nodes > 1 else "the one node does not have"
    return f"{none} the taint {RESERVED_TAINT}, and with `nodes: reserved` no other is used"


def camel_case(reason: Reason) -> str:
    """A reason as conditions write it: NoRoom."""
    return "".join(word.capitalize() for word in reason.value.split("_"))


#: Waits for the job's own pods and stages: the controllers write Events of such waits, and most last a moment.
_REPORTED_BY_CONTROLLERS: Final = frozenset(
    (*map(camel_case, (Reason.WAITS_FOR_ASK, Reason.WAITS_FOR_STAGE)), PODS_REFUSED)
)


def waiting_pods(brain: Brain, entry: JobEntry) -> Iterator[tuple[int, str]]:
    """Keys of the job's waiting pods, numbered in their stage from 0 on."""
    job = brain.scheduler.state.jobs.get(entry.id)
    for stage in job.stages if job is not None else ():
        if not stage.waiting or stage.parents_left:
            continue
        number = 0
        for index in range(stage.tasks):
            uid = brain.ledger.current.get(Task(entry.id, stage.index, index))
            # By the ledger instead of the cache: a cluster has more pods than a stage has tasks.
            pod = brain.ledger.pods.get(uid) if uid is not None else None
            if pod is not None and pod.container is None and not pod.ended:
                yield number, pod.key
                number += 1


def plan_status(job: Job, planned: Planned) -> PlanStatus:
    """A plan as `status.plan` of a DagJob; times in seconds."""
    return PlanStatus(
        machines=planned.machines,
        boundSeconds=planned.bound / 1000,
        makespanSeconds=planned.makespan / 1000,
        stages=[PlannedStage(job.stages[stage].name, start / 1000) for stage, start in planned.starts.items()],
        troublesome=[job.stages[stage].name for stage in planned.troublesome],
    )


def promise_status(promise: Promise) -> PromiseStatus:
    """A promise as `status.promise` of a DagJob; dates stand before the times unless all are on one day."""
    finish, deadline, made = (stamp(at) for at in (promise.finish, promise.deadline, promise.made))
    same_day = finish[:10] == deadline[:10] == made[:10]
    shown_at = [at[11:16] if same_day else f"{at[:10]} {at[11:16]}" for at in (finish, deadline)]
    margin = (
        f"{round(promise.margin / 60_000)} min" if promise.margin >= 60_000 else f"{round(promise.margin / 1000)} s"
    )
    return PromiseStatus(
        message=f"finishes {shown_at[0]} ± {margin}, deadline {shown_at[1]}",
        finishTime=finish,
        marginSeconds=promise.margin / 1000,
        revisedTime=made,
        containers=promise.containers,
    )
