"""Data between stages: when it is on which node, and what the core keeps for it."""

from __future__ import annotations

import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.checks import validate
from schedulers.core.decisions import Place
from schedulers.core.errors import InvalidJob, InvalidTransition
from schedulers.core.events import ContainerEnded, ContainerStarted, Estimated, JobSubmitted, LinksSet, NodeLost
from schedulers.core.model import Edge, Links, check_job
from schedulers.core.scheduler import Scheduler
from schedulers.core.transfers import transfer_ms

MIB = 1024**2
#: 120 MiB from the one task of `map` to the two of `reduce`.
SHUFFLE = job("a", stage(name="map"), stage(2, parents=(Edge(parent=0, data=120 * MIB),), name="reduce"))


def finished(links: Links | None, *racks: str, runtime_ms: int = 1000) -> Scheduler:
    """On nodes n0, n1, ... in these racks; `map` has started at 50 ms on n0 and is heard to have ended at 2,000."""
    nodes = [node(f"n{i}", 4, rack=rack) for i, rack in enumerate(racks or ("", ""))]
    made = scheduler({"kind": "fifo"}, *nodes, offers="cycle")
    if links is not None:
        made.handle(LinksSet(0, links))
    made.handle(JobSubmitted(0, SHUFFLE))
    made.state.apply(Place(1, "n0", "a", 0, 0))
    made.handle(ContainerStarted(50, 1))
    made.handle(ContainerEnded(2000, 1, 0, runtime_ms))
    validate(made.state)
    return made


def arrivals(made: Scheduler) -> dict[str, int]:
    live = made.state.jobs["a"]
    return {name: made.view.arrival(live, live.stages[1], 0, there) for name, there in made.state.nodes.items()}


def test_a_part_of_the_data_takes_its_bytes_over_the_rate_rounded_up_to_whole_ms() -> None:
    sizes = [(0, 1), (1, 1), (1000, 1), (1001, 1), (1001, 2)]
    assert [transfer_ms(data, parts, 1000) for data, parts in sizes] == [0, 1, 1000, 1001, 501]


def test_large_sizes_are_exact() -> None:
    assert transfer_ms(10**18 + 1, 1, 10**9) == 10**12 + 1


def test_output_sets_out_when_it_is_made_and_is_on_its_own_node_at_once() -> None:
    made = finished(Links(rate=20 * MIB))
    assert arrivals(made) == {"n0": 1050, "n1": 1050 + 3000}


def test_a_pair_has_its_own_rate_one_way_a_rack_its_own_and_the_rest_the_common_one() -> None:
    made = finished(Links(rate=10 * MIB, in_rack=60 * MIB, pairs={"n0": {"n3": 30 * MIB}, "n1": {"n0": 1}}), *"rrsr")
    assert arrivals(made) == {"n0": 1050, "n1": 1050 + 1000, "n2": 1050 + 6000, "n3": 1050 + 2000}


def test_nodes_without_a_rack_share_none() -> None:
    assert arrivals(finished(Links(in_rack=1))) == {"n0": 1050, "n1": 1050}


def test_without_links_nothing_is_kept_and_all_is_there_at_once() -> None:
    made = finished(None)
    assert arrivals(made) == {"n0": 0, "n1": 0}
    assert made.state.jobs["a"].stages[0].outputs is None


def test_only_of_a_stage_whose_data_is_taken_the_outputs_are_kept() -> None:
    made = scheduler("fifo", node())
    made.handle(LinksSet(0, Links(rate=1)))
    made.handle(JobSubmitted(0, job("b", stage(), stage(parents=(Edge(parent=0),)))))
    assert [each.outputs for each in made.state.jobs["b"].stages] == [None, None]


def test_the_copy_whose_output_is_there_first_counts_node_by_node() -> None:
    made = finished(Links(rate=60 * MIB))
    outputs = made.state.jobs["a"].stages[0].outputs
    assert outputs is not None
    outputs[0].append(("n1", 1500))
    assert arrivals(made) == {"n0": 1050, "n1": 1500}


def test_the_last_of_all_parents_tasks_says_when_all_is_there() -> None:
    made = finished(Links(rate=60 * MIB))
    live = made.state.jobs["a"]
    live.stages[0].add_output(1, "n1", 1200)
    assert arrivals(made) == {"n0": 2200, "n1": 2050}


def test_output_outlives_its_node() -> None:
    made = finished(Links(rate=60 * MIB, in_rack=1), "r", "r")
    made.handle(NodeLost(2500, "n0"))
    assert arrivals(made) == {"n1": 2050}


def test_a_snapshot_remembers_links_and_outputs() -> None:
    made = finished(Links(rate=20 * MIB))
    again = Scheduler.restore(made.snapshot())
    validate(again.state)
    assert arrivals(again) == arrivals(made)


def test_links_are_set_before_the_first_job() -> None:
    made = finished(None)
    with pytest.raises(InvalidTransition, match="before the first job"):
        made.handle(LinksSet(3000, Links(rate=1)))


def test_links_that_are_told_again_are_ignored() -> None:
    made = finished(Links(rate=1))
    made.handle(LinksSet(3000, Links(rate=1)))
    assert made.state.links == Links(rate=1)


@pytest.mark.parametrize("links", [Links(rate=0), Links(in_rack=-1), Links(rate=1, pairs={"a": {"b": 0}})])
def test_a_link_that_never_gets_there_is_refused(links: Links) -> None:
    with pytest.raises(InvalidTransition, match="above 0"):
        scheduler("fifo", node()).handle(LinksSet(0, links))


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ((0, Edge(parent=0, data=1)), "two edges to parent 0"),
        ((Edge(parent=0, data=-1),), "takes -1 bytes from parent 0"),
        ((Edge(parent=7),), "names parent 7"),
        ((Edge(parent=1),), "cycle"),
    ],
)
def test_an_edge_that_cannot_be_is_refused(parents: tuple, words: str) -> None:
    with pytest.raises(InvalidJob, match=words):
        check_job(job("a", stage(), stage(parents=parents)), 2)


def test_the_short_form_of_an_edge_is_an_edge_without_data() -> None:
    made = stage(parents=(3, Edge(parent=1, data=5)))
    assert made.edges == (Edge(parent=3), Edge(parent=1, data=5))
    assert (made.above, made.takes_data, stage(parents=(3,)).takes_data) == ((3, 1), True, False)


def test_an_estimate_by_node_holds_there_and_the_nodes_speed_elsewhere() -> None:
    made = scheduler(
        "fifo", node("slow"), node("fast", speed=2.0), node("other", speed=4.0), predictor={"kind": "oracle"}
    )
    told = Estimated(0, "a", (1000, 600), {"slow": (3000, 0), "fast": (200, 0)})
    made.handle(told)
    made.handle(JobSubmitted(0, SHUFFLE))
    for each in (made, Scheduler.restore(made.snapshot())):
        nodes = each.state.nodes.values()
        assert [each.view.task_ms_on("a", 0, there) for there in nodes] == [3000, 200, 250]
        assert [each.view.task_ms_on("a", 1, there) for there in nodes] == [600, 300, 150]


def test_nobody_is_told_without_a_predictor() -> None:
    made = scheduler("fifo", node())
    assert made.view.task_ms_on("a", 0, made.state.nodes["n"]) is None
