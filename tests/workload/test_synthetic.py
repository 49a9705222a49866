"""The presets against the tables of the SLearn paper, and what a seed and a load may change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.workload import describe
from rm_emulator.workload.model import PerTask, Workload
from rm_emulator.workload.synthetic import PRESETS, Preset, generate, spec
from rm_emulator.workload.work import mean_task_ms, offered_load, window_loads, work_ms
from schedulers.core.errors import InvalidParameters, UnknownName
from schedulers.core.model import check_job
from studies import presets
from studies.presets import PAPER, measure

TABLE_4 = 0.15
TABLE_5 = 0.25
#: By night: the presets change seldom, and the first seed is held to the same tables.
MORE_SEEDS = [pytest.param(seed, marks=(pytest.mark.slow, pytest.mark.nightly)) for seed in (2, 3, 4, 5)]
every_preset = pytest.mark.parametrize("preset", list(PRESETS))
seeds = pytest.mark.parametrize("seed", [1, *MORE_SEEDS])


@cache
def made(preset: str, seed: int = 1) -> Workload:
    return generate(preset, seed=seed)


@cache
def work(preset: str, seed: int) -> tuple[float, ...]:
    return tuple(work_ms(job) or 0.0 for job in made(preset, seed).jobs)


def run_times(workload: Workload) -> list[tuple[int, ...]]:
    return [times.ms for job in workload.jobs for times in job.runtimes if isinstance(times, PerTask)]


def quantiles(values: list[float | None]) -> list[float]:
    return np.quantile([value for value in values if value is not None], (0.5, 0.9)).tolist()


@seeds
@every_preset
def test_cov_over_time_is_table_4_s(preset: str, seed: int) -> None:
    found = quantiles(describe.cov_over_time(made(preset, seed)))
    assert found == pytest.approx(PAPER[preset]["time_cov"], rel=TABLE_4)


@seeds
@every_preset
def test_cov_over_time_by_name_alone_is_table_4_s_too(preset: str, seed: int) -> None:
    p50, p90 = quantiles(describe.cov_over_time(made(preset, seed), ["name"]))
    wanted = PAPER[preset]["time_cov"]
    assert p50 == pytest.approx(wanted[0], rel=TABLE_4)
    assert p90 == pytest.approx(wanted[1], rel=TABLE_5)


@seeds
@every_preset
def test_cov_over_space_is_table_4_s(preset: str, seed: int) -> None:
    found = quantiles(describe.cov_over_space(made(preset, seed)))
    assert found == pytest.approx(PAPER[preset]["space_cov"], rel=TABLE_4)


@seeds
@every_preset
def test_load_of_windows_is_table_5_s(preset: str, seed: int) -> None:
    submit = np.array([job.submit_ms for job in made(preset, seed).jobs])
    loads = window_loads(submit, np.array(work(preset, seed)), 150)
    mean, p50, p90 = PAPER[preset]["windows"]
    assert float(loads.mean()) == pytest.approx(mean, rel=0.05)
    assert np.quantile(loads, (0.5, 0.9)).tolist() == pytest.approx([p50, p90], rel=TABLE_5)


@seeds
def test_job_bins_are_table_8_s(seed: int) -> None:
    widths = [job.job.width for job in made("2sigma-like", seed).jobs]
    bins = describe.job_bins(widths, work("2sigma-like", seed))
    assert [100 * b.jobs for b in bins] == pytest.approx(PAPER["2sigma-like"]["bins_jobs"], abs=2)
    assert [100 * b.work for b in bins] == pytest.approx(PAPER["2sigma-like"]["bins_work"], abs=2)


@pytest.mark.parametrize(("preset", "share"), [("google11-like", 1.9), ("google19-like", 1.6)])
def test_few_google_jobs_are_thin_and_large(preset: str, share: float) -> None:
    widths = [job.job.width for job in made(preset).jobs]
    thin_large = describe.job_bins(widths, work(preset, 1))[2]
    assert 100 * thin_large.jobs == pytest.approx(share, abs=1)


@seeds
@every_preset
def test_error_of_three_percent_pilots_is_near_the_paper_s(preset: str, seed: int) -> None:
    errors = np.abs(100 * presets.sampling_errors(made(preset, seed), seed=seed))
    p50, p90 = PAPER[preset]["sampling_error"]
    assert np.quantile(errors, (0.5, 0.9)).tolist() == pytest.approx([p50, p90], rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *MORE_SEEDS[:2]])
@pytest.mark.parametrize("preset", [name for name in PRESETS if name.endswith("-like")])
@pytest.mark.drawn(of=4)
def test_error_of_3sigma_is_near_the_paper_s(preset: str, seed: int) -> None:
    errors = np.abs(100 * presets.history_errors(made(preset, seed)))
    p50, p90 = np.quantile(errors, (0.5, 0.9)).tolist()
    wanted = PAPER[preset]["history_error"]
    assert p50 == pytest.approx(wanted[0], rel=0.25)
    assert wanted[1] / 2 < p90 < wanted[1] * 2


@pytest.mark.slow
@pytest.mark.parametrize("preset", [name for name in PRESETS if name.endswith("-misjudged")])
# A minute each: whole runs of 1,250 jobs.
@pytest.mark.nightly
def test_error_of_3sigma_in_a_run_is_near_the_paper_s(preset: str, tmp_path: Path) -> None:
    p50, p90 = presets.ran(preset, [1], tmp_path, 1)[1].errors
    wanted = PAPER[preset]["errors"]
    assert p50 == pytest.approx(wanted[0], rel=0.25)
    assert wanted[1] / 3 < p90 < wanted[1] * 3


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_3sigma_over_estimates_as_many_2sigma_jobs_as_in_table_10() -> None:
    assert measure(made("2sigma-like")).over == pytest.approx(59.78, abs=5)


GOLDEN = {
    "2sigma-like": "25cbb2686c1b5fdf916761a0b23ceefaaea6696811171455471929ef6cb96668",
    "google11-like": "c53d9f93035e113fbc482f7b1c3e6b323917478bc9b597d50e4b522cbfa0d799",
    "google19-like": "aea20b501dc1dbfa6e6c1b709e434e444adb67e509cf33c9a80c86b64438da89",
    "google11-misjudged": "b6bf93afe3c371032a5a235113a72035a5353b5a85c582327c790d794712fe01",
    "google19-misjudged": "121ce7b669fbc651ba292ef19268113038fbbd95d9562784584ea7ffbdf18108",
}


def drawn(workload: Workload) -> Iterator[tuple[Any, ...]]:
    """What the seed decides of each job, whatever else a job may come to have."""
    for entry in workload.jobs:
        job = entry.job
        stages = [(stage.tasks, stage.demand, stage.parents) for stage in job.stages]
        yield job.id, job.name, job.app, job.user, job.queue, job.weight, entry.submit_ms, stages, entry.runtimes


@every_preset
def test_a_seed_gives_the_same_workload_everywhere(preset: str) -> None:
    workload = generate(preset, jobs=200, seed=7)
    text = msgspec.json.encode([list(drawn(workload)), workload.history])
    assert hashlib.sha256(text).hexdigest() == GOLDEN[preset]


def test_another_seed_gives_another_workload() -> None:
    assert run_times(made("google11-like", 1)) != run_times(generate("google11-like", seed=2))


@settings(max_examples=10, deadline=None)
@given(load=st.floats(0.05, 5), jobs=st.integers(2, 60), slots=st.integers(1, 400), seed=st.integers(0, 100))
@pytest.mark.drawn(of=4)
def test_the_load_asked_for_is_exact(load: float, jobs: int, slots: int, seed: int) -> None:
    found = offered_load(generate("google11-like", jobs=jobs, slots=slots, load=load, seed=seed), slots)
    assert found == pytest.approx(load, rel=1e-4)


@every_preset
def test_the_load_is_the_paper_s_mean_unless_asked_for(preset: str) -> None:
    assert offered_load(made(preset), 150) == pytest.approx(PAPER[preset]["windows"][0], rel=1e-6)


def test_another_load_changes_arrivals_and_nothing_else() -> None:
    other = generate("2sigma-like", load=0.8)
    assert [j.job for j in other.jobs] == [j.job for j in made("2sigma-like").jobs]
    assert run_times(other) == run_times(made("2sigma-like"))
    assert other.history == made("2sigma-like").history


def test_another_load_stretches_all_gaps_alike() -> None:
    at = np.array([j.submit_ms for j in made("2sigma-like").jobs])
    other = np.array([j.submit_ms for j in generate("2sigma-like", load=2.1).jobs])
    assert np.abs(other - at / 2).max() <= 1


def test_widths_grow_with_the_slots_but_single_tasks_stay_single() -> None:
    small, large = made("google19-like"), generate("google19-like", slots=600)
    assert sum(j.job.tasks == 1 for j in small.jobs) == sum(j.job.tasks == 1 for j in large.jobs)
    assert sorted(j.job.tasks * (1 if j.job.tasks == 1 else 4) for j in small.jobs) == sorted(
        j.job.tasks for j in large.jobs
    )


def test_without_history_the_jobs_are_the_same() -> None:
    bare = generate("google11-like", history=False)
    assert bare.history == ()
    assert bare.jobs == made("google11-like").jobs


@every_preset
def test_jobs_are_valid_and_in_order_of_arrival(preset: str) -> None:
    jobs = made(preset).jobs
    for job in jobs:
        check_job(job.job, 2)
    assert [(j.submit_ms, j.job.id) for j in jobs] == sorted((j.submit_ms, j.job.id) for j in jobs)
    assert jobs[0].submit_ms == 0


@every_preset
def test_every_task_has_a_run_time(preset: str) -> None:
    found = made(preset)
    assert [len(ms) for ms in run_times(found)] == [job.job.tasks for job in found.jobs]
    assert min(min(ms) for ms in run_times(found)) >= 1


@every_preset
def test_history_ends_before_time_zero_oldest_first(preset: str) -> None:
    ends = [past.finished for past in made(preset).history]
    assert ends == sorted(ends)
    assert ends[-1] < 0


@every_preset
def test_history_is_as_long_as_the_knob_says(preset: str) -> None:
    first = min(past.submitted for past in made(preset).history)
    assert first >= -PRESETS[preset].history_days * 86_400_000


@every_preset
def test_most_jobs_have_their_name_in_the_history_and_some_are_new(preset: str) -> None:
    known = {past.name for past in made(preset).history}
    new = sum(job.job.name not in known for job in made(preset).jobs) / 1250
    assert new == pytest.approx(PRESETS[preset].new_names, abs=0.02)


def test_a_name_has_one_app_and_one_user() -> None:
    owners: dict[str, set[tuple[str, str]]] = {}
    for job in made("2sigma-like").jobs:
        owners.setdefault(job.job.name, set()).add((job.job.app, job.job.user))
    assert {len(found) for found in owners.values()} == {1}


@pytest.mark.parametrize("jobs", [1, 2, 3, 7])
def test_a_handful_of_jobs_is_possible(jobs: int) -> None:
    assert len(generate("google19-like", jobs=jobs).jobs) == jobs


@pytest.mark.parametrize("slots", [1, 10, 149])
def test_a_small_cluster_is_possible(slots: int) -> None:
    assert max(j.job.tasks for j in generate("2sigma-like", jobs=100, slots=slots).jobs) <= max(slots, 1)


def test_a_knob_can_be_changed_by_name() -> None:
    assert {j.job.tasks for j in generate(spec("2sigma-like", {"single": 1, "pair": 0, "gang": 0}), jobs=50).jobs} == {
        1
    }


@pytest.mark.parametrize(
    "knobs",
    [
        {"outliers": 0.0},
        {"drifted": 0.0, "tail_over": 0.5},
        {"outliers_large": 1.0},
        {"tail_over": 0.0, "outliers_large": 0.5},
        {"drift_max_s": None},
        {"jitter": 0.0},
        {"burstiness": 0.0},
        {"past_runs": 2},
        {"new_names": 1.0},
        {"two_speeds": 1.0},
        {"storms": 1.0, "storm_jobs": 1.0},
        {"tide": 0.0},
        {"wide_cov": 0.0, "even_cov": 0.0},
    ],
)
@pytest.mark.drawn(of=4)
def test_knobs_may_stand_at_their_ends(knobs: dict[str, float]) -> None:
    assert len(generate(spec("2sigma-like", knobs), jobs=40).jobs) == 40


def usual_and_past(**knobs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean task run time of the runs of each name with a history, and of its past runs; nothing else varies."""
    still = {
        "jitter": 0.0,
        "outliers": 0.0,
        "wide_cov": 0.0,
        "even_cov": 0.0,
        "task_max_s": 1e9,
        "past_task_max_s": 1e9,
    }
    found = generate(spec("google11-like", {**still, "history_days": 3650.0, **knobs}))
    past = {job.name: float(job.stages[0][1]) for job in found.history if job.name}
    now = {job.job.name or "": mean_task_ms(job) or 0.0 for job in found.jobs if job.job.name in past}
    return np.array(list(now.values())), np.array([past[name] for name in now])


