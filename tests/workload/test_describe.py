"""What `rm-emulator traces describe` measures, on workloads small enough to know the answer."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.cli import app
from rm_emulator.workload import describe, description, storage
from rm_emulator.workload.model import Drawn, Fixed, PerTask, RunTimes, Waves, Workload, WorkloadJob
from rm_emulator.workload.work import mean_task_ms, offered_load, window_loads
from schedulers.core.model import Job, PastJob, Stage

DAY = 86_400_000


def job(at: int, times: RunTimes, tasks: int = 3, *, name: str = "etl", user: str = "", app: str = "") -> WorkloadJob:
    stage = Stage(name="s", tasks=tasks, demand=(1000, 1024))
    return WorkloadJob(
        job=Job(id=f"{name}-{at}", name=name, user=user, app=app, stages=(stage,)), submit_ms=at, runtimes=(times,)
    )


def past(mean: float, at: int = -DAY, *, name: str = "etl", user: str = "") -> PastJob:
    return PastJob(name=name, user=user, submitted=at, finished=at, stages=((3, mean),), demand=(1000, 1024))


def workload(*jobs: WorkloadJob, history: tuple[PastJob, ...] = ()) -> Workload:
    return Workload(name="hand-made", jobs=jobs, history=history)


ONE_TWO_THREE = PerTask((1, 2, 3))


def test_space_cov_is_plotted_after_three_percent_of_the_tasks() -> None:
    # population deviation / mean = 0.4082; divided by sqrt(0.03 x 3) = 0.3: notes on the paper's section 4.2
    assert describe.cov_over_space(workload(job(0, ONE_TWO_THREE))) == [pytest.approx(1.3608, abs=1e-4)]


def test_a_single_task_has_no_space_cov() -> None:
    assert describe.cov_over_space(workload(job(0, PerTask((7,)), 1))) == [None]


@pytest.mark.parametrize(
    ("times", "raw"),
    [
        (Fixed(5), 0.0),
        (ONE_TWO_THREE, 0.4082),
        (Drawn(100.0, 0.3), 0.3),
        (Drawn(100.0, 0.3, "exponential"), 1.0),
    ],
)
def test_space_cov_of_every_model_of_run_times(times: RunTimes, raw: float) -> None:
    found = describe.cov_over_space(workload(job(0, times)))[0]
    assert found == pytest.approx(raw / math.sqrt(0.09), abs=1e-3)


def test_time_cov_is_over_the_mean_task_run_times_of_similar_past_jobs() -> None:
    history = (past(10.0), past(20.0), past(30.0))
    assert describe.cov_over_time(workload(job(0, Fixed(1)), history=history), ["name"]) == [
        pytest.approx(math.sqrt(200 / 3) / 20)
    ]


def test_time_cov_takes_the_feature_with_the_least_variation() -> None:
    history = (past(10.0, user="ann"), past(10.0, user="ann"), past(90.0, user="bob"))
    assert describe.cov_over_time(workload(job(0, Fixed(1), user="ann"), history=history)) == [0.0]


def test_time_cov_needs_two_similar_jobs() -> None:
    history = (past(10.0), past(20.0, name="other"))
    assert describe.cov_over_time(workload(job(0, Fixed(1)), history=history), ["name"]) == [None]


def test_an_empty_name_is_no_feature() -> None:
    history = (past(10.0, name=""), past(20.0, name=""))
    assert describe.cov_over_time(workload(job(0, Fixed(1), name=""), history=history), ["name"]) == [None]


def test_without_history_past_jobs_are_the_earlier_ones_of_the_workload() -> None:
    jobs = (job(0, Fixed(10)), job(1, Fixed(30)), job(2, Fixed(99)))
    assert describe.cov_over_time(workload(*jobs), ["name"]) == [None, None, pytest.approx(0.5)]


def test_submission_day_and_hour_are_features() -> None:
    history = (past(10.0, -7 * DAY, name="a"), past(10.0, -7 * DAY, name="b"), past(90.0, -3 * DAY, name="c"))
    assert describe.cov_over_time(workload(job(0, Fixed(1)), history=history), ["day"]) == [0.0]


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown feature 'nmae' .known: name, user"):
        describe.cov_over_time(workload(), ["nmae"])


def plain_cov_over_time(found: Workload, feature: str) -> list[float | None]:
    """By the definition, a list of means for each value: population deviation over mean of at least two of them."""
    covs: list[float | None] = []
    for index, entry in enumerate(found.jobs):
        value = getattr(entry.job, feature)
        earlier = found.history or found.jobs[:index]
        means = [
            past.stages[0][1] if isinstance(past, PastJob) else mean_task_ms(past) or 0.0
            for past in earlier
            if value and getattr(past if isinstance(past, PastJob) else past.job, feature) == value
        ]
        covs.append(statistics.pstdev(means) / statistics.fmean(means) if len(means) > 1 else None)
    return covs


RUNS = st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.integers(1, 10**7)), max_size=12)


@given(RUNS, RUNS)
def test_time_cov_is_what_plain_lists_give(runs: list[tuple[str, int]], before: list[tuple[str, int]]) -> None:
    jobs = [job(at, Fixed(ms), name=name) for at, (name, ms) in enumerate(runs)]
    found = workload(*jobs, history=tuple(past(float(ms), name=name) for name, ms in before))
    assert describe.cov_over_time(found, ["name"]) == [
        None if cov is None else pytest.approx(cov, abs=1e-7) for cov in plain_cov_over_time(found, "name")
    ]


def test_equal_run_times_have_no_variation_at_all() -> None:
    jobs = [job(at, Drawn(0.1, 0.0)) for at in range(4)]
    assert describe.cov_over_time(workload(*jobs), ["name"]) == [None, None, 0.0, 0.0]
    history = tuple(past(0.1) for _ in range(3))
    assert describe.cov_over_time(workload(jobs[0], history=history), ["name"]) == [0.0]


def test_windows_slide_from_the_first_arrival_to_the_last() -> None:
    submit = np.array([0, 500_000, 1_200_000])
    loads = window_loads(submit, np.array([1e6, 2e6, 4e6]), slots=1)
    assert loads.tolist() == [3.0, 2.0, 2.0]


def test_a_short_workload_is_one_window() -> None:
    assert window_loads(np.array([5, 6]), np.array([1e6, 1e6]), slots=2).tolist() == [1.0]


@given(
    st.lists(st.tuples(st.integers(0, 5_000_000), st.integers(1, 10**9)), min_size=1, max_size=20),
    st.integers(1, 500),
)
def test_window_loads_are_what_a_plain_sum_gives(arrivals: list[tuple[int, int]], slots: int) -> None:
    arrivals.sort()
    submit = np.array([at for at, _ in arrivals])
    loads = window_loads(submit, np.array([float(w) for _, w in arrivals]), slots)
    for index, load in enumerate(loads):
        start = arrivals[0][0] + 100_000 * index
        inside = sum(w for at, w in arrivals if start <= at < start + 1_000_000)
        assert load == pytest.approx(inside / (slots * 1e6))


def test_offered_load_is_work_over_slots_times_span() -> None:
    assert offered_load(workload(job(0, Fixed(500)), job(1000, Fixed(500))), slots=2) == 1.5


def test_jobs_that_come_at_once_offer_no_load_figure() -> None:
    assert offered_load(workload(job(0, Fixed(500))), slots=2) is None


def test_job_bins_split_at_three_tasks_and_a_thousand_seconds() -> None:
    bins = describe.job_bins([2, 3, 2, 3], [999_999.0, 999_999.0, 1_000_000.0, 1_000_000.0])
    assert [(b.name, b.jobs) for b in bins] == [
        ("thin-small", 0.25),
        ("wide-small", 0.25),
        ("thin-large", 0.25),
        ("wide-large", 0.25),
    ]


@pytest.mark.parametrize(("tasks", "count"), [(1, 1), (33, 1), (34, 2), (40, 2), (100, 3), (101, 4)])
def test_pilots_are_rounded_up(tasks: int, count: int) -> None:
    assert describe.pilots(tasks) == count


def groups_by_name(found: describe.Description) -> describe.Groups:
    return next(groups for groups in found.groups if groups.feature == "name")


def test_pilots_needed_are_the_ratio_of_the_variances() -> None:
    # over runs: 10, 20, 30 -> CoV^2 = (200/3)/400 = 1/6; inside: (10, 20, 30) -> CoV^2 = 1/6: one pilot is even
    history = (past(10.0), past(30.0))
    found = describe.describe(workload(job(0, PerTask((10, 20, 30))), history=history))
    needed = groups_by_name(found).needed
    assert needed is not None
    assert needed.mean == pytest.approx(1.0)


def test_sampling_is_better_where_runs_vary_and_tasks_do_not() -> None:
    history = (past(10.0), past(90.0))
    found = describe.describe(workload(job(0, PerTask((49, 50, 51))), history=history))
    assert groups_by_name(found).better_groups == 1.0
    assert found.sampling_pays is True
    assert found.verdict.startswith("Would sampling pay? Yes: for 100% of the work")


def test_history_is_better_where_tasks_vary_and_runs_do_not() -> None:
    history = (past(49.0), past(51.0))
    found = describe.describe(workload(job(0, PerTask((10, 50, 90))), history=history))
    assert groups_by_name(found).better_groups == 0.0
    assert found.sampling_pays is False
    assert found.verdict.startswith("Would sampling pay? No: for 100% of the work")


def test_runs_that_never_vary_need_no_pilots_figure() -> None:
    found = describe.describe(workload(job(0, PerTask((50, 50, 50))), history=(past(50.0), past(50.0))))
    assert groups_by_name(found).needed is None
    assert found.sampling_pays is False


def test_of_jobs_that_never_recur_too_few_tell() -> None:
    found = describe.describe(workload(job(0, ONE_TWO_THREE, name="a"), job(1, ONE_TWO_THREE, name="b")))
    assert found.teachers == describe.Teachers(sampling=0.0, history=0.0, first_time=1.0, thin=0.0)
    assert found.sampling_pays is None
    assert found.verdict == (
        "Would sampling pay? Too few recurring jobs to tell: 100% of the work has no past runs to learn from, "
        "so only sampling says anything of it before it ran."
    )


@pytest.mark.parametrize(
    ("sampling", "history", "first_time", "thin", "answer"),
    [
        (0.5, 0.2, 0.2, 0.1, "Yes: for 50% of the work"),
        (0.2, 0.5, 0.2, 0.1, "No: for 50% of the work"),
        (0.1, 0.3, 0.6, 0.0, "No: for 30% of the work"),
        (0.09, 0.0, 0.81, 0.1, "Too few recurring jobs to tell"),
        (0.3, 0.3, 0.4, 0.0, "It makes no difference"),
        (0.05, 0.0, 0.0, 0.95, "No: 95% of the work is in stages of fewer than 3 tasks"),
    ],
)
def test_the_verdict_follows_from_the_shares_of_the_work(
    sampling: float, history: float, first_time: float, thin: float, answer: str
) -> None:
    teachers = describe.Teachers(sampling=sampling, history=history, first_time=first_time, thin=thin)
    assert describe._verdict(teachers, 0).startswith(f"Would sampling pay? {answer}")


def test_thin_jobs_leave_nothing_to_sample() -> None:
    found = describe.describe(workload(job(0, Fixed(5), 2)))
    assert found.sampling_pays is False
    assert "nothing to sample" in found.verdict


def test_a_job_without_a_known_name_is_compared_by_app_before_user() -> None:
    jobs = [job(at, PerTask((49, 50, 51)), name=f"n{at}", app="spark") for at in (0, 1)]
    found = describe.describe(workload(*jobs, job(2, PerTask((499, 500, 501)), name="n2", app="spark")))
    assert found.teachers is not None
    assert found.teachers.sampling == 1.0


def test_stages_of_a_dag_are_compared_with_the_same_stage() -> None:
    def dag(at: int, first: int, second: int) -> WorkloadJob:
        stages = tuple(Stage(name=n, tasks=4, demand=(1, 1), parents=p) for n, p in (("a", ()), ("b", (0,))))
        return WorkloadJob(
            job=Job(id=str(at), name="dag", stages=stages), submit_ms=at, runtimes=(Fixed(first), Fixed(second))
        )

    found = describe.describe(workload(dag(0, 10, 1000), dag(1, 10, 1000), dag(2, 10, 1000)))
    cov = groups_by_name(found).cov_time
    assert (found.multi_stage_jobs, groups_by_name(found).groups) == (3, 2)
    assert cov is not None
    assert cov.max == 0.0


WAVES = Waves("tpch-2g-q1", 0)


def test_run_times_in_an_absent_profile_are_left_out_and_noted() -> None:
    found = describe.describe(workload(job(0, Fixed(5)), job(1, WAVES)))
    assert found.size_s is not None
    assert found.size_s.max == 0.015
    assert any(note.startswith("1 job is left out") for note in found.notes)


def test_a_workload_of_unknown_run_times_does_not_say() -> None:
    found = describe.describe(workload(job(0, WAVES)))
    assert (found.size_s, found.load, found.cov_space, found.sampling_pays) == (None, None, None, None)
    assert "does not say" in found.verdict


def test_a_sampler_supplies_run_times() -> None:
    found = describe.describe(workload(job(0, WAVES)), sampler=lambda job, stage, times: [1.0, 2.0, 3.0])
    assert found.cov_space is not None
    assert found.cov_space.p50 == pytest.approx(1.3608, abs=1e-4)


def test_an_empty_workload_is_described() -> None:
    found = describe.describe(workload())
    assert (found.jobs, found.width, found.sampling_pays) == (0, None, None)
    assert description.lines(found)


def test_without_slots_the_load_is_in_slots_kept_busy() -> None:
    load = describe.describe(workload(job(0, Fixed(1000)), job(1000, Fixed(1000)))).load
    assert load is not None
    assert (load.slots, load.offered) == (None, 6.0)


def test_a_description_is_json() -> None:
    found = describe.describe(workload(job(0, ONE_TWO_THREE), job(9, WAVES)), 10)
    assert msgspec.json.decode(msgspec.json.encode(found), type=describe.Description) == found


def test_text_ends_with_the_verdict() -> None:
    found = describe.describe(workload(job(0, ONE_TWO_THREE)), 10)
    assert description.lines(found)[-1] == found.verdict


def command(*arguments: str | Path) -> None:
    app(["traces", "describe", *map(str, arguments), "--json"], standalone_mode=False)


def test_the_command_prints_one_json_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage.save(workload(job(0, ONE_TWO_THREE), job(9, ONE_TWO_THREE)), tmp_path / "w")
    command(tmp_path / "w", "--slots", "10")
    assert msgspec.json.decode(capsys.readouterr().out)["jobs"] == 2


def test_the_command_looks_measured_waves_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage.save(workload(job(0, WAVES)), tmp_path / "w")
    command(tmp_path / "w")
    assert msgspec.json.decode(capsys.readouterr().out)["cov_space"]["p50"] > 0
