from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rm_emulator.experiments import cell as cell_module
from rm_emulator.experiments import grid
from rm_emulator.experiments.cell import Cell
from rm_emulator.experiments.progress import Display, Lines
from rm_emulator.issues import InvalidInput
from rm_emulator.results.figures import MACHINE_FIGURES, Summary
from rm_emulator.results.replay import event_log
from rm_emulator.scenario.load import Loaded, load

Tiny = Callable[..., Loaded]
SLOW = textwrap.dedent(
    """
    import time
    from schedulers.core.policy import policies
    from schedulers.policies.fifo import Fifo

    @policies.register("slow", source="a test")
    class Slow(Fifo):
        '''As fifo, but takes its time.'''

        def observe(self, event, view):
            time.sleep(0.2)
    """
)
BROKEN = textwrap.dedent(
    """
    from schedulers.core.policy import policies
    from schedulers.policies.fifo import Fifo

    @policies.register("broken", source="a test")
    class Broken(Fifo):
        '''Fails.'''

        def schedule(self, view, offer):
            raise RuntimeError("this policy is broken")
            yield
    """
)
DYING = BROKEN.replace('"broken"', '"dying"').replace(
    'raise RuntimeError("this policy is broken")', "import os; os._exit(9)"
)


pytestmark = pytest.mark.usefixtures("no_report")


def without_machine_figures(summary: Summary) -> str:
    text = msgspec.to_builtins(summary)
    for run in text["runs"]:
        for key in MACHINE_FIGURES:
            run.pop(key)
    return json.dumps(text)


def files(out: Path) -> list[str]:
    return sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file())


def test_a_run_directory_has_the_files_that_are_promised(tiny: Tiny, tmp_path: Path) -> None:
    grid.run(tiny("spec.seeds=[3]"), tmp_path / "out", jobs=1)
    of_cell = ["cell.json", "events.jsonl", "jobs.parquet", "nodes.parquet", "tasks.parquet", "trace.json"]
    cells = [f"runs/{label}/3/{name}" for label in ("fair", "fifo") for name in of_cell]
    assert files(tmp_path / "out") == sorted(
        [".rm-emulator.json", "report.html", "run.json", "scenario.yaml", "summary.json", *cells]
    )


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_processes(tiny: Tiny, tmp_path: Path) -> None:
    one = grid.run(tiny(), tmp_path / "one", jobs=1).summary
    three = grid.run(tiny(), tmp_path / "three", jobs=3).summary
    assert one is not None
    assert three is not None
    assert without_machine_figures(one) == without_machine_figures(three)
    for name in files(tmp_path / "one"):
        if name.endswith((".parquet", ".gz")):
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "three" / name).read_bytes()


def test_finished_cells_are_not_computed_again(tiny: Tiny, tmp_path: Path) -> None:
    grid.run(tiny(), tmp_path / "out", jobs=1)
    again = grid.run(tiny(), tmp_path / "out", jobs=1)
    assert (again.computed, again.reused) == (0, 4)


def test_a_missing_cell_is_computed(tiny: Tiny, tmp_path: Path) -> None:
    grid.run(tiny(), tmp_path / "out", jobs=1)
    (tmp_path / "out" / "runs" / "fair" / "2").rename(tmp_path / "gone")
    again = grid.run(tiny(), tmp_path / "out", jobs=1)
    assert (again.computed, again.reused) == (1, 3)


