"""Which nodes a stage may use: Kubernetes' meaning of affinity, taints and tolerations."""

from __future__ import annotations

import pytest

from schedulers.core.checks import validate
from schedulers.core.events import JobSubmitted, NodeAdded, NodeChanged, OfferAsked, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.places import Places, Requirement, Taint, Toleration
from schedulers.core.refusals import NodeCode, NodeRefusal
from schedulers.core.scheduler import Scheduler

ZONE = {"zone": "a", "cores": "16"}


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (Requirement("zone", "In", ("a", "b")), True),
        (Requirement("zone", "In", ("b",)), False),
        (Requirement("gpu", "In", ("x",)), False),
        (Requirement("zone", "NotIn", ("b",)), True),
        (Requirement("gpu", "NotIn", ("x",)), True),
        (Requirement("zone", "Exists"), True),
        (Requirement("gpu", "DoesNotExist"), True),
        (Requirement("cores", "Gt", ("8",)), True),
        (Requirement("cores", "Lt", ("16",)), False),
        (Requirement("zone", "Gt", ("8",)), False),
        (Requirement("metadata.name", "In", ("n1",), field=True), True),
        (Requirement("metadata.name", "In", ("n2",), field=True), False),
    ],
)
def test_a_requirement_means_what_it_means_in_kubernetes(requirement: Requirement, holds: bool) -> None:
    assert requirement.holds("n1", ZONE) is holds


def test_one_term_of_several_is_enough_and_all_of_its_requirements_are_needed() -> None:
    near, big = Requirement("zone", "In", ("b",)), Requirement("cores", "Gt", ("8",))
    assert Places(terms=((near,), (big,))).bars("n", ZONE, ()) is None
    assert Places(terms=((near, big),)).bars("n", ZONE, ()) == NodeRefusal(NodeCode.LABELS, "labels")


def test_an_empty_term_matches_no_node() -> None:
    assert Places(terms=((),)).bars("n", ZONE, ()) == NodeRefusal(NodeCode.LABELS, "labels")


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        (Toleration("gpu", "Exists"), True),
        (Toleration("gpu", "Equal", "yes"), True),
        (Toleration("gpu", "Equal", "no"), False),
        (Toleration("gpu", "Exists", effect="NoExecute"), False),
        (Toleration(operator="Exists"), True),
        (Toleration("cpu", "Exists"), False),
    ],
)
def test_a_taint_keeps_away_what_does_not_tolerate_it(toleration: Toleration, covered: bool) -> None:
    taint = Taint("gpu", "yes")
    assert (Places(tolerations=(toleration,)).bars("n", {}, (taint,)) is None) is covered


def test_a_wish_to_stay_away_bars_nobody() -> None:
    assert Places().bars("n", {}, (Taint("gpu", effect="PreferNoSchedule"),)) is None


def cluster(*nodes: Node) -> Scheduler:
    scheduler = Scheduler(SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"}, offers="cycle"))
    for node in nodes:
        scheduler.handle(NodeAdded(0, node))
    return scheduler


def submit(scheduler: Scheduler, places: Places) -> None:
    stage = Stage(name="s", tasks=1, demand=(1,), places=places)
    scheduler.handle(JobSubmitted(1, Job(id="a", stages=(stage,))))


IN_B = Places(terms=((Requirement("zone", "In", ("b",)),),))


def test_a_task_goes_where_its_labels_allow() -> None:
    scheduler = cluster(*(Node(id=f"n{z}", capacity=(4,), labels={"zone": z}) for z in "ab"))
    submit(scheduler, IN_B)
    (placed,) = scheduler.handle(Tick(2))
    assert placed.node == "nb"  # type: ignore[attr-defined]


def test_a_node_that_loses_its_taint_takes_the_task() -> None:
    node = Node(id="n", capacity=(4,), taints=(Taint("maintenance"),))
    scheduler = cluster(node)
    submit(scheduler, Places())
    assert not [d for d in scheduler.handle(Tick(2)) if hasattr(d, "node")]
    scheduler.handle(NodeChanged(3, Node(id="n", capacity=(4,))))
    assert [d.node for d in scheduler.handle(Tick(4)) if hasattr(d, "node")] == ["n"]
    validate(scheduler.state)


def test_an_outside_scheduler_is_not_given_a_node_that_is_barred() -> None:
    scheduler = cluster(Node(id="na", capacity=(4,), labels={"zone": "a"}))
    submit(scheduler, IN_B)
    assert not [d for d in scheduler.handle(OfferAsked(2, "a", 0, ("na",))) if hasattr(d, "node")]


def test_the_explanation_names_the_taint() -> None:
    scheduler = cluster(Node(id="n", capacity=(4,), taints=(Taint("maintenance"),)))
    submit(scheduler, Places())
    assert scheduler.explain("a").stages[0].excluded == {"with taint maintenance": 1}


def test_a_restored_scheduler_bars_the_same_nodes() -> None:
    scheduler = cluster(*(Node(id=f"n{z}", capacity=(4,), labels={"zone": z}) for z in "ab"))
    submit(scheduler, IN_B)
    again = Scheduler.restore(scheduler.snapshot())
    validate(again.state)
    assert again.handle(Tick(2)) == scheduler.handle(Tick(2))
