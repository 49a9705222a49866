"""Run directories that were damaged or edited: compare, explain, replay and the next run say what is wrong."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import polars as pl
import pytest

import rm_emulator

Refused = Callable[..., str]
Damage = Callable[[Path], object]
SCENARIO: Final = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  cluster: {nodes: [{count: 2, capacity: {cpu: 2, memory: 4Gi}}]}
  workload:
    kind: jobs
    jobs: [{name: a, stages: [{name: m, tasks: 2, demand: {cpu: 1}, duration: 3s}]}]
  policies: [{kind: fifo}, {kind: fair}]
"""
CELL: Final = "r/runs/fifo/1/"
JOBS: Final = CELL + "jobs.parquet"
TASKS: Final = CELL + "tasks.parquet"
LOG: Final = CELL + "events.jsonl"
COMPARE: Final = "compare r"
RUN: Final = "run s.yaml --out r --jobs 1"
LOOK: Final = ("replay r", "explain r a")


def written(text: str | bytes) -> Damage:
    return lambda path: path.write_bytes(text if isinstance(text, bytes) else text.encode())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def gone(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def changed(old: str, new: str) -> Damage:
    return lambda path: path.write_text(re.sub(old, new, path.read_text()))


def lines(change: Callable[[list[str]], list[str]]) -> Damage:
    return lambda path: path.write_text("".join(change(path.read_text().splitlines(keepends=True))))


def columns(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Damage:
    return lambda path: change(pl.read_parquet(path)).write_parquet(path)


#: What is damaged, how, by which command it is seen -> what is said.
ROWS: Final[list[tuple[str, Damage, str | tuple[str, ...], str]]] = [
    ("r/summary.json", written(""), COMPARE, "summary.json"),
    ("r/summary.json", written("[]"), COMPARE, "summary.json"),
    ("r/summary.json", written("null"), COMPARE, "summary.json"),
    ("r/summary.json", written(b"\xff\x00"), COMPARE, "summary.json"),
    ("r/summary.json", written("[" * 100_000), COMPARE, "summary.json"),
    ("r/summary.json", written('{"runs": [{"seed": NaN}]}'), COMPARE, "summary.json"),
    ("r/summary.json", cut, COMPARE, "summary.json"),
    ("r/summary.json", gone, COMPARE, "r/summary.json: not there; is r a run directory?"),
    ("r/summary.json", a_folder, COMPARE, "summary.json: Is a directory"),
    (JOBS, cut, COMPARE, "jobs.parquet: not a readable Parquet file"),
    (JOBS, written(""), COMPARE, "jobs.parquet: not a readable Parquet file"),
    (JOBS, written("PAR1junkPAR1"), COMPARE, "jobs.parquet: not a readable Parquet file"),
    (JOBS, gone, COMPARE, "jobs.parquet: not there; run the scenario again"),
    (JOBS, a_folder, COMPARE, "jobs.parquet: not there; run the scenario again"),
    (
        JOBS,
        columns(lambda _: pl.DataFrame({"a": [1]})),
        COMPARE,
        "jobs.parquet: column 'id' should be String, found no",
    ),
    (
        JOBS,
        columns(lambda f: f.drop("finish_ms")),
        COMPARE,
        "jobs.parquet: column 'finish_ms' should be Int64, found no",
    ),
    (JOBS, columns(lambda f: f.with_columns(pl.all().cast(pl.String))), COMPARE, "should be Int64, found String"),
    (JOBS, columns(lambda f: f.clear()), COMPARE, "no job finished on both sides under the same id"),
    (CELL + "cell.json", written(""), RUN, "'runs/fifo/1/cell.json' in it was not written by a run, or has changed"),
    (CELL + "cell.json", written("[]"), RUN, "'runs/fifo/1/cell.json' in it was not written by a run, or has changed"),
    (CELL + "cell.json", cut, RUN, "'runs/fifo/1/cell.json' in it was not written by a run, or has changed"),
    (LOG, written(""), LOOK, "events.jsonl:1: the log is empty"),
    (LOG, gone, LOOK, "r/runs/fifo/1: kept no event log"),
    (LOG, a_folder, LOOK, "r/runs/fifo/1: kept no event log"),
    (LOG, written(b"\xff" * 100 + b"\n"), LOOK, "events.jsonl:1: cannot be read"),
    (LOG, written("junk\n"), LOOK, "events.jsonl:1: cannot be read: JSON is malformed"),
    (LOG, lines(lambda all_: all_[1:]), LOOK, "events.jsonl:1"),
    (LOG, lines(lambda all_: [*all_[:-1], all_[-1][:20]]), LOOK, "the log is cut off here"),
    (
        LOG,
        lines(lambda all_: [line for one in all_ for line in (one, one)]),
        "replay r",
        "events.jsonl:2: a second header",
    ),
    (LOG, lines(lambda all_: [*all_, "junk\n"]), LOOK, "cannot be read: JSON is malformed"),
    (LOG, changed('"at":', '"at":NaN,"x":'), LOOK, "cannot be read: JSON is malformed"),
    (LOG, changed(r'"at":(\d+)', r'"at":-\1'), LOOK, "a fact that cannot be: time runs backwards"),
    (LOG, changed("JobSubmitted", "JobSubmited"), "replay r", "Invalid value 'JobSubmited'"),
    (LOG, changed('"fifo"', '"fifi"'), LOOK, "fifi"),
    (LOG, changed(r'"container":(\d+)', r'"container":"\1"'), LOOK, "Expected `int`, got `str`"),
    ("r/runs", gone, (COMPARE, *LOOK), "r"),
    ("r/.rm-emulator.json", gone, (RUN, RUN + " --overwrite"), "is not a run directory, but has 'scenario.yaml' in it"),
    (
        "r/.rm-emulator.json",
        written("{"),
        (RUN, RUN + " --overwrite"),
        "was not written by a run, or has changed since",
    ),
    ("r/scenario.yaml", changed("fifo", "fofi"), RUN, "'scenario.yaml' in it was not written by a run, or has changed"),
    ("r/summary.json", lambda _: None, "compare r --label nobody", "r has no label 'nobody' (it has: fifo, fair)"),
    (
        "r/summary.json",
        lambda _: None,
        "compare r --label a --label b --label c",
        "expected at most two labels, found 3",
    ),
    ("r/summary.json", lambda _: None, "compare r r r", "one or two run directories are compared"),
    ("r/summary.json", lambda _: None, "compare r s.yaml", "s.yaml/summary.json: Not a directory"),
    ("r/summary.json", lambda _: None, "explain r nobody", "no job 'nobody' in this log of 1, the first is 'a'"),
    ("r/summary.json", lambda _: None, "explain r a --seed 9", "r: no seed '9' (there are: 1)"),
    ("r/summary.json", lambda _: None, "explain r a --label x", "r: no label 'x' (there are: fair, fifo)"),
    ("r/summary.json", lambda _: None, "replay r --seed -1", "r: no seed '-1'"),
    ("r/summary.json", lambda _: None, "replay r/report.html", "report.html:1: cannot be read"),
    ("r/summary.json", lambda _: None, f"explain {JOBS} a", "jobs.parquet:1: cannot be read"),
]
CASES: Final = [
    (place, damage, command, says)
    for place, damage, commands, says in ROWS
    for command in ([commands] if isinstance(commands, str) else commands)
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory of two policies, and its scenario beside it."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "s.yaml").write_text(SCENARIO)
    rm_emulator.run(folder / "s.yaml", out=folder / "r", jobs=1)
    for log in (folder / "r").rglob("events.jsonl.gz"):  # as text, which reads the same and is easily edited
        log.with_suffix("").write_bytes(gzip.decompress(log.read_bytes()))
        log.unlink()
    return folder


@pytest.mark.parametrize(
    ("place", "damage", "command", "says"), CASES, ids=[f"{n}-{Path(c[0]).name}-{c[2]}" for n, c in enumerate(CASES)]
)
def test_a_damaged_run(
    refused: Refused, finished: Path, tmp_path: Path, place: str, damage: Damage, command: str, says: str
) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    damage(tmp_path / place)
    assert says in refused(*command.split())


@pytest.mark.parametrize(
    ("place", "damage"), [(JOBS, cut), (JOBS, written("")), (JOBS, gone), (TASKS, cut), (TASKS, gone), (LOG, cut)]
)
@pytest.mark.drawn(of=4)
def test_a_cell_with_a_damaged_file_is_computed_again(
    finished: Path, tmp_path: Path, place: str, damage: Damage
) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    damage(tmp_path / place)
    rm_emulator.run(tmp_path / "s.yaml", out=tmp_path / "r", jobs=1)
    assert (tmp_path / place).read_bytes() == (finished / place).read_bytes()


def test_a_foreign_file_is_kept(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    (tmp_path / "r" / "mine.txt").write_text("mine")
    rm_emulator.run(tmp_path / "s.yaml", out=tmp_path / "r", jobs=1, overwrite=True)
    assert (tmp_path / "r" / "mine.txt").read_text() == "mine"


def test_a_list_of_files_that_names_one_outside_removes_nothing_there(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    listed = json.loads((tmp_path / "r" / ".rm-emulator.json").read_text())
    digest = hashlib.sha256(SCENARIO.encode()).hexdigest()
    (tmp_path / "r" / ".rm-emulator.json").write_text(json.dumps({**listed, "../s.yaml": digest}))
    rm_emulator.run(tmp_path / "s.yaml", out=tmp_path / "r", jobs=1, overwrite=True, seeds=[2])
    assert (tmp_path / "s.yaml").read_text() == SCENARIO