def test_who_has_drifted_was_longer_in_the_history_unless_told_otherwise() -> None:
    now, past = usual_and_past()
    assert (past < 0.99 * now).sum() == 0
    assert (past > 1.01 * now).sum() > 0


def test_the_tail_of_errors_may_be_under_estimation() -> None:
    now, past = usual_and_past(tail_over=0.0, drift_max_s=None)
    assert (past > 1.01 * now).sum() == 0
    assert (past < 0.99 * now).mean() == pytest.approx(0.45, abs=0.05)


def test_a_share_of_the_tail_is_over_estimation() -> None:
    now, past = usual_and_past(tail_over=0.7, drift_max_s=None)
    longer, shorter = (past < 0.99 * now).sum(), (past > 1.01 * now).sum()
    assert shorter / (longer + shorter) == pytest.approx(0.7, abs=0.06)


def test_large_jobs_are_those_longer_than_in_their_history() -> None:
    now, past = usual_and_past(
        single=1.0, pair=0.0, gang=0.0, tail_over=0.8, drift=3.0, outliers_large=1.0, drift_max_s=None
    )
    longer, shorter = past < 0.99 * now, past > 1.01 * now
    assert now[longer].min() >= now[shorter].max()


def test_drift_may_be_uncapped() -> None:
    capped, free = usual_and_past(), usual_and_past(drift_max_s=None)
    assert (capped[0] == free[0]).all()
    assert free[1].max() > capped[1].max()
    assert (free[1] >= capped[1]).all()


