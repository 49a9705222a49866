from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rm_emulator
from rm_emulator.experiments.api import CellsFailed, Results
from rm_emulator.issues import InvalidInput

pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    out = tmp_path_factory.mktemp("api") / "out"
    return rm_emulator.run("hello", out=out, seeds=[1, 2], set={"spec.cluster.heartbeat": "2s"})


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, rm_emulator; print([m for m in ('numpy', 'polars', 'pydantic', 'simpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_runs_are_one_row_a_cell(results: Results) -> None:
    assert results.runs.select("label", "seed").rows() == [
        ("fifo", 1), ("fifo", 2), ("fair", 1), ("fair", 2), ("sjf", 1), ("sjf", 2),
    ]  # fmt: skip
    assert results.runs["jct_s.mean"].dtype == pl.Float64


def test_jobs_and_tasks_are_those_of_all_cells(results: Results) -> None:
    assert results.jobs.group_by("label", "seed").len()["len"].to_list() == [3] * 6
    assert len(results.tasks) == 20 * 6


def test_comparisons_are_one_row_a_label_and_statistic(results: Results) -> None:
    assert results.comparisons.columns == ["label", "baseline", "statistic", "value", "low", "high"]
    assert set(results.comparisons["label"]) == {"fair", "sjf"}


def test_a_stored_run_loads_again(results: Results) -> None:
    again = rm_emulator.load(results.path)
    assert again.summary == results.summary
    assert again.jobs.equals(results.jobs)


def test_bad_input_raises_with_every_mistake() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'yarn'"):
        rm_emulator.run("hello", set={"spec.cluster.profile": "yran"})


def test_without_out_nothing_is_written_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    held = rm_emulator.run("hello")
    assert list(tmp_path.iterdir()) == []
    assert len(held.jobs) == 9


def test_without_out_the_results_live_as_long_as_what_was_returned() -> None:
    held = rm_emulator.run("hello")
    place = held.path
    assert (place / "report.html").is_file()
    del held
    assert not place.exists()


def test_a_run_that_fails_leaves_no_temporary_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("rm_emulator.experiments.cell.Simulation.run", lambda *_: 1 / 0)
    with pytest.raises(CellsFailed, match="fifo seed 1 failed: ZeroDivisionError") as failed:
        rm_emulator.run("hello", jobs=1)
    assert "Traceback" in failed.value.__notes__[0]
    assert list(tmp_path.iterdir()) == []


def test_an_error_about_the_directory_names_the_arguments(tmp_path: Path) -> None:
    out = tmp_path / "out"
    rm_emulator.run("hello", out=out)
    with pytest.raises(InvalidInput, match="choose another out=, or pass overwrite=True") as refused:
        rm_emulator.run("hello", out=out, seeds=[2])
    assert "--" not in str(refused.value)
    rm_emulator.run("hello", out=out, seeds=[2], overwrite=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"is a file: expected a folder for out=$"):
        rm_emulator.run("hello", out=tmp_path / "file")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"set": {"spec.cluster.profile": "yran"}}, r"^set=\{'spec.cluster.profile': 'yran'\}: 'yran' is not accepted"),
        ({"set": {"workload.load": 1}}, r"^set=\{'workload.load': 1\}: a path begins with 'spec'"),
        ({"seeds": "1..x"}, r"^seeds='1..x': not a list of seeds"),
        ({"seeds": [1, 1]}, r"^seeds=\[1, 1\]: seed 1 is given twice"),
    ],
)
def test_an_error_about_an_argument_names_it(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        rm_emulator.run("hello", **arguments)


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_script_needs_no_main_guard_to_use_several_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import rm_emulator\nprint(len(rm_emulator.run('hello', out='out', jobs=2).jobs))\n")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "9\n"
