"""`fidelity` as a whole: folders, seeds, table, data, exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.cli import main as program
from rm_emulator.fidelity import command
from rm_emulator.fidelity.check import Emulated, check_folder
from rm_emulator.fidelity.emulator import Emulator
from rm_emulator.hadoop import scenario
from tests.hadoop.conftest import MakeFolder, job, task

from .test_runs import result


@pytest.fixture
def compared(folder: MakeFolder) -> Path:
    """Two jobs whose real runs took 10 and 20 s."""
    path = folder([job("x", 0), job("y", 5000)])
    for number in ("1", "2"):
        result(path, [("app_1", 0, 500, 10500), ("app_2", 5000, 5500, 25500)], number)
    return path


def exact(folder: Path, seed: int) -> Emulated:
    return Emulated({"x": (0, 10_000), "y": (5000, 25_000)})


def slow(folder: Path, seed: int) -> Emulated:
    return Emulated({"x": (0, 13_000), "y": (5000, 25_000)})


def test_every_seed_is_run_once(compared: Path) -> None:
    seen = []

    def simulate(folder: Path, seed: int) -> Emulated:
        seen.append(seed)
        return exact(folder, seed)

    found = check_folder(compared, simulate, seeds=20)
    assert seen == list(range(1, 21))
    assert (found.seeds, found.real_runs, found.holds) == (20, 2, True)


def test_progress_is_told(compared: Path) -> None:
    told: list[tuple[str, int, int]] = []
    check_folder(compared, exact, seeds=2, progress=lambda *said: told.append(said))
    assert told == [("sls", 0, 2), ("sls", 1, 2), ("sls", 2, 2)]


def test_only_the_files_given_are_compared(compared: Path) -> None:
    assert check_folder(compared, exact, seeds=1, files=[compared / "results" / "2.csv"]).real_runs == 1


def test_equal_starts_of_the_emulator_are_matched_by_durations_too(folder: MakeFolder) -> None:
    path = folder([job("x"), job("y")])
    result(path, [("app_1", 0, 0, 9000), ("app_2", 0, 0, 7000)])
    found = check_folder(path, lambda folder, seed: Emulated({"x": (0, 7000), "y": (0, 9000)}), seeds=1)
    assert [j.error_pct for j in found.jobs] == [0, 0]


def test_a_simulation_of_other_jobs_is_refused(compared: Path) -> None:
    with pytest.raises(ValueError, match="in the simulation only: z"):
        check_folder(compared, lambda f, s: Emulated({**exact(f, s).jobs, "z": (0, 1)}), seeds=1)


def test_the_exit_code_is_0_inside_the_bars(compared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([compared], seeds=2, simulate=exact) == 0
    assert "+0.0 %" in capsys.readouterr().out


def test_progress_is_said_on_standard_error_where_there_is_no_terminal(
    compared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main([compared], seeds=2, simulate=exact)
    said = capsys.readouterr().err.splitlines()
    assert (said[0], said[-1]) == (
        f"emulated runs: {compared.name}, 0 % done",
        f"emulated runs: {compared.name}, 100 % done",
    )


def test_the_exit_code_is_1_outside_and_the_jobs_are_shown(compared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([compared], seeds=2, simulate=slow) == 1
    assert "+30.0 %" in capsys.readouterr().out


def test_the_tolerance_can_be_set(compared: Path) -> None:
    assert command.main([compared], seeds=2, simulate=slow, tolerance_pct=16) == 0


def test_json_is_one_document(compared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.main([compared], seeds=2, simulate=slow, as_json=True)
    (found,) = json.loads(capsys.readouterr().out)["folders"]
    assert (found["name"], found["mean_error_pct"], found["worst_job"], found["holds"]) == ("sls", 10.0, "x", False)
    assert found["jobs"][0]["emulated_s"] == [13.0, 13.0]


def test_two_folders_are_two_rows(compared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.main([compared, compared], seeds=1, simulate=exact, as_json=True)
    assert len(json.loads(capsys.readouterr().out)["folders"]) == 2


def test_mistakes_end_with_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["rm-emulator", "fidelity", str(tmp_path / "missing")])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        program()
    assert ended.value.code == 2


@pytest.fixture
def fifo(monkeypatch: pytest.MonkeyPatch) -> None:
    def policy(folder: Any) -> dict[str, Any]:
        return {"kind": "fifo"}

    monkeypatch.setattr(scenario, "_policy", policy)


@pytest.mark.usefixtures("fifo")
def test_the_emulator_runs_a_folder(folder: MakeFolder, tmp_path: Path) -> None:
    path = folder([job("x", 0, tasks=[task(5000)] * 3), job("y", 4000, "b")])
    found = Emulator(tmp_path)(path, 1)
    assert set(found.jobs) == {"x", "y"}
    assert found.jobs["y"][0] == 4000
    assert found.jobs["x"][1] >= 5000
    assert sum(found.memory_mb) >= 4 * 1024 * 5 * 0.9


@pytest.mark.usefixtures("fifo")
def test_the_same_seed_gives_the_same_run(folder: MakeFolder, tmp_path: Path) -> None:
    path = folder([job("x", 0, tasks=[task(5000)] * 3)])
    emulator = Emulator(tmp_path)
    assert emulator(path, 3) == emulator(path, 3)


@pytest.mark.usefixtures("fifo")
def test_nothing_is_left_in_the_scratch_folder(compared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    command.main([compared], seeds=1)
    assert not list(scratch.iterdir())
