"""Declared queues as a tree of YARN's: wherever jobs are, there is a leaf for them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schedulers.core.model import Queue
from schedulers.core.queues import QueueTree
from schedulers.yarn.tree import Branch, path_of, tree


def leaves(branch: Branch) -> list[str]:
    return [path for kid in branch.kids for path in leaves(kid)] if branch.kids else [branch.path]


def declared(**parents: str) -> dict[str, Queue]:
    return {name: Queue(name=name, parent=parent) for name, parent in parents.items()}


def test_names_become_paths() -> None:
    queues = declared(prod="", etl="prod", ml="prod", dev="")
    assert leaves(tree(queues, ())) == ["root.prod.etl", "root.prod.ml", "root.dev"]
    assert path_of("etl", queues) == "root.prod.etl"


def test_whole_paths_stay_as_they_are() -> None:
    queues = {name: Queue(name=name, parent=name.rpartition(".")[0]) for name in ("root.prod", "root.prod.etl")}
    assert leaves(tree(queues, ())) == [path_of("root.prod.etl", queues)] == ["root.prod.etl"]


def test_jobs_of_a_queue_with_others_below_it_are_in_a_leaf_of_its_own() -> None:
    queues = declared(prod="", etl="prod")
    assert leaves(tree(queues, ["prod", "etl"])) == ["root.prod.etl", "root.prod.(own)"]
    assert path_of("prod", queues) == "root.prod.(own)"


def test_a_missing_parent_and_a_cycle_end_the_way_up() -> None:
    queues = declared(a="b", b="a", c="gone", d="a")
    assert leaves(tree(queues, ())) == ["root.a", "root.b", "root.c", "root.d"]
    assert [path_of(name, queues) for name in "abcd"] == ["root.a", "root.b", "root.c", "root.d"]


def test_dots_of_a_name_are_no_path() -> None:
    queues = declared(**{"team.a": ""})
    assert leaves(tree(queues, ())) == [path_of("team.a", queues)] == ["root.team_dot_a"]


NAMES = st.sampled_from(["a", "b", "c", "d", "root", "default", "x.y"])


@given(parents=st.dictionaries(NAMES, NAMES | st.just("")), jobs=st.lists(NAMES, unique=True))
def test_every_job_has_a_leaf_and_the_tree_is_the_cores(parents: dict[str, str], jobs: list[str]) -> None:
    queues = declared(**parents)
    found = leaves(tree(queues, jobs))
    assert {path_of(job, queues) for job in jobs} <= set(found)
    core = QueueTree(1)
    for queue in queues.values():
        core.put(queue)
    if "root" not in parents:  # which is YARN's own name
        inner = {name for name in core.below() if name}
        assert {path_of(name, queues) for name in parents if name not in inner} <= set(found)
