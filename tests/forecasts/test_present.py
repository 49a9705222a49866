"""The present of a live cluster from the memory of its brain: nothing is lost, and every job ends as it would have."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import rm_emulator
from rm_emulator.engine.containers import Master
from rm_emulator.engine.execution import Execution, ListedTimes, StageTimes
from rm_emulator.forecasts.answers import Compared, Percent
from rm_emulator.forecasts.arrivals import arrived, guessed
from rm_emulator.forecasts.asked import Question, ask_present
from rm_emulator.forecasts.brains import shown
from rm_emulator.forecasts.changes import AskedChange, Takeover, read_change, taken_over
from rm_emulator.forecasts.moment import Paused as Memory
from rm_emulator.forecasts.plays import Courses, Play, play
from rm_emulator.forecasts.present import FollowedPresent, Present, paused_present, present_of
from rm_emulator.issues import InvalidInput
from rm_emulator.workload.model import PerTask, WorkloadJob
from schedulers.core.decisions import Place
from schedulers.core.events import ContainerStarted, JobCancelled, JobSubmitted, NodeAdded, QueueChanged, Tick
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Job, Node, PastJob, Queue, Service, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.objects.memory import HISTORY, PAST_JOBS, SNAPSHOT, BrainSnapshot, LogPlace, Piece
from tests.cli.conftest import Command, command
from tests.examples import examples
from tests.forecasts.memories import config_maps
from tests.forecasts.test_simulate import DAGJOB
from tests.forecasts.test_takeover import Paused, Runs

__all__ = ["command"]
#: Moments of each policy, by night.
MOMENTS = 12
#: By how much a stage moves in profile kubernetes, where a pod ends at a whole second of its clock: a launch (0.1 s), a
#: creation of pods (0.2 s, and 0.1 s for each other job) and a cycle (0.05 s) that were under way are begun anew.
STAGE_MS = 1000


class Known:
    """The true run times of a run, as a future."""

    def __init__(self, jobs: dict[str, Master]) -> None:
        self._jobs = jobs

    def stage_times(self, job: Master) -> list[StageTimes]:
        return self._jobs[job.name].times


def to_come(paused: Paused) -> tuple[WorkloadJob, ...]:
    """The jobs that have not arrived, each task with its true run time."""
    engine, made = paused.simulation, []
    execution = Execution(engine.config, engine.seed)
    for source in engine.workload.jobs[engine.arrivals.count :]:
        times = [PerTask(tuple(each.first)) for each in execution.stage_times(source) if isinstance(each, ListedTimes)]
        made.append(msgspec.structs.replace(source, runtimes=tuple(times)))
    return tuple(made)


def present(paused: Paused, at_ms: int) -> Present:
    return Present(paused.scheduler.snapshot(), tuple(paused.past.jobs), at_ms)


@pytest.mark.parametrize("label", ["fifo", "drf", "las", "by_three_sigma", "by_slearn", "by_posterior"])
def test_where_nothing_is_on_its_way_every_job_ends_as_in_the_whole_run_to_the_ms(label: str) -> None:
    """In profile events no launch and no creation of pods is under way, so nothing is begun anew."""
    runs, draw = Runs("events", label), random.Random(label)
    end, before = runs.whole()
    for _ in range(examples(MOMENTS)):
        at = draw.randrange(1, end)
        paused = runs.paused(at)
        jobs = dict(paused.simulation.jobs)
        made = paused_present(present(paused, at), profile="events")
        courses = play(made.simulation, Play(Known(jobs), to_come(paused)))
        assert {*courses} >= {*jobs}
        assert {job: course.finish_ms for job, course in courses.items()} == {job: before[job][1] for job in courses}


class Roomy(Runs):
    """The same runs with so many nodes and so wide queues that no job waits for another."""

    def __init__(self, label: str) -> None:
        super().__init__("kubernetes", label)
        nodes = tuple(
            msgspec.structs.replace(node, id=f"{node.id}-{copy}") for copy in range(20) for node in self._config.nodes
        )
        queues = tuple(
            msgspec.structs.replace(queue, max=None, per_user=None, max_running=None) for queue in self._config.queues
        )
        self._config = msgspec.structs.replace(self._config, nodes=nodes, queues=queues)


@pytest.mark.parametrize("label", ["fifo", "fair", "by_point_estimate"])
def test_on_kubernetes_every_stage_ends_within_the_time_of_what_is_begun_anew(label: str) -> None:
    """Without waits for others a job ends by its own stages, each moved by what is begun anew at most."""
    runs, draw = Roomy(label), random.Random(label)
    end, before = runs.whole()
    for _ in range(examples(MOMENTS)):
        at = draw.randrange(1, end)
        paused = runs.paused(at)
        jobs = dict(paused.simulation.jobs)
        courses = play(paused_present(present(paused, at)).simulation, Play(Known(jobs), to_come(paused)))
        for name, job in jobs.items():
            finish, whole = courses[name].finish_ms, before[name][1]
            assert finish is not None
            assert whole is not None
            assert abs(finish - whole) <= STAGE_MS * len(job.source.job.stages), (name, at)


# -- the memory as ConfigMaps -------------------------------------------------------------------


@pytest.fixture(scope="module")
def known() -> Present:
    return present(Runs("kubernetes", "fifo").paused(40_000), 40_000)


@pytest.fixture(scope="module")
def stored(known: Present) -> list[dict[str, Any]]:
    core = msgspec.msgpack.encode(BrainSnapshot(known.core, {}))
    return [*config_maps(SNAPSHOT, core), *config_maps(HISTORY, msgspec.msgpack.encode(known.history))]


def test_the_present_is_read_back_from_its_config_maps(known: Present, stored: list[dict[str, Any]]) -> None:
    assert present_of(stored[::-1], read_ms=40_000) == known


def of_services() -> Scheduler:
    """Three jobs on a node for two tasks: a service, a withdrawn job, and a job that waits for its room."""
    scheduler = Scheduler(SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"}, offers="cycle"))
    scheduler.handle(NodeAdded(0, Node(id="n1", capacity=(2000,))))
    stages = (Stage(name="only", tasks=1, demand=(1000,)),)
    for number, kind in enumerate(("service", "batch", "batch")):
        job = Job(id=f"a/{number}", stages=stages, service=Service() if kind == "service" else None)
        scheduler.handle(JobSubmitted(number, job, "all"))
    for place in scheduler.handle(Tick(10)):
        assert isinstance(place, Place)
        scheduler.handle(ContainerStarted(11, place.container))
    scheduler.handle(JobCancelled(50, "a/1"))
    return scheduler


#: Three jobs of one task of 5 s.
OF_5_S = tuple(PastJob(name="", submitted=0, finished=n + 1, stages=((1, 5000.0),), demand=(1000,)) for n in range(3))


def test_services_run_on_and_tasks_of_a_withdrawn_job_end_at_once() -> None:
    answer = ask_present(Present(of_services().snapshot(), OF_5_S, 100), Question(at_ms=0, draws=2))
    assert [job.job for job in answer.jobs] == ["a/2"]
    start = answer.jobs[0].start
    assert start is not None
    assert start.p90_ms is not None
    assert start.p90_ms < 1000


def test_beside_a_service_a_new_job_ends_though_the_last_live_job_ended_before(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(DAGJOB % ("default", ""))
    scheduler = Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "fifo"}, offers="cycle"))
    scheduler.handle(NodeAdded(0, Node(id="n1", capacity=(4000, 2**20))))
    stages = (Stage(name="only", tasks=1, demand=(1000, 0)),)
    for name, service in (("s", Service()), ("b", None)):
        scheduler.handle(JobSubmitted(1, Job(id=f"a/{name}", stages=stages, service=service), "all"))
    past = tuple(msgspec.structs.replace(job, demand=(1000, 0)) for job in OF_5_S)
    (new,) = ask_present(
        Present(scheduler.snapshot(), past, 100), Question(at_ms=0, file=file, draws=2, tries=False)
    ).asked
    assert new.finish.p90_ms is not None


# -- changes ------------------------------------------------------------------------------------


def changed(known: Present, **change: Any) -> Compared:
    found = ask_present(known, Question(at_ms=0, draws=2, change=AskedChange(**change))).compared
    assert found is not None
    return found


@pytest.mark.parametrize("label", ["fifo", "fair", "by_slearn"])
def test_a_brain_that_takes_its_cluster_over_with_its_memory_changes_nothing(label: str) -> None:
    known, courses = present(Runs("kubernetes", label).paused(40_000), 40_000), list[Courses]()
    for by in (None, Takeover(None)):
        run, truth = paused_present(known), Known(Runs("kubernetes", label).paused(40_000).simulation.jobs)
        over = None if by is None else partial(taken_over, run=run, by=by)
        courses.append(play(run.simulation, Play(truth, nodes_of=tuple(run.simulation.jobs), takeover=over)))
    assert courses[0] == courses[1]


@pytest.mark.drawn(of=4)
def test_a_drained_node_of_a_cluster_takes_nothing_new_and_a_service_there_stays() -> None:
    found = changed(Present(of_services().snapshot(), OF_5_S, 100), drain=("n1",))
    assert found.never == ("a/2",)
    assert found.is_worse(1e9)
    assert changed(Present(of_services().snapshot(), OF_5_S, 100), policy="fair", drain=("n1",)).never == ("a/2",)
    more = changed(Present(of_services().snapshot(), OF_5_S, 100), policy="fair", add=("1xn1",))
    assert (more.change, more.never, more.is_worse(0)) == ("under fair, with 1 more like n1", (), False)
    more = changed(Present(of_services().snapshot(), OF_5_S, 100), add=("1xn1",))
    assert (more.change, more.never, more.is_worse(0)) == ("with 1 more like n1", (), False)


def test_a_policy_that_takes_a_cluster_over_places_as_the_brain_does_unless_told_otherwise(known: Present) -> None:
    run = paused_present(known)
    kept = read_change(run, AskedChange("fair")).with_.scheduler
    told = read_change(run, AskedChange({"kind": "fair", "placement": {"kind": "worst_fit"}})).with_.scheduler
    assert kept is not None
    assert told is not None
    usual = run.scheduler.config
    assert (kept.policy["kind"], kept.placement) == ("fair", usual.placement)
    assert told.placement["kind"] == "worst_fit"
    assert msgspec.structs.replace(kept, policy=usual.policy, predictor=usual.predictor) == usual


def test_the_same_policy_begun_anew_changes_nothing_and_a_note_tells_of_its_memory(known: Present) -> None:
    answer = ask_present(known, Question(at_ms=0, draws=2, change=AskedChange("fifo")))
    assert answer.compared is not None
    assert answer.compared.longer_pct == Percent(0, 0, 0)
    assert "memory begins anew" in " ".join(answer.notes)


def waiting(policy: str, *jobs: Job, cpu: int = 1000) -> Scheduler:
    """Jobs that wait for a node."""
    scheduler = Scheduler(SchedulerConfig(resources=("cpu",), policy={"kind": policy}, offers="cycle"))
    scheduler.handle(
        NodeAdded(0, Node(id="n1", capacity=(cpu,), labels={"kubernetes.io/hostname": "n1", "disk": "ssd"}))
    )
    for job in jobs:
        scheduler.handle(JobSubmitted(10, job, "all"))
    return scheduler


@pytest.mark.parametrize("policy", [None, "fifo"])
def test_added_nodes_carry_their_own_names_and_take_what_waits(policy: str | None) -> None:
    stages = (Stage(name="only", tasks=6, demand=(1000,)),)
    scheduler = waiting("fifo", Job(id="a/live", stages=stages))
    run = paused_present(Present(scheduler.snapshot(), OF_5_S, 100))
    change = read_change(run, AskedChange(policy, (), ("1xn1", "1xn1")))
    assert [node.labels["kubernetes.io/hostname"] for node in change.with_.added] == ["n1+1", "n1+2"]
    assert {node.labels["disk"] for node in change.with_.added} == {"ssd"}
    moment = run.moment()
    assert moment is not None
    takeover = partial(taken_over, run=run, by=change.with_)
    courses = play(run.simulation, Play(moment.draw(0), nodes_of=("a/live",), takeover=takeover))
    assert {*courses["a/live"].nodes} == {"n1", "n1+1", "n1+2"}


def test_a_policy_that_takes_a_cluster_over_hears_of_the_jobs_that_ended() -> None:
    """By history alone the second job is the shorter."""
    one, times = (Stage(name="only", tasks=1, demand=(1000,)),), {"long": 1e6, "short": 1e3}
    scheduler = waiting("fifo", *(Job(id=f"a/{name}", stages=one, name=name, user="u") for name in times))
    history = tuple(
        PastJob(name=name, user="u", submitted=0, finished=n, stages=((1, ms),), demand=(1000,))
        for n in range(9)
        for name, ms in times.items()
    )
    policy = {"kind": "sjf", "predictor": {"kind": "three_sigma"}}
    found = changed(Present(scheduler.snapshot(), history, 100), policy=policy)
    assert [delay.job for delay in found.jobs if delay.p50_ms < 0] == ["a/short"]


def test_a_log_that_does_not_go_on_from_the_snapshot_leaves_the_snapshot_as_the_present() -> None:
    scheduler = waiting("fifo", Job(id="a/live", stages=(Stage(name="s", tasks=2, demand=(1000,)),)))
    core, place = scheduler.snapshot(), LogPlace("log", 7)
    lost = JobCancelled(20, "a/live")
    said = bytearray()
    log = Log(said.extend)
    log.add(lost, [])
    log.flush()
    for lines, line, jobs in ((bytes(said), 8, []), (bytes(said) + b'{"decision":"Hold"}\n', 7, ["a/live"])):
        found = FollowedPresent(Present(core, (), 100, place, (Piece("log", 7, 8, 20, lines),)))
        assert found.place == ("log", line)
        state = found.paused(100).scheduler.state
        assert [name for name, job in state.jobs.items() if not job.cancelled] == jobs


# -- jobs to come -------------------------------------------------------------------------------


def remembering(*past: PastJob, read_ms: int = 10_000) -> Memory:
    scheduler = of_services()
    scheduler.handle(Tick(read_ms))
    return paused_present(Present(scheduler.snapshot(), past, read_ms))


def past(name: str, submitted: int, stages: tuple[tuple[int, float], ...] = ((2, 5000.0), (1, 1000.0))) -> PastJob:
    return PastJob(name=name, submitted=submitted, finished=submitted + 100, stages=stages, user="u", demand=(500,))


def test_ended_and_live_jobs_of_the_window_arrive_again_as_chains_with_the_jobs_request() -> None:
    run = remembering(past("old", 100), past("etl", 8000))
    (etl,) = arrived(run, 5000)
    assert [(stage.tasks, stage.demand, stage.above) for stage in etl.job.stages] == [
        (2, (500,), ()),
        (1, (500,), (0,)),
    ]
    assert (etl.submit_ms, etl.job.name, etl.job.user, etl.job.queue) == (8000, "etl", "u", "default")
    assert [job.job.id for job in arrived(run, 9_950)] == ["old", "etl"]
    assert "of 2 ended jobs that arrive again, 2 are known by their sizes alone" in guessed(run, 9_950)[0]


def test_an_ended_job_arrives_again_in_the_queue_in_which_it_ran() -> None:
    """Jobs of histories stored before have none: these arrive in the queue of the user's last live job."""
    stages = (Stage(name="only", tasks=1, demand=(1000,)),)
    scheduler = waiting("fair", Job(id="u/live", stages=stages, name="live", user="u", queue="a"), cpu=2000)
    for name in ("a", "b"):
        scheduler.handle(QueueChanged(20, Queue(name=name)))
    scheduler.handle(Tick(10_000))
    told = (msgspec.structs.replace(past("told", 8000), queue="b"), past("before", 8100))
    gone = msgspec.structs.replace(past("gone", 8200), queue="removed")
    run = paused_present(Present(scheduler.snapshot(), (*told, gone), 10_000))
    assert [(job.job.name, job.job.queue) for job in arrived(run, 5000)] == [
        ("told", "b"),
        ("before", "a"),
        ("gone", "a"),
    ]


