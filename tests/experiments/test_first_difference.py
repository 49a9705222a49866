"""A recorded log told to another policy: the first decision that differs is named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import rm_emulator
from rm_emulator.experiments import first_difference
from rm_emulator.issues import InvalidInput
from rm_emulator.results.replay import event_logs
from schedulers.core.log import Header, SchedulerConfig, parse

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


def test_a_log_that_begins_with_a_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    config = SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"})
    path.write_bytes(msgspec.json.encode(Header(config, snapshot=b"x")) + b"\n")
    assert isinstance(next(parse(path.read_bytes().splitlines())), Header)
    with pytest.raises(InvalidInput, match="memory of its own policy"):
        first_difference.main(path, "fair")


def test_the_log_of_a_real_control_plane_is_told_to_another_policy(capsys: pytest.CaptureFixture[str]) -> None:
    log = next(iter(sorted(CLUSTER.glob("queues*.jsonl.gz"))), None) or sorted(CLUSTER.glob("*.jsonl.gz"))[0]
    assert first_difference.main(log, "fifo") in (0, 1)
    assert "decides" in capsys.readouterr().out
