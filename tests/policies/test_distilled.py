"""The policy that decides by trees: it tells the rule that decided, and takes trees that were patched."""

from __future__ import annotations

from pathlib import Path

import rm_emulator
from rm_emulator.results import replay
from schedulers.learned import model_store
from schedulers.learned.tree import TreeSplit, write
from schedulers.learned.tree_features import TREE_FEATURES
from tests.policies.test_decima import scenario


def test_the_story_of_a_job_tells_the_rules_that_decided(tmp_path: Path) -> None:
    text = "job: {if: own <= 0, then: 0, else: 1}\nstage: 1\nlimit: {if: size <= 100000, then: 3, else: all}\n"
    (tmp_path / "mine.yaml").write_text(text)
    mine = scenario({"kind": "distilled", "tree": "mine"}, plugins=[str(tmp_path / "mine.yaml")])
    rm_emulator.run(mine, out=tmp_path / "out", jobs=1)
    story = rm_emulator.explain(tmp_path / "out", "tpch-0").story
    told = [moment.text for moment in story.moments if moment.kind == "choice"]
    assert told[0].startswith("not own; always: stage s")
    assert "; size <= 100000: limit " in told[0]


def test_a_patched_tree_decides_otherwise(tmp_path: Path) -> None:
    trees = model_store.trees_of("distilled")
    last = TreeSplit([*TREE_FEATURES].index("place"), 0.0, 0.0, 1.0)  # who is first by the rule is not
    (tmp_path / "patched.yaml").write_text(write(trees._replace(job=last)))
    policies = [{"kind": "distilled", "label": "ours"}, {"kind": "distilled", "tree": "patched", "label": "patched"}]
    results = rm_emulator.run(
        scenario(*policies, plugins=[str(tmp_path / "patched.yaml")]), out=tmp_path / "out", jobs=1
    )
    jct = dict(zip(results.runs["label"], results.runs["jct_s.mean"], strict=True))
    assert jct["ours"] != jct["patched"]


def test_its_log_is_replayed(tmp_path: Path) -> None:
    rm_emulator.run(scenario({"kind": "distilled"}), out=tmp_path / "out", jobs=1)
    (log,) = (tmp_path / "out").rglob("events.jsonl*")
    assert replay.main(log) == 0