@pytest.mark.parametrize("name", ["events.jsonl", "jobs.parquet", "trace.json"])
@pytest.mark.drawn(of=4)
def test_a_damaged_cell_is_computed_again_and_named(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    grid.run(tiny(), tmp_path / "out", jobs=1)
    file = tmp_path / "out/runs/fair/2" / name
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    again = grid.run(tiny(), tmp_path / "out", jobs=1, display=Lines())
    assert (again.computed, again.reused) == (1, 3)
    assert file.read_bytes() == whole
    assert f"fair seed 2 runs again: {name} is not as its run left it" in capsys.readouterr().err


def test_a_cell_without_its_log_is_not_computed_again(tiny: Tiny, tmp_path: Path) -> None:
    grid.run(tiny(), tmp_path / "out", jobs=1)
    (tmp_path / "out/runs/fair/2/events.jsonl").unlink()
    assert grid.run(tiny(), tmp_path / "out", jobs=1).computed == 0


def test_more_seeds_add_to_what_is_there(tiny: Tiny, tmp_path: Path) -> None:
    grid.run(tiny(), tmp_path / "out", jobs=1)
    again = grid.run(tiny("spec.seeds=1..3"), tmp_path / "out", jobs=1)
    assert (again.computed, again.reused) == (2, 4)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("spec.cluster.heartbeat=2s", "was computed from other settings or another workload"),
        ("spec.policies[0].tie=id", "fifo seed 1 was computed from other settings"),
        ("spec.seeds=[1]", "fair seed 2 is there, which this scenario does not have"),
        ("spec.policies[1].label=other", "fair seed 1 is there, which this scenario does not have"),
    ],
)
def test_another_scenario_s_directory_is_refused(tiny: Tiny, tmp_path: Path, change: str, says: str) -> None:
    grid.run(tiny(), tmp_path / "out", jobs=1)
    before = files(tmp_path / "out")
    with pytest.raises(InvalidInput, match=says):
        grid.run(tiny(change), tmp_path / "out", jobs=1)
    assert files(tmp_path / "out") == before


