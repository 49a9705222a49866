"""A recorded log told to another policy: the first decision that differs is named."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

import rm_emulator
from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.experiments import first_difference
from rm_emulator.experiments.assembly import assemble, cluster_of
from rm_emulator.experiments.cell import inputs_of
from rm_emulator.experiments.grid import cells
from rm_emulator.issues import InvalidInput
from rm_emulator.results.replay import event_logs
from rm_emulator.scenario.load import load
from schedulers.core.checks import validate
from schedulers.core.events import NodeAdded, Tick
from schedulers.core.log import Header, Log, SchedulerConfig, parse
from schedulers.core.model import Node
from schedulers.core.policy import policies
from schedulers.core.replay import Replay
from schedulers.core.scheduler import Scheduler
from tests.examples import examples
from tests.same.scenarios import SCENARIOS

pytestmark = pytest.mark.usefixtures("no_report")

#: None is told true run times.
PREDICTORS: Final = ("slearn", "slearn_dag", "three_sigma", "three_sigma_dag", "point_estimate", "posterior")
CLUSTER = Path(__file__).parents[1] / "data" / "cluster"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of `hello` under fifo."""
    out = tmp_path_factory.mktemp("run") / "out"
    rm_emulator.run("hello", out=out, jobs=1)
    return event_logs(out, "fifo")[0]