def test_an_ended_job_without_a_request_in_the_clusters_resources_does_not_arrive_again() -> None:
    of_before = msgspec.structs.replace(past("gpu", 8000), demand=(500, 1))
    run = remembering(past("etl", 7000), of_before)
    assert [job.job.id for job in arrived(run, 5000)] == ["etl"]
    assert guessed(run, 5000)[-1] == "1 ended jobs do not arrive again: nobody knows what their tasks asked for"


def test_a_recurring_job_with_a_live_run_arrives_again_as_that_run() -> None:
    scheduler = of_services()
    stages = (Stage(name="a", tasks=2, demand=(300,)), Stage(name="b", tasks=1, demand=(500,)))
    live = Job(id="a/etl-2", stages=stages, name="etl", user="u")
    scheduler.handle(JobSubmitted(60, live, "all"))
    scheduler.handle(Tick(10_000))
    run = paused_present(Present(scheduler.snapshot(), (past("etl", 8000),), 10_000))
    (etl,) = arrived(run, 5000)
    assert etl.job == live
    assert etl.submit_ms == 8000
    assert guessed(run, 5000) == ()


def test_a_full_memory_knows_all_jobs_from_the_end_of_its_oldest_on() -> None:
    full = tuple(past("", at) for at in range(1000, 1000 + PAST_JOBS))
    with pytest.raises(InvalidInput, match=r"8901ms is longer than what the brain remembers \(8900ms\)"):
        arrived(remembering(*full), 8_901)
    assert len(arrived(remembering(*full), 8_900)) == PAST_JOBS - 101