def test_another_version_s_cells_are_told_apart(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid.run(tiny(), tmp_path / "out", jobs=1)
    monkeypatch.setattr("rm_emulator.experiments.grid.__version__", "99.0")
    with pytest.raises(InvalidInput, match="by another version of rm-emulator"):
        grid.run(tiny(), tmp_path / "out", jobs=1)


def test_overwrite_replaces_the_results_and_nothing_else(tiny: Tiny, tmp_path: Path) -> None:
    grid.run(tiny(), tmp_path / "out", jobs=1)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    grid.run(tiny("spec.seeds=[7]"), tmp_path / "out", jobs=1, overwrite=True)
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    assert sorted(p.name for p in (tmp_path / "out" / "runs").glob("*/*")) == ["7", "7"]


def test_a_folder_of_something_else_is_refused_even_to_overwrite(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with pytest.raises(InvalidInput, match="is not a run directory, but has 'runs' in it"):
        grid.run(tiny(), tmp_path, jobs=1, overwrite=True)


STRANGERS = ["scenario.yaml", "summary.json", "report.html", "runs/fifo/1/notes.txt", "runs/mine.csv", "failed/why.txt"]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", STRANGERS)
def test_what_no_run_wrote_is_never_replaced(tiny: Tiny, tmp_path: Path, name: str, overwrite: bool) -> None:
    (tmp_path / "out" / name).parent.mkdir(parents=True)
    (tmp_path / "out" / name).write_text("mine")
    before = files(tmp_path / "out")
    with pytest.raises(InvalidInput, match="is not a run directory, but has"):
        grid.run(tiny(), tmp_path / "out", jobs=1, overwrite=overwrite)
    assert files(tmp_path / "out") == before


@pytest.mark.parametrize("name", STRANGERS)
def test_what_was_put_into_a_run_directory_is_never_replaced(tiny: Tiny, tmp_path: Path, name: str) -> None:
    grid.run(tiny(), tmp_path / "out", jobs=1)
    (tmp_path / "out" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "out" / name).write_text("mine")
    before = files(tmp_path / "out")
    with pytest.raises(InvalidInput, match=f"'{name}' in it was not written by a run"):
        grid.run(tiny(), tmp_path / "out", jobs=1, overwrite=True)
    assert files(tmp_path / "out") == before


def test_the_files_of_a_killed_run_are_its_own(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(grid.RunDirectory, "__exit__", lambda *_: None)
        directory = grid.RunDirectory(tmp_path / "out", grid.cells(tiny()), {}, overwrite=False).__enter__()
    os.close(directory._lock or 0)
    assert grid.run(tiny(), tmp_path / "out", jobs=1).computed == 4


def test_a_file_as_run_directory_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a file"):
        grid.run(tiny(), tmp_path / "tiny.yaml", jobs=1)


@pytest.mark.parametrize("inside", ["another", "runs/fifo/3", "runs/../deep/er"])
def test_a_folder_inside_a_run_directory_is_refused_and_nothing_is_written(
    tiny: Tiny, tmp_path: Path, inside: str
) -> None:
    grid.run(tiny("spec.seeds=1"), tmp_path / "out", jobs=1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInput, match="lies inside the run directory"):
        grid.run(tiny("spec.seeds=1"), tmp_path / "out" / inside, jobs=1)
    assert sorted(tmp_path.rglob("*")) == before


def test_two_runs_do_not_write_into_one_directory(tiny: Tiny, tmp_path: Path) -> None:
    loaded = tiny()
    scenario = grid.resolved(loaded)
    with (
        grid.RunDirectory(tmp_path / "out", grid.cells(loaded), scenario, overwrite=False),
        pytest.raises(InvalidInput, match="another run is writing there"),
    ):
        grid.run(loaded, tmp_path / "out", jobs=1)


def test_the_resolved_scenario_computes_the_same_cells(tiny: Tiny, tmp_path: Path) -> None:
    loaded = tiny()
    grid.run(loaded, tmp_path / "out", jobs=1)
    again = load(tmp_path / "out" / "scenario.yaml")
    assert [cell.key for cell in grid.cells(again)] == [cell.key for cell in grid.cells(loaded)]


def test_a_trace_s_content_is_part_of_the_key_and_its_place_is_not(tmp_path: Path) -> None:
    text = (Path(grid.__file__).parents[1] / "scenario" / "examples" / "my-trace.yaml").read_text()
    table = (Path(grid.__file__).parents[1] / "scenario" / "examples" / "my-trace.csv").read_text()
    keys = []
    for folder, content in (("a", table), ("b", table), ("c", table + "last,x,y,adhoc,9999,scan,,1,1,1Gi,5,0\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "s.yaml").write_text(text)
        (tmp_path / folder / "my-trace.csv").write_text(content)
        keys.append(grid.cells(load(tmp_path / folder / "s.yaml"))[0].key)
    assert keys[0] == keys[1]
    assert keys[0] != keys[2]


def test_a_cell_does_not_depend_on_the_other_policies(tiny: Tiny) -> None:
    alone = grid.cells(tiny("spec.policies=[{kind: fair}]"))[0]
    beside = next(cell for cell in grid.cells(tiny()) if cell.label == "fair")
    assert alone.key == beside.key


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_cell_does_not_lose_the_others(tiny: Tiny, tmp_path: Path, jobs: int) -> None:
    kind = f"broken_{jobs}"  # the same name cannot be registered twice in one process
    plugin = tmp_path / "broken.py"
    plugin.write_text(BROKEN.replace('"broken"', f'"{kind}"'))
    files_ = cell_module.load_plugins([plugin])
    loaded = tiny(f"spec.policies[1].kind={kind}", "spec.policies[1].label=broken", "spec.seeds=[1]")
    finished = grid.run(loaded, tmp_path / "out", jobs=jobs, plugins=files_)
    assert finished.summary is None
    assert [(f.label, f.seed) for f in finished.failures] == [("broken", 1)]
    assert finished.failures[0].why == "RuntimeError: this policy is broken"
    assert "Traceback" in finished.failures[0].traceback.read_text()
    assert (tmp_path / "out" / "runs" / "fifo" / "1" / "cell.json").exists()
    assert not (tmp_path / "out" / "runs" / "broken").exists()


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_code_that_does_not_return_is_reported_with_its_line(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    waits = f"while not Path({str(tmp_path / 'go')!r}).exists(): pass\n        yield from super().schedule(view, offer)"
    fails = 'raise RuntimeError("this policy is broken")\n        yield'
    text = BROKEN.replace(fails, waits).replace('"broken"', '"waits"')
    (tmp_path / "waits.py").write_text(f"from pathlib import Path\n{text}")
    plugins = cell_module.load_plugins([tmp_path / "waits.py"])
    said = list[str]()

    class Lets(Display):
        def silent(self, cell: Cell, seconds: float, where: str) -> None:
            if "waits.py:" in where or "pathlib.py:" in where:
                said.append(where)
                (tmp_path / "go").touch()  # the policy waits for its report, however long it takes

    monkeypatch.setattr("rm_emulator.experiments.process.SILENCE_S", 0.2)
    loaded = tiny("spec.policies[1]={kind: waits}", "spec.seeds=1")
    done = grid.run(loaded, tmp_path / "out", jobs=jobs, plugins=plugins, display=Lets())
    assert done.failures == ()
    assert said


def test_a_worker_that_dies_takes_only_its_own_cell_with_it(tiny: Tiny, tmp_path: Path) -> None:
    plugin = tmp_path / "dying.py"
    plugin.write_text(DYING)
    files_ = cell_module.load_plugins([plugin])
    loaded = tiny("spec.policies[0].kind=dying", "spec.policies[0].label=dying", "spec.seeds=[1]")
    finished = grid.run(loaded, tmp_path / "out", jobs=2, plugins=files_)
    assert [(f.label, f.seed) for f in finished.failures] == [("dying", 1)]
    assert "exit code 9" in finished.failures[0].why
    assert finished.computed == 1


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("raise OSError(28, 'No space left on device', 'jobs.parquet')", "jobs.parquet: No space left on device"),
        ("raise MemoryError", "out of memory"),
        ("return", "2 jobs can never finish; the first is 'a': "),
    ],
)
def test_what_a_cell_dies_of_is_one_sentence(tiny: Tiny, tmp_path: Path, body: str, why: str) -> None:
    kind = f"ends_{len(body)}"
    (tmp_path / "ends.py").write_text(
        BROKEN.replace('"broken"', f'"{kind}"').replace('raise RuntimeError("this policy is broken")', body)
    )
    files_ = cell_module.load_plugins([tmp_path / "ends.py"])
    loaded = tiny(f"spec.policies=[{{kind: {kind}}}]", "spec.seeds=[1]")
    finished = grid.run(loaded, tmp_path / "out", jobs=1, plugins=files_)
    assert str(finished.failures[0]).startswith(f"{kind} seed 1 failed: {why}")


def test_a_full_disk_that_takes_no_traceback_either(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "jobs.parquet")

    monkeypatch.setattr("rm_emulator.experiments.pool.compute", full)
    real = grid.RunDirectory.keep_failure

    def failure(*arguments: Any) -> Any:
        monkeypatch.setattr("rm_emulator.experiments.directory.write_file", full)
        return real(*arguments)

    monkeypatch.setattr(grid.RunDirectory, "keep_failure", failure)
    finished = grid.run(tiny("spec.seeds=[1]"), tmp_path / "out", jobs=1)
    assert [str(f) for f in finished.failures] == [
        "fifo seed 1 failed: jobs.parquet: No space left on device",
        "fair seed 1 failed: jobs.parquet: No space left on device",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.drawn(of=4)
def test_an_interrupted_run_leaves_nothing_half_written(
    tiny: Tiny, tmp_path: Path, jobs: str, number: signal.Signals
) -> None:
    tiny()
    (tmp_path / "slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "rm_emulator", "run", "tiny.yaml", "--plugin", "slow.py", "--out", "out"]
    changes = ["--set", "spec.policies[1].kind=slow", "--set", "spec.policies[1].label=slow", "--jobs", jobs]
    running = subprocess.Popen([*command, *changes], cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "out" / ".partial").glob("slow-1-*/events.jsonl.gz")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    os.killpg(running.pid, number)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130, said.decode()
    assert not (tmp_path / "out" / ".partial").exists()
    assert not (tmp_path / "out" / "summary.json").exists()
    assert {p.parent.name for p in (tmp_path / "out").glob("runs/*/*")} <= {"fifo"}
    assert b"Traceback" not in said
    assert b"finished runs are kept in out; the same command computes what is missing" in said


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_workers_end_when_their_parent_is_killed(tiny: Tiny, tmp_path: Path) -> None:
    tiny()
    marks = tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "slow.py").write_text(
        SLOW.replace('"slow"', '"marked"').replace(
            "time.sleep(0.2)",
            f"import os, pathlib; pathlib.Path({str(marks)!r}, str(os.getpid())).touch(); time.sleep(0.2)",
        )
    )
    command = [sys.executable, "-m", "rm_emulator", "run", "tiny.yaml", "--plugin", "slow.py", "--out", "out"]
    changes = ["--set", "spec.policies=[{kind: marked}]", "--jobs", "2"]
    running = subprocess.Popen([*command, *changes], cwd=tmp_path, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list(marks.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    running.kill()
    running.wait()
    workers = [int(path.name) for path in marks.iterdir()]
    while any(_alive(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [worker for worker in workers if _alive(worker)] == []
    assert not list((tmp_path / "out").glob("runs/*/*"))


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_event_log_of_a_run_directory(tiny: Tiny, tmp_path: Path) -> None:
    grid.run(tiny(), tmp_path / "out", jobs=1)
    assert event_log(tmp_path / "out") == tmp_path / "out/runs/fifo/1/events.jsonl"
    assert event_log(tmp_path / "out", "fair", 2) == tmp_path / "out/runs/fair/2/events.jsonl"


@pytest.mark.parametrize(
    ("label", "seed", "says"),
    [("fari", None, "no label 'fari' .*did you mean 'fair'"), (None, 9, r"no seed '9' \(there are: 1, 2\)")],
)
def test_an_event_log_that_is_not_there(tiny: Tiny, tmp_path: Path, label: str, seed: int, says: str) -> None:
    grid.run(tiny(), tmp_path / "out", jobs=1)
    with pytest.raises(InvalidInput, match=says):
        event_log(tmp_path / "out", label, seed)


def test_a_run_that_kept_no_log_says_so(tiny: Tiny, tmp_path: Path) -> None:
    grid.run(tiny("spec.log=hash"), tmp_path / "out", jobs=1)
    with pytest.raises(InvalidInput, match="kept no event log"):
        event_log(tmp_path / "out")


def test_a_cell_says_how_far_it_is_and_what_waits(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rm_emulator.engine.simulation._REPORT_TASKS", 1)
    heard: list[cell_module.Status] = []
    cell = grid.cells(tiny())[0]
    cell_module.run_cell(cell, tmp_path, heard.append)
    assert [status.tasks for status in heard] == [*range(9), 8]
    assert {status.of_tasks for status in heard} == {8}
    assert (heard[0].jobs, heard[0].of_jobs, heard[0].now_ms) == (0, 2, 0)
    assert (heard[1].waiting_jobs, heard[1].waiting_tasks) in {(1, 1), (1, 2), (2, 3), (2, 4)}  # four slots for eight
    last = heard[-1]
    assert (last.jobs, last.waiting_jobs, last.waiting_tasks) == (2, 0, 0)
    assert last.now_ms >= heard[1].now_ms > 0


def test_a_large_log_is_compressed_and_found_by_its_name_without_gz(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rm_emulator.files.SMALL_GZIP", 0)
    grid.run(tiny("spec.seeds=[1]"), tmp_path / "out", jobs=1)
    log = event_log(tmp_path / "out")
    assert log.name == "events.jsonl.gz"
    assert event_log(log.with_suffix("")) == log


def test_logs_are_written_alike(tiny: Tiny, tmp_path: Path) -> None:
    for name in ("a", "b"):
        grid.run(tiny("spec.seeds=[1]"), tmp_path / name, jobs=1)
    a, b = event_log(tmp_path / "a"), event_log(tmp_path / "b")
    assert a.name == "events.jsonl"
    assert a.read_bytes() == b.read_bytes()