def test_the_same_policy_decides_alike(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert first_difference.main(log, "fifo") == 0
    assert capsys.readouterr().out == f"{log}: fifo decides as the log does, to its end\n"


def test_another_policy_differs_first_where_two_jobs_wait(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert first_difference.main(log, "{kind: fair, label: mine}") == 1
    said = capsys.readouterr().out.splitlines()
    number = int(said[0].removeprefix(f"{log}:").partition(":")[0])
    lines = log.read_bytes().splitlines() if log.suffix == ".jsonl" else []
    if lines:
        assert said[1] == f"  fact: {lines[number - 1].decode()}"
        assert said[2] == f"  log:  {lines[number].decode()}"
    assert '"job":"report"' in said[2]
    assert '"job":"lookup-1"' in said[3]


def test_all_decisions_before_the_difference_are_those_of_the_log(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The facts up to the difference, told to both policies, are one run of either."""
    first_difference.main(log, "fair")
    number = int(capsys.readouterr().out.removeprefix(f"{log}:").partition(":")[0])
    cut = log.with_name("cut.jsonl")
    cut.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[: number - 1]))
    assert first_difference.main(cut, "fair") == 0


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("nope", "--policy nope: unknown policy 'nope'"),
        ("[fifo]", "expected the kind of a policy"),
        ("{kind: gs, predictor: slearn}", "predictor is no mapping with a kind"),
        ("{kind: fifo, speed: 3}", "speed"),
        ("{kind: gs, predictor: {kind: oracle}}", "predictor 'oracle' would need the true run times"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(log: Path, policy: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        first_difference.main(log, policy)
    assert message in str(refused.value)


# -- logs that begin with a memory ----------------------------------------------------------------


class Begun(NamedTuple):
    """A whole log, the numbers of its lines with facts, and those at which jobs wait and tasks run."""

    whole: list[bytes]
    facts: list[int]
    busy: list[int]

    def cut(self, path: Path, number: int) -> Path:
        """The log from this line on, behind a memory of its scheduler."""
        replay = Replay(iter(self.whole))
        if number > self.facts[0]:
            next(step for step in replay if step.line == max(fact for fact in self.facts if fact < number))
        with path.open("wb") as file:
            log = Log(file.write)
            log.header(replay.scheduler.config, replay.scheduler.snapshot())
            log.flush()
            file.writelines(self.whole[number - 1 :])
        return path

    def difference(self, path: Path, policy: str) -> bytes | None:
        """The fact on which the policy differs, if any."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            found = first_difference.main(path, policy)
        if not found:
            return None
        number = int(said.getvalue().removeprefix(f"{path}:").partition(":")[0])
        return path.read_bytes().splitlines()[number - 1]


def begun(entry: str | dict[str, Any]) -> Begun:
    """The log of a run in profile kubernetes, whose scheduler is a brain's. entry: of `policies`, or its label."""
    data = copy.deepcopy(SCENARIOS["kubernetes"])
    # A few nodes, so that jobs wait.
    data["spec"]["cluster"]["nodes"] = [{**node, "count": 2} for node in data["spec"]["cluster"]["nodes"]]
    if not isinstance(entry, str):
        data["spec"]["policies"] = [{"label": entry["kind"], **entry}]
    label = entry if isinstance(entry, str) else entry["kind"]
    cell = next(cell for cell in cells(load(data, seeds="1"), []) if cell.label == label)
    scenario, built = inputs_of(cell)
    lines = list[bytes]()
    log = Log(lines.append)
    known = cell.scenario["spec"]["policies"][0]
    config = cluster_of(scenario, built)
    made = assemble(scenario, known, cell.seed, built, MemoryRecording(), config=config, log=lambda _: log)
    made.simulation.begin(scenario.spec.until)
    made.simulation.go_on()
    log.flush()
    whole = b"".join(lines).splitlines(keepends=True)
    replay = Replay(iter(whole))
    facts, busy = list[int](), list[int]()
    state = replay.scheduler.state
    for step in replay:
        facts.append(step.line)
        if len(state.waiting) > 2 and state.containers:
            busy.append(step.line)
    return Begun(whole, facts, busy)


@pytest.mark.parametrize(
    ("label", "others"),
    [
        ("fifo", ["fifo", "drf", "fair", "hdrf", "tetris", "capacity", "weighted_fair", "random", "las"]),
        ("drf", ["drf", "fifo", "fair", "srpt", "las", "delay", "graphene"]),
        ("by_three_sigma", ["sjf", "fifo", "srpt"]),
    ],
)
def test_from_a_memory_on_a_policy_differs_where_it_differs_in_the_whole_log(
    tmp_path: Path, label: str, others: list[str]
) -> None:
    """Up to the first difference both policies are told the same facts, so that the memory is either's."""
    log, draw = begun(label), random.Random(label)
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(b"".join(log.whole))
    for policy in others:
        differs = log.difference(whole, policy)
        last = len(log.whole) if differs is None else log.whole.index(differs + b"\n") + 1
        for number in draw.sample([fact for fact in log.facts if fact <= last], examples(3)):
            assert log.difference(log.cut(tmp_path / "cut.jsonl", number), policy) == differs, (policy, number)


def test_a_policy_with_memory_goes_on_from_its_own_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = begun("by_slearn")
    path = log.cut(tmp_path / "cut.jsonl", log.busy[len(log.busy) // 2])
    own = json.dumps(json.loads(log.whole[0])["config"]["policy"])
    assert first_difference.main(path, own) == 0
    assert "note:" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("policy", "unknown"),
    [
        ("las", ["the memory of las begins anew"]),
        ("sjf", []),
        ("{kind: sjf, predictor: {kind: posterior}}", ["predictor posterior begins anew"]),
        ("{kind: las, predictor: {kind: posterior}}", ["the memory of las begins anew", "predictor posterior begins"]),
    ],
)
def test_whatever_begins_anew_at_a_memory_is_named(
    policy: str, unknown: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = begun("by_slearn")
    first_difference.main(log.cut(tmp_path / "cut.jsonl", log.busy[len(log.busy) // 2]), policy)
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: at the snapshot ")]
    assert [words in note for words, note in zip(unknown, notes, strict=True)] == [True] * len(unknown)


@pytest.mark.parametrize("kind", sorted(policies.names))
@pytest.mark.drawn(of=4)
def test_from_a_memory_on_every_policy_decides_to_the_end_or_to_a_first_difference(kind: str, tmp_path: Path) -> None:
    """As the log does, if the log is the policy's; the others are drawn, and each kind is the next of another."""
    draw, names = random.Random(kind), sorted(policies.names)
    log = begun({"kind": kind, "predictor": {"kind": "slearn", "fixed_percent": 30}})
    own = json.dumps(json.loads(log.whole[0])["config"]["policy"])
    others = [names[(names.index(kind) + 1) % len(names)], *draw.sample(names, examples(8))]
    for number in draw.sample(log.busy, examples(4)):
        path = log.cut(tmp_path / "cut.jsonl", number)
        assert log.difference(path, own) is None, number
        for other in others:
            log.difference(path, other)
            log.difference(path, f"{{kind: {other}, predictor: {{kind: {draw.choice(PREDICTORS)}}}}}")


@pytest.mark.parametrize("kind", ["las", "gs", "delay", "requeue", "graphene", "bounded", "fifo"])
@pytest.mark.parametrize("predictor", ["slearn", "posterior"])
@pytest.mark.drawn(of=4)
def test_a_policy_that_begins_at_a_memory_knows_every_job(kind: str, predictor: str, tmp_path: Path) -> None:
    """Where there is room for all, such policies start all."""
    log = begun({"kind": "fifo", "predictor": {"kind": "slearn"}})
    path = log.cut(tmp_path / "cut.jsonl", log.busy[len(log.busy) // 2])
    header = next(parse([path.read_bytes().splitlines()[0]]))
    assert isinstance(header, Header)
    other = msgspec.structs.replace(header.config, policy={"kind": kind}, predictor={"kind": predictor})
    scheduler, _ = first_difference.at_snapshot(path, header, Scheduler(other))
    validate(scheduler.state)
    assert len(scheduler.state.waiting) > 2
    now = scheduler.state.now
    scheduler.handle(NodeAdded(now, Node(id="vast", capacity=(10**9, 10**15))))
    scheduler.handle(Tick(now))
    assert not scheduler.state.waiting


def test_a_memory_with_executors_tells_a_policy_with_memory_nothing(tmp_path: Path) -> None:
    config = SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"}, executors=True)
    path = tmp_path / "log.jsonl"
    path.write_bytes(msgspec.json.encode(Header(config, snapshot=Scheduler(config).snapshot())) + b"\n")
    assert first_difference.main(path, "fair") == 0
    with pytest.raises(InvalidInput, match=r"idle executors, .* cannot be retold to policy 'las'"):
        first_difference.main(path, "las")


def test_a_memory_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    config = SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"})
    path.write_bytes(msgspec.json.encode(Header(config, snapshot=b"x")) + b"\n")
    with pytest.raises(InvalidInput, match="begins with a memory that cannot be read"):
        first_difference.main(path, "fair")


def test_the_log_of_a_real_control_plane_is_told_to_another_policy(capsys: pytest.CaptureFixture[str]) -> None:
    log = next(iter(sorted(CLUSTER.glob("queues*.jsonl.gz"))), None) or sorted(CLUSTER.glob("*.jsonl.gz"))[0]
    assert first_difference.main(log, "fifo") in (0, 1)
    assert "decides" in capsys.readouterr().out
