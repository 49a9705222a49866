"""The page of waiting for nodes: plays are emulated runs, skips end, students learn what they are shown."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given

from rm_emulator.known_answers.emulated import finished
from schedulers.planning.unrelated.deft import ORDERS
from schedulers.planning.unrelated.instance import Instance
from studies import lachesis, waits
from studies.tables import run
from tests.planning.test_unrelated import instances

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_play_is_the_emulated_run(tmp_path: Path) -> None:
    """Seed 5 of 20 jobs, whose makespan falls by 9 % when tasks wait. Transfers of the emulator take whole ms."""
    policies = {name: waits.RIVALS[name] for name in ("rank_up, deft", "rank_up, waiting")}
    made = lachesis.scenario("few", lachesis.Setting({"jobs": 20}), policies, [5])
    results = run(made, tmp_path / "few", 1, progress=False)
    (problem, deft), (_, waiting) = [finished(results.path, label, 5) for label in results.by_label]
    batch = waits.batch_of(problem)
    assert batch.makespan == pytest.approx(max(each.end for each in deft), rel=1e-6)
    found = waits.play(batch, waits.linear(waits.rule(waits.PRICE)))
    assert found == pytest.approx(max(each.end for each in waiting), rel=1e-6)
    assert found < 0.95 * batch.makespan


@given(instances())
def test_no_task_is_skipped_for_ever(made: Instance) -> None:
    batch = waits.JobBatch(made, ORDERS["rank_up"](made), 1.0)
    assert waits.play(batch, skips=[10**9] * made.tasks) >= float(made.times.min(axis=1).max())


def test_a_student_learns_what_it_is_shown() -> None:
    """Shown: the task waits where its grandchild gains more than twice the delay; the rule is right in 3 of 8 cases."""
    random = np.random.default_rng(1)
    features = np.zeros((400, 2, len(waits.FEATURES)))
    features[:, 1, :2] = random.random((400, 2))
    features[:, 1, 6] = 1.0
    waited = features[:, 1, 0] > 2 * features[:, 1, 1]
    pick = waits.linear(waits.cloned(list(zip(features, waited.astype(int).tolist(), strict=True))))
    assert np.mean([pick(each) == shown for each, shown in zip(features, waited, strict=True)]) > 0.85


@pytest.mark.slow
@pytest.mark.nightly
def test_the_page_has_every_rival_and_every_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {
        name: msgspec.structs.replace(setting, workload={**setting.workload, "jobs": 2})
        for name, setting in waits.SETTINGS.items()
    }
    monkeypatch.setattr(waits, "SETTINGS", small)
    for name in ("TRAINING", "VALIDATION"):
        monkeypatch.setattr(waits, name, range(5, 7))
    for name in ("SKIPS", "PLANS", "ITERATIONS"):
        monkeypatch.setattr(waits, name, 3)
    template = (DOCS / f"{waits.NAME}.in.md").read_text(encoding="utf-8")
    (tmp_path / f"{waits.NAME}.in.md").write_text(template, encoding="utf-8")
    waits.main(out=tmp_path / "out", docs=tmp_path, seeds=2, jobs=1)
    page = (tmp_path / f"{waits.NAME}.md").read_text(encoding="utf-8")
    for rival in waits.RIVALS:
        assert page.count(f"\n| {rival} | ") == len(small)
    assert page.count("\n| `wait: ") == len(waits.PRICES)
    assert page.count("\n| student ") == 3
    assert "nan" not in page
