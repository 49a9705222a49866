"""Bad settings and command lines, in kind: exit code 2 and a line that names the place; in this process, for speed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

Refused = Callable[..., str]

#: What is set -> what the message names.
SETTINGS: Final = {
    "spec": "expected PATH=VALUE",
    "=3": "expected PATH=VALUE",
    "nothing.there=3": "a path begins with 'spec'",
    "spec.polices=[]": "did you mean 'policies'?",
    "spec.policies=[]": "spec.policies",
    "spec.policies=3": "spec.policies",
    "spec.policies[9].tie=id": "expected [0] to [",
    "spec.policies[0].tie=nobody": "tie",
    "spec.policies[0].kind=": "kind",
    "spec.policies[0].label=a/b": "label",
    "spec.policies[0].predictor={kind: crystal}": "crystal",
    "spec.policies[0].placement={kind: nowhere}": "nowhere",
    "spec.baseline=nobody": "no policy has the label 'nobody'",
    "spec.baselines=[alone, alone]": "named twice",
    "spec.baselines=[other]": "other",
    "spec.expect=[fifo.jct_s.mean]": "spec.expect[0]",
    "spec.expect=[fifo.jct_s.mean < nobody.jct_s.mean]": "nobody",
    "spec.expect=[1 < 2 < 3]": "spec.expect[0]",
    "spec.seeds=[1, 1]": "seeds",
    "spec.seeds=[-1]": "seeds",
    "spec.seeds=5..1": "seeds",
    "spec.seeds=many": "seeds",
    "spec.cluster.profile=mesos": "mesos",
    "spec.cluster.heartbeat=0": "heartbeat",
    "spec.cluster.heartbeat=-1s": "heartbeat",
    "spec.cluster.heartbeat=1 fortnight": "heartbeat",
    "spec.cluster.nodes=[]": "nodes",
    "spec.cluster.nodes[0].count=0": "count",
    "spec.cluster.nodes[0].count=1.5": "count",
    "spec.cluster.nodes[0].count=many": "count",
    "spec.cluster.nodes[0].speed=0": "speed",
    "spec.cluster.nodes[0].speed=.inf": "speed",
    "spec.cluster.nodes[0].capacity={}": "capacity",
    "spec.cluster.nodes[0].capacity={cpu: -1}": "cpu",
    "spec.cluster.nodes[0].capacity={cpu: 2 cores}": "cpu",
    "spec.cluster.nodes[0].capacity={memory: 4GiB}": "memory",
    "spec.cluster.nodes[0].capacity={cpu: 1e300}": "cpu",
    "spec.cluster.nodes[0].racks=99": "racks",
    "spec.cluster.overbook={gpu: 1}": "overbook",
    "spec.cluster.overbook={network: 0.5}": "no node has 'network'",
    "spec.cluster.containers_per_heartbeat=0": "containers_per_heartbeat",
    "spec.cluster.mode=lazy": "lazy",
    "spec.cluster.disorder={delay: 2}": "delay",
    "spec.queues=[{name: a}, {name: a}]": "declared twice",
    "spec.queues=[{name: a, weight: 0}]": "weight",
    "spec.queues=[{name: a, weight: .nan}]": "weight",
    "spec.queues=[{name: a, max: 200%}]": "max",
    "spec.queues=[{name: a, max: {tpu: 1}}]": "unknown resource 'tpu'",
    "spec.queues=[{name: a, parent: a}]": "its own ancestor",
    "spec.queues=[{name: a, parent: b}, {name: b, parent: a}]": "its own ancestor",
    "spec.queues=[{name: a, max_running: 0}]": "max_running",
    "spec.workload=3": "workload",
    "spec.workload={kind: synthetic}": "preset",
    "spec.workload={kind: synthetic, preset: nobody-like}": "preset",
    "spec.workload={kind: synthetic, preset: 2sigma-like, jobs: 0}": "jobs",
    "spec.workload={kind: synthetic, preset: 2sigma-like, load: 0}": "load",
    "spec.workload={kind: synthetic, preset: 2sigma-like, knobs: {jiter: 1}}": "did you mean 'jitter'?",
    "spec.workload={kind: synthetic, preset: 2sigma-like, slots: 99999999999}": "slots",
    "spec.workload={kind: tpch, jobs: 5, queries: [99]}": "queries",
    "spec.workload={kind: tpch, jobs: 5, profiles: nowhere.npz}": "no such file",
    "spec.workload={kind: trace, path: nowhere}": "no such file",
    "spec.workload={kind: trace, path: ., format: internall}": "unknown trace format",
    "spec.workload={kind: jobs, jobs: [{name: a, stages: []}]}": "stages",
    "spec.log=some": "log",
    "metadata.name=../x": "metadata.name",
    "metadata.name=": "metadata.name",
}
#: A command line -> what the message names. `{}` is an empty folder.
COMMANDS: Final = {
    "check nowhere.yaml": "nowhere.yaml",
    "check {}": "is a folder",
    "check helo": "did you mean 'hello'?",
    "check hello --seeds 1..": "--seeds 1..",
    "check demo --set spec.cluster.nodes[0].capacity.memory=0": "is larger than every node",
    "run hello --out /proc/x": "/proc/x",
    "run hello --plugin nowhere.py": "no such plug-in file",
    "run hello --plugin {}": "no such plug-in file",
    "init helo": "did you mean 'hello'?",
    "init hello /proc/x": "/proc/x",
    "convert csv nowhere {}/out": "nowhere",
    "convert cvs {} {}/out": "did you mean 'csv'?",
    "convert csv {} {}/out": "{}",
    "convert hadoop {} {}/out": "{}",
    "convert sacct nowhere {}/out": "nowhere",
    "convert csv nowhere {}/out --option cov=big": "cov",
    "convert csv nowhere {}/out --option nothing=1": "nothing",
    "traces describe {}": "{}",
    "traces describe nowhere": "nowhere",
    "explain nowhere job": "nowhere",
    "explain {} job": "is not a run directory",
    "replay nowhere": "nowhere",
    "replay {}": "is not a run directory",
    "compare {}": "{}",
    "compare nowhere nowhere": "nowhere",
    "case nowhere": "nowhere",
    "case {}": "{}",
    "bench nothing": "nothing",
    "fidelity nowhere": "nowhere",
    "fidelity {}": "{}",
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_bad_setting(refused: Refused, setting: str) -> None:
    assert SETTINGS[setting] in refused("check", "hello", "--set", setting)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_bad_command_line(refused: Refused, tmp_path: Path, line: str) -> None:
    arguments = line.replace("{}", str(tmp_path)).split()
    assert COMMANDS[line].replace("{}", str(tmp_path)) in refused(*arguments).replace("\n", " ")
