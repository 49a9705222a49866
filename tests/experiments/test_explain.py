"""The story of a job: what it waited for, when, why."""

from __future__ import annotations

from pathlib import Path

import pytest

import rm_emulator
from rm_emulator.api import API_VERSION, Results
from rm_emulator.engine.config import EngineConfig, Executors
from rm_emulator.engine.simulation import Simulation
from rm_emulator.experiments import explain
from rm_emulator.issues import InvalidInput
from rm_emulator.results import job_section, report
from rm_emulator.results.chart import Cells
from rm_emulator.results.story import Story, clock, story
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.events import ContainerStarted, Heartbeat, JobCancelled, JobSubmitted, NodeAdded, NodeLost
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler


def stage(name: str, tasks: int, *parents: int) -> Stage:
    return Stage(name=name, tasks=tasks, demand=(1000, 1024), parents=parents)


def two_stages(name: str, at: int, ms: int = 10_000, maps: int = 4) -> WorkloadJob:
    job = Job(id=name, stages=(stage("map", maps), stage("reduce", 1, 0)), name="report", user="ann")
    return WorkloadJob(job=job, submit_ms=at, runtimes=(Fixed(ms), Fixed(ms)))


def record(
    path: Path,
    *jobs: WorkloadJob,
    policy: str = "fifo",
    predictor: str | None = None,
    nodes: int = 2,
    kept: bool = False,
) -> None:
    """Run these jobs on nodes of one slot."""
    executors = Executors() if kept else None
    machines = tuple(Node(id=f"n{i}", capacity=(1000, 2048)) for i in range(nodes))
    config = EngineConfig(nodes=machines, profile="events", executors=executors)
    with path.open("wb") as file:
        log = Log(file.write)
        settings = SchedulerConfig(
            resources=config.resources,
            policy={"kind": policy},
            predictor={"kind": predictor} if predictor else None,
            offers="cycle",
            executors=kept,
        )
        workload = Workload(name="test", jobs=jobs)
        Simulation(config, workload, Scheduler(settings, log=log), oracle=predictor == "oracle").run()
        log.flush()


def texts(told: Story, kind: str) -> list[str]:
    return [moment.text for moment in told.moments if moment.kind == kind]


@pytest.fixture
def queued(tmp_path: Path) -> Path:
    """Two nodes; `first` holds both until 30 s, `second` comes at 5 s."""
    path = tmp_path / "events.jsonl"
    record(path, two_stages("first", 0), two_stages("second", 5000))
    return path


def test_waiting_and_running_make_the_jct(queued: Path) -> None:
    told = story(queued, "second")
    assert (told.submitted_ms, told.finished_ms) == (5000, 60_000)
    assert (told.waited_ms, told.ran_ms) == (15_000, 40_000)


def test_a_job_without_room_says_so_with_numbers(queued: Path) -> None:
    first = story(queued, "second").waits[0]
    assert (first.from_ms, first.to_ms, first.idle_ms) == (5000, 20_000, 15_000)
    assert [(part.reason, part.ms) for part in first.parts] == [("no_room", 15_000)]
    assert first.parts[0].sentence == (
        "no node has 1 cpu and 1Gi memory free (2 lack cpu; the nearest has 0 cpu and 1Gi memory free); "
        "1 other job waits"
    )


def test_parts_add_up_to_their_stretch(queued: Path) -> None:
    for wait in story(queued, "second").waits:
        assert sum(part.ms for part in wait.parts) <= wait.to_ms - wait.from_ms


def test_the_story_begins_with_the_submission(queued: Path) -> None:
    said = texts(story(queued, "second"), "submitted")
    assert said == [
        "submitted to queue default by ann as a run of 'report': stage map of 4 tasks, stage reduce of 1 task after map"
    ]


def test_stages_are_summed_up(queued: Path) -> None:
    told = texts(story(queued, "first"), "stage")
    assert told == [
        "stage map begins: task 0 on node n0",
        "stage map is done: 4 tasks on 2 nodes, the last began at 10 s; they took 10 s on average, the longest 10 s",
        "stage reduce begins: task 0 on node n0",
        "stage reduce is done",
    ]


def test_it_ends_with_what_it_waited_for(queued: Path) -> None:
    lines = explain.sentences(story(queued, "second"))
    assert lines[0] == "Job second"
    assert lines[-2] == "In all: idle 15 s, ran 40 s, JCT 55 s."
    assert lines[-1].startswith("Its tasks waited: ")


def dated(folder: Path, **more: object) -> Results:
    """A run of two jobs with dates."""
    (folder / "jobs.csv").write_text("job,durations,submit\na,99,2024-01-31T10:00:00\nb,9,2024-01-31T10:01:30\n")
    spec = {
        "cluster": {"nodes": [{"count": 1, "capacity": {"cpu": 1}}]},
        "workload": {"kind": "trace", "format": "csv", "path": str(folder / "jobs.csv"), **more},
        "policies": [{"kind": "fifo"}],
    }
    scenario = {"apiVersion": API_VERSION, "kind": "Scenario", "metadata": {"name": "dated"}, "spec": spec}
    return rm_emulator.run(scenario, out=folder / "out")


def test_a_dated_job_begins_with_the_date_of_its_submission(tmp_path: Path) -> None:
    assert str(rm_emulator.explain(dated(tmp_path), "b")).startswith("Job b, submitted on 2024-01-31 at 10:01:30 UTC\n")


def test_the_report_has_the_dates(tmp_path: Path) -> None:
    out = dated(tmp_path).path
    assert {each.job: each.came for each in job_section.job_section(Cells.of(out)).waiters["fifo"]}[
        "b"
    ] == "2024-01-31 10:01"
    assert "Time 0 is 2024-01-31 10:00 UTC." in report.render(out)


