"""Promises of executors under every kind of fact in any order, and under each rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test

from schedulers.core.events import NodeAdded
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Node
from schedulers.core.policy import ClusterView
from schedulers.core.scheduler import Scheduler
from schedulers.learned.dispatch import Dispatch
from schedulers.learned.graph import Action, Graph
from schedulers.learned.limits import candidates
from schedulers.learned.observation import Observation
from schedulers.learned.orders import RULES
from schedulers.policies.dispatch import RuledDispatch
from tests.examples import examples
from tests.property.test_state_machine import PREDICTORS, Core


def hold(policy: Dispatch, graph: Graph, view: ClusterView) -> None:
    """What is true whenever somebody is asked."""
    promises = policy.promises
    for name, index in promises.by_source:
        stage = view.jobs[name].stages[index]
        idle = [c.id for c in view.idle() if (c.job, c.stage) == (name, index)]
        free = set(idle) - promises.waiting.get(name, {}).keys()
        assert promises.promised((name, index)) <= stage.running + len(free), (
            "an executor is promised that is not there"
        )
    for name, waiting in promises.waiting.items():
        assert all(view.containers[number].job == name for number in waiting), "an executor waits elsewhere"
    anew = Observation(promises)
    anew.mark_changed(*view.jobs)
    anew.refresh(view)
    for job in graph.jobs:
        seen, now = policy.observation.job(job.name), anew.job(job.name)
        assert (seen.unpromised, seen.executors, seen.amounts) == (now.unpromised, now.executors, now.amounts)
        assert seen.nodes.tolist() == now.nodes.tolist()
        states = view.jobs[job.name].stages
        for row in job.valid.nonzero()[0]:
            stage = states[job.stages[row]]
            assert stage.waiting > promises.promised_to(job.name).get(stage.index, 0), "all its tasks are promised"
            assert candidates(job.least, graph.executors), "no executor can be given to it"


class Promised(Core):
    """As the core's, with policies that are asked."""

    @initialize(
        policy=st.sampled_from([{"kind": "dispatch", "rule": rule} for rule in RULES]),
        predictor=st.sampled_from(PREDICTORS),
        offers=st.sampled_from(("heartbeat", "event", "cycle")),
        kept=st.booleans(),
        limit=st.sampled_from((None, None, 1)),
    )
    def begin(self, policy: Any, predictor: Any, offers: Any, kept: bool, limit: int | None) -> None:
        self.scheduler = Scheduler(
            SchedulerConfig(
                resources=("cpu", "memory"),
                policy=policy,
                predictor=predictor,
                placement={"kind": "first_fit"},
                offers=offers,
                executors=kept,
                containers_per_offer=limit,
            )
        )
        for number in range(2):
            self.tell(NodeAdded(0, Node(id=f"n{number}", capacity=(2000, 2048))))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is asked looks first whether all promises can be kept."""
    monkeypatch.setattr(RuledDispatch, "choose", looking(RuledDispatch.choose))


def looking(choose: Callable[[Any, Graph, ClusterView], Action]) -> Callable[[Any, Graph, ClusterView], Action]:
    def looks(policy: Dispatch, graph: Graph, view: ClusterView) -> Action:
        hold(policy, graph, view)
        return choose(policy, graph, view)

    return looks


@pytest.mark.usefixtures("held")
def test_promises_can_be_kept_under_any_facts() -> None:
    run_state_machine_as_test(Promised, settings=settings(max_examples=20, stateful_step_count=50))


@pytest.mark.slow
@pytest.mark.usefixtures("held")
def test_promises_can_be_kept_under_any_facts_ten_thousand_steps() -> None:
    run_state_machine_as_test(Promised, settings=settings(max_examples=examples(100), stateful_step_count=100))
