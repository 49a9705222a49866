"""A folder with one thing of each kind that a command reads, all small."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rm_emulator.cli import main
from rm_emulator.hadoop.settings import CAPACITY
from schedulers.objects.names import BRAIN_LEASE
from tests.bad_input.test_bad_input import GOOD
from tests.fidelity.test_runs import result
from tests.forecasts.memories import of_one_node
from tests.hadoop.conftest import NODES, TWO_QUEUES, job, xml
from tests.learn.conftest import SCENARIO

PLUGIN = '''\
from schedulers.core.policy import policies
from schedulers.kit.ordered import Ordered


@policies.register("mine", source="a test")
class Mine(Ordered):
    """Orders jobs by their ids."""

    def key(self, job, view):
        return job.id
'''
NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi"}}}
LEASE = {"metadata": {"name": BRAIN_LEASE}, "spec": {"holderIdentity": "brain_1"}}
#: Answers like kubectl, for a cluster of one node with the one context `prod`.
KUBECTL = f"""\
#!/bin/sh
{{ [ -f "$2" ] && grep -qx "kind: Config" "$2"; }} || {{ echo "error: no configuration: $2" >&2; exit 1; }}
case "$*" in
*"--context prod "*) ;;
*--context*) echo "error: context \\"$4\\" does not exist" >&2; exit 1 ;;
esac
case "$*" in
*"get configmaps --namespace "*) cat memory.json ;;
*"get leases "*) echo '{json.dumps({"items": [LEASE]})}' ;;
*" -- ls "*) echo events-1.jsonl ;;
*" -- tail -c +1 "*) printf '{{"note":"Header"}}\n{{"event":"Tick","at":1}}\n{{"event":"Tick","at":2}}\n' ;;
*" -- tail "*) ;;
*"get nodes "*) echo '{json.dumps({"items": [NODE]})}' ;;
*) echo '{{"items": []}}' ;;
esac
"""
TRAINING = """\
name: small
network: released
iterations: 0
workloads: [{scenario: lessons.yaml}]
cloning: null
validation: {seeds: 1..1}
"""
CASES = "cases:\n- {id: memory, kind: normalise_mem, rows: [[0, 1024, 8192, 1024]]}\n"


def write(folder: Path) -> None:
    """Fill the empty folder."""
    for name, text in {
        "small.yaml": GOOD.replace("- {kind: fifo}", "- {kind: fifo}\n  - {kind: fair}"),
        "lessons.yaml": SCENARIO,
        "trace.csv": "job,submit,tasks,mean\na,0,1,3\n",
        "plugin.py": PLUGIN,
        "cases.yaml": CASES,
        "training.yaml": TRAINING,
        "config": "apiVersion: v1\nkind: Config\n",
        "kubectl": KUBECTL,
        "memory.json": json.dumps({"items": of_one_node()}),
        "nothing": "",
    }.items():
        (folder / name).write_text(text)
    (folder / "kubectl").chmod(0o755)
    (folder / "bytes").write_bytes(bytes(range(256)))
    (folder / "bare").mkdir()
    (folder / "circle").symlink_to("circle")
    (folder / "device").symlink_to("/dev/null")  # root could put a file in the place of /dev/null itself
    os.mkfifo(folder / "pipe")
    _write_sls(folder / "sls")
    for words in (["run", "small.yaml", "--out", "run", "-q"], ["convert", "csv", "trace.csv", "workload", "-q"]):
        assert call(words) == 0


def call(words: list[str]) -> int:
    """The exit code of a command in this process and in the current folder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.argv", ["rm-emulator", *words])
        patched.setattr("signal.signal", lambda *_: None)
        with pytest.raises(SystemExit) as ended:
            main()
    code = ended.value.code
    assert isinstance(code, int)
    return code


def _write_sls(folder: Path) -> None:
    (folder / "conf").mkdir(parents=True)
    (folder / "jobs.json").write_text(json.dumps(job("x", 0)))
    (folder / "nodes.json").write_text(json.dumps(NODES))
    runner = {"yarn.resourcemanager.scheduler.class": CAPACITY}
    (folder / "conf" / "sls-runner.xml").write_text(xml(runner))
    (folder / "conf" / "capacity-scheduler.xml").write_text(xml(TWO_QUEUES))
    result(folder, [("app_1", 0, 500, 10500)])
