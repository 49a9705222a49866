"""The page of wishes is made from runs, of a mix of jobs that have them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from studies import tetrisched

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_the_page_has_every_policy_with_every_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tetrisched, "JOBS", 24)
    monkeypatch.setattr(tetrisched, "ERRORS", (-0.5, 0.0))
    template = (DOCS / f"{tetrisched.NAME}.in.md").read_text(encoding="utf-8")
    (tmp_path / f"{tetrisched.NAME}.in.md").write_text(template, encoding="utf-8")
    for _ in range(2):  # the second time from what is kept
        tetrisched.main(out=tmp_path / "out", docs=tmp_path, seeds=2, jobs=1)
    page = (tmp_path / f"{tetrisched.NAME}.md").read_text(encoding="utf-8")
    tables = 5 + 2  # by error, and with right estimates on either cluster
    told = {policy: page.count(f"\n| {policy} | ") for policy in tetrisched.KNOWN | tetrisched.OTHERS}
    others = dict.fromkeys((*tetrisched.VARIANTS, *tetrisched.OTHERS), 1)
    ahead = dict.fromkeys(tetrisched.AHEAD, 1)
    swept = {policy: tables + ahead.pop(policy, 0) for policy in tetrisched.POLICIES}
    assert told == {**swept, **others, **ahead}
    assert page.count("2 seeds") == 4
    assert "nan" not in page


def test_three_of_four_jobs_have_wishes_and_a_deadline_that_they_could_keep() -> None:
    jobs = tetrisched.workload(1).jobs
    due = [entry for entry in jobs if entry.job.deadline is not None]
    assert 0.6 < len(due) / len(jobs) < 0.9
    assert all(entry.job.wishes is not None and entry.job.stages[0].gang for entry in due)
    assert all(entry.job.queue == tetrisched.DUE for entry in due)
    assert {entry.apart for entry in jobs} == {1.0, 1.5}
    assert tetrisched.workload(1) == tetrisched.workload(1) != tetrisched.workload(2)


def test_what_is_measured_anew_says_the_same_but_for_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tetrisched, "JOBS", 24)
    first, second = (tetrisched.measure("tetrisched", tetrisched.USUAL, 0.0, 1) for _ in "ab")
    assert msgspec.structs.replace(first, cycles=()) == msgspec.structs.replace(second, cycles=())
    assert first.due >= first.accepted >= first.kept > 0
    assert first.cycles


def test_a_larger_cluster_has_as_many_times_the_jobs_in_the_same_time() -> None:
    small, large = (tetrisched.workload(1, size).jobs for size in (tetrisched.USUAL, tetrisched.LARGE))
    assert len(large) == 4 * len(small)
    assert large[-1].submit_ms == pytest.approx(small[-1].submit_ms, rel=0.2)
    assert len(tetrisched.nodes_of(tetrisched.LARGE)) == tetrisched.LARGE


def test_work_is_counted_against_the_room_until_the_last_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tetrisched, "JOBS", 24)
    one = tetrisched.measure("fifo", tetrisched.USUAL, None, 1)
    assert one.arrivals_s < one.span_s
    assert 0.3 < one.load < 3