def test_jobs_that_go_on_to_arrive_share_the_node_with_those_that_wait() -> None:
    stages = (Stage(name="only", tasks=20, demand=(1000,)),)
    scheduler = waiting("fair", Job(id="a/live", stages=stages, name="live", user="u"), cpu=2000)
    scheduler.handle(Tick(61_000))
    known = Present(
        scheduler.snapshot(), tuple(past("etl", at, ((1, 5000.0),)) for at in range(1000, 61_000, 2000)), 61_000
    )
    alone, shared = (
        ask_present(known, Question(at_ms=0, draws=4, arrivals_ms=ms)).jobs[0].finish.p50_ms for ms in (0, 60_000)
    )
    assert alone is not None
    assert shared is None or shared > alone


def test_a_chunk_that_is_missing_or_changed_is_told(stored: list[dict[str, Any]]) -> None:
    chunk = stored[1]["metadata"]["name"]
    with pytest.raises(InvalidInput, match=f"not whole: chunk '{chunk}' is not there"):
        present_of([item for item in stored if item["metadata"]["name"] != chunk])
    changed = [*stored, {**stored[1], "binaryData": {"data": "AAAA"}}]
    with pytest.raises(InvalidInput, match="not whole: SHA-256"):
        present_of(changed)


def test_a_memory_of_another_version_is_told(known: Present) -> None:
    saved = msgspec.msgpack.decode(known.core)
    other = msgspec.structs.replace(known, core=msgspec.msgpack.encode({**saved, "format": 99}))
    with pytest.raises(InvalidInput, match="another version of rm-emulator: snapshot of format 99"):
        paused_present(other)
    with pytest.raises(InvalidInput, match="another version"):
        paused_present(msgspec.structs.replace(known, core=b"\x01"))