def test_the_largest_jobs_are_the_outliers() -> None:
    knobs = {"jitter": 0.0, "wide_cov": 0.0, "even_cov": 0.0, "time_cov_p50": 3.0, "time_cov_p90": 3.0}
    usual, found = (
        generate(spec("google11-like", {**knobs, "outliers_large": 1.0, "outliers": part}), history=False)
        for part in (0.0, 0.055)
    )
    before, after = (sorted(work_ms(job) or 0.0 for job in each.jobs) for each in (usual, found))
    rest = 1250 - round(0.055 * 1250) - 1
    assert before[:rest] == pytest.approx(after[:rest], rel=1e-3)


def test_an_unknown_knob_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidParameters, match="no knob 'jiter', did you mean 'jitter'"):
        spec("2sigma-like", {"jiter": 1.0})


def test_a_knob_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidParameters, match=r"single"):
        spec("2sigma-like", {"single": 1.5})


def test_shares_that_exceed_one_are_refused() -> None:
    with pytest.raises(InvalidParameters, match=r"single \+ pair \+ gang is 1.3"):
        spec("2sigma-like", {"single": 1.0})


def test_an_unknown_preset_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean '2sigma-like'"):
        generate("2sigma")


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"slots": 0}, {"load": 0.0}, {"load": float("nan")}])
def test_impossible_numbers_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidParameters):
        generate("2sigma-like", **wrong)


def test_every_knob_is_described() -> None:
    fields = msgspec.json.schema(Preset)["$defs"]["Preset"]["properties"]
    assert [name for name, field in fields.items() if not field.get("description")] == []


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_the_check_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    presets.main(["google11-like", "--seeds", "1"])
    text = capsys.readouterr().out
    assert text.startswith("| google11-like | paper | measured |")
    assert "| CoV over time: P50 | 0.2 |" in text


def test_the_check_command_refuses_an_unknown_preset(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        presets.main(["google11"])
    assert stopped.value.code == 2
    assert "did you mean 'google11-like'" in capsys.readouterr().err
