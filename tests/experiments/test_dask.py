"""Cells on a Dask cluster: the same results as on one machine, whoever dies."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import distributed
import pytest

import rm_emulator
from rm_emulator.experiments import engines, grid
from rm_emulator.issues import InvalidInput
from rm_emulator.learn.config import Sequences
from rm_emulator.learn.remote import RemoteRollouts
from rm_emulator.learn.rollouts import RolloutTask, RolloutWorker, playable
from rm_emulator.plugins import load_plugins
from rm_emulator.results.figures import MACHINE_FIGURES
from rm_emulator.scenario.load import Loaded

pytest.importorskip("distributed")
from benchmarks.dask_cluster import DaskCluster
from rm_emulator.experiments import dask_calls, dask_engine
from rm_emulator.experiments.dask_worker import digest_of
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.usefixtures("no_report")

Tiny = Callable[..., Loaded]
POLICY = textwrap.dedent(
    """
    import os, signal, time
    from pathlib import Path
    from schedulers.core.policy import policies
    from schedulers.policies.fifo import Fifo

    @policies.register("{name}", source="a test")
    class Named(Fifo):
        '''As fifo.'''

        def schedule(self, view, offer):
            {body}
            yield from super().schedule(view, offer)
    """
)


#: A worker takes seconds to start again.
FEW = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Two workers, each in a folder of its own."""
    with DaskCluster(tmp_path_factory.mktemp("cluster"), 2, environment=FEW) as made:
        yield made


def plugin(folder: Path, name: str, body: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(POLICY.format(name=name, body=body))
    return load_plugins([folder / f"{name}.py"])


def content(out: Path) -> dict[str, Any]:
    """All files of the cells and the summary, without the fields of wall time."""
    found = dict[str, Any]()
    for file in sorted(out.rglob("*")):
        name = str(file.relative_to(out))
        if file.name == "cell.json":
            found[name] = {key: value for key, value in json.loads(file.read_text()).items() if key not in CELL_FIGURES}
        elif file.name == "summary.json":
            found[name] = json.loads(file.read_text())
            for run in found[name]["runs"]:
                for key in MACHINE_FIGURES:
                    run.pop(key)
        elif file.is_file() and name.split("/", maxsplit=1)[0] in ("runs", "points", "baselines"):
            found[name] = file.read_bytes()
    return found


CELL_FIGURES = ("decision_us", "wall_s", "tasks_per_s", "peak_rss_mb")


def same(one: Path, other: Path) -> bool:
    left, right = content(one), content(other)
    assert list(left) == list(right)
    assert [name for name in left if left[name] != right[name]] == []
    return bool(left)


# -- what is asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "ray://host:1", "dask", "dask://host", "dask:/no/scheme:1", "dask:file.yaml"])
def test_another_engine_is_refused_and_told_what_there_is(tiny: Tiny, tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"expected dask://HOST:PORT of a Dask scheduler, dask:FILE\.json"):
        grid.run(tiny(), tmp_path / "out", engine=text)
    assert not (tmp_path / "out").exists()


def test_jobs_of_a_scheduler_s_workers_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a scheduler has workers of its own, and their number is theirs"):
        grid.run(tiny(), tmp_path / "out", engine="dask://127.0.0.1:1", jobs=2)


def test_a_scheduler_that_is_not_there_is_named_and_nothing_is_written(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_engine, "_ANSWER_S", 0.2)
    with pytest.raises(InvalidInput, match=r"^scheduler tcp://127\.0\.0\.1:1: does not answer: Timed out"):
        grid.run(tiny(), tmp_path / "out", engine="dask://127.0.0.1:1")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file"),
        ("{", "is not a file that a Dask"),
        ("[]", "is not a file that"),
        ('{"address": "nowhere"}', "missing port number in address 'nowhere'"),
    ],
)
def test_a_scheduler_file_that_names_no_scheduler(tiny: Tiny, tmp_path: Path, text: str | None, why: str) -> None:
    if text is not None:
        (tmp_path / "s.json").write_text(text)
    with pytest.raises(InvalidInput, match=why):
        grid.run(tiny(), tmp_path / "out", engine=f"dask:{tmp_path / 's.json'}")