def test_a_cluster_without_a_brain_is_told() -> None:
    with pytest.raises(InvalidInput, match="no brain of rm-emulator is installed"):
        present_of([])


def test_names_in_namespaces_that_may_not_be_listed_are_counts(known: Present) -> None:
    answer = ask_present(known, Question(at_ms=0, draws=2))
    hidden = shown(answer, lambda namespace: namespace != answer.jobs[0].job)
    assert [job.job for job in hidden.jobs] == [job.job for job in answer.jobs[1:]]
    assert answer.jobs[0].job not in msgspec.json.encode(hidden).decode()
    assert "1 more jobs" in hidden.notes[-1]
    assert shown(answer, lambda _: True) is answer


# -- the command --------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path, stored: list[dict[str, Any]]) -> Path:
    made = tmp_path / "cluster.yaml"
    made.write_text(yaml.safe_dump_all(stored))
    return made


KUBECTL = """#!/bin/sh
case "$*" in
  *"get configmaps"*) {get} ;;
  *"auth can-i"*) echo no; exit 1 ;;
esac
"""


def program(folder: Path, get: str) -> Path:
    made = folder / "kubectl"
    made.write_text(KUBECTL.format(get=get))
    made.chmod(0o755)
    return made


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_file_of_a_brains_memory_answers_as_its_cluster(
    command: Command, file: Path, tmp_path: Path, stored: list[dict[str, Any]]
) -> None:
    mine = tmp_path / "job.yaml"
    mine.write_text(DAGJOB % ("default", ""))
    asked = ["--draws", "3", "-f", str(mine), "--json", "--quiet"]
    answer = json.loads(command("simulate", "--from", str(file), *asked).out)
    assert answer["asked"][0]["job"] == "ann/mine"
    assert answer["jobs"]
    assert answer["wall_clock"]
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps({"kind": "List", "items": stored}))
    kubectl = str(program(tmp_path, f"cat {listed}"))
    drawn = tmp_path / "drawn.html"
    live = json.loads(command("simulate", "--kubeconfig", "k", "--kubectl", kubectl, *asked, "--plot", str(drawn)).out)
    assert "time from now" in drawn.read_text()
    assert live["at_ms"] > answer["at_ms"]  # time goes on after the memory was stored
    assert not live["jobs"]
    assert f"{len(answer['jobs'])} more jobs" in live["notes"][0]
    assert "UTC" in command("simulate", "--from", str(file), "--draws", "2", "--quiet").out
    in_python = rm_emulator.simulate(file=mine, from_=file, draws=3)
    assert json.loads(msgspec.json.encode(in_python.answer)) == answer
    assert in_python.jobs["asked"].sum() == 1
    assert rm_emulator.simulate(kubeconfig="k", kubectl=kubectl, draws=3).jobs.is_empty()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "fifo"], "--label fifo makes sense for a run"),
        (["--seed", "1"], "--seed 1 makes sense for a run"),
        (["--earlier", "2"], "--earlier 2 makes sense for a run"),
        (["--drain", "small"], "no node of the cluster is called 'small' (nodes: small1, small2"),
        (["--add", "2xbig"], "no node of the cluster is called 'big' (nodes: small1 (3 alike), "),
        (["--add", "small1"], "expected NxNODE with N from 1 to 10000 and a node of the cluster (nodes: small1 ("),
        (["--policy", "fifp"], "--policy fifp kind: unknown policy 'fifp'"),
        (["--policy", "{kind: sjf, predictor: {kind: oracle}}"], "nobody tells predictor 'oracle' the run times"),
        (["--drain", "small1", "-f", "job.yaml"], "a new job and a change are two questions"),
        (["--arrivals", "1h"], "--arrivals: 1h is longer than what the brain remembers (38831ms)"),
        (["--arrivals", "1ms"], "--arrivals: no job arrived in the last 1ms"),
        (["--kubeconfig", "k"], "expected either --from"),
        (["--plot", "drawn.png"], "--plot drawn.png: expected a name with the ending .html"),
    ],
)
def test_options_of_runs_are_refused(command: Command, file: Path, options: list[str], message: str) -> None:
    done = command("simulate", "--from", str(file), *options, "--quiet")
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "expected either --from"),
        ({"run": "out", "from_": "m.yaml", "at": 1}, "run out goes with at=TIME, and with neither from_ nor"),
        ({"run": "out"}, "run out goes with at=TIME"),
        ({"from_": "m.yaml", "at": "1h"}, "at='1h' is a moment of a run"),
        ({"kubeconfig": "k", "label": "fifo"}, "--label fifo makes sense for a run"),
    ],
)
def test_in_python_a_question_goes_to_one_place(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        rm_emulator.simulate(**asked)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("get", "message"),
    [
        ("echo 'the server is away' >&2; exit 1", "kubectl get configmaps: the server is away"),
        ("echo '{\"items\": []}'", "no brain of rm-emulator is installed"),
        ("echo nonsense", "the answer is no list of objects"),
    ],
)
def test_a_cluster_that_cannot_answer_is_told(command: Command, tmp_path: Path, get: str, message: str) -> None:
    done = command("simulate", "--kubeconfig", "k", "--kubectl", str(program(tmp_path, get)), "--quiet")
    assert done.code == 2
    assert message in done.err
    assert not done.out
