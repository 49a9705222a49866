"""Trees grow where they tell most, and learn what a network would choose."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from rm_emulator.issues import InvalidInput
from rm_emulator.learn import config, distil
from rm_emulator.learn.cart import grow
from rm_emulator.learn.distil import Distillation
from schedulers.learned.tree import TreeSplit, read, value
from tests.learn.conftest import SCENARIO


def mean(targets: np.ndarray) -> float:
    return round(float(targets[0]), 3)


def test_a_tree_finds_the_fact_and_the_threshold_that_tell() -> None:
    known = np.random.default_rng(1).uniform(0, 100, (2000, 3)).round()
    tree = grow(known, (known[:, [1]] > 40).astype(float), leaves=8, least=5, value=mean)
    assert tree == TreeSplit(1, 40.0, 0.0, 1.0)


def test_a_tree_has_no_more_leaves_than_it_may() -> None:
    generator = np.random.default_rng(2)
    known = generator.uniform(0, 1, (500, 2))
    tree = grow(known, known[:, [0]] + known[:, [1]], leaves=5, least=5, value=mean)
    assert len({value(tree, row) for row in known}) == 5


def test_a_leaf_has_no_fewer_rows_than_it_must() -> None:
    known = np.arange(100.0)[:, None]
    targets = (known == 0).astype(float)
    tree = grow(known, targets, leaves=2, least=10, value=mean)
    assert isinstance(tree, TreeSplit)
    assert (known[:, 0] <= tree.most).sum() >= 10


def test_branches_with_equal_leaves_are_one() -> None:
    known = np.arange(100.0)[:, None]
    assert grow(known, known, leaves=9, least=1, value=lambda _: 7.0) == 7.0


@pytest.fixture
def small(tmp_path: Path) -> config.Config:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    packaged = config.read(config.find("distilled"))
    return msgspec.structs.replace(
        packaged,
        workloads=(config.Sequences(scenario=str(tmp_path / "small.yaml")),),
        distillation=msgspec.structs.replace(packaged.distillation, rounds=2, episodes=12),
        validation=msgspec.structs.replace(packaged.validation, seeds="5000..5009"),
    )


@pytest.mark.slow
def test_trees_of_some_episodes_come_near_the_network(small: config.Config, tmp_path: Path) -> None:
    said: list[str] = []
    assert Distillation(small, tmp_path / "out", said.append).run() < 1.1
    assert [line[:10] for line in said] == ["round 1/2:", "round 2/2:"]
    ranges = read((tmp_path / "out" / "best.yaml").read_bytes(), "best.yaml").ranges
    assert (ranges["unknown"], ranges["jobs"]) == ((0, 0), (1, 4))


def test_trees_that_are_there_are_not_overwritten(small: config.Config, tmp_path: Path) -> None:
    (tmp_path / distil.BEST).write_text("")
    with pytest.raises(InvalidInput, match="holds trees already"):
        Distillation(small, tmp_path, print)


def test_a_workload_without_any_choice_is_refused(small: config.Config, tmp_path: Path) -> None:
    one_job = SCENARIO.replace("jobs: 4", "jobs: 1").replace("queries: [2, 7, 14, 16]", "queries: [6]")
    (tmp_path / "small.yaml").write_text(one_job)
    with pytest.raises(InvalidInput, match="nothing to learn"):
        Distillation(small, tmp_path / "out", lambda _: None).run()
