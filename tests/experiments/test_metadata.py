"""run.json says how to repeat a run."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from rm_emulator.experiments import grid, metadata
from rm_emulator.scenario.load import Loaded, load

Tiny = Callable[..., Loaded]

PLUGIN = '''
from schedulers.core.policy import policies
from schedulers.policies.fifo import Fifo


@policies.register("{name}", source="a test")
class Named(Fifo):
    """First come, first served."""
'''


def said(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "run.json").read_text())
    return found


def test_a_run_says_what_was_called_where_on_what(tiny: Tiny, tmp_path: Path) -> None:
    grid.run(tiny(), tmp_path / "out", jobs=1)
    found = said(tmp_path / "out")
    assert (found["command"], found["folder"]) == (sys.orig_argv, str(Path.cwd()))
    assert (found["python"], found["packages"]["polars"]) == (platform.python_version(), pl.__version__)
    assert (found["seeds"], found["plugins"], found["platform"]) == ([1, 2], {}, platform.platform())
    assert found["code"] == metadata.code_digest()
    assert found["scenario"] == yaml.safe_load((tmp_path / "out/scenario.yaml").read_text())


def test_the_scenario_as_resolved_gives_the_same_cells(tiny: Tiny, tmp_path: Path) -> None:
    loaded = tiny("spec.policies[0]={kind: gs, predictor: {kind: slearn}}")
    grid.run(loaded, tmp_path / "out", jobs=1)
    (tmp_path / "again.yaml").write_text(json.dumps(said(tmp_path / "out")["scenario"]))
    assert [c.key for c in grid.cells(load(tmp_path / "again.yaml"))] == [c.key for c in grid.cells(loaded)]


def test_the_commit_is_that_of_the_program_s_own_sources(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(
            ["git", "-C", str(tmp_path), *names, *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    assert metadata.commit(tmp_path) is None
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "somebody else's")
    assert metadata.commit(tmp_path) is None  # installed inside another project
    (tmp_path / "rm_emulator").mkdir()
    (tmp_path / "rm_emulator/version.py").write_text("1")
    git("add", ".")
    git("commit", "-q", "-m", "ours")
    assert metadata.commit(tmp_path) == git("rev-parse", "HEAD")
    (tmp_path / "rm_emulator/version.py").write_text("2")
    assert metadata.commit(tmp_path) == git("rev-parse", "HEAD") + "-dirty"


def test_plug_ins_are_told_by_their_content(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN.format(name="told"))
    grid.run(tiny("spec.plugins=[mine.py]", "spec.policies=[{kind: told}]"), tmp_path / "out", jobs=1)
    wanted = {str(tmp_path / "mine.py"): hashlib.sha256((tmp_path / "mine.py").read_bytes()).hexdigest()}
    assert said(tmp_path / "out")["plugins"] == wanted
    assert json.loads((tmp_path / "out/runs/told/1/cell.json").read_text())["plugins"] == wanted


def test_no_place_is_lost_with_a_run_that_is_killed(tiny: Tiny, tmp_path: Path) -> None:
    first, second, third, fourth = grid.cells(tiny())
    record = metadata.RunRecord(tmp_path, {"spec": {"seeds": [1]}}, (), ())
    journal, left = tmp_path / "workers.jsonl", []
    for cell, due in ((first, 0.0), (second, math.inf), (third, math.inf)):
        record._next = due  # of the next time that run.json is written
        record.computed(cell, f"worker of {cell.label} {cell.seed}")
        left.append(journal.exists())
    assert left == [False, True, True]
    with journal.open("ab") as torn:
        torn.write(b'["runs/fair/2", "wor')
    metadata.RunRecord(tmp_path, {"spec": {"seeds": [1]}}, (), (first, second, third, fourth))
    assert said(tmp_path)["workers"] == {
        str(cell.place): f"worker of {cell.label} {cell.seed}"
        for cell in sorted((first, second, third), key=lambda cell: str(cell.place))
    }
    assert not journal.exists()


def test_the_place_of_a_cell_that_is_not_there_is_forgotten(tiny: Tiny, tmp_path: Path) -> None:
    first, second, *_ = grid.cells(tiny())
    (tmp_path / "workers.jsonl").write_text(json.dumps([str(first.place), "a"]) + "\n" + json.dumps(["b", 1]) + "\n")
    metadata.RunRecord(tmp_path, {"spec": {"seeds": [1]}}, (), (second,))
    assert "workers" not in said(tmp_path)