def test_tls_without_certificates_is_said(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"scheduler tls://127\.0\.0\.1:1: TLS expects .* check your TLS config"):
        grid.run(tiny(), tmp_path / "out", engine="dask:tls://127.0.0.1:1")


def test_nothing_of_dask_is_imported_unless_asked_for() -> None:
    code = (
        "import sys, rm_emulator.cli, rm_emulator.api, rm_emulator.experiments.api, rm_emulator.learn.remote;"
        "print([name for name in sys.modules if name.partition('.')[0] in ('dask', 'distributed', 'tornado')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_dask_worker_loads_no_engine_and_no_polars() -> None:
    code = "import sys, rm_emulator.experiments.dask_worker; print('polars' in sys.modules, 'simpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_a_class_of_the_calling_program_is_refused(tiny: Tiny) -> None:
    from schedulers.policies.fifo import Fifo

    class Mine(Fifo):
        """As fifo."""

    with pytest.raises(InvalidInput, match=r"engine='dask:local': other processes do not find Mine, .*leave engine="):
        rm_emulator.run(tiny().file, policies=[Mine], engine="dask:local")


# -- the same results ------------------------------------------------------------------------------


@pytest.mark.slow
def test_workers_in_this_process_give_the_same_results(tiny: Tiny, tmp_path: Path) -> None:
    tiny()
    rm_emulator.run(tmp_path / "tiny.yaml", out=tmp_path / "one", jobs=1)
    rm_emulator.run(tmp_path / "tiny.yaml", out=tmp_path / "dask", jobs=2, engine="dask:local")
    assert same(tmp_path / "one", tmp_path / "dask")


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_sweep_with_baselines_gives_the_same_results(tiny: Tiny, tmp_path: Path, cluster: DaskCluster) -> None:
    loaded = tiny('spec.sweep={"cluster.nodes[0].count": [2, 3]}', "spec.baselines=[ideal, alone]", "spec.seeds=[1]")
    grid.run(loaded, tmp_path / "one", jobs=1)
    grid.run(loaded, tmp_path / "dask", engine=cluster.engine)
    assert same(tmp_path / "one", tmp_path / "dask")


@pytest.mark.slow
def test_run_json_says_where_each_cell_was_computed_after_a_second_run_too(
    tiny: Tiny, tmp_path: Path, cluster: DaskCluster
) -> None:
    grid.run(tiny("spec.seeds=[1]"), tmp_path / "out", engine=cluster.engine)
    grid.run(tiny(), tmp_path / "out", engine=cluster.engine)
    workers = json.loads((tmp_path / "out/run.json").read_text())["workers"]
    assert list(workers) == ["runs/fair/1", "runs/fair/2", "runs/fifo/1", "runs/fifo/2"]
    assert all(re.fullmatch(r"\S+ tcp://127\.0\.0\.1:\d+", where) for where in workers.values())


@pytest.mark.slow
def test_the_cells_of_a_seed_are_computed_at_one_worker(tiny: Tiny, tmp_path: Path, cluster: DaskCluster) -> None:
    grid.run(tiny("spec.seeds=1..8"), tmp_path / "out", engine=cluster.engine)
    workers = json.loads((tmp_path / "out/run.json").read_text())["workers"]
    places = {(cell.rpartition("/")[2], where) for cell, where in workers.items()}
    assert len(workers) == 16
    assert 8 <= len(places) <= 9  # the last seed may be shared


@pytest.mark.slow
def test_plug_ins_and_traces_reach_workers_that_do_not_have_them(
    tmp_path: Path, cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rm_emulator.scenario import examples
    from rm_emulator.scenario.load import load

    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    (scenario, *_) = examples.copy("my-trace", here)
    plugins = plugin(here, "carried", "pass")
    loaded = load(scenario, overrides=["spec.policies=[{kind: carried}]", "spec.baseline=carried", "spec.seeds=[1]"])
    greet, contents = dask_engine.greet, dask_calls._contents

    async def greets_workers_of_another_machine(*arguments: Any) -> None:
        here.rename(elsewhere)
        try:
            await greet(*arguments)
        finally:
            elsewhere.rename(here)

    monkeypatch.setattr(dask_engine, "greet", greets_workers_of_another_machine)
    monkeypatch.setattr(dask_calls, "_contents", lambda path: contents(elsewhere / path.relative_to(here)))
    grid.run(loaded, tmp_path / "dask", engine=cluster.engine, plugins=plugins)
    kept = list(cluster.folder.glob("worker-*/dask-scratch-space/*/rm-emulator-inputs/*/*"))
    assert {file.name for file in kept if file.is_file()} == {"carried.py", "my-trace.csv"}
    grid.run(loaded, tmp_path / "one", jobs=1, plugins=plugins)
    assert same(tmp_path / "one", tmp_path / "dask")


def test_the_hash_of_an_input_has_its_name_and_all_that_is_in_it(tmp_path: Path) -> None:
    hashes = set()
    for name, inner, text in (("a", "x", "1"), ("b", "x", "1"), ("a", "y", "1"), ("a", "x", "2")):
        folder = tmp_path / f"{len(hashes)}" / name
        folder.mkdir(parents=True)
        (folder / inner).write_text(text)
        hashes.add(digest_of(folder))
    assert len(hashes) == 4


# -- workers that cannot -----------------------------------------------------------------------------


@pytest.mark.slow
def test_workers_of_another_program_are_named_with_the_difference(
    tiny: Tiny, tmp_path: Path, cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = dask_calls.metadata.program()
    monkeypatch.setattr(dask_calls.metadata, "program", lambda more=(): {**here, "numpy": "1.0"})
    says = rf"worker \S+ tcp://127\.0\.0\.1:\d+ runs another program: numpy {here['numpy']} \(here: 1\.0\)"
    with pytest.raises(InvalidInput, match=says):
        grid.run(tiny(), tmp_path / "out", engine=cluster.engine)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_failing_cell_is_named_and_its_traceback_kept(tiny: Tiny, tmp_path: Path, cluster: DaskCluster) -> None:
    plugins = plugin(tmp_path, "fails", "raise RuntimeError('this policy is broken')")
    loaded = tiny("spec.policies[0]={kind: fails}", "spec.seeds=[1]")
    done = grid.run(loaded, tmp_path / "out", engine=cluster.engine, plugins=plugins)
    assert [(f.label, f.seed, f.why) for f in done.failures] == [("fails", 1, "RuntimeError: this policy is broken")]
    assert "raise RuntimeError('this policy is broken')" in (tmp_path / "out/failed/fails-1.txt").read_text()
    assert (tmp_path / "out/runs/fair/1/cell.json").exists()


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_cell_over_which_its_process_dies_fails_after_three_attempts(
    tiny: Tiny, tmp_path: Path, cluster: DaskCluster
) -> None:
    plugins = plugin(tmp_path, "exits", "os._exit(9)")
    loaded = tiny("spec.policies[0]={kind: exits}", "spec.seeds=[1]")
    done = grid.run(loaded, tmp_path / "out", engine=cluster.engine, plugins=plugins)
    (failure,) = done.failures
    assert failure.why.startswith("the worker process ended with exit code 9 before its work was done (attempts: ")
    assert len(failure.why.partition("attempts:")[2].split(",")) == dask_calls.ATTEMPTS


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_cell_over_which_its_process_dies_once_is_computed_again(
    tiny: Tiny, tmp_path: Path, cluster: DaskCluster
) -> None:
    first = f"Path({str(tmp_path)!r}, 'first')"
    plugins = plugin(tmp_path, "dies", f"{first}.exists() or ({first}.touch(), os._exit(9))")
    loaded = tiny("spec.policies[0]={kind: dies}", "spec.seeds=[1]")
    done = grid.run(loaded, tmp_path / "out", engine=cluster.engine, plugins=plugins)
    assert (tmp_path / "first").exists()
    assert (done.failures, done.computed) == ((), 2)


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_cell_over_which_workers_die_fails_and_names_the_last(
    tiny: Tiny, tmp_path: Path, cluster: DaskCluster
) -> None:
    is_a_worker = "b'dask_worker' in Path(f'/proc/{os.getppid()}/cmdline').read_bytes()"
    plugins = plugin(tmp_path, "kills", f"{is_a_worker} and os.kill(os.getppid(), signal.SIGKILL); os._exit(1)")
    loaded = tiny("spec.policies[0]={kind: kills}", "spec.seeds=[1]")
    done = grid.run(loaded, tmp_path / "out", engine=cluster.engine, plugins=plugins)
    (failure,) = done.failures
    assert re.search(r"2 workers died while they computed the call, the last was tcp://127\.0\.0\.1:\d+$", failure.why)
    assert (tmp_path / "out/runs/fair/1/cell.json").exists()


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_full_disk_of_the_run_s_own_machine_is_no_lost_scheduler(
    tiny: Tiny, tmp_path: Path, cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "runs")

    monkeypatch.setattr(grid.RunDirectory, "accept", full)
    with pytest.raises(OSError, match="No space left on device"):
        grid.run(tiny(), tmp_path / "out", engine=cluster.engine)


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_the_cells_of_a_client_that_is_killed_end(tiny: Tiny, tmp_path: Path, cluster: DaskCluster) -> None:
    tiny()
    plugin(tmp_path, "endless", f"Path({str(tmp_path)!r}, f'{{os.getpid()}}.pid').touch(); time.sleep(600)")
    command = [sys.executable, "-m", "rm_emulator", "run", "tiny.yaml", "--plugin", "endless.py", "--out", "out"]
    options = ["--engine", cluster.engine, "--set", "spec.policies=[{kind: endless}]"]
    # Workers of earlier tests may have been killed: each cell needs one.
    with distributed.Client(f"tcp://{cluster.address}") as asked:
        asked.wait_for_workers(2, timeout=60)
    with (tmp_path / "said.txt").open("wb") as said:
        client = subprocess.Popen([*command, *options], cwd=tmp_path, stderr=said)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("*.pid"))) < 2 and client.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert client.poll() is None, (tmp_path / "said.txt").read_text()
    client.kill()
    client.wait()
    processes = [Path("/proc", file.stem) for file in tmp_path.glob("*.pid")]
    while any(process.exists() for process in processes) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(processes) == 2
    assert [process for process in processes if process.exists()] == []


# -- calls of other kinds ----------------------------------------------------------------------------


def rollouts(engine: str, tiny: Tiny) -> tuple[RemoteRollouts, list[RolloutTask], list[list[float]]]:
    """Rollouts on a cluster, tasks for them, and the ends of jobs that are to come of the tasks."""
    scenarios = playable([Sequences(scenario=str(tiny().file))])
    made = RemoteRollouts(engines.engine_of(engine, None), scenarios, "decima", name="tiny", note=print)
    tasks, here = [RolloutTask(0, seed, seed, "random") for seed in range(12)], RolloutWorker(scenarios)
    return made, tasks, [here.play(task).outcome.ends.tolist() for task in tasks]


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_rollouts_of_a_killed_worker_and_of_a_killed_scheduler_are_played_again(
    tiny: Tiny, cluster: DaskCluster
) -> None:
    made, tasks, wanted = rollouts(cluster.engine, tiny)
    try:
        for part in ("worker-0", "scheduler"):
            results = made.begin(tasks)
            cluster.kill(part)
            assert [each.outcome.ends.tolist() for each in results()] == wanted
        cluster.kill("scheduler")  # while nothing is at work
        assert [each.outcome.ends.tolist() for each in made.play(tasks)] == wanted
    finally:
        made.close()


@pytest.mark.slow
def test_workers_of_another_program_play_nothing(
    tiny: Tiny, cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = dask_calls.metadata.program
    here = program(["greenlet"])
    monkeypatch.setattr(dask_calls.metadata, "program", lambda more: {**program(more), "greenlet": "1.0"})
    with pytest.raises(InvalidInput, match=rf"runs another program: greenlet {here['greenlet']} \(here: 1\.0\)"):
        rollouts(cluster.engine, tiny)


# -- the demo, and the recipes of docs/operate/many-machines.md --------------------------------------

PAGE = "docs/operate/many-machines.md"


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_grid_ends_like_on_one_machine_though_worker_scheduler_and_client_are_killed(tmp_path: Path) -> None:
    small = ["--cells", "12", "--jobs-per-cell", "10", "--workers", "2", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.grid_demo", *small], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^(\S+) killed", done.stdout, re.MULTILINE) == ["worker-0", "scheduler", "client"]
    rows = [line.split() for line in done.stdout.splitlines() if line.lstrip().startswith(("killed ", "apart "))]
    assert [(row[0], row[1], *row[-2:]) for row in rows] == [
        ("killed", "12", "identical", "12"),
        ("apart", "12", "identical", "12"),
    ]
    out = tmp_path / "12x10-2"
    assert same(out / "one", out / "killed")
    assert same(out / "one", out / "apart")
    assert "Traceback" not in (out / "killed.log").read_text()


@pytest.mark.nightly
def test_the_recipe_for_ssh_runs_a_grid(tmp_path: Path) -> None:
    """On this machine: an `ssh` that stays here, each host with a folder of its own and a core."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (script,) = (block.text for block in blocks(PAGE) if "ssh $host" in block.text)
    programs = {
        "ssh": 'mkdir -p "$HOME/$1"; cd "$HOME/$1"; mkdir -p rm-emulator/.venv/bin; '
        'ln -sf "$(command -v dask)" rm-emulator/.venv/bin/dask; exec sh -c "$2"',
        "nproc": "echo 1",
        "dask": f'name=$1; shift; exec "{sys.executable}" -m distributed.cli.dask_$name "$@"',
        "rm-emulator": f'exec "{sys.executable}" -m rm_emulator "$@" --quiet --set spec.seeds=[1] --set spec.expect=[]',
    }
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    script = script.replace("10.0.0.1", "127.0.0.1").replace("8786", str(port))
    over = "touch node1/stop node2/stop; kill %1; wait %1"
    done = subprocess.run(
        ["/bin/bash", "-c", f"set -m\n{script}\ncode=$?\n{over}\nexit $code"],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    workers = json.loads((tmp_path / "out/load-sweep/run.json").read_text())["workers"]
    assert len(workers) == 27
    assert len(set(workers.values())) == 2


@pytest.mark.slow
def test_the_recipe_for_slurm_asks_for_workers_of_one_thread() -> None:
    pytest.importorskip("dask_jobqueue", reason="pip install dask-jobqueue")
    (recipe,) = (block.text for block in blocks(PAGE) if block.language == "python")
    done = subprocess.run([sys.executable, "-c", recipe], capture_output=True, text=True, check=True, timeout=120)
    assert re.search(r"^#SBATCH --cpus-per-task=1$", done.stdout, re.MULTILINE)
    assert re.search(r"dask_worker tcp://\S+ .*--nthreads 1 .*--no-nanny", done.stdout)
    assert engines.engine_of(done.stdout.split("--engine ")[1].strip(), None)
