from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rm_emulator import plugins
from rm_emulator.experiments import grid
from rm_emulator.issues import InvalidInput
from rm_emulator.plugins import load_plugins
from rm_emulator.scenario.load import load

pytestmark = pytest.mark.usefixtures("no_report")

GOOD = '''
from schedulers.core.policy import policies
from schedulers.policies.fifo import Fifo


@policies.register("{name}", source="a test")
class Outside(Fifo):
    """First come, first served, from outside the tree."""
'''


@pytest.mark.slow
def test_a_policy_from_outside_the_tree_runs_in_worker_processes(command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(GOOD.format(name="outside"))
    changes = ["--set", "spec.policies[1]={kind: outside}", "--jobs", "2"]
    said = command("run", "hello", "--plugin", tmp_path / "outside.py", *changes, "--out", tmp_path / "out", "--json")
    assert said.code == 0, said.err
    runs = {run["label"]: run for run in json.loads(said.out)["runs"]}
    assert runs["outside"]["jct_s"] == runs["fifo"]["jct_s"]


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])
@pytest.mark.drawn(of=2)
def test_what_a_plugin_prints_is_no_part_of_the_results(command: Callable[..., Any], tmp_path: Path, jobs: str) -> None:
    observes = "\n    def observe(self, event, view):\n        print('heard')\n"
    (tmp_path / "talks.py").write_text(GOOD.format(name="talks") + observes + "\n\nprint('hello')\n")
    out = tmp_path / "out"
    options = ["--set", "spec.policies[1]={kind: talks}", "--plugin", tmp_path / "talks.py", "--jobs", jobs]
    said = command("run", "hello", *options, "--out", out, "--json")
    assert [run["label"] for run in json.loads(said.out)["runs"]] == ["fifo", "talks", "sjf"]
    assert "hello\n" in said.err
    assert "heard\n" in said.err or jobs == "2"  # workers write to the file itself
    assert command("replay", out, "--label", "talks").out.count("\n") == 1
    job = command("explain", out, "report", "--label", "talks", "--json")
    assert json.loads(job.out)["story"]["job"]


def test_a_plugin_is_listed(command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "listed.py").write_text(GOOD.format(name="listed"))
    entries = json.loads(command("policies", "--json", "--plugin", tmp_path / "listed.py").out)
    assert "listed" in [entry["name"] for entry in entries]


def test_loading_a_plugin_twice_is_loading_it_once(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(GOOD.format(name="twice"))
    assert load_plugins([tmp_path / "twice.py"]) == load_plugins([tmp_path / "twice.py"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\nimport no_such_module\n", r"bad.py:2: plug-in cannot be loaded: ModuleNotFoundError: No module"),
        ("def f(:\n", r"bad.py:1: plug-in cannot be loaded: SyntaxError"),
        ("\n\n1 / 0\n", r"bad.py:3: plug-in cannot be loaded: ZeroDivisionError"),
    ],
)
def test_a_broken_plugin_names_its_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(InvalidInput, match=says):
        load_plugins([tmp_path / "bad.py"])


def test_an_installed_plugin_that_is_broken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    point = EntryPoint("theirs", "no_such_module:x", "rm_emulator.plugins")
    monkeypatch.setattr("rm_emulator.plugins.entry_points", lambda group: [point])
    plugins._load_installed.cache_clear()
    with pytest.raises(InvalidInput, match=r"plug-in theirs \(no_such_module:x\): ModuleNotFoundError"):
        load_plugins()


SCENARIO = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: own}
spec:
  plugins: [mine.py]
  cluster: {nodes: [{count: 2, capacity: {cpu: 2, memory: 4Gi}}]}
  workload: {kind: jobs, jobs: [{name: a, stages: [{name: m, tasks: 6, demand: {cpu: 1}, duration: 30s}]}]}
  policies: [{kind: NAME}]
"""


@pytest.fixture
def own(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A scenario that names a plug-in beside it, and policies of that under a name of the test's own."""
    name = re.sub(r"\W", "_", request.node.name)
    (tmp_path / "mine.py").write_text(GOOD.format(name=name))
    (tmp_path / "own.yaml").write_text(SCENARIO.replace("NAME", name))
    return tmp_path / "own.yaml"


def program(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process that knows of no plug-in."""
    command = [sys.executable, "-m", "rm_emulator", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_a_scenario_names_its_plug_ins_and_its_logs_know_them(own: Path, tmp_path: Path) -> None:
    ran = program("run", own, "--out", tmp_path / "out")
    assert ran.returncode == 0, ran.stderr
    assert "identical" in program("replay", tmp_path / "out").stdout
    assert "Job a" in program("explain", tmp_path / "out", "a").stdout
    (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text() + "\n")
    assert f"note: {tmp_path / 'mine.py'} has changed since the run" in program("replay", tmp_path / "out").stderr
    (tmp_path / "mine.py").rename(tmp_path / "moved.py")
    gone = program("replay", tmp_path / "out")
    assert gone.returncode == 2
    assert f"its run used the plug-in {tmp_path / 'mine.py'}, which is not there any more, give its" in gone.stderr
    assert "identical" in program("replay", tmp_path / "out", "--plugin", tmp_path / "moved.py").stdout


def test_the_content_of_a_plug_in_is_part_of_a_cell_s_key(own: Path) -> None:
    keys = [grid.cells(load(own))[0].key]
    by_option = own.with_name("option.yaml")
    by_option.write_text(own.read_text().replace("  plugins: [mine.py]\n", ""))
    keys.append(grid.cells(load(by_option), [str(own.with_name("mine.py"))])[0].key)
    own.with_name("mine.py").write_text(own.with_name("mine.py").read_text() + "\n")
    keys.append(grid.cells(load(own))[0].key)
    assert keys[0] == keys[1] != keys[2]


def test_a_plug_in_that_is_not_there_has_its_place_in_the_scenario(own: Path) -> None:
    own.with_name("mine.py").unlink()
    with pytest.raises(InvalidInput, match=rf"own.yaml:5:13 spec.plugins\[0\]: no such plug-in file: {own.parent}"):
        load(own)


def test_a_plug_in_of_a_scenario_that_fails_names_its_line(own: Path) -> None:
    own.with_name("mine.py").write_text("\n1 / 0\n")
    with pytest.raises(InvalidInput, match=r"^\S*mine.py:2: plug-in cannot be loaded: ZeroDivisionError[^\n]*$"):
        load(own)


@pytest.mark.parametrize("value", ["mine.py", "[[mine.py]]", "[1]", "['']"])
def test_plug_ins_are_a_list_of_names(own: Path, value: str) -> None:
    with pytest.raises(InvalidInput, match=r"spec.plugins"):
        load(own, overrides=[f"spec.plugins={value}"])
