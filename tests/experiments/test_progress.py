from __future__ import annotations

import io

import pytest

from rm_emulator.experiments import progress
from rm_emulator.experiments.cell import Cell
from rm_emulator.experiments.status import Status

CELLS = [Cell({}, label, 1, "", "") for label in ("fifo", "sjf")]


def follow(display: progress.Display) -> None:
    display.begin(CELLS, [])
    display.progress(CELLS[0], Status(500, 1000))
    display.progress(CELLS[0], Status(1000, 1000))
    display.finished(CELLS[0])
    display.progress(CELLS[1], Status(0, 1000))
    display.failed(CELLS[1])
    display.end()


def test_lines_say_one_line_a_cell_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    follow(progress.Lines())
    said = capsys.readouterr()
    assert said.out == ""
    first, second = said.err.splitlines()
    assert first.startswith("[1/2] fifo seed 1: 1,000 tasks in ")
    assert second == "[2/2] sjf seed 1: FAILED"


def test_lines_say_every_interval_how_far_each_cell_is(capsys: pytest.CaptureFixture[str]) -> None:
    told = ((0, 0, 0), (59, 0, 5000), (61, 0, 12_200), (70, 1, 0), (100, 0, 15_000), (122, 0, 18_300))
    moments = iter(told)
    lines = progress.Lines(clock=lambda: next(moments)[0], every_s=60)
    for _, cell, tasks in told:
        lines.progress(CELLS[cell], Status(tasks, 20_000, 40, 100, 3_723_000, 3, 1700))
    assert capsys.readouterr().err.splitlines() == [
        "fifo seed 1: 1 h 02 m 03 s simulated, 40 of 100 jobs and 12,200 of 20,000 tasks, 200 tasks/s, "
        "1,700 tasks of 3 jobs wait",
        "fifo seed 1: 1 h 02 m 03 s simulated, 40 of 100 jobs and 18,300 of 20,000 tasks, 100 tasks/s, "
        "1,700 tasks of 3 jobs wait",
    ]


def test_a_baseline_counts_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    moments = iter((0.0, 60.0))
    lines = progress.Lines(clock=lambda: next(moments))
    for tasks in (0, 600):
        lines.progress(CELLS[0], Status(tasks, 1000))
    assert capsys.readouterr().err == "fifo seed 1: 600 of 1,000 tasks, 10 tasks/s\n"


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
