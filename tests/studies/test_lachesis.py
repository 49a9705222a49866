"""The page of LACHESIS's settings is made from runs whose schedules are valid."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from studies import lachesis

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
@pytest.mark.nightly
def test_the_page_has_every_policy_in_every_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("fifo, deft", "rank_up, deft", "played", "heft")
    small = {
        name: msgspec.structs.replace(
            setting, workload={**setting.workload, "jobs": 2, "reading": "stage"}, policies=few[: 3 + setting.plain]
        )
        for name, setting in lachesis.SETTINGS.items()
    }
    monkeypatch.setattr(lachesis, "SETTINGS", small)
    monkeypatch.setattr(lachesis, "PLAYS", (1, 2))
    monkeypatch.setattr(lachesis, "AT_ONCE", (2,))
    monkeypatch.setattr(lachesis, "POLICIES", {policy: lachesis.POLICIES[policy] for policy in few})
    elsewhere = {"few": lachesis.Setting({"jobs": 2}, policies=few, speeds=(1.0, 2.0))}
    monkeypatch.setattr(lachesis, "ELSEWHERE", elsewhere)
    monkeypatch.setattr(lachesis, "_FEW", ("rank_up, deft", *few[::2]))
    template = (DOCS / f"{lachesis.NAME}.in.md").read_text(encoding="utf-8")
    (tmp_path / f"{lachesis.NAME}.in.md").write_text(template, encoding="utf-8")
    lachesis.main(out=tmp_path / "out", docs=tmp_path, workflows=tmp_path / "none", seeds=2, jobs=1)
    page = (tmp_path / f"{lachesis.NAME}.md").read_text(encoding="utf-8")
    for policy in few:
        assert page.count(f"\n| {policy} | ") == 1 + sum(policy in setting.policies for setting in small.values())
    assert page.count("\n| few | ") == 1
    assert "ms per task | longest, ms |" in page.replace("2 jobs: ", "")
    assert "nan" not in page


def test_every_decision_of_a_run_is_timed() -> None:
    found = lachesis.decided("played", 2, 1)
    assert 0 < found.per_task < found.longest  # the plan is one decision about all tasks


def test_a_job_is_what_edges_and_barriers_tie_together() -> None:
    problem = lachesis.Problem(
        times=[[2, 4], [3, 3], [5, 1]], machines=2, edges=[(0, 1, 1.0)], releases=[0, 0, 10], copies=1
    )
    runs = [lachesis.TaskRun(0, 0, 0, 2), lachesis.TaskRun(1, 1, 5, 8), lachesis.TaskRun(2, 0, 12, 17)]
    assert sorted(lachesis._slrs(problem, runs)) == [8 / 5, 7 / 1]
