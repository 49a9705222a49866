"""A recorded log told to another policy: the first decision that differs is named."""

from __future__ import annotations

import contextlib
import io
import json
import random
from pathlib import Path
from typing import NamedTuple

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
from schedulers.core.log import Header, Log, SchedulerConfig
from schedulers.core.replay import Replay
from tests.examples import examples
from tests.same.scenarios import SCENARIOS

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
    ],
)
def test_a_policy_that_cannot_be_is_refused(log: Path, policy: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        first_difference.main(log, policy)
    assert message in str(refused.value)


# -- logs that begin with a memory ----------------------------------------------------------------


class Begun(NamedTuple):
    """A whole log, and the numbers of its lines with facts."""

    whole: list[bytes]
    facts: list[int]

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


def begun(label: str) -> Begun:
    """The log of a run in profile kubernetes, whose scheduler is a brain's."""
    cell = next(cell for cell in cells(load(SCENARIOS["kubernetes"], seeds="1"), []) if cell.label == label)
    scenario, built = inputs_of(cell)
    lines = list[bytes]()
    log = Log(lines.append)
    entry = cell.scenario["spec"]["policies"][0]
    config = cluster_of(scenario, built)
    made = assemble(scenario, entry, cell.seed, built, MemoryRecording(), config=config, log=lambda _: log)
    made.simulation.begin(scenario.spec.until)
    made.simulation.go_on()
    log.flush()
    whole = b"".join(lines).splitlines(keepends=True)
    return Begun(whole, [n for n, line in enumerate(whole, start=1) if n > 1 and not line.startswith(b'{"decision"')])


@pytest.mark.parametrize(
    ("label", "others"),
    [
        ("fifo", ["fifo", "drf", "fair", "hdrf", "tetris", "capacity", "weighted_fair", "random"]),
        ("drf", ["drf", "fifo", "fair", "srpt"]),
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


def test_a_policy_with_memory_goes_on_from_its_own_memory_alone(tmp_path: Path) -> None:
    log = begun("by_slearn")
    path = log.cut(tmp_path / "cut.jsonl", log.facts[len(log.facts) // 2])
    own = json.dumps(json.loads(log.whole[0])["config"]["policy"])
    assert first_difference.main(path, own) == 0
    for policy, why in (
        ("gs", "lacks the observations that policy 'gs' with these settings decides by"),
        ("las", "lacks the observations that policy 'las' with"),
        ("{kind: sjf, predictor: {kind: posterior}}", "tells another predictor nothing of the past"),
    ):
        with pytest.raises(InvalidInput, match=why):
            first_difference.main(path, policy)


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
