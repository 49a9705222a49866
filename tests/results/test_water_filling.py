"""Water-filling over trees of queues: numbers worked out by hand, and the closed forms of `planning.shares`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.known_answers import shares
from rm_emulator.results.unused import unused_settings
from rm_emulator.results.water_filling import SharedQueue, SharingTree, shared_queues


def filled(queues, **demands):
    """Dominant shares of leaves at one instant; a demand is a number (one resource) or a tuple."""
    rows = [d if isinstance(d, tuple) else (d,) for d in demands.values()]
    tree = SharingTree(queues, list(demands), len(rows[0]))
    found = tree.fill(np.array([rows], dtype=float))[0]
    return dict(zip(demands, (round(float(share), 9) for share in found), strict=True))


def test_equal_queues_get_equal_parts():
    assert filled([], a=5.0, b=5.0) == {"a": 0.5, "b": 0.5}


def test_weights_count():
    assert filled([SharedQueue(name="a", weight=3), SharedQueue(name="b")], a=5.0, b=5.0) == {"a": 0.75, "b": 0.25}


def test_what_one_does_not_want_goes_to_the_others():
    assert filled([], a=0.1, b=5.0, c=5.0) == {"a": 0.1, "b": 0.45, "c": 0.45}


def test_everybody_gets_what_fits():
    assert filled([], a=0.25, b=0.5) == {"a": 0.25, "b": 0.5}


def test_siblings_come_before_cousins():
    tree = [
        SharedQueue(name="p"),
        SharedQueue(name="x"),
        SharedQueue(name="a", parent="p"),
        SharedQueue(name="b", parent="p"),
    ]
    assert filled(tree, a=0.1, b=5.0, x=5.0) == {"a": 0.1, "b": 0.4, "x": 0.5}


def test_an_idle_parent_counts_for_nothing():
    tree = [
        SharedQueue(name="p", weight=9),
        SharedQueue(name="x"),
        SharedQueue(name="y"),
        SharedQueue(name="a", parent="p"),
    ]
    assert filled(tree, a=0.0, x=5.0, y=5.0) == {"a": 0.0, "x": 0.5, "y": 0.5}


def test_a_maximum_stops_a_queue():
    assert filled([SharedQueue(name="a", limit=(0.2,))], a=5.0, b=5.0) == {"a": 0.2, "b": 0.8}


def test_limits_of_queues_without_jobs_stop_nobody():
    tree = [
        SharedQueue(name="p", limit=(0.1,)),
        SharedQueue(name="idle", parent="p", limit=(0.1,)),
        SharedQueue(name="a"),
    ]
    assert filled(tree, a=5.0, b=0.2) == {"a": 0.8, "b": 0.2}


def test_a_parents_maximum_stops_all_below_it():
    tree = [SharedQueue(name="p", limit=(0.3,)), SharedQueue(name="a", parent="p"), SharedQueue(name="b", parent="p")]
    assert filled(tree, a=5.0, b=5.0, x=5.0) == {"a": 0.15, "b": 0.15, "x": 0.7}


def test_a_guarantee_is_a_floor_and_no_bonus():
    # as in ComputeFairShares: max(guaranteed, weight x level)
    tree = [SharedQueue(name="a", guaranteed=(0.6,)), SharedQueue(name="b"), SharedQueue(name="c")]
    assert filled(tree, a=5.0, b=5.0, c=5.0) == {"a": 0.6, "b": 0.2, "c": 0.2}
    assert filled([SharedQueue(name="a", guaranteed=(0.2,)), SharedQueue(name="b")], a=5.0, b=5.0) == {
        "a": 0.5,
        "b": 0.5,
    }


def test_the_example_of_drf():
    # NSDI'11, section 4.1: tasks of <1 CPU, 4 GB> and <3 CPU, 1 GB> on 9 CPU and 18 GB: 3 and 2 of them
    found = filled([], a=(90 / 9, 360 / 18), b=(270 / 9, 90 / 18))
    assert found == {"a": pytest.approx(2 / 3), "b": pytest.approx(2 / 3)}


def test_instants_do_not_touch_each_other():
    demand = np.array([[[5.0], [5.0]], [[0.0], [5.0]], [[0.2], [0.3]]])
    assert SharingTree([], ["a", "b"], 1).fill(demand).tolist() == [[0.5, 0.5], [0.0, 1.0], [0.2, 0.3]]


def test_a_newcomer_shares_with_those_that_want_more():
    tree = SharingTree([SharedQueue(name="a", weight=2), SharedQueue(name="b")], ["a", "b"], 1)
    assert tree.share_of_another(np.array([[5.0], [5.0]]), 1.0) == pytest.approx(0.25)
    assert tree.share_of_another(np.array([[0.1], [5.0]]), 1.0) == pytest.approx(0.45)
    assert tree.share_of_another(np.array([[0.0], [0.0]]), 1.0) == pytest.approx(1.0)


def test_limits_are_read_as_people_write_them():
    found = shared_queues([{"name": "a", "max": "25%", "guaranteed": {"cpu": 2}}], ["cpu", "memory"], [8000, 1024])
    assert (found[0].limit, found[0].guaranteed) == ((0.25, 0.25), (0.25, 0.0))


amounts = st.floats(0.01, 3.0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(amounts, amounts, st.sampled_from([0.5, 1.0, 2.0, 7.0])), min_size=1, max_size=6))
def test_flat_queues_get_what_drf_says(users):
    names = [str(i) for i in range(len(users))]
    tree = SharingTree([SharedQueue(name=n, weight=w) for n, (_, _, w) in zip(names, users, strict=True)], names, 2)
    found = tree.fill(np.array([[(cpu, memory) for cpu, memory, _ in users]]))[0]
    wanted = shares.drf((1.0, 1.0), [shares.User(demand=(c, m), weight=w, most=1.0) for c, m, w in users])
    expected = [tasks * max(cpu, memory) for tasks, (cpu, memory, _) in zip(wanted, users, strict=True)]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(amounts, st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([0.0, 0.05, 0.15])),
        min_size=1,
        max_size=6,
    )
)
def test_one_resource_is_yarns_fair_shares(users):
    names = [str(i) for i in range(len(users))]
    queues = [SharedQueue(name=n, weight=w, guaranteed=(g,)) for n, (_, w, g) in zip(names, users, strict=True)]
    found = SharingTree(queues, names, 1).fill(np.array([[(d,) for d, _, _ in users]]))[0]
    most = [d for d, _, _ in users]
    least = [min(g, d) for d, _, g in users]
    expected = shares.max_min(1.0, [w for _, w, _ in users], least, most)
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


def spec(*policies: dict[str, Any], **queue: Any) -> dict[str, Any]:
    """A scenario with one queue of its own."""
    labelled = [{"label": policy["kind"], **policy} for policy in policies]
    return {"policies": labelled, "queues": [{"name": "a", **queue}]}


def test_weights_that_a_policy_does_not_use_are_said() -> None:
    assert unused_settings(spec({"kind": "fifo"}, {"kind": "drf"}, {"kind": "gs"}, weight=3.0)) == [
        "the queues' `weight` means nothing to fifo, gs (policies that use it: "
        "bounded, capacity, drf, fair_yarn, graphene, hdrf)"
    ]


def test_weights_of_one_are_no_settings() -> None:
    assert unused_settings(spec({"kind": "fifo"}, weight=1.0)) == []


def test_a_setting_of_the_policy_decides_whether_weights_are_used() -> None:
    assert unused_settings(spec({"kind": "drf", "level": "queue"}, weight=3.0)) == []
    assert unused_settings(spec({"kind": "drf", "level": "user"}, weight=3.0)) != []


def test_guarantees_mean_something_to_capacity() -> None:
    assert unused_settings(spec({"kind": "capacity"}, guaranteed=0.5)) == []
    assert unused_settings(spec({"kind": "drf"}, guaranteed=0.5)) == [
        "the queues' `guaranteed` means nothing to drf (policies that use it: capacity)"
    ]
