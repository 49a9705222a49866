"""How long tests took is kept, and told."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import keep, told

TOOK = {f"tests/a/test_x.py::test_{number}": float(number) for number in range(30)} | {"tests/b/test_y.py::t": 60.0}


def test_a_run_of_a_part_leaves_the_others_durations(tmp_path: Path) -> None:
    file = tmp_path / "out" / "durations.json"
    keep(file, {"a": 1.0, "b": 2.0})
    keep(file, {"b": 3.0})
    assert json.loads(file.read_text()) == {"a": 1.0, "b": 3.0}


def test_a_file_cut_off_is_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "durations.json"
    file.write_text('{"a": 1')
    keep(file, {"b": 3.0})
    assert json.loads(file.read_text()) == {"b": 3.0}


def test_the_twenty_slowest_come_first_and_then_folders() -> None:
    lines = list(told(TOOK))
    assert lines[0].endswith("tests/b/test_y.py::t")
    assert [line.split()[0] for line in lines[1:20]] == [f"{number:.1f}" for number in range(29, 10, -1)]
    assert [line.split() for line in lines[20:]] == [["7.2", "min", "tests/a"], ["1.0", "min", "tests/b"]]
