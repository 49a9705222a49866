"""TPC-H profiles and the workloads made of them, against facts measured on the release."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest

from rm_emulator.workload import tpch
from rm_emulator.workload.model import PerTask, Waves, Workload
from rm_emulator.workload.profile_files import load_profiles, summarise
from rm_emulator.workload.profiles import JobProfile, Sample, TpchProfiles, builtin_profiles, measured_stage
from rm_emulator.workload.tpch import TpchSettings, generate
from schedulers.core.errors import InvalidParameters, UnknownName
from schedulers.core.model import check_job

FULL = Path(__file__).parents[2] / "../shared/data/tpch-spark-profiles.json.gz"
needs_full = pytest.mark.skipif(not FULL.exists(), reason=f"needs the measured profiles at {FULL}")


@pytest.fixture(scope="module")
def profiles() -> TpchProfiles:
    return builtin_profiles()


@pytest.fixture(scope="module")
def full() -> TpchProfiles:
    return load_profiles(FULL)


def make(profiles: TpchProfiles, *, seed: int = 1, **settings: Any) -> Workload:
    return generate(TpchSettings(**{"history": 0, **settings}), seed=seed, profiles=profiles)


def tasks_of(profiles: TpchProfiles, size_gb: int) -> list[int]:
    return [sum(stage.tasks for stage in job.stages) for job in profiles.jobs if job.size_gb == size_gb]


def test_22_queries_at_7_sizes_are_built_in(profiles: TpchProfiles) -> None:
    assert len(profiles) == 154


def test_the_built_in_profiles_name_their_source(profiles: TpchProfiles) -> None:
    assert "hongzimao/decima-sim" in profiles.source


def test_released_draws_are_those_of_the_released_simulator(profiles: TpchProfiles) -> None:
    # Its generate_tpch_jobs with RandomState(1000), six sizes, 20 jobs at once and a stream after them.
    sizes = (2, 5, 10, 20, 50, 100)
    found = make(profiles, seed=1000, draws="released", jobs=23, initial=20, sizes=sizes)
    drawn = [(job.job.name, times.profile) for job in found.jobs if isinstance(times := job.runtimes[0], Waves)]
    assert drawn[:4] == [
        ("tpch-q20", "tpch-2g-q20"),
        ("tpch-q2", "tpch-100g-q2"),
        ("tpch-q1", "tpch-5g-q1"),
        ("tpch-q14", "tpch-2g-q14"),
    ]
    assert [profile for _, profile in drawn[18:]] == [
        "tpch-10g-q21",
        "tpch-10g-q22",
        "tpch-2g-q21",
        "tpch-20g-q18",
        "tpch-2g-q14",
    ]
    assert [job.submit_ms for job in found.jobs[19:]] == [0, 1482, 47676, 48199]


def test_released_draws_in_a_batch_all_arrive_at_once(profiles: TpchProfiles) -> None:
    found = make(profiles, draws="released", jobs=20, arrivals="batch")
    assert [job.submit_ms for job in found.jobs] == [0] * 20


@pytest.mark.parametrize(("settings", "named"), [({"jobs": None}, "jobs: null"), ({"load": 0.8, "slots": 9}, "load")])
def test_released_draws_refuse_what_the_released_simulator_lacks(
    profiles: TpchProfiles, settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidParameters, match=f"'released' cannot be had with {named}"):
        make(profiles, draws="released", **settings)


def test_the_built_in_profiles_are_a_summary(profiles: TpchProfiles) -> None:
    assert not profiles.exact


def test_queries_have_as_many_stages_as_released(profiles: TpchProfiles) -> None:
    stages = [len(profiles.job(f"tpch-2g-q{query}").stages) for query in tpch.QUERIES]
    assert stages == [4, 18, 6, 6, 14, 2, 13, 18, 14, 9, 11, 6, 7, 4, 7, 9, 6, 8, 4, 12, 16, 8]


@pytest.mark.parametrize(("size", "mean_tasks", "most"), [(2, 912, 1844), (20, 1031, 2183), (100, 1575, 3717)])
def test_jobs_have_as_many_tasks_as_released(profiles: TpchProfiles, size: int, mean_tasks: int, most: int) -> None:
    tasks = tasks_of(profiles, size)
    assert (round(mean(tasks)), max(tasks)) == (mean_tasks, most)


@pytest.mark.parametrize(("size", "middle", "most"), [(2, 166, 382), (10, 316, 932), (100, 1935, 7560)])
def test_jobs_hold_as_much_work_as_released(profiles: TpchProfiles, size: int, middle: int, most: int) -> None:
    work = [job.work_ms / 1000 for job in profiles.jobs if job.size_gb == size]
    assert (round(median(work)), round(max(work))) == (middle, most)


def test_the_mean_job_holds_889_task_seconds(profiles: TpchProfiles) -> None:
    assert round(mean(job.work_ms for job in profiles.jobs) / 1000) == 889


def test_every_job_has_one_last_stage(profiles: TpchProfiles) -> None:
    for job in profiles.jobs:
        parents = {parent for stage in job.stages for parent in stage.parents}
        assert len(job.stages) - len(parents) == 1


def test_an_unknown_profile_names_the_nearest(profiles: TpchProfiles) -> None:
    with pytest.raises(UnknownName, match="did you mean 'tpch-2g-q1'"):
        profiles.job("tpch-2gb-q1")


def test_stage_waves_are_made_once(profiles: TpchProfiles) -> None:
    assert profiles.waves_of(Waves("tpch-2g-q1", 0)) is profiles.stage_waves("tpch-2g-q1", 0)


def test_profiles_survive_being_stored(profiles: TpchProfiles) -> None:
    again = TpchProfiles.from_bytes(profiles.to_bytes())
    assert (again.jobs, again.quantiles, again.source) == (profiles.jobs, profiles.quantiles, profiles.source)


def test_something_else_is_not_read_as_profiles() -> None:
    with pytest.raises(ValueError, match="not a file of TPC-H profiles"):
        TpchProfiles.from_bytes(b"{}")


def test_short_lists_are_summarised_whole() -> None:
    assert Sample(3, (5, 1, 3)).summarised() == Sample(3, (1, 3, 5))


def test_long_lists_are_summarised_as_quantiles_and_spread_again() -> None:
    sample = Sample(1001, tuple(range(1001))).summarised()
    spread = sample.spread(tpch_quantiles())
    assert (len(sample.values), len(spread), mean(spread)) == (14, 1001, pytest.approx(500, rel=0.001))


def tpch_quantiles() -> tuple[float, ...]:
    return builtin_profiles().quantiles


def test_the_first_wave_is_kept_without_the_fresh_durations() -> None:
    stage = measured_stage(3, [], {5: [9, 8]}, {5: [9, 8, 2]}, {5: []})
    assert stage.first[5] == Sample(1, (2,))


def test_pooled_durations_are_as_many_as_the_stage_has_tasks(profiles: TpchProfiles) -> None:
    assert len(profiles.pooled("tpch-10g-q3", 0, 50)) == profiles.job("tpch-10g-q3").stages[0].tasks


@needs_full
@pytest.mark.slow
def test_the_summary_that_ships_is_the_one_of_the_full_profiles(full: TpchProfiles, profiles: TpchProfiles) -> None:
    assert full.summarised().to_bytes() == profiles.to_bytes()


@needs_full
def test_the_summary_keeps_the_mean_of_what_is_drawn(full: TpchProfiles, profiles: TpchProfiles) -> None:
    def drawn(source: TpchProfiles) -> float:
        total = 0.0
        for job in source.jobs:
            for index, stage in enumerate(job.stages):
                total += stage.tasks * float(source.pooled(job.key, index, 50).mean())
        return total

    assert drawn(profiles) == pytest.approx(drawn(full), rel=0.01)


def test_the_command_writes_the_summary(tmp_path: Path) -> None:
    stage = measured_stage(40, [], {5: list(range(20))}, {5: list(range(40))}, {5: []})
    whole = TpchProfiles([JobProfile(query=1, size_gb=2, stages=(stage,))], source="made up")
    (tmp_path / "full.json.gz").write_bytes(whole.to_bytes())
    summarise(tmp_path / "full.json.gz", tmp_path / "summary.json.gz")
    assert (tmp_path / "summary.json.gz").read_bytes() == whole.summarised().to_bytes()


def test_the_name_is_the_query_whatever_the_size(profiles: TpchProfiles) -> None:
    workload = make(profiles, jobs=300, queries=(5,))
    assert {entry.job.name for entry in workload.jobs} == {"tpch-q5"}
    assert len({entry.runtimes[0].profile for entry in workload.jobs if isinstance(entry.runtimes[0], Waves)}) == 7


def test_a_query_belongs_to_one_user(profiles: TpchProfiles) -> None:
    owners = {(entry.job.name, entry.job.user) for entry in make(profiles, jobs=300, users=3).jobs}
    assert len(owners) == 22
    assert len({user for _, user in owners}) == 3


def test_every_job_is_a_dag_of_the_profile(profiles: TpchProfiles) -> None:
    for entry in make(profiles, jobs=None).jobs:
        check_job(entry.job, 2)


def test_without_a_number_every_query_comes_once_at_every_size(profiles: TpchProfiles) -> None:
    workload = make(profiles, jobs=None, arrivals="batch")
    assert len({entry.runtimes[0] for entry in workload.jobs}) == 154


def test_the_same_seed_gives_the_same_workload(profiles: TpchProfiles) -> None:
    assert make(profiles, jobs=40) == make(profiles, jobs=40)


def test_another_seed_gives_another_workload(profiles: TpchProfiles) -> None:
    assert make(profiles, jobs=40) != make(profiles, jobs=40, seed=2)


def test_more_jobs_leave_the_earlier_ones_as_they_are(profiles: TpchProfiles) -> None:
    few, many = make(profiles, jobs=20), make(profiles, jobs=25)
    assert [e.job.stages for e in many.jobs[:20]] == [e.job.stages for e in few.jobs]
    assert [e.submit_ms for e in many.jobs[:20]] == [e.submit_ms for e in few.jobs]


def test_a_batch_arrives_at_zero(profiles: TpchProfiles) -> None:
    assert {entry.submit_ms for entry in make(profiles, jobs=20, arrivals="batch").jobs} == {0}


def test_a_stream_arrives_as_far_apart_as_asked(profiles: TpchProfiles) -> None:
    submits = [entry.submit_ms for entry in make(profiles, jobs=2001, interarrival_s=25.0).jobs]
    assert submits[0] == 0
    assert submits[-1] / 2000 == pytest.approx(25_000, rel=0.05)


def test_initial_jobs_are_there_at_once(profiles: TpchProfiles) -> None:
    submits = [entry.submit_ms for entry in make(profiles, jobs=20, initial=10).jobs]
    assert (submits.count(0), submits == sorted(submits)) == (10, True)


@pytest.mark.parametrize("durations", ["waves", "per_task"])
def test_the_load_is_met_exactly(profiles: TpchProfiles, durations: str) -> None:
    workload = make(profiles, jobs=50, load=0.9, slots=40, durations=durations)
    work = 0.0
    for entry in workload.jobs:
        for stage, times in zip(entry.job.stages, entry.runtimes, strict=True):
            if isinstance(times, PerTask):
                work += sum(times.ms)
            elif isinstance(times, Waves):
                work += stage.tasks * profiles.job(times.profile).stages[times.stage].rough_ms
    span = workload.jobs[-1].submit_ms - workload.jobs[0].submit_ms
    assert work / (40 * span) == pytest.approx(0.9, rel=1e-5)


def test_per_task_gives_every_task_its_own_run_time(profiles: TpchProfiles) -> None:
    for entry in make(profiles, jobs=5, durations="per_task").jobs:
        for stage, times in zip(entry.job.stages, entry.runtimes, strict=True):
            assert isinstance(times, PerTask)
            assert len(times.ms) == stage.tasks


def test_per_task_run_times_do_not_depend_on_the_arrivals(profiles: TpchProfiles) -> None:
    one = make(profiles, jobs=5, durations="per_task")
    other = make(profiles, jobs=5, durations="per_task", arrivals="batch")
    assert [e.runtimes for e in one.jobs] == [e.runtimes for e in other.jobs]


def test_pilots_are_not_slower_than_other_tasks(profiles: TpchProfiles) -> None:
    early, late = [], []
    for entry in make(profiles, jobs=60, durations="per_task").jobs:
        for times in entry.runtimes:
            if isinstance(times, PerTask) and len(times.ms) >= 100:
                scale = mean(times.ms)
                early.append(mean(times.ms[:20]) / scale)
                late.append(mean(times.ms[-20:]) / scale)
    assert mean(early) == pytest.approx(mean(late), rel=0.1)


def test_history_lies_before_the_first_job_oldest_first(profiles: TpchProfiles) -> None:
    history = make(profiles, jobs=5, history=50).history
    assert len(history) == 50
    assert all(past.submitted < past.finished < 0 for past in history)
    assert [past.submitted for past in history] == sorted(past.submitted for past in history)


def test_history_knows_the_stages_of_its_jobs(profiles: TpchProfiles) -> None:
    for past in make(profiles, jobs=5, history=30, queries=(3,), history_sizes=(2,)).history:
        assert [tasks for tasks, _ in past.stages] == [s.tasks for s in profiles.job("tpch-2g-q3").stages]


def test_history_may_have_seen_other_sizes_only(profiles: TpchProfiles) -> None:
    def work(history_sizes: tuple[int, ...]) -> float:
        past = make(profiles, jobs=2, history=10, sizes=(100,), history_sizes=history_sizes, queries=(9,)).history
        return sum(tasks * ms for run in past for tasks, ms in run.stages)

    assert work((2,)) < 0.2 * work(())


def test_demands_may_name_other_resources(profiles: TpchProfiles) -> None:
    workload = make(profiles, jobs=2, demand={"cpu": "500m", "memory": "1Gi", "gpu": 1})
    assert workload.resources == ("cpu", "memory", "gpu")
    assert workload.jobs[0].job.stages[0].demand == (500, 1024, 1000)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queries": (23,)}, "no query 23 at 2 GB"),
        ({"sizes": (3,)}, "no query 1 at 3 GB"),
        ({"sizes": ()}, "sizes is empty"),
        ({"load": 1.0}, "load needs slots"),
        ({"load": 1.0, "slots": 5, "arrivals": "batch"}, "load needs poisson arrivals"),
    ],
)
def test_impossible_settings_are_refused(profiles: TpchProfiles, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameters, match=message):
        make(profiles, **settings)


def test_demands_can_be_drawn_per_stage(profiles: TpchProfiles) -> None:
    plain = make(profiles, jobs=5)
    drawn = make(profiles, jobs=5, drawn={"memory": "1Gi", "disk": "2Gi"})
    assert drawn.resources == ("cpu", "memory", "disk")
    stages = [stage for entry in drawn.jobs for stage in entry.job.stages]
    assert all(s.demand[0] == 1000 and 0 < s.demand[1] <= 1024 and 0 < s.demand[2] <= 2048 for s in stages)
    assert len({s.demand for s in stages}) == len(stages)
    assert [(e.submit_ms, e.runtimes) for e in drawn.jobs] == [(e.submit_ms, e.runtimes) for e in plain.jobs]
