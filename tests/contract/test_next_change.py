"""A policy that refuses what it will take later says when, and is asked again then, naive engine or not."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from rm_emulator import testing
from rm_emulator.engine.control import Stalled
from rm_emulator.testing import POLICY_CHECKS, PolicyCheck, Subject, case, run_case
from schedulers.core.decisions import Place
from schedulers.core.events import JobSubmitted
from schedulers.core.policy import ClusterView, Offer, Suggestion, Suggestions, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, Ordered

PROFILES = ("yarn", "sls", "events", "kubernetes")


class Later(Ordered):
    """First come, first served; nothing of a job starts before it has been there for a while."""

    def key(self, job: JobState, view: ClusterView) -> Key:
        return (job.seq,)

    @staticmethod
    def begins(job: JobState) -> int:
        return job.submitted + 777 * (1 + job.seq % 40)

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        self._refresh(view)
        for name in self._order.jobs():
            job = view.jobs[name]
            for stage in job.open_stages() if self.begins(job) <= view.now else ():
                while stage.waiting and offer.fits(job, stage) and (yield Suggestion(name, stage.index)).placed:
                    pass

    def next_change(self, view: ClusterView) -> int | None:
        times = (self.begins(job) for job in view.waiting.values())
        return min((at for at in times if at > view.now), default=None)


class NeverContent(Later):
    """Always wants to be asked once more, and takes nothing."""

    @staticmethod
    def begins(job: JobState) -> int:
        return 1 << 60

    def next_change(self, view: ClusterView) -> int | None:
        return view.now + 1


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    before = dict(policies._entries)
    for cls in (Later, NeverContent):
        policies.register(cls.__name__.lower(), source="a test")(cls)
    yield
    policies._entries = before
    testing._LATEST.clear()


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
def test_such_a_policy_keeps_all_promises(check: PolicyCheck) -> None:
    check(Subject(policy={"kind": "later"}))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", range(4))
def test_jobs_start_at_the_first_offer_after_their_time(profile: str, seed: int) -> None:
    made = case(seed, profile=profile, executors=False)
    ran = run_case(Subject(policy={"kind": "later"}), made)
    begins: dict[str, int] = {}
    first: dict[str, int] = {}
    for event, decisions in ran.audit.history:
        if isinstance(event, JobSubmitted):
            begins[event.job.id] = event.at + 777 * (1 + len(begins) % 40)
        for decision in decisions:
            if isinstance(decision, Place):
                first.setdefault(decision.job, event.at)
    assert first.keys() == begins.keys()
    assert all(first[name] >= begins[name] for name in begins)


@pytest.mark.parametrize("profile", PROFILES)
def test_one_job_alone_is_waited_for(profile: str) -> None:
    """Nothing runs and nothing is to come but the job's time; in cycles it is met to the millisecond."""
    made = next(m for m in (case(seed, profile=profile, executors=False) for seed in range(30)) if m.workload.jobs)
    alone = msgspec.structs.replace(made.workload, jobs=made.workload.jobs[:1])
    ran = run_case(Subject(policy={"kind": "later"}), msgspec.structs.replace(made, workload=alone))
    arrival = next(event for event, _ in ran.audit.history if isinstance(event, JobSubmitted))
    at = min(event.at for event, decisions in ran.audit.history if any(isinstance(d, Place) for d in decisions))
    most = {"events": 0, "kubernetes": 10_000}.get(profile, made.config.heartbeat_ms)
    assert 0 <= at - arrival.at - 777 <= most


@pytest.mark.parametrize("profile", PROFILES)
def test_a_policy_that_is_never_content_does_not_keep_the_run_going(profile: str) -> None:
    made = case(1, profile=profile, executors=False)
    with pytest.raises(Stalled):
        run_case(Subject(policy={"kind": "nevercontent"}), made)
