"""Replaying recorded logs: the same facts lead to the same decisions, and damage is told apart from difference."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.engine.config import Disorder, EngineConfig, Executors
from rm_emulator.engine.simulation import Simulation
from rm_emulator.issues import InvalidInput
from rm_emulator.results import replay
from rm_emulator.results.record import log_blocks
from rm_emulator.workload.model import Drawn, Workload, WorkloadJob
from schedulers.core.events import Heartbeat, JobSubmitted, NodeAdded
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.replay import IncompleteLog, LogDiffers, Replay
from schedulers.core.scheduler import Scheduler


def jobs(count: int = 12) -> Workload:
    """Two-stage jobs, a few seconds apart."""
    made = []
    for i in range(count):
        stages = (
            Stage(name="map", tasks=3 + i % 5, demand=(1000, 1024)),
            Stage(name="reduce", tasks=2, demand=(1000, 1024), parents=(0,)),
        )
        times = (Drawn(20_000, 0.5), Drawn(9_000, 0.2))
        made.append(WorkloadJob(job=Job(id=f"j{i}", stages=stages), submit_ms=3000 * i, runtimes=times))
    return Workload(name="test", jobs=tuple(made))


def record(
    path: Path,
    policy: str = "fifo",
    predictor: str | None = None,
    *,
    only_decisions: bool = False,
    **engine: Any,
) -> str:
    """Run a small workload, write its log, return the log's hash."""
    nodes = tuple(Node(id=f"n{i}", capacity=(2000, 4096)) for i in range(4))
    config = EngineConfig(nodes=nodes, **engine)
    with path.open("wb") as file:
        log = Log(file.write, only_decisions=only_decisions)
        settings = SchedulerConfig(
            resources=config.resources,
            policy={"kind": policy},
            predictor={"kind": predictor} if predictor else None,
            offers="cycle" if config.profile == "events" else "heartbeat",
            executors=config.executors is not None,
        )
        Simulation(config, jobs(), Scheduler(settings, log=log), oracle=predictor == "oracle").run()
        return log.sha256


@pytest.mark.parametrize(
    ("policy", "predictor"),
    [("fifo", None), ("fair", None), ("las", None), ("srpt", "oracle"), ("gs", "slearn"), ("gs", "three_sigma")],
)
def test_a_log_replays(tmp_path: Path, policy: str, predictor: str | None) -> None:
    record(tmp_path / "events.jsonl", policy, predictor)
    assert replay.main(tmp_path / "events.jsonl") == 0


@pytest.mark.parametrize(
    "engine", [{"profile": "sls"}, {"profile": "events"}, {"profile": "events", "executors": Executors()}]
)
def test_every_profile_replays(tmp_path: Path, engine: dict[str, Any]) -> None:
    record(tmp_path / "events.jsonl", **engine)
    assert replay.main(tmp_path / "events.jsonl") == 0


def test_ignored_facts_replay_too(tmp_path: Path) -> None:
    record(tmp_path / "events.jsonl", disorder=Disorder(delay=0.3, duplicate=0.3, late=0.3))
    assert b'"note":"Ignored"' in (tmp_path / "events.jsonl").read_bytes()
    assert replay.main(tmp_path / "events.jsonl") == 0


def test_the_answer_names_counts_and_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sha256 = record(tmp_path / "events.jsonl")
    replay.main(tmp_path / "events.jsonl")
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines()
    decisions = sum(line.startswith(b'{"decision"') for line in lines)
    events = len(lines) - 1 - decisions
    why = "no cell.json beside it says that it is whole; no job is unfinished at its end"
    counts = f"{events} events, {decisions} decisions"
    assert capsys.readouterr().out == f"{counts}, identical as far as it goes ({why}); sha256 {sha256}\n"


def test_a_log_beside_its_cell_is_identical(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sha256 = record(tmp_path / "events.jsonl")
    (tmp_path / "cell.json").write_text(json.dumps({"log_sha256": sha256}))
    replay.main(tmp_path / "events.jsonl")
    assert capsys.readouterr().out.endswith(f" decisions, identical; sha256 {sha256}\n")


def test_a_compressed_log_replays(tmp_path: Path) -> None:
    record(tmp_path / "events.jsonl")
    packed = tmp_path / "events.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "events.jsonl").read_bytes()))
    assert replay.main(packed) == 0


def test_another_decision_is_found_at_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "events.jsonl"
    record(path)
    lines = path.read_bytes().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if line.startswith(b'{"decision":"Place"'))
    lines[number] = lines[number].replace(b'"node":"n', b'"node":"m')
    path.write_bytes(b"".join(lines))
    assert replay.main(path) == 1
    said = capsys.readouterr().out
    assert f"{path}:{number + 1}:" in said
    assert '"node":"m' in said.split("expected:")[1].split("got:")[0]
    assert '"node":"n' in said.split("got:")[1]
    assert '"event":"Heartbeat"' in said.split("expected:")[0]


def test_a_missing_decision_is_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record(path)
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[next(i for i, line in enumerate(lines) if line.startswith(b'{"decision":"Place"'))]
    path.write_bytes(b"".join(lines))
    assert replay.main(path) == 1


def test_a_line_written_otherwise_is_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record(path)
    lines = [json.dumps(json.loads(line)).encode() for line in path.read_bytes().splitlines()]
    starts = (b'{"decision"', b'{"event"', b'{"note"')
    assert all(line.startswith(starts) for line in lines)
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert replay.main(path) == 0


