"""Decision trees: what they decide, and their text, which people read and patch."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from schedulers.core.errors import InvalidTree
from schedulers.learned import model_store, tree_features
from schedulers.learned.graph import Graph
from schedulers.learned.limits import candidates
from schedulers.learned.orders import prices
from schedulers.learned.tree import TreeDecider, Trees, TreeSplit, read, reasons, value, write
from schedulers.learned.tree_features import TREE_FEATURES
from tests.learned.drawn import drawn_graph

TEXT = """\
job: {if: own <= 0, then: 0.5, else: 1}
stage:
  if: path_part <= 0.5
  then: 0
  else: 1
limit: {if: size <= 300, then: 5, else: all}
"""
NAMES = tuple(TREE_FEATURES)


def row(**known: float) -> np.ndarray:
    return np.array([known.get(name, 0.0) for name in TREE_FEATURES])


def test_what_is_written_is_read_back() -> None:
    trees = read(TEXT + "ranges: {jobs: [1, 20], size: [0.5, 1e4]}\n", "mine.yaml")
    assert read(write(trees), "again") == trees
    assert trees.ranges == {"jobs": (1, 20), "size": (0.5, 1e4)}
    assert trees.limit == TreeSplit(NAMES.index("size"), 300.0, 5.0, math.inf)


def test_the_trees_that_ship_are_read_back_from_what_they_say() -> None:
    trees = model_store.trees_of("distilled")
    assert read(write(trees), "again") == trees


@pytest.mark.parametrize("many", [1, 30])
def test_the_job_then_the_stage_with_the_best_score_is_chosen(many: int) -> None:
    trees = model_store.trees_of("distilled")
    graph = drawn_graph(many, np.random.default_rng(1))
    (job, at, limit, _), chosen = TreeDecider(trees).choose(graph)
    jobs, of_jobs = tree_features.job_features(graph)
    scores = [value(trees.job, own) for own in of_jobs]
    assert jobs[int(np.argmax(scores))] == job
    rows, of_stages = tree_features.stage_features(graph.jobs[job])
    scores = [value(trees.stage, np.concatenate([of_jobs[int(np.argmax(scores))], own])) for own in of_stages]
    assert rows[int(np.argmax(scores))] == at
    assert limit in candidates(graph.jobs[job].least, graph.executors)
    assert value(trees.stage, chosen) == max(scores)


def test_only_what_may_be_chosen_is_chosen() -> None:
    generator = np.random.default_rng(2)
    decider = TreeDecider(model_store.trees_of("distilled"))
    for _ in range(300):
        graph = drawn_graph(int(generator.integers(1, 6)), generator)
        action = decider.choose(graph).action
        assert graph.jobs[action.job].valid[action.row]


def test_of_equal_scores_the_first_job_by_prices_has_it() -> None:
    graph = drawn_graph(9, np.random.default_rng(3))
    able = [index for index, job in enumerate(graph.jobs) if job.valid.any()]
    first = next(index for index in prices(graph)[0] if index in able)
    assert TreeDecider(Trees(1.0, 1.0, 3.0)).choose(graph).action.job == first


def test_the_order_of_jobs_changes_nothing() -> None:
    graph = drawn_graph(12, np.random.default_rng(4))
    turned = Graph(graph.jobs[::-1], graph.executors)
    decider = TreeDecider(model_store.trees_of("distilled"))
    one, other = decider.choose(graph).action, decider.choose(turned).action
    assert (graph.jobs[one.job].name, *one[1:]) == (turned.jobs[other.job].name, *other[1:])


def test_a_limit_below_the_least_gives_one_executor() -> None:
    graph = drawn_graph(1, np.random.default_rng(5))
    graph = Graph((msgspec.structs.replace(graph.jobs[0], least=7),), 50)
    assert TreeDecider(Trees(0.0, 0.0, 5.0)).choose(graph).action.limit == 7
    assert TreeDecider(Trees(0.0, 0.0, math.inf)).choose(graph).action.limit == 50


def test_a_reason_is_the_narrowest_answer_for_each_fact() -> None:
    size, own = NAMES.index("size"), NAMES.index("own")
    tree = TreeSplit(
        size, 500.0, TreeSplit(own, 0.0, TreeSplit(size, 100.0, 1.0, TreeSplit(size, 300.0, 2.0, 3.0)), 4.0), 5.0
    )
    assert reasons(tree, row(size=200, own=0)) == ["100 < size <= 300", "not own"]
    assert reasons(tree, row(size=900)) == ["size > 500"]


WRONG = {
    TEXT.replace("path_part", "pathpart"): "t.yaml:3: unknown fact 'pathpart', did you mean 'path_part'? (known here: ",
    TEXT.replace("own <= 0", "tasks <= 0"): "t.yaml:1: unknown fact 'tasks'",
    TEXT.replace("  else: 1\n", ""): "t.yaml:3: a branch without 'else' (keys: if, then, else)",
    TEXT.replace("  else: 1\n", "  else: 1\n  also: 2\n"): "t.yaml:6: 'also': no key of a branch",
    TEXT.replace("  else: 1\n", "  else: 1\n  else: 2\n"): "t.yaml:6: 'else': given twice",
    TEXT.replace("path_part <= 0.5", "path_part < 0.5"): "t.yaml:3: 'path_part < 0.5': expected 'FACT <= NUMBER'",
    TEXT.replace("path_part <= 0.5", "path_part <= half"): "t.yaml:3: 'half': expected a number",
    TEXT.replace("  then: 0\n", "  then: high\n"): "t.yaml:4: 'high': expected a score or a branch",
    TEXT.replace("  then: 0\n", "  then: .nan\n"): "t.yaml:4: '.nan': expected a score or a branch",
    TEXT.replace("then: 5", "then: 2.5"): "t.yaml:6: 2.5: a limit is a whole number of executors from 1 on, or all",
    TEXT.replace("then: 5", "then: [5]"): "t.yaml:6: expected a branch, with if, then, else",
    TEXT + "ranges: {job: [1, 2]}\n": "t.yaml:7: 'job': no key of ranges (keys: unknown, executors, jobs, ",
    TEXT + "ranges: {jobs: [2, 1]}\n": "t.yaml:7: expected a range, [LOWEST, HIGHEST]",
    TEXT + "ranges: {jobs: [[], 1, 2, few]}\n": "t.yaml:7: 'few': expected a number",
    TEXT + "ranges: {jobs: 3}\n": "t.yaml:7: expected a range, [LOWEST, HIGHEST]",
    "job: 1\nstage: 1\n": "t.yaml:1: a file of trees without 'limit'",
    "job: {": "t.yaml:1: no YAML",
    "": "t.yaml:1: empty",
    "- 1\n": "t.yaml:1: expected a file of trees",
    "job: &a {if: own <= 0, then: *a, else: *a}\nstage: 1\nlimit: 1\n": "t.yaml:1: more than 64 questions in a row",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: WRONG[text][:60])
def test_a_mistake_is_told_with_its_line(text: str) -> None:
    with pytest.raises(InvalidTree) as told:
        read(text, "t.yaml")
    assert WRONG[text] in str(told.value)
    assert "\n" not in str(told.value)
