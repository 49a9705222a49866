from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.issues import InvalidInput
from rm_emulator.plugins import load_plugins

GOOD = '''
from schedulers.core.policy import policies
from schedulers.policies.fifo import Fifo


@policies.register("{name}", source="a test")
class Outside(Fifo):
    """First come, first served, from outside the tree."""
'''


def test_a_policy_from_outside_the_tree_runs_in_worker_processes(command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(GOOD.format(name="outside"))
    changes = ["--set", "spec.policies[1]={kind: outside}", "--jobs", "2"]
    said = command("run", "hello", "--plugin", tmp_path / "outside.py", *changes, "--out", tmp_path / "out", "--json")
    assert said.code == 0, said.err
    runs = {run["label"]: run for run in json.loads(said.out)["runs"]}
    assert runs["outside"]["jct_s"] == runs["fifo"]["jct_s"]


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
    with pytest.raises(InvalidInput, match=r"plug-in theirs \(no_such_module:x\): ModuleNotFoundError"):
        load_plugins()