@pytest.mark.parametrize(
    ("damage", "line", "message"),
    [
        (lambda data: b"", 1, "the log is empty"),
        (lambda data: data[:-20], None, "cut off"),
        (lambda data: data.replace(b'"event":"JobSubmitted"', b'"event":"JobSubmited"', 1), 6, "cannot be read"),
        (lambda data: data.split(b"\n", 1)[1], 1, "cannot be read"),
        (lambda data: data.replace(b'"format":2', b'"format":9', 1), 1, "format 9"),
        (lambda data: data[: len(data) // 2] + b"\xff\x00\n" + data[len(data) // 2 :], None, "cannot be read"),
    ],
)
def test_damage_is_bad_input(tmp_path: Path, damage: Any, line: int | None, message: str) -> None:
    path = tmp_path / "events.jsonl"
    record(path)
    data = path.read_bytes()
    if b'"format"' not in data.split(b"\n", 1)[0]:  # left out when it is the default
        data = data.replace(b'{"note":"Header",', b'{"note":"Header","format":1,', 1)
    path.write_bytes(damage(data))
    with pytest.raises(InvalidInput, match=message) as error:
        replay.main(path)
    assert line is None or error.value.issues[0].line == line


def test_what_a_killed_run_leaves_replays_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "events.jsonl")
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines(keepends=True)
    monkeypatch.setattr("rm_emulator.files.SMALL_GZIP", 0)
    with log_blocks(tmp_path) as write:
        for begin in range(0, len(lines) // 2, 10):
            write(b"".join(lines[begin : begin + 10]))
            left = gzip.decompress((tmp_path / "events.jsonl.gz").read_bytes())  # without any end of the file
            assert left == b"".join(lines[: begin + 10])
    assert replay.main(tmp_path / "events.jsonl.gz") == 0
    assert "identical as far as it goes" in capsys.readouterr().out


def test_a_compressed_log_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    record(tmp_path / "plain")
    (tmp_path / "packed").write_bytes(gzip.compress((tmp_path / "plain").read_bytes()))
    assert replay.main(tmp_path / "packed") == 0


def test_a_cut_gzip_is_bad_input(tmp_path: Path) -> None:
    record(tmp_path / "events.jsonl")
    packed = tmp_path / "events.jsonl.gz"
    data = gzip.compress((tmp_path / "events.jsonl").read_bytes())
    packed.write_bytes(data[: len(data) // 2])
    with pytest.raises(InvalidInput, match="cannot be read to its end"):
        replay.main(packed)


def test_time_that_runs_backwards_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record(path)
    with path.open("ab") as file:
        file.write(b'{"event":"Heartbeat","at":0,"node":"n0"}\n')
    with pytest.raises(InvalidInput, match="time runs backwards"):
        replay.main(path)


def test_decisions_alone_cannot_be_replayed(tmp_path: Path) -> None:
    record(tmp_path / "events.jsonl", only_decisions=True)
    with pytest.raises(InvalidInput, match=r"decisions without the facts.*log: full"):
        replay.main(tmp_path / "events.jsonl")


def test_an_unknown_policy_points_to_plugins(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record(path)
    path.write_bytes(path.read_bytes().replace(b'"kind":"fifo"', b'"kind":"mine"', 1))
    with pytest.raises(InvalidInput, match=r"unknown policy 'mine'.*--plugin"):
        replay.main(path)


def test_a_log_that_lost_its_end_is_found_by_its_run(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    sha256 = record(path)
    (tmp_path / "cell.json").write_text(json.dumps({"log_sha256": sha256}))
    assert replay.main(path) == 0
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if line.startswith(b'{"event"'))
    path.write_bytes(b"".join(lines[:last]))
    with pytest.raises(InvalidInput, match="not the whole log"):
        replay.main(path)


def test_a_log_that_begins_with_a_snapshot_replays(tmp_path: Path) -> None:
    config = SchedulerConfig(resources=("cpu",), policy={"kind": "gs"}, predictor={"kind": "slearn"})
    before = Scheduler(config)
    before.handle(NodeAdded(0, Node(id="n", capacity=(2,))))
    before.handle(JobSubmitted(1, Job(id="j", stages=(Stage(name="s", tasks=9, demand=(1,)),))))
    path = tmp_path / "events.jsonl"
    with path.open("wb") as file:
        log = Log(file.write)
        after = Scheduler.restore(before.snapshot(), log=log)
        assert after.handle(Heartbeat(2, "n"))
        log.flush()
    assert replay.main(path) == 0


def test_steps_show_what_was_decided(tmp_path: Path) -> None:
    record(tmp_path / "events.jsonl")
    stepped = Replay(replay.log_lines(tmp_path / "events.jsonl"))
    placed = sum(len(step.decisions) for step in stepped)
    assert placed == stepped.decisions
    assert not stepped.scheduler.state.jobs


def test_a_difference_is_raised_before_the_iteration_ends(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record(path)
    path.write_bytes(path.read_bytes().replace(b'"kind":"fifo"', b'"kind":"fair"', 1))
    with pytest.raises(LogDiffers):
        list(Replay(replay.log_lines(path)))


def test_an_incomplete_log_says_so(tmp_path: Path) -> None:
    record(tmp_path / "events.jsonl", only_decisions=True)
    with pytest.raises(IncompleteLog):
        list(Replay(replay.log_lines(tmp_path / "events.jsonl")))
