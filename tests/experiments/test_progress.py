from __future__ import annotations

import io

import pytest

from rm_emulator.experiments import progress
from rm_emulator.experiments.cell import Cell

CELLS = [Cell({}, label, 1, "", "") for label in ("fifo", "sjf")]


def follow(display: progress.Display) -> None:
    display.begin(CELLS, [])
    display.progress(CELLS[0], 500, 1000)
    display.progress(CELLS[0], 1000, 1000)
    display.finished(CELLS[0])
    display.progress(CELLS[1], 0, 1000)
    display.failed(CELLS[1])
    display.end()


def test_lines_say_one_line_a_cell_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    follow(progress.Lines())
    said = capsys.readouterr()
    assert said.out == ""
    first, second = said.err.splitlines()
    assert first.startswith("[1/2] fifo seed 1: 1,000 tasks in ")
    assert second == "[2/2] sjf seed 1: FAILED"


def test_lines_say_what_is_there_already(capsys: pytest.CaptureFixture[str]) -> None:
    progress.Lines().begin(CELLS, CELLS[:1])
    assert capsys.readouterr().err == "1 of 2 runs are there already\n"


def test_bars_show_failures_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    follow(progress.Bars())
    said = capsys.readouterr()
    assert said.out == ""
    assert "sjf seed 1: FAILED" in said.err


@pytest.mark.parametrize(("terminal", "kind"), [(True, progress.Bars), (False, progress.Lines)])
def test_bars_are_for_terminals(monkeypatch: pytest.MonkeyPatch, terminal: bool, kind: type) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", stream)
    assert isinstance(progress.display(), kind)
