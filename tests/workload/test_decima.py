"""Decima's profiles as released and as JSON, and the unpickler that refuses anything but plain data."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rm_emulator.issues import TraceError
from rm_emulator.workload import formats, npy
from rm_emulator.workload.model import PerTask, Waves
from rm_emulator.workload.profile_files import load_profiles

DATA = Path(__file__).parents[2] / "../shared/data"
RAW = DATA / "decima-tpch-raw"
needs_raw = pytest.mark.skipif(not RAW.is_dir(), reason=f"needs the released profiles at {RAW}")
STAGE = {"fresh_durations": {5: [9]}, "first_wave": {5: [9, 4]}, "rest_wave": {5: [2]}}


def object_npy(path: Path, payload: bytes, shape: str = "()") -> Path:
    """A .npy file of an object array whose pickle is `payload`."""
    header = f"{{'descr': '|O', 'fortran_order': False, 'shape': {shape}, }}"
    padded = header.ljust(128 - 10 - 1) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode() + payload)
    return path


def save_release(folder: Path, matrix: Any, stages: Any, query: int = 1) -> Path:
    """A folder in the released form with one query at 2 GB."""
    (folder / "2g").mkdir(parents=True, exist_ok=True)
    np.save(folder / "2g" / f"adj_mat_{query}.npy", np.array(matrix, dtype=float))
    np.save(folder / "2g" / f"task_duration_{query}.npy", np.array(stages, dtype=object), allow_pickle=True)
    return folder


def json_file(path: Path, **changes: Any) -> Path:
    query = {"query": 1, "size": "2g", "edges": [], "stages": [{"tasks": 3, **STAGE}], **changes}
    path.write_bytes(gzip.compress(json.dumps({"source": "made up", "queries": [query]}).encode()))
    return path


def error_of(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        load_profiles(path)
    return str(caught.value)


class Hostile:
    """Runs a command when it is unpickled the ordinary way."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


def test_a_hostile_pickle_is_refused_without_being_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    path = object_npy(tmp_path / "evil.npy", pickle.dumps(Hostile(f"touch {mark}"), protocol=2))
    with pytest.raises(TraceError, match="refused: this pickle is not plain data"):
        npy.read_object(path)
    assert not mark.exists()


@pytest.mark.parametrize("name", [b"builtins\neval", b"numpy\nload", b"numpy.core.multiarray\nscalar", b"os\nsystem"])
def test_every_other_name_is_refused(tmp_path: Path, name: bytes) -> None:
    path = object_npy(tmp_path / "evil.npy", b"\x80\x02c" + name + b"\n.")
    with pytest.raises(TraceError, match="it asks for '" + name.decode().replace("\n", r"\.")):
        npy.read_object(path)


def test_a_stand_in_cannot_be_changed_by_a_pickle(tmp_path: Path) -> None:
    function_state = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n}b."
    with pytest.raises(TraceError, match="state for a function"):
        npy.read_object(object_npy(tmp_path / "evil.npy", function_state))


@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5])
def test_plain_objects_are_read_whatever_the_pickle_version(tmp_path: Path, protocol: int) -> None:
    array = np.array({"a": [1, 2, {"b": 3.5}]}, dtype=object)
    path = object_npy(tmp_path / "plain.npy", pickle.dumps(array, protocol=protocol))
    assert npy.read_object(path) == {"a": [1, 2, {"b": 3.5}]}


def test_numbers_inside_a_pickled_array_are_refused(tmp_path: Path) -> None:
    path = object_npy(tmp_path / "x.npy", pickle.dumps(np.arange(3), protocol=2))
    with pytest.raises(TraceError, match="only object arrays are read"):
        npy.read_object(path)


@pytest.mark.parametrize("end", [1, 20, 130, 160, 200])
def test_a_truncated_file_is_one_clear_error(tmp_path: Path, end: int) -> None:
    payload = pickle.dumps(np.array({1: [1] * 50}, dtype=object), protocol=2)
    path = object_npy(tmp_path / "x.npy", payload)
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(TraceError, match=r"x\.npy: (not a \.npy file|truncated or damaged pickle)"):
        npy.read_object(path)


def test_a_numeric_array_of_another_length_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.eye(3))
    (tmp_path / "m.npy").write_bytes((tmp_path / "m.npy").read_bytes()[:-8])
    with pytest.raises(TraceError, match=r"64 bytes of data, but shape \(3, 3\) of float64 needs 72"):
        npy.read_numbers(tmp_path / "m.npy")


def test_a_numeric_array_is_read_as_numpy_reads_it(tmp_path: Path) -> None:
    array = np.asfortranarray([[1, 2, 3], [4, 5, 6]], dtype=np.int32)
    np.save(tmp_path / "m.npy", array)
    assert npy.read_numbers(tmp_path / "m.npy").tolist() == [[1, 2, 3], [4, 5, 6]]


def test_objects_in_place_of_numbers_are_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.save(stream, np.array({}, dtype=object), allow_pickle=True)
    (tmp_path / "m.npy").write_bytes(stream.getvalue())
    with pytest.raises(TraceError, match="numbers are needed"):
        npy.read_numbers(tmp_path / "m.npy")


