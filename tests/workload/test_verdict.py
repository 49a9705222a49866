"""What the verdict on sampling may say: no more than the trace knows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rm_emulator.workload import describe, description, formats
from rm_emulator.workload.contents import Contents
from rm_emulator.workload.model import Fixed, PerTask, Workload, WorkloadJob
from schedulers.core.model import Job, Stage
from tests.workload import samples

#: One duration per row: three runs of a job of eight tasks.
ONE_DURATION = "job,name,submit,tasks,durations\na,etl,0,8,60\nb,etl,100,8,70\nc,etl,200,8,20\nd,etl,300,8,90\n"


def described(path: Path, name: str, **options: object) -> describe.Description:
    return describe.describe(formats.read(name, path, options).workload)


def recurring(*, gang: bool, contents: Contents | None = None) -> Workload:
    """Runs of a job that vary over time and not inside a run: the best case for sampling."""
    stage = Stage(name="s", tasks=8, demand=(1000, 1024), gang=gang)
    jobs = tuple(
        WorkloadJob(
            job=Job(id=str(at), name="etl", stages=(stage,)),
            submit_ms=at * 1_000_000,
            runtimes=(PerTask((ms, ms + 1, ms, ms, ms, ms, ms, ms)),),
        )
        for at, ms in enumerate((10_000, 90_000, 20_000, 70_000))
    )
    return Workload(name="made", jobs=jobs, contents=contents)


def test_one_duration_per_row_cannot_tell(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(ONE_DURATION)
    found = described(tmp_path / "jobs.csv", "csv")
    assert found.sampling_pays is None
    assert found.verdict.startswith(
        "Would sampling pay? Cannot tell: no run times of single tasks for 100% of the work."
    )


def test_an_application_list_cannot_tell(tmp_path: Path) -> None:
    listed = msgspec.json.decode(samples.YARN_APPS)
    app = listed["apps"]["app"][0]
    listed["apps"]["app"] = [
        app | {"id": f"application_1_{n}", "vcoreSeconds": 200 + 100 * n, "name": "etl"} for n in range(5)
    ]
    (tmp_path / "apps.json").write_bytes(msgspec.json.encode(listed))
    found = described(tmp_path / "apps.json", "yarn_apps")
    assert (found.sampling_pays, found.cov_space) == (None, None)
    assert "Cannot tell: no run times of single tasks" in found.verdict


@pytest.mark.parametrize("gang", [True, False])
def test_a_log_of_parallel_jobs_never_says_yes(tmp_path: Path, gang: bool) -> None:
    found = described(samples.write("swf", tmp_path), "swf", gang=gang)
    assert found.sampling_pays is not True
    word = "No: 100% of the work starts in gangs" if gang else "Cannot tell: no run times of single tasks"
    assert word in found.verdict


def test_gangs_are_never_sampled_even_with_run_times_of_single_tasks() -> None:
    assert describe.describe(recurring(gang=False)).sampling_pays is True
    found = describe.describe(recurring(gang=True))
    assert found.sampling_pays is False
    assert found.teachers == describe.Teachers(sampling=0.0, history=0.0, first_time=0.0, thin=0.0, gang=1.0)


def test_the_known_part_of_a_trace_decides_if_the_rest_cannot_change_the_answer() -> None:
    contents = Contents.lacking(task_times="All tasks take one time.")
    known = recurring(gang=False, contents=contents)
    one = known.jobs[0]
    small = msgspec.structs.replace(
        one, job=msgspec.structs.replace(one.job, id="x", name="other"), runtimes=(Fixed(100),)
    )
    large = msgspec.structs.replace(small, runtimes=(Fixed(10**7),))
    with_small = msgspec.structs.replace(known, jobs=(*known.jobs, small))
    with_large = msgspec.structs.replace(known, jobs=(*known.jobs, large))
    assert describe.describe(with_small).sampling_pays is True
    assert describe.describe(with_large).sampling_pays is None


def test_history_is_judged_beside_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(ONE_DURATION)
    history = described(tmp_path / "jobs.csv", "csv").recurring
    assert history is not None
    # The first two runs have fewer than two runs before them; run 3 (20 s) is told from 60 s and 70 s.
    assert history.jobs == 2
    assert history.error is not None
    assert history.error.max == pytest.approx(abs((2 / (60**-2 + 70**-2)) ** 0.5 - 20) / 20, rel=0.05)


def test_without_names_no_job_has_a_history(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,tasks,durations\na,8,60\nb,8,70\nc,8,20\n")
    history = described(tmp_path / "jobs.csv", "csv").recurring
    assert history is not None
    assert (history.jobs, history.error) == (0, None)


def test_the_text_says_what_history_would_err_by(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(ONE_DURATION)
    text = description.lines(described(tmp_path / "jobs.csv", "csv"))
    assert any(line.startswith("history: 2 of 4 jobs have earlier runs") for line in text)
    assert text[-1].startswith("Would sampling pay? Cannot tell")
