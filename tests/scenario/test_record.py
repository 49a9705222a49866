"""A recording of a live cluster is the event log of its brain, cut to whole rounds, which replay takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.issues import InvalidInput
from rm_emulator.scenario import record
from rm_emulator.scenario.live import LiveCluster
from schedulers.core.events import JobSubmitted, NodeAdded, Tick
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler
from tests.cli.conftest import Command, command

__all__ = ["command"]
NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi"}}}
#: Answers like kubectl; `exec` runs the program here, with a failure as long as there is a file `down`.
KUBECTL = """#!/bin/sh
cd {folder}
case "$*" in
*" get configmaps "*) cat configmaps.json ;;
*" get pods "*" --selector "*) cat leader.json ;;
*" get nodes "*) cat nodes.json ;;
*" exec "*)
  if [ -e down ]; then rm down; echo "error: the connection was lost" >&2; exit 1; fi
  while [ "$1" != -- ]; do shift; done; shift
  exec "$@" ;;
*) echo '{{"items": []}}' ;;
esac
"""


def events() -> bytes:
    """The log of a brain under fifo: a large job, then a small one, on a node for three tasks."""
    written = list[bytes]()
    log = Log(written.append)
    config = SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"}, offers="cycle")
    scheduler = Scheduler(config, log=log)
    scheduler.handle(NodeAdded(0, Node(id="n1", capacity=(3000,))))
    for number, tasks in enumerate((5, 1)):
        stages = (Stage(name="only", tasks=tasks, demand=(1000,), hint_ms=1000),)
        scheduler.handle(JobSubmitted(1 + number, Job(id=f"a/{number}", stages=stages), "all"))
    scheduler.handle(Tick(10))
    scheduler.handle(Tick(20))
    log.flush()
    return b"".join(written)


class Pod:
    """A cluster whose brain leads and keeps its log in a folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.out = folder, folder / "rec.jsonl"
        self.log = folder / "log" / "events-1.jsonl"
        self.log.parent.mkdir()
        self.said: list[str] = []
        self.keep("full")
        self.lead("brain-a")
        (folder / "nodes.json").write_text(json.dumps({"items": [NODE]}))
        program = folder / "kubectl"
        program.write_text(KUBECTL.format(folder=folder))
        program.chmod(0o755)
        self.cluster = LiveCluster(folder / "config", None, str(program))
        self._asleep: list[Callable[[], Any]] = []
        monkeypatch.setattr(record, "sleep", lambda _: self._asleep.pop(0)())

    def keep(self, log: str) -> None:
        data = {"config.yaml": f"policy: {{kind: fifo}}\nstorage: {{log: {log}, dir: {self.folder}}}\n"}
        brain = {"kind": "ConfigMap", "metadata": {"name": "rm-brain"}, "data": data}
        (self.folder / "configmaps.json").write_text(json.dumps({"items": [brain]}))

    def lead(self, *pods: str) -> None:
        leader = [{"metadata": {"name": name}} for name in pods]
        (self.folder / "leader.json").write_text(json.dumps({"items": leader}))

    def record(self, duration: str | None, *asleep: Callable[[], Any]) -> None:
        """Record, and do these between the looks at the log."""
        self._asleep += asleep
        record.main(self.cluster, self.out, duration, self.said.append)


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    made = Pod(tmp_path, monkeypatch)
    made.log.write_bytes(events())
    return made


def interrupt() -> None:
    raise KeyboardInterrupt


def whole_rounds() -> bytes:
    """All but the last fact, and the decisions that follow that fact."""
    lines = events().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if line.startswith(b'{"event"'))
    return b"".join(lines[:last])


def test_the_log_is_recorded_but_for_its_last_round_and_a_snapshot_beside_it(pod: Pod) -> None:
    pod.record("0s")
    assert pod.out.read_bytes() == whole_rounds()
    assert "name: n1" in pod.out.with_suffix(".yaml").read_text()
    assert "3 facts" in pod.said[-1]


def test_whatever_the_brain_writes_meanwhile_and_wherever_a_look_cuts_a_line_the_log_is_the_same(pod: Pod) -> None:
    whole = events()
    pod.log.write_bytes(whole[:1000])
    pod.record(None, lambda: pod.log.write_bytes(whole[:1001]), lambda: pod.log.write_bytes(whole), interrupt)
    assert pod.out.read_bytes() == whole_rounds()
    assert "interrupted" in pod.said[0]


