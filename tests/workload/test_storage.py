"""Stored workloads: exact, whole or not there at all, and damage is noticed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.issues import TraceError
from rm_emulator.workload import storage
from rm_emulator.workload.model import Drawn, Fixed, PerNode, PerTask, Remote, Waves, Workload, WorkloadJob
from rm_emulator.workload.profiles import JobProfile, TpchProfiles, measured_stage
from schedulers.core.errors import InvalidJob
from schedulers.core.model import Edge, Job, PastJob, Stage
from tests.workload import samples_stored

OLDER = sorted((Path(__file__).parents[1] / "data").glob("workload-*"))

STAGES = (
    Stage(name="a", tasks=2, demand=(1000, 1)),
    Stage(name="b", tasks=2, demand=(0, 5), parents=(0,), hint_ms=7),
    Stage(name="c", tasks=1, demand=(1, 0), parents=(0, 1)),
    Stage(name="d", tasks=9, demand=(1, 0)),
)
RUNTIMES = (Fixed(5), PerTask((3, 4)), Drawn(2.5, 0.1, "gamma"), Waves("tpch-2g-q1", 3, 0.5))
JOB = Job(id="j1", stages=STAGES, name="n", user="u", app="x", queue="q", weight=2.5)
PAST = PastJob(name="n", submitted=-90, finished=-5, stages=((3, 1.5), (1, 2.0)), user="u", app="x", demand=(1, 2))
WORKLOAD = Workload(
    name="w", jobs=(WorkloadJob(job=JOB, submit_ms=4, runtimes=RUNTIMES),), history=(PAST,), source="made up"
)

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
whole = st.integers(-(2**62), 2**62)
positive = st.integers(1, 10**9)
number = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def jobs(draw: st.DrawFn, names: tuple[str, ...]) -> WorkloadJob:
    stages, runtimes = [], []
    for index in range(draw(st.integers(1, 4))):
        tasks = draw(st.integers(1, 5))
        hint = draw(st.none() | whole)
        parents = tuple(sorted(draw(st.sets(st.integers(0, index - 1))))) if index else ()
        demand = (draw(positive), *(draw(st.integers(0, 9)) for _ in names[1:]))
        stages.append(Stage(name=draw(text), tasks=tasks, demand=demand, parents=parents, hint_ms=hint))
        each = st.lists(whole, min_size=tasks, max_size=tasks)
        kinds = [
            st.builds(Fixed, whole),
            each.map(lambda ms: PerTask(tuple(ms))),
            st.builds(Drawn, number, number, text),
            st.builds(Waves, text, st.integers(0, 99), number),
        ]
        runtimes.append(draw(st.one_of(kinds)))
    job = Job(
        id=draw(text), stages=tuple(stages), name=draw(text), user=draw(text), app=draw(text), queue=draw(text),
        weight=draw(st.floats(min_value=0, exclude_min=True, allow_infinity=False)),
    )  # fmt: skip
    usage = st.just(()) | st.just(tuple(tuple(2 * amount for amount in stage.demand) for stage in stages))
    return WorkloadJob(job=job, submit_ms=draw(whole), runtimes=tuple(runtimes), usage=draw(usage))


past_jobs = st.builds(
    PastJob,
    name=text,
    submitted=whole,
    finished=whole,
    stages=st.lists(st.tuples(positive, number), max_size=3).map(tuple),
    user=text,
    app=text,
    demand=st.lists(positive, max_size=3).map(tuple),
)
workloads = st.lists(st.sampled_from(("cpu", "memory", "gpu", "x.com/y")), min_size=1, unique=True).flatmap(
    lambda names: st.builds(
        Workload,
        name=text,
        jobs=st.lists(jobs(tuple(names)), max_size=3).map(tuple),
        history=st.lists(past_jobs, max_size=2).map(tuple),
        resources=st.just(tuple(names)),
        source=text,
        began=st.none() | st.datetimes(datetime(1990, 1, 1), timezones=st.just(UTC)),
    )
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stored")


@settings(max_examples=25, deadline=None)
@given(workload=workloads)
def test_every_workload_comes_back_exactly(scratch: Path, workload: Workload) -> None:
    storage.save(workload, scratch / "w", overwrite=True)
    assert storage.load(scratch / "w") == workload


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    storage.save(WORKLOAD, tmp_path / "w", notes=["one left out"])
    return tmp_path / "w"


def error_of(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        storage.load(path)
    return str(caught.value)


def edit(path: Path, **changes: Any) -> None:
    header = yaml.safe_load((path / "workload.yaml").read_text())
    for key, value in changes.items():
        header[key] = value
    (path / "workload.yaml").write_text(yaml.safe_dump(header))


def test_every_kind_of_run_time_comes_back(stored: Path) -> None:
    assert storage.load(stored) == WORKLOAD


def test_the_same_workload_is_stored_as_the_same_bytes(stored: Path, tmp_path: Path) -> None:
    storage.save(WORKLOAD, tmp_path / "again", notes=["one left out"])
    files = sorted(file.name for file in stored.iterdir())
    assert all((stored / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in files)


def test_the_yaml_says_what_there_is(stored: Path) -> None:
    header = yaml.safe_load((stored / "workload.yaml").read_text())
    assert header["counts"] == {"jobs": 1, "stages": 4, "tasks": 14, "history": 1}
    assert (header["name"], header["source"], header["resources"]) == ("w", "made up", ["cpu", "memory"])


def test_notes_are_kept(stored: Path) -> None:
    assert storage.notes(stored) == ("one left out",)


def test_profiles_are_kept_beside_the_workload(tmp_path: Path) -> None:
    stage = measured_stage(1, [], {5: [4]}, {5: [4]}, {5: []})
    profiles = TpchProfiles([JobProfile(query=1, size_gb=2, stages=(stage,))], source="made up")
    storage.save(WORKLOAD, tmp_path / "w", profiles=profiles)
    found = storage.load_profiles(tmp_path / "w")
    assert found is not None
    assert found.jobs == profiles.jobs


def test_without_profiles_there_are_none(stored: Path) -> None:
    assert storage.load_profiles(stored) is None


def test_nothing_else_is_left_beside_it(stored: Path) -> None:
    assert [file.name for file in stored.parent.iterdir()] == ["w"]


def test_a_stored_workload_is_not_overwritten_unasked(stored: Path) -> None:
    with pytest.raises(TraceError, match="a workload is stored there already"):
        storage.save(WORKLOAD, stored)


def test_a_stored_workload_is_replaced_when_asked(stored: Path) -> None:
    storage.save(Workload(name="other", jobs=WORKLOAD.jobs), stored, overwrite=True)
    assert storage.load(stored).name == "other"
    assert [file.name for file in stored.parent.iterdir()] == ["w"]


def test_something_else_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(TraceError, match="not a stored workload is there already"):
        storage.save(WORKLOAD, tmp_path, overwrite=True)
    with pytest.raises(TraceError, match="not a stored workload is there already"):
        storage.save(WORKLOAD, tmp_path / "mine.txt", overwrite=True)


def test_a_missing_parent_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nowhere to write it in"):
        storage.save(WORKLOAD, tmp_path / "nowhere" / "w")


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, data: bytes, *, sync: bool) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(storage, "write_file", fail)
    with pytest.raises(OSError, match="disk full"):
        storage.save(WORKLOAD, tmp_path / "w")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_replacement_keeps_the_old_one(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if target == stored and ".old" not in self.name:
            raise OSError("disk full")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="disk full"):
        storage.save(Workload(name="other", jobs=WORKLOAD.jobs), stored, overwrite=True)
    assert storage.load(stored).name == "w"


def test_a_job_with_a_cycle_is_not_stored(tmp_path: Path) -> None:
    stage = Stage(name="a", tasks=1, demand=(1, 1), parents=(0,))
    entry = WorkloadJob(job=Job(id="j", stages=(stage,)), submit_ms=0, runtimes=(Fixed(1),))
    with pytest.raises(InvalidJob, match="cycle"):
        storage.save(Workload(name="w", jobs=(entry,)), tmp_path / "w")


def test_a_stage_without_run_times_is_not_stored(tmp_path: Path) -> None:
    entry = WorkloadJob(job=JOB, submit_ms=0, runtimes=RUNTIMES[:2])
    with pytest.raises(ValueError, match="job 'j1' has 4 stages, 2 run times"):
        storage.save(Workload(name="w", jobs=(entry,)), tmp_path / "w")


@pytest.mark.parametrize("number", [math.inf, math.nan])
def test_a_number_that_json_does_not_have_is_not_stored(tmp_path: Path, number: float) -> None:
    plain = WORKLOAD.jobs[0]
    far = msgspec.structs.replace(plain, apart=number)
    slow = msgspec.structs.replace(plain, runtimes=(Drawn(number), *RUNTIMES[1:]))
    for entry in (far, slow):
        with pytest.raises(ValueError, match="job 'j1' has times or factors that are not finite"):
            storage.save(Workload(name="w", jobs=(entry,)), tmp_path / "w")
    past = msgspec.structs.replace(PAST, stages=((1, number),))
    with pytest.raises(ValueError, match="an earlier run of 'n' has mean times that are not finite"):
        storage.save(msgspec.structs.replace(WORKLOAD, history=(past,)), tmp_path / "w")


@pytest.mark.parametrize("name", ["jobs.parquet", "history.parquet"])
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_file_is_named(stored: Path, name: str, damage: str) -> None:
    data = bytearray((stored / name).read_bytes())
    data[len(data) // 2] ^= 0xFF
    (stored / name).write_bytes(bytes(data) if damage == "flip" else bytes(data[:-30]))
    assert error_of(stored).startswith(f"{stored / name}: damaged, truncated or edited")


def test_a_missing_file_is_named(stored: Path) -> None:
    (stored / "history.parquet").unlink()
    assert error_of(stored) == f"{stored / 'history.parquet'}: missing, though workload.yaml lists it"


def test_a_folder_without_workload_is_named(tmp_path: Path) -> None:
    assert error_of(tmp_path) == f"{tmp_path}: not a stored workload: there is no workload.yaml in it"


def test_counts_that_do_not_match_are_named(stored: Path) -> None:
    edit(stored, counts={"jobs": 2, "stages": 4, "tasks": 14, "history": 1})
    assert "it holds 1 jobs, 4 stages, 14 tasks, 1 history, but workload.yaml says 2 jobs" in error_of(stored)


def test_another_format_is_refused(stored: Path) -> None:
    edit(stored, format="rm-emulator workload, version 9")
    assert "the format is 'rm-emulator workload, version 9'" in error_of(stored)


def test_broken_yaml_is_named_with_its_line(stored: Path) -> None:
    (stored / "workload.yaml").write_text("format: x\nname: [\n")
    assert f"{stored / 'workload.yaml'}:3: not YAML" in error_of(stored)


def test_an_unknown_key_is_named(stored: Path) -> None:
    edit(stored, colour="red")
    assert "unknown field `colour`" in error_of(stored)


def test_a_table_of_other_columns_is_named(stored: Path) -> None:
    rewritten(stored, "jobs.parquet", lambda _: pl.DataFrame({"id": [1]}))
    assert "jobs.parquet column 'id': of type Int64 (should be String)" in error_of(stored)


# -- edges with data, times by node ----------------------------------------------------------------


def moving(times: PerNode | Fixed, *parents: int | Edge) -> Workload:
    """A job before it that has neither, and one of two stages of two tasks each."""
    stages = (Stage(name="a", tasks=2, demand=(1, 1)), Stage(name="b", tasks=2, demand=(1, 1), parents=parents))
    made = WorkloadJob(job=Job(id="j2", stages=stages), submit_ms=4, runtimes=(Fixed(1), times))
    return Workload(name="w", jobs=(WORKLOAD.jobs[0], made))


@pytest.mark.parametrize("rows", [((1, 2, 3),), ((1, 2, 3), (4, 5, 6))])
def test_edges_with_data_and_times_by_node_are_kept(tmp_path: Path, rows: tuple[tuple[int, ...], ...]) -> None:
    there = moving(PerNode(("n1", "n2", "n3"), rows), Edge(parent=0, data=10**15))
    storage.save(there, tmp_path / "w")
    assert storage.load(tmp_path / "w") == there


def test_what_distance_to_input_costs_is_kept(tmp_path: Path) -> None:
    far = msgspec.structs.replace(WORKLOAD, remote=Remote(rack=1.2, off=1.5))
    storage.save(far, tmp_path / "w")
    assert storage.load(tmp_path / "w") == far


def test_columns_for_queries_stand_beside_the_job(stored: Path) -> None:
    (row,) = pl.read_parquet(stored / "jobs.parquet").drop("job").rows(named=True)
    assert row == {"id": "j1", "submit_ms": 4, "name": "n", "user": "u", "queue": "q", "stages": 4, "tasks": 14}


def rewritten(folder: Path, name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Another table in a file's place, whose hash is that of the new one."""
    change(pl.read_parquet(folder / name)).write_parquet(folder / name)
    header = yaml.safe_load((folder / "workload.yaml").read_text())
    header["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    edit(folder, sha256=header["sha256"])


def test_a_field_that_this_version_does_not_know_is_refused(stored: Path) -> None:
    rewritten(stored, "jobs.parquet", lambda jobs: jobs.with_columns(job=pl.lit('{"colour": "red"}')))
    assert "row 1: Object contains unknown field `colour`" in error_of(stored)


@pytest.mark.parametrize("folder", OLDER, ids=lambda folder: folder.name)
def test_a_folder_of_any_format_is_read_whole(folder: Path) -> None:
    assert storage.load(folder) == samples_stored.WORKLOAD
    assert storage.notes(folder) == samples_stored.NOTES
    found = storage.load_profiles(folder)
    assert found is not None
    assert found.jobs == samples_stored.PROFILES.jobs


def test_what_format_1_could_keep_comes_back_from_today_s(tmp_path: Path) -> None:
    storage.save(samples_stored.WORKLOAD, tmp_path / "w")
    assert storage.load(tmp_path / "w") == samples_stored.WORKLOAD


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (PerNode((), ((),)), "without nodes"),
        (PerNode(("n", "n"), ((1, 1),)), "for one node twice"),
        (PerNode(("n",), ((1,), (1,), (1,))), "2 tasks, run times by node for 3"),
        (PerNode(("n", "m"), ((1, 1), (1,))), "without one for each of its 2 nodes"),
    ],
)
def test_a_matrix_with_holes_is_not_stored(tmp_path: Path, times: PerNode, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        storage.save(moving(times, 0), tmp_path / "w")
