"""The page of deadlines is made from runs of recurring jobs; allocations are added up as they were promised."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from rm_emulator.workload.model import Drawn, WorkloadJob
from schedulers.core.model import Job, PastJob, Stage
from schedulers.core.registry import NoParams
from schedulers.planning.jockey.rehearsal import play
from studies import jockey

DOCS = Path(__file__).parents[2] / "docs"
GROUND = jockey.GROUNDS[jockey.SIZES]


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_the_page_has_every_policy_on_every_ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jockey, "JOBS", 5)
    monkeypatch.setattr(jockey, "EARLIER", 2)
    monkeypatch.setattr(jockey, "ALLOCATIONS", (3, 10))
    monkeypatch.setattr(jockey, "TURNED", {"slack": (1.0, 1.2)})
    template = (DOCS / f"{jockey.NAME}.in.md").read_text(encoding="utf-8")
    (tmp_path / f"{jockey.NAME}.in.md").write_text(template, encoding="utf-8")
    jockey.main(out=tmp_path / "out", docs=tmp_path, seeds=1, jobs=1)
    page = (tmp_path / f"{jockey.NAME}.md").read_text(encoding="utf-8")
    assert [page.count(f"\n| {bound} | ") for bound in (jockey.ALONE, jockey.EDF, "max")] == [len(jockey.GROUNDS)] * 3
    assert [page.count(f"\n| {policy} | ") for policy in jockey.OTHERS] == [1] * len(jockey.OTHERS)
    assert "nan" not in page


def test_the_jobs_of_a_seed_are_the_same_again() -> None:
    first, second = (jockey.workload(jockey.recurring(GROUND, 1), GROUND, 1) for _ in range(2))
    assert first == second
    due = [entry.job for entry in first.jobs if entry.job.deadline is not None]
    assert len(due) == jockey.JOBS
    assert len(first.history) == jockey.JOBS * jockey.EARLIER
    assert {job.queue for job in due} == {jockey.DUE}


def test_a_deadline_hangs_on_earlier_runs_alone() -> None:
    jobs = jockey.recurring(GROUND, 1)
    due = {entry.job.id: (entry.job.deadline or 0) - entry.submit_ms for entry in jockey.workload(jobs, GROUND, 1).jobs}
    lengths = [play(jobs[0].acts, run, jockey.GUARANTEED)[1][-1][0] for run in jobs[0].earlier]
    assert due[jobs[0].name] == round(jockey.TIGHT * median(lengths))


def test_grounds_of_the_same_shape_have_the_same_jobs() -> None:
    made = [jockey.recurring(jockey.GROUNDS[name], 1) for name in (jockey.TRAINED, jockey.SIZES, jockey.STRAGGLERS)]
    assert all([job.stages for job in one] == [job.stages for job in other] for one, other in pairwise(made))


def test_stragglers_and_failures_make_the_tasks_of_a_stage_vary() -> None:
    calm, faulty = (
        jockey.variation(jockey.recurring(jockey.GROUNDS[name], 1)) for name in ("as trained", "stragglers")
    )
    assert calm == pytest.approx(0.2, abs=0.02)
    assert faulty > 0.6


@pytest.mark.parametrize("ground", jockey.GROUNDS)
def test_jobs_ask_for_four_fifths_of_the_slots(ground: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jockey, "JOBS", 200)
    monkeypatch.setattr(jockey, "EARLIER", 2)
    chosen = jockey.GROUNDS[ground]
    work = jockey.workload(jockey.recurring(chosen, 1), chosen, 1)
    spent = sum(entry.job.stages[n].tasks * ms for entry in work.jobs for n, ms in enumerate(_means(entry)))
    last = max(entry.submit_ms for entry in work.jobs)
    assert chosen.extra * spent / last / jockey.SLOTS == pytest.approx(0.8, rel=0.15)


def _means(entry: WorkloadJob) -> list[float]:
    return [times.mean_ms for times in entry.runtimes if isinstance(times, Drawn)]


def test_a_job_is_known_by_the_mean_and_the_spread_of_its_earlier_runs() -> None:
    trained = jockey.Trained(NoParams())
    trained.prime([PastJob(name="etl", submitted=0, finished=1, stages=((4, ms),)) for ms in (10.0, 20.0, 30.0)])
    stages = (Stage(name="all", tasks=4, demand=(1000,)),)
    trained.submitted(Job(id="a", name="etl", stages=stages), 0)
    trained.submitted(Job(id="b", name="never seen", stages=stages), 0)
    known = trained.estimate("a", 0)
    assert known is not None
    assert (known.task_ms, known.spread_ms) == (20.0, 10.0)
    assert trained.estimate("b", 0) is None


def test_what_is_held_is_added_up_between_two_times() -> None:
    steps = [(0, 4), (10, 2), (20, 6)]
    assert jockey.held(steps, 0, 30) == 40 + 20 + 60
    assert jockey.held(steps, 5, 25) == 20 + 20 + 30
    assert jockey.held(steps, 0, 15) == 40 + 10


def test_allocations_beyond_the_cluster_are_counted_while_they_last() -> None:
    given = {"a": [(0, jockey.SLOTS)], "b": [(10, 1), (20, 0)]}
    assert jockey.beyond(given, {"a": 40, "b": 30}, 0) == pytest.approx(10 / 40)
    assert jockey.beyond({}, {}, 0) == 0


def test_allocations_beyond_the_cluster_count_from_the_end_of_the_warm_up_on() -> None:
    given = {"a": [(0, jockey.SLOTS + 1), (10, 1), (30, jockey.SLOTS + 1)], "b": [(15, 2), (16, 0)]}
    assert jockey.beyond(given, {"a": 45, "b": 20}, 5) == pytest.approx((5 + 15) / 40)


def test_no_schedule_meets_more_deadlines_than_the_jobs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jockey, "JOBS", 5)
    monkeypatch.setattr(jockey, "TIGHT", 0.5)
    met = {
        label: jockey.measure(jockey.TRAINED, label, (), (1.0, 1.0), 1).met for label in (jockey.ALONE, "edf", "max")
    }
    assert 0 < met[jockey.ALONE] < 4
    assert max(met.values()) == met[jockey.ALONE]


def test_a_deadline_that_comes_sooner_makes_the_loop_ask_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jockey, "JOBS", 5)
    loop, static = (
        jockey.measure(jockey.TRAINED, label, (), jockey.CHANGES["halved"], 1) for label in (jockey.LOOP, jockey.STATIC)
    )
    assert loop.after > 1.3 * loop.before
    assert static.after == pytest.approx(static.before, rel=0.1)


def test_the_remaining_time_of_a_run_as_trained_is_known_within_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jockey, "JOBS", 5)
    by = jockey.errors(jockey.TRAINED, 1).by
    assert by["totalworkWithQ"].absolute < 0.1
    assert abs(by["totalworkWithQ"].signed) <= by["totalworkWithQ"].absolute < by["amdahl"].absolute
    assert 0 < by["totalwork"].still < 1