def test_a_lost_connection_is_told_once_and_the_recording_goes_on(pod: Pod) -> None:
    whole, down = events(), pod.folder / "down"
    pod.log.write_bytes(whole[:1000])

    def grow() -> None:
        pod.log.write_bytes(whole)

    pod.record(None, down.touch, down.touch, grow, interrupt)
    assert pod.out.read_bytes() == whole_rounds()
    assert [line for line in pod.said if line.startswith("the connection")] == [
        "the connection is lost, and is tried again: kubectl exec brain-a: error: the connection was lost"
    ]


@pytest.mark.parametrize("how", ["another pod leads", "the pod leads again"])
def test_a_recording_ends_with_the_term_and_has_the_terms_last_lines(pod: Pod, how: str) -> None:
    whole = events()
    pod.log.write_bytes(whole[:1000])

    def end() -> None:
        pod.log.write_bytes(whole)
        if how == "another pod leads":
            pod.lead("brain-b")
        else:
            pod.log.with_name("events-2.jsonl").touch()

    pod.record(None, end)
    assert pod.out.read_bytes() == whole_rounds()
    assert "the term of brain-a has ended" in pod.said


def test_replay_takes_a_recording_and_names_the_first_decision_of_another_policy(pod: Pod, command: Command) -> None:
    pod.log.write_bytes(events() + b'{"event":"Tick","at":30}\n')
    pod.record("0s")
    assert command("replay", str(pod.out)).code == 0
    assert command("replay", str(pod.out), "--policy", "fifo").code == 0
    other = command("replay", str(pod.out), "--policy", "fair")
    assert other.code == 1, other.err
    assert "decides otherwise here, at 10 ms" in other.out


@pytest.mark.parametrize("log", ["decisions", "hash"])
def test_a_brain_that_keeps_no_whole_log_is_refused(pod: Pod, log: str) -> None:
    pod.keep(log)
    with pytest.raises(InvalidInput, match=f"the brain keeps '{log}' of its log: set storage.log to full"):
        pod.record("0s")


def test_without_a_leader_a_log_or_a_fact_nothing_is_written(pod: Pod) -> None:
    pod.log.write_bytes(b"".join(events().splitlines(keepends=True)[:2]))
    with pytest.raises(InvalidInput, match="tells no fact yet"):
        pod.record("0s")
    pod.log.unlink()
    with pytest.raises(InvalidInput, match="pod brain-a has no event log in"):
        pod.record("0s")
    pod.lead()
    with pytest.raises(InvalidInput, match="no brain of rm-emulator leads"):
        pod.record("0s")
    assert not {*pod.folder.glob("rec*"), *pod.folder.glob(".rec*")}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--out", "rec.yaml"], "expected a name with the ending .jsonl"),
        (["--out", "rec.jsonl", "--for", "an hour"], "--for an hour"),
    ],
)
def test_bad_options_are_told(pod: Pod, command: Command, words: list[str], says: str) -> None:
    done = command("record", "--kubeconfig", "config", "--kubectl", pod.cluster.kubectl, *words)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


@pytest.mark.parametrize("there", ["rec.jsonl", "rec.yaml", "a link to nothing"])
@pytest.mark.parametrize("name", ["record", "snapshot"])
def test_a_file_that_is_there_is_replaced_only_where_asked(pod: Pod, command: Command, name: str, there: str) -> None:
    out, lies = pod.folder / "rec.jsonl", pod.folder / "rec.jsonl"
    if name == "snapshot":
        out = lies = pod.folder / "live.yaml"
    elif there == "rec.yaml":
        lies = pod.folder / there
    if there == "a link to nothing":
        lies.symlink_to("nowhere")
    else:
        lies.write_text("mine")
    words = [name, "--kubeconfig", "config", "--kubectl", pod.cluster.kubectl, "--out", out]
    words += ["--for", "0s"] if name == "record" else []
    refused = command(*words)
    assert (refused.code, refused.out) == (2, "")
    assert f"{lies}: is there already (expected another --out, or --overwrite" in refused.err
    assert lies.is_symlink() or lies.read_text() == "mine"
    assert command(*words, "--overwrite").code == 0
    assert "n1" in out.read_text()
