"""Each format from a small file written to its published description: what becomes a job, and what does not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.testing import check_format
from rm_emulator.workload import formats, storage
from rm_emulator.workload.formats import Trace, TraceError
from rm_emulator.workload.model import Fixed, PerTask, WorkloadJob
from tests.workload import samples


def read(name: str, folder: Path, **options: Any) -> Trace:
    return formats.read(name, samples.write(name, folder), options)


def jobs(trace: Trace) -> dict[str, WorkloadJob]:
    return {found.job.id: found for found in trace.workload.jobs}


def shape(found: WorkloadJob) -> list[tuple[Any, ...]]:
    return [(stage.tasks, stage.demand, times) for stage, times in zip(found.job.stages, found.runtimes, strict=True)]


@pytest.mark.parametrize("name", samples.NAMES)
def test_a_format_keeps_its_promises(name: str) -> None:
    check_format(name)


@pytest.mark.parametrize("name", samples.NAMES)
def test_a_format_is_guessed(name: str, tmp_path: Path) -> None:
    assert formats.guess(samples.write(name, tmp_path)) == name


@pytest.mark.parametrize("name", samples.NAMES)
def test_what_is_read_can_be_stored(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    trace = formats.convert(name, samples.write(name, tmp_path / "in"), tmp_path / "out")
    assert storage.load(tmp_path / "out") == trace.workload


@pytest.mark.parametrize("name", samples.NAMES)
def test_the_first_job_arrives_at_zero_and_notes_say_what_is_assumed(name: str, tmp_path: Path) -> None:
    trace = read(name, tmp_path)
    assert (trace.workload.jobs[0].submit_ms, bool(trace.notes)) == (0, True)


def test_a_workload_of_nothing_known_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TraceError, match=r"looks like none of the formats \(name it with --format"):
        formats.guess(tmp_path / "x.csv")


# -- swf


def test_swf_a_job_is_a_gang_of_a_task_per_processor(tmp_path: Path) -> None:
    found = jobs(read("swf", tmp_path))["1"]
    assert shape(found) == [(4, (1000, 2), Fixed(60_000))]
    assert (found.job.stages[0].gang, found.job.stages[0].hint_ms) == (True, 120_000)
    assert (found.job.user, found.job.app, found.job.name, found.job.queue) == ("user-3", "app-7", "app-7", "queue-1")


def test_swf_requested_processors_and_memory_count_where_nothing_else_does(tmp_path: Path) -> None:
    assert shape(jobs(read("swf", tmp_path))["4"]) == [(2, (1000, 4), Fixed(30_000))]


def test_swf_counts_what_it_leaves_out(tmp_path: Path) -> None:
    trace = read("swf", tmp_path)
    assert sorted(jobs(trace)) == ["1", "2", "4"]
    assert trace.notes[:4] == (
        "jobs of less than a second, taken to last half of one: 1",
        "jobs that say no memory, taken to need none: 1",
        "jobs left out, no run time or no processors: 1",
        "lines left out, parts of a job that has a line of its own: 1",
    )


def test_swf_arrivals_have_dates_where_the_header_has_the_start(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text("; UnixStartTime: 1027839845\n" + samples.SWF.replace("1   0", "1  20"))
    workload = formats.read("swf", path).workload
    assert workload.began == datetime.fromtimestamp(1027839845 + 20, UTC)
    assert workload.contents is not None
    assert workload.contents.dates
    assert read("swf", tmp_path).workload.began is None


def test_swf_failed_jobs_may_be_left_out(tmp_path: Path) -> None:
    assert sorted(jobs(read("swf", tmp_path, only_completed=True))) == ["1", "2"]


def test_swf_processors_may_start_one_by_one(tmp_path: Path) -> None:
    assert not jobs(read("swf", tmp_path, gang=False))["1"].job.stages[0].gang


# -- sacct


def test_sacct_a_job_is_a_gang_of_a_task_per_node(tmp_path: Path) -> None:
    trace = read("sacct", tmp_path)
    found = jobs(trace)["100"]
    assert trace.workload.resources == ("cpu", "memory", "gpu")
    assert shape(found) == [(2, (4000, 16 * 1024, 2000), Fixed(93_784_000))]
    assert (found.job.stages[0].gang, found.job.stages[0].hint_ms) == (True, 172_800_000)
    assert (found.job.name, found.job.user, found.job.queue) == ("train", "ann", "gpu")


def test_sacct_an_array_is_one_job_of_a_task_per_element(tmp_path: Path) -> None:
    found = jobs(read("sacct", tmp_path))["101"]
    assert (shape(found), found.submit_ms) == ([(2, (1000, 500, 0), PerTask((60_000, 180_000)))], 30_000)


def test_sacct_the_last_attempt_counts_and_the_first_submission(tmp_path: Path) -> None:
    found = jobs(read("sacct", tmp_path))["103"]
    assert (shape(found), found.submit_ms) == ([(1, (2000, 1024, 0), Fixed(120_000))], 3_600_000)


def test_sacct_parts_of_a_heterogeneous_job_are_stages(tmp_path: Path) -> None:
    assert [part[1] for part in shape(jobs(read("sacct", tmp_path))["104"])] == [(1000, 1024, 0), (4000, 8192, 0)]


def test_sacct_time_0_is_the_first_submission(tmp_path: Path) -> None:
    assert read("sacct", tmp_path).workload.began == datetime(2024, 3, 1, 10, tzinfo=UTC)


def test_sacct_counts_what_it_leaves_out(tmp_path: Path) -> None:
    assert read("sacct", tmp_path).notes[:4] == (
        "job steps left out, they are inside their job: 2",
        "jobs left out, not over when the log was made (PENDING): 1",
        "jobs left out, CANCELLED before they started: 1",
        "attempts left out, a later row of the same job counts: 1",
    )


def test_sacct_only_completed_jobs_when_asked(tmp_path: Path) -> None:
    found = jobs(read("sacct", tmp_path, only_completed=True))
    assert (sorted(found), found["101"].job.tasks) == (["100", "101", "103"], 1)


def test_sacct_what_was_requested_counts_when_asked(tmp_path: Path) -> None:
    assert shape(jobs(read("sacct", tmp_path, demand="req"))["100"])[0][1] == (4000, 16 * 1024)


def test_sacct_without_tres_takes_cores_nodes_and_memory(tmp_path: Path) -> None:
    text = "JobID|Submit|State|ElapsedRaw|AllocCPUS|NNodes|ReqMem|\n7|1709287200|COMPLETED|90|8|2|2Gc|\n"
    (tmp_path / "s").write_text(text)
    (found,) = formats.read("sacct", tmp_path / "s").workload.jobs
    assert shape(found) == [(2, (4000, 8192), Fixed(90_000))]


# -- yarn_apps


def test_yarn_apps_sums_become_containers_of_one_vcore(tmp_path: Path) -> None:
    found = jobs(read("yarn_apps", tmp_path))["application_1476912658570_0001"]
    assert shape(found) == [(3, (1000, 2048), Fixed(20_000))]
    assert (found.job.queue, found.job.app, found.job.name) == ("root.prod", "MAPREDUCE", "word count")


def test_yarn_apps_containers_may_be_shorter_than_their_application(tmp_path: Path) -> None:
    found = jobs(read("yarn_apps", tmp_path, task_seconds=6))["application_1476912658570_0001"]
    assert shape(found) == [(10, (1000, 2048), Fixed(6000))]


def test_yarn_apps_what_runs_or_held_nothing_is_left_out(tmp_path: Path) -> None:
    trace = read("yarn_apps", tmp_path)
    assert [found.submit_ms for found in trace.workload.jobs] == [0, 10_000]
    assert trace.notes[:2] == (
        "applications left out, not over when the list was made (RUNNING): 1",
        "applications left out, they held nothing (vcoreSeconds is 0): 1",
    )


def test_yarn_apps_of_a_cluster_without_any_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"apps":null}')
    with pytest.raises(TraceError, match=r"a\.json: no job is left \(there is none in it\)"):
        formats.read("yarn_apps", tmp_path / "a.json")


# -- google


def test_google2011_a_task_runs_from_its_last_schedule_to_its_end(tmp_path: Path) -> None:
    trace = read("google2011", tmp_path, machine_cpu="16", machine_memory="100Gi")
    (found,) = trace.workload.jobs
    assert shape(found) == [(2, (2000, 7625), PerTask((60_000, 90_000)))]
    assert (found.job.id, found.job.user) == ("3418309", "u1")


def test_google2011_counts_evictions_and_what_the_trace_does_not_hold(tmp_path: Path) -> None:
    assert read("google2011", tmp_path).notes[:3] == (
        "events that were made up for missing ones: 2",
        "attempts that were evicted, left out: 1",
        "tasks left out, submitted before the trace began: 1",
    )


def test_google2011_killed_tasks_may_be_left_out(tmp_path: Path) -> None:
    (found,) = read("google2011", tmp_path, only_completed=True).workload.jobs
    assert found.job.tasks == 1


def test_google2011_names_come_from_job_events(tmp_path: Path) -> None:
    for table, text in (("task_events", samples.GOOGLE_2011), ("job_events", samples.GOOGLE_2011_JOBS)):
        (tmp_path / table).mkdir()
        (tmp_path / table / "part-00000-of-00500.csv").write_text(text)
    (found,) = formats.read(formats.guess(tmp_path), tmp_path).workload.jobs
    assert found.job.name == "a logical name"


def test_google2019_events_may_come_in_any_order_by_name_or_number(tmp_path: Path) -> None:
    trace = read("google2019", tmp_path, machine_cpu="16", machine_memory="64Gi")
    (found,) = trace.workload.jobs
    assert shape(found) == [(2, (4000, 32 * 1024), PerTask((30_000, 70_000)))]
    assert trace.notes[0] == "events of alloc sets, left out: 1"


def test_google2019_reads_csv(tmp_path: Path) -> None:
    (tmp_path / "i.csv").write_text(samples.GOOGLE_2019_CSV)
    assert formats.guess(tmp_path / "i.csv") == "google2019"
    assert formats.read("google2019", tmp_path / "i.csv").workload.jobs[0].runtimes == (Fixed(30_000),)


def test_google2019_names_come_from_collection_events(tmp_path: Path) -> None:
    (tmp_path / "instance_events-000.json").write_text(samples.GOOGLE_2019)
    (tmp_path / "collection_events-000.json").write_text(samples.GOOGLE_2019_COLLECTIONS)
    trace = formats.read("google2019", tmp_path)
    job = trace.workload.jobs[0].job
    assert (job.name, job.user) == ("a logical name", "u7")
    assert trace.notes[-1] == "jobs that wait for other jobs, which is not taken over: 1"


# -- openb


def test_openb_a_pod_is_a_job_with_its_part_of_a_gpu(tmp_path: Path) -> None:
    found = jobs(read("openb", tmp_path))
    assert shape(found["openb-pod-0022"]) == [(1, (4000, 15258, 220), Fixed(294_650_000))]
    assert shape(found["openb-pod-0017"])[0][1] == (88000, 327680, 8000)
    assert (found["openb-pod-0022"].submit_ms, found["openb-pod-0022"].job.queue) == (241_678_000, "BE")


def test_openb_pods_that_never_ran_are_left_out(tmp_path: Path) -> None:
    assert read("openb", tmp_path).notes[:2] == (
        "pods whose GPU type is not taken over: 1",
        "pods left out, never scheduled (phase Pending): 1",
    )


# -- pods


def test_pods_of_one_owner_are_one_job(tmp_path: Path) -> None:
    trace = read("pods", tmp_path)
    (found,) = trace.workload.jobs
    assert shape(found) == [(2, (500, 1024), PerTask((60_000, 180_000)))]
    assert (found.job.id, found.job.name) == ("team-a/nightly-28487520", "team-a/nightly")
    assert (found.job.user, found.job.queue) == ("team-a", "prod")
    assert trace.notes[0] == "pods left out, not over when the list was made (Running): 1"


def test_pods_requests_follow_kubernetes_rule(tmp_path: Path) -> None:
    spec = {
        "containers": [{"resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}}}],
        "initContainers": [{"resources": {"requests": {"cpu": "3"}}}],
        "overhead": {"memory": "64Mi"},
    }
    (tmp_path / "p.json").write_text(samples.pods(samples.pod("x", spec=spec)))
    workload = formats.read("pods", tmp_path / "p.json").workload
    assert workload.resources == ("cpu", "memory", "nvidia.com/gpu")
    assert workload.jobs[0].job.stages[0].demand == (3000, 1088, 2)


# -- alibaba2020


def test_alibaba2020_a_task_is_a_stage_and_its_instances_are_tasks(tmp_path: Path) -> None:
    trace = read("alibaba2020", tmp_path)
    (found,) = trace.workload.jobs
    assert shape(found) == [
        (1, (6000, 30_000, 0), Fixed(390_000)),
        (2, (4000, 10_240, 500), PerTask((300_000, 360_000))),
    ]
    assert (found.job.name, found.job.user) == ("a-group", "ann")
    assert trace.notes[0] == "tasks left out, status Waiting: 1"


def test_alibaba2020_without_instances_a_task_lasts_as_long_as_its_stage(tmp_path: Path) -> None:
    folder = samples.write("alibaba2020", tmp_path)
    (folder / "pai_instance_table.csv").unlink()
    trace = formats.read("alibaba2020", folder)
    assert trace.workload.jobs[0].runtimes == (Fixed(390_000), Fixed(360_000))
    assert "there is no pai_instance_table" in trace.notes[-1]


def test_alibaba2020_header_lines_are_passed_over(tmp_path: Path) -> None:
    folder = samples.write("alibaba2020", tmp_path)
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    (folder / "pai_task_table.csv").write_text(header + samples.PAI["pai_task_table.csv"])
    assert len(formats.read("alibaba2020", folder).workload.jobs) == 1


def test_a_workload_with_gangs_is_stored_with_them(tmp_path: Path) -> None:
    trace = read("swf", tmp_path)
    storage.save(trace.workload, tmp_path / "out")
    assert [entry.job.stages[0].gang for entry in storage.load(tmp_path / "out").jobs] == [True, False, True]


def test_json_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"apps": {"app": {"id": "a"}}}))
    with pytest.raises(TraceError, match=r"x\.json: there is no list at apps\.app"):
        formats.read("yarn_apps", tmp_path / "x.json")