def test_arrivals_scaled_to_a_load_have_no_dates(tmp_path: Path) -> None:
    assert str(rm_emulator.explain(dated(tmp_path, load=0.5), "b")).startswith("Job b\n")


def test_nothing_is_advised_that_was_not_tried(queued: Path) -> None:
    text = "\n".join(explain.sentences(story(queued, "second")))
    assert not any(word in text for word in ("helped", "would help", "asking for less"))


def test_sentences_are_in_order_of_time(queued: Path) -> None:
    told = story(queued, "second")
    assert [m.at_ms for m in told.moments] == sorted(m.at_ms for m in told.moments)
    assert explain.sentences(told)[1].startswith("at 5 s: submitted")


@pytest.mark.parametrize("task", ["map/3", "0/3", "3", 3])
def test_a_task_is_told_of_by_name_or_number(queued: Path, task: str | int) -> None:
    told = texts(story(queued, "first", task), "task")
    assert told == ["task map/3 is placed on node n1", "task map/3 starts", "task map/3 is done after 10 s"]


def test_tasks_are_counted_over_all_stages(queued: Path) -> None:
    assert texts(story(queued, "first", 4), "task")[0] == "task reduce/0 is placed on node n0"


@pytest.mark.parametrize("task", ["map/4", "5", "mop/0", "map", "-1"])
def test_an_unknown_task_is_bad_input(queued: Path, task: str) -> None:
    with pytest.raises(InvalidInput, match=r"has no task .*map/0\.\.3, reduce/0\.\.0"):
        story(queued, "first", task)


def test_an_unknown_stage_gets_a_suggestion(queued: Path) -> None:
    with pytest.raises(InvalidInput, match="did you mean 'map'"):
        story(queued, "first", "mop/0")


def test_an_unknown_job_gets_a_suggestion(queued: Path) -> None:
    with pytest.raises(InvalidInput, match="no job 'secnd' in this log, did you mean 'second'"):
        story(queued, "secnd")


def test_a_job_unlike_any_other_is_told_what_there_is(queued: Path) -> None:
    with pytest.raises(InvalidInput, match="no job 'xyzzy' in this log of 2, the first is 'first'"):
        story(queued, "xyzzy")


def test_pilots_and_estimates_are_told(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record(path, two_stages("wide", 0, maps=30), policy="gs", predictor="slearn")
    told = story(path, "wide")
    plan = texts(told, "plan")
    assert plan[0].startswith("1 pilot task runs first to learn from")
    assert plan[1] == "its last pilot task is done"
    assert "(pilots:1)" in texts(told, "estimate")[0]


def test_executors_of_other_jobs_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record(path, two_stages("first", 0, maps=8), two_stages("second", 1000), policy="fair", kept=True)
    told = [text for text in texts(story(path, "second"), "stage") if "came from other jobs" in text]
    assert told


def test_the_end_of_the_log_is_told(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with path.open("wb") as file:
        log = Log(file.write)
        scheduler = Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "fifo"}), log=log)
        scheduler.handle(JobSubmitted(0, Job(id="big", stages=(stage("map", 2),))))
        scheduler.handle(NodeAdded(1000, Node(id="n", capacity=(500, 1024))))
        log.flush()
    told = story(path, "big")
    assert told.finished_ms is None
    assert texts(told, "end") == [
        "the log ends here; 2 of its 2 tasks are not done: "
        "stage map asks for 1 cpu, more than the one node has in all: 500m cpu"
    ]


def test_tasks_lost_with_a_node_wait_again(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with path.open("wb") as file:
        log = Log(file.write)
        scheduler = Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "fifo"}), log=log)
        scheduler.handle(NodeAdded(0, Node(id="n", capacity=(1000, 1024))))
        scheduler.handle(JobSubmitted(0, Job(id="j", stages=(stage("map", 2),))))
        scheduler.handle(Heartbeat(1, "n"))
        scheduler.handle(ContainerStarted(2, 1))
        scheduler.handle(NodeLost(3000, "n"))
        scheduler.handle(JobCancelled(4000, "j"))
        log.flush()
    told = story(path, "j")
    assert texts(told, "lost") == ["task map/0 is lost with node n after running for 3 s; it waits again"]
    assert texts(told, "nodes") == ["node n is lost: 0 nodes take tasks"]
    assert texts(told, "end") == ["cancelled: nothing of it starts any more", "gone: what ran has ended"]
    assert (told.waited_ms, told.ran_ms) == (1002, 2998)


def test_a_log_that_does_not_replay_is_not_told(queued: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = queued.read_bytes()
    queued.write_bytes(data.replace(b'"node":"n0","job":"first"', b'"node":"n1","job":"first"', 1))
    assert explain.main(queued, "second") == 1
    assert "the replay differs" in capsys.readouterr().out


def test_main_takes_a_run_directory(queued: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cell = tmp_path / "out" / "runs" / "fifo" / "1"
    cell.mkdir(parents=True)
    queued.rename(cell / "events.jsonl")
    assert explain.main(tmp_path / "out", "second", None, "fifo", 1) == 0
    assert capsys.readouterr().out.startswith("Job second\nat 5 s: submitted")


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 s"),
        (300, "0.3 s"),
        (9_000, "9 s"),
        (47_400, "47 s"),
        (59_700, "1 m 00 s"),
        (723_000, "12 m 03 s"),
        (7_207_000, "2 h 00 m 07 s"),
    ],
)
def test_times_are_written_for_people(ms: int, text: str) -> None:
    assert clock(ms) == text
