"""The contract tests catch what they are there to catch: plug-ins that break a promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from rm_emulator import testing
from rm_emulator.engine.containers import Container
from rm_emulator.engine.control import Stalled
from rm_emulator.engine.profile import Profile, profiles
from rm_emulator.engine.profiles.yarn import Yarn
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import Audit, Subject, case, run_case
from schedulers.core.decisions import Decision, Place
from schedulers.core.errors import UnknownName
from schedulers.core.events import Event, JobSubmitted, NodeAdded, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.policy import ClusterView, Offer, Policy, Suggestion, Suggestions, policies
from schedulers.core.predictor import Estimate, Predictor, predictors
from schedulers.core.registry import Registry
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, Ordered


@pytest.fixture(autouse=True)
def _registries_as_before() -> Iterator[None]:
    before = {registry: dict(registry._entries) for registry in (policies, predictors, profiles) if list(registry)}
    yield
    for registry, entries in before.items():
        registry._entries = entries
    testing._LATEST.clear()


def broken(registry: Registry, cls: type) -> Subject:
    registry.register("broken", source="a test")(cls)
    kind = {"kind": "broken"}
    return Subject(policy=kind) if registry is policies else Subject(policy={"kind": "gs"}, predictor=kind)


class CountsAcrossRuns(Ordered):
    """Serves jobs in an order that depends on how many runs there were."""

    runs: ClassVar[list[int]] = [0]

    def __init__(self, params: object, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.runs[0] += 1
        self._sign = 1 if self.runs[0] % 2 else -1

    def key(self, job: JobState, view: ClusterView) -> Key:
        return (self._sign * job.seq, job.id)


class ForgetsItsMemory(Policy):
    """Serves jobs by what it has seen, and does not dump it."""

    def __init__(self, params: object, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._seen = 0

    def observe(self, event: Event, view: ClusterView) -> None:
        self._seen += 1

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        jobs = sorted(view.waiting.values(), key=lambda job: (hash((self._seen // 5, job.seq)), job.seq))
        for job in jobs:
            for stage in job.open_stages():
                while stage.waiting and offer.fits(job, stage):
                    outcome = yield Suggestion(job.id, stage.index)
                    if not outcome.placed:
                        break


class CountsHowOftenItIsAsked(ForgetsItsMemory):
    """Refuses every fourth offer."""

    def observe(self, event: Event, view: ClusterView) -> None:
        pass

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        self._seen += 1
        if self._seen % 4:
            yield from super().schedule(view, offer)


class Meddles(Ordered):
    """Writes what it thinks of a job into the job."""

    def key(self, job: JobState, view: ClusterView) -> Key:
        job.size_ms = float(job.left)
        return (job.seq,)


class Peeks(Predictor):
    """Hears true run times without saying so."""

    told_times: ClassVar[dict[str, float]] = {}

    def estimate(self, job: str, stage: int) -> Estimate | None:
        return Estimate(self.told_times.get(job, 1.0))


class NeverForgets(Predictor):
    """Estimates jobs that are over."""

    def estimate(self, job: str, stage: int) -> Estimate | None:
        return Estimate(1000.0)


class CannotDump(Predictor):
    """Its estimates depend on a number that it does not dump."""

    def __init__(self, params: object, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._heard = 0

    def submitted(self, job: Job, at: int) -> None:
        self._heard += 1

    def estimate(self, job: str, stage: int) -> Estimate | None:
        return Estimate(10.0 ** (5 + (self._heard * 7) % 4))


SEEDS = tuple(range(12))


def test_a_policy_that_writes_into_the_state_is_caught() -> None:
    with pytest.raises(AssertionError, match="somebody changed the state"):
        testing.check_hands_off(broken(policies, Meddles))


def test_a_policy_that_differs_from_run_to_run_is_caught() -> None:
    with pytest.raises(AssertionError, match="two runs differ"):
        testing.check_repeatable(broken(policies, CountsAcrossRuns), SEEDS)


def test_a_policy_without_memory_of_its_own_is_caught() -> None:
    with pytest.raises(AssertionError, match="after a snapshot"):
        testing.check_snapshot(broken(policies, ForgetsItsMemory), SEEDS)


def test_a_policy_that_counts_how_often_it_is_asked_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"naive and skipping differ|can never finish"):
        testing.check_skipping(broken(policies, CountsHowOftenItIsAsked), SEEDS)


def test_a_predictor_that_peeks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaky(Simulation):
        def __init__(self, config, workload, *args, **kwargs) -> None:
            super().__init__(config, workload, *args, **kwargs)
            Peeks.told_times.update({e.job.id: 1e3 * e.runtimes[-1].ms[-1] for e in workload.jobs})

    monkeypatch.setattr("rm_emulator.engine.in_memory.Simulation", Leaky)
    subject = broken(predictors, Peeks)
    subject = Subject(policy={"kind": "sjf"}, predictor=subject.predictor)
    with pytest.raises(AssertionError, match="depend on the future"):
        testing.check_no_peeking(subject, SEEDS)


def test_a_predictor_that_never_forgets_is_caught() -> None:
    with pytest.raises(AssertionError, match="still estimated"):
        testing.check_forgets(broken(predictors, NeverForgets), (0,))


def test_a_predictor_that_cannot_be_restored_is_caught() -> None:
    with pytest.raises(AssertionError, match="after a snapshot"):
        testing.check_snapshot(broken(predictors, CannotDump), SEEDS)


def test_a_registration_without_a_sentence_is_caught() -> None:
    class Silent(Policy):
        def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
            yield from ()

    policies.register("broken", source="a test")(Silent)
    with pytest.raises(AssertionError, match="first docstring line"):
        testing.check_registered(policies, "broken")


class CountsBeats(Yarn):
    """Tasks start later the more beats there were."""

    beats = 0

    def _hear_beat(self, node: int) -> None:
        self.beats += 1
        super()._hear_beat(node)

    def launch(self, container: Container) -> int:
        return super().launch(container) + self.beats % 7


class LosesEnds(Yarn):
    """Nobody hears of every fifth end."""

    ends = 0

    def ended(self, container: Container) -> bool:
        self.ends += 1
        return self.ends % 5 == 0 or super().ended(container)


@pytest.mark.parametrize(
    ("profile", "words"), [(CountsBeats, "naive and skipping differ"), (LosesEnds, "can never finish")]
)
def test_a_profile_that_breaks_a_promise_is_caught(profile: type[Profile], words: str) -> None:
    profiles.register("broken", source="a test")(profile)
    with pytest.raises((AssertionError, Stalled), match=words):
        testing.check_profile("broken")


class Obedient(Scheduler):
    """Decides what it is told to."""

    orders: ClassVar[list[Decision]] = []

    def handle(self, event: Event) -> list[Decision]:
        super().handle(event)
        return self.orders if isinstance(event, Tick) else []


@pytest.mark.parametrize(
    ("orders", "words"),
    [
        ([Place(1, "n", "a", 0, 0), Place(2, "n", "a", 0, 1)], "over-commits"),
        ([Place(1, "n", "a", 1, 0)], "before its parent"),
        ([Place(1, "n", "a", 0, 7)], "no such task"),
        ([Place(1, "m", "a", 0, 0), Place(2, "m", "a", 0, 0)], "already runs"),
    ],
)
def test_the_audit_catches_an_impossible_decision(orders: list[Decision], words: str) -> None:
    config = SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"}, offers="cycle")
    Obedient.orders = orders
    audit = Audit(Obedient(config))
    audit.handle(NodeAdded(0, Node(id="n", capacity=(1000,))))
    audit.handle(NodeAdded(0, Node(id="m", capacity=(5000,))))
    stages = (Stage(name="x", tasks=2, demand=(600,)), Stage(name="y", tasks=1, demand=(600,), parents=(0,)))
    audit.handle(JobSubmitted(0, Job(id="a", stages=stages)))
    with pytest.raises(AssertionError, match=words):
        audit.handle(Tick(1))


def test_a_failing_scenario_can_be_made_again_from_its_name() -> None:
    name = case(7, disorder=True).name
    assert eval(name, {"case": case}).name == name


def test_a_run_keeps_its_log() -> None:
    ran = run_case(Subject(policy={"kind": "fifo"}), case(1))
    assert len(ran.lines) == ran.log.lines


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "name"),
    [(testing.check_policy, "las"), (testing.check_predictor, "posterior"), (testing.check_placer, "worst_fit")],
)
@pytest.mark.drawn(of=4)
def test_all_promises_are_checked_by_name(check: Callable[[str], None], name: str) -> None:
    check(name)


def test_a_name_that_is_not_registered_is_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'fifo'"):
        testing.check_policy("fifoo")
