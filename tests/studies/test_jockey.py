"""The page of deadlines is made from runs, and what jobs were to have is read off their logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies import jockey

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_the_page_has_every_control_with_every_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jockey, "JOBS", 4)
    monkeypatch.setattr(jockey, "ERRORS", ((0.0, 0.0), (-0.5, 0.5)))
    template = (DOCS / f"{jockey.NAME}.in.md").read_text(encoding="utf-8")
    (tmp_path / f"{jockey.NAME}.in.md").write_text(template, encoding="utf-8")
    jockey.main(out=tmp_path / "out", docs=tmp_path, seeds=1, jobs=1)
    page = (tmp_path / f"{jockey.NAME}.md").read_text(encoding="utf-8")
    assert [page.count(f"\n| {policy} | ") for policy in jockey.CONTROLS] == [2] * len(jockey.CONTROLS)
    assert [page.count(f"\n| {policy} | ") for policy in jockey.OTHERS] == [1] * len(jockey.OTHERS)
    assert "nan" not in page


def test_the_jobs_of_a_seed_are_the_same_again_and_half_of_them_have_deadlines(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    first, second = (jockey.api.load_workload(jockey.prepare(folder, 1)) for folder in folders)
    assert first == second
    due = [isinstance(entry.job.deadline, int) for entry in first.jobs]
    assert len(due) / 4 < sum(due) < 3 * len(due) / 4
    assert [entry.job.queue == jockey.DUE for entry in first.jobs] == due