def test_a_release_with_tasks_of_the_first_level(tmp_path: Path) -> None:
    save_release(tmp_path, [[0, 1], [0, 0]], {0: STAGE, 1: STAGE})
    job = load_profiles(tmp_path).job("tpch-2g-q1")
    assert [(stage.tasks, stage.parents) for stage in job.stages] == [(3, ()), (3, (0,))]


def test_a_release_is_cleaned(tmp_path: Path) -> None:
    save_release(tmp_path, [[0]], {0: STAGE})
    assert load_profiles(tmp_path).job("tpch-2g-q1").stages[0].first[5].values == (4,)


def test_all_broken_files_of_a_release_are_named_at_once(tmp_path: Path) -> None:
    save_release(tmp_path, [[0, 1], [1, 0]], {0: STAGE, 1: STAGE}, query=1)
    save_release(tmp_path, [[0, 1]], {0: STAGE}, query=2)
    save_release(tmp_path, [[0]], {0: {"first_wave": {}}}, query=3)
    save_release(tmp_path, [[0]], {0: {**STAGE, "rest_wave": {5: [-1]}}}, query=4)
    save_release(tmp_path, [[0]], {1: STAGE}, query=5)
    lines = error_of(tmp_path).splitlines()
    assert [line.partition("2g/")[2].partition(" ")[0] for line in lines] == [
        "task_duration_1.npy:",
        "adj_mat_2.npy:",
        "task_duration_3.npy:",
        "task_duration_4.npy:",
        "task_duration_5.npy:",
    ]


def test_a_missing_file_of_a_release_is_named(tmp_path: Path) -> None:
    save_release(tmp_path, [[0]], {0: STAGE})
    (tmp_path / "2g" / "task_duration_1.npy").unlink()
    assert "task_duration_1.npy: no such file" in error_of(tmp_path)


def test_a_folder_without_profiles_is_refused(tmp_path: Path) -> None:
    assert "no folder such as 2g" in error_of(tmp_path)


def test_json_profiles_are_read(tmp_path: Path) -> None:
    profiles = load_profiles(json_file(tmp_path / "p.json.gz"))
    assert (len(profiles), profiles.exact, profiles.source) == (1, True, "made up")


def test_a_file_of_profiles_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    first = load_profiles(json_file(tmp_path / "p.json.gz"))
    assert load_profiles(tmp_path / "p.json.gz") is first
    json_file(tmp_path / "p.json.gz", size="5g")
    assert load_profiles(tmp_path / "p.json.gz").jobs[0].key == "tpch-5g-q1"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": [[0, 7]]}, "an edge from stage 0 to 7, but there are 1 stages"),
        ({"edges": [[0, 0]]}, "the stages form a cycle"),
        ({"stages": [{"tasks": 0, **STAGE}]}, "Expected `int` >= 1"),
        ({"stages": [{"tasks": 1, **STAGE, "first_wave": {"5": [-4]}}]}, "a duration of -4 ms"),
        ({"stages": [{"tasks": 1, **STAGE, "first_wave": {"5": ["x"]}}]}, "Expected `int`, got `str`"),
        ({"size": "2GB"}, "Expected `str` matching regex"),
    ],
)
def test_mistakes_in_json_profiles_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    assert message in error_of(json_file(tmp_path / "p.json.gz", **changes))


def test_a_truncated_json_file_is_one_clear_error(tmp_path: Path) -> None:
    path = json_file(tmp_path / "p.json.gz")
    path.write_bytes(path.read_bytes()[:-20])
    assert error_of(path).startswith(f"{path}: truncated gzip file")


def test_convert_makes_each_query_once_with_its_profiles(tmp_path: Path) -> None:
    trace = formats.read("decima", save_release(tmp_path, [[0]], {0: STAGE}))
    assert [entry.runtimes for entry in trace.workload.jobs] == [(Waves("tpch-2g-q1", 0),)]
    assert trace.profiles is not None
    assert len(trace.profiles) == 1


def test_convert_can_draw_jobs_with_plain_run_times(tmp_path: Path) -> None:
    folder = save_release(tmp_path, [[0]], {0: STAGE})
    trace = formats.read("decima", folder, {"jobs": 5, "durations": "per_task", "arrivals": "poisson"})
    assert len(trace.workload.jobs) == 5
    assert all(
        set(times.ms) <= {9, 4, 2} for e in trace.workload.jobs for times in e.runtimes if isinstance(times, PerTask)
    )


@needs_raw
def test_the_release_and_its_json_form_agree() -> None:
    released = load_profiles(RAW)
    converted = load_profiles(DATA / "tpch-spark-profiles.json.gz")
    assert len(released) == 44
    assert all(job == converted.job(job.key) for job in released.jobs)


@needs_raw
def test_the_release_has_154_jobs_and_177890_tasks() -> None:
    profiles = load_profiles(DATA / "tpch-spark-profiles.json.gz")
    assert len(profiles) == 154
    assert sum(stage.tasks for job in profiles.jobs for stage in job.stages) == 177_890
