"""WfFormat: recorded workflows of WfCommons, whose files become data on edges."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.workload import formats
from rm_emulator.workload.formats import Trace, TraceError
from rm_emulator.workload.model import Fixed, WorkloadJob
from schedulers.core.model import Edge
from tests.workload import samples

INSTANCES = Path(__file__).parents[3] / "shared" / "data" / "wfinstances"
Change = Callable[[dict[str, Any]], None]


def read(folder: Path, text: str = samples.WFFORMAT, **options: Any) -> Trace:
    (folder / "flow.json").write_text(text)
    return formats.read("wfformat", folder / "flow.json", options)


def changed(change: Change, text: str = samples.WFFORMAT) -> str:
    document = json.loads(text)
    change(document)
    return json.dumps(document)


def only(trace: Trace) -> WorkloadJob:
    (job,) = trace.workload.jobs
    return job


def test_a_file_is_a_job_and_a_task_a_stage_of_one_task(tmp_path: Path) -> None:
    found = only(read(tmp_path)).job
    assert [(stage.name, stage.tasks) for stage in found.stages] == [
        ("split_1", 1),
        ("map_1", 1),
        ("map_2", 1),
        ("join_1", 1),
    ]
    assert (found.id, found.name, found.user, found.app) == ("flow", "diamond", "ann", "Pegasus")


def test_an_edge_carries_the_files_that_the_parent_writes_and_the_child_reads(tmp_path: Path) -> None:
    above = [stage.parents for stage in only(read(tmp_path)).job.stages]
    assert above == [(), (Edge(parent=0, data=3000),), (Edge(parent=0, data=3400),), (Edge(parent=1, data=50), 2)]


def test_run_times_cores_and_memory_are_joined_by_id(tmp_path: Path) -> None:
    found = only(read(tmp_path))
    assert found.runtimes == (Fixed(10_500), Fixed(3000), Fixed(4000), Fixed(1))
    assert [stage.demand for stage in found.job.stages] == [(2000, 2), (500, 0), (1000, 0), (1000, 0)]


def test_run_times_are_scaled_from_the_machine_s_clock_where_that_is_asked_for(tmp_path: Path) -> None:
    assert only(read(tmp_path, speed_mhz=2400)).runtimes[0] == Fixed(5250)


def test_version_1_6_is_read_as_1_5_with_its_metrics(tmp_path: Path) -> None:
    def newer(document: dict[str, Any]) -> None:
        document["schemaVersion"] = "1.6"
        document["workflow"]["specification"]["metrics"] = {"numberOfTasks": 4}

    assert only(read(tmp_path, changed(newer))) == only(read(tmp_path))


def test_version_1_4_holds_files_with_their_tasks_and_parents_by_name_or_id(tmp_path: Path) -> None:
    found = only(read(tmp_path, samples.WFFORMAT_14))
    assert [(stage.name, stage.parents, stage.demand) for stage in found.job.stages] == [
        ("split_ID01", (), (2000, 2)),
        ("map_ID02", (Edge(parent=0, data=3000),), (1000, 0)),
        ("join_ID03", (1,), (1000, 0)),
    ]
    assert (found.runtimes[0], found.job.app) == (Fixed(10_500), "Pegasus")


def test_version_1_4_calls_tasks_by_id_where_names_are_not_their_own(tmp_path: Path) -> None:
    def alike(document: dict[str, Any]) -> None:
        for task in document["workflow"]["tasks"]:
            task["name"], task["parents"] = "task", {"ID01": [], "ID02": ["ID01"], "ID03": ["ID02"]}[task["id"]]

    found = only(read(tmp_path, changed(alike, samples.WFFORMAT_14)))
    assert [(stage.name, stage.above) for stage in found.job.stages] == [("ID01", ()), ("ID02", (0,)), ("ID03", (1,))]


def test_a_dependency_that_only_the_parent_names_is_one(tmp_path: Path) -> None:
    def one_sided(document: dict[str, Any]) -> None:
        document["workflow"]["specification"]["tasks"][3]["parents"] = ["map_1"]

    assert only(read(tmp_path, changed(one_sided))).job.stages[3].above == (1, 2)


def test_without_sizes_nothing_is_moved_and_a_note_says_so(tmp_path: Path) -> None:
    def unsized(document: dict[str, Any]) -> None:
        del document["workflow"]["specification"]["files"]

    trace = read(tmp_path, changed(unsized))
    assert [stage.parents for stage in only(trace).job.stages] == [(), (0,), (0,), (1, 2)]
    assert "workflows without sizes of files, nothing is moved in them: 1" in trace.notes


def test_the_machines_of_the_file_are_told(tmp_path: Path) -> None:
    assert "machines that they ran on, 48 cores, 128 GiB: 1" in read(tmp_path).notes


def test_a_folder_is_a_workload_of_a_job_per_file_named_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "flows" / "old").mkdir(parents=True)
    (tmp_path / "flows" / "new.json").write_text(samples.WFFORMAT)
    (tmp_path / "flows" / "old" / "a.json").write_text(samples.WFFORMAT_14)
    trace = formats.read("wfformat", tmp_path / "flows")
    assert [(entry.job.id, entry.submit_ms) for entry in trace.workload.jobs] == [("new", 0), ("old/a", 0)]
    assert formats.guess(tmp_path / "flows") == "wfformat"


def test_workflows_may_arrive_at_random_in_the_order_of_their_files(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    for name in "abc":
        (tmp_path / "flows" / f"{name}.json").write_text(samples.WFFORMAT)
    options = {"interarrival_s": 10.0}
    first, again, other = (formats.read("wfformat", tmp_path / "flows", options | {"seed": s}) for s in (1, 1, 2))
    submits = [entry.submit_ms for entry in first.workload.jobs]
    assert submits[0] == 0 < submits[1] < submits[2]
    assert first == again != other


def test_a_file_that_cannot_be_read_is_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.json").write_text(samples.WFFORMAT.replace('"1.5"', '"1.3"'))
    (tmp_path / "flows" / "b.json").write_text(samples.WFFORMAT)
    trace = formats.read("wfformat", tmp_path / "flows", {"skip_bad_rows": True})
    assert [entry.job.id for entry in trace.workload.jobs] == ["b"]
    assert "'1.3' is not read (accepted: 1.4, 1.5, 1.6)" in trace.notes[0]


def test_every_mistake_of_every_file_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    for name in "ab":
        text = samples.WFFORMAT.replace("900000", "-1").replace("10.5", "-2")
        (tmp_path / "flows" / f"{name}.json").write_text(text)
    with pytest.raises(TraceError) as caught:
        formats.read("wfformat", tmp_path / "flows")
    assert caught.value.count == 4


@pytest.mark.skipif(
    not INSTANCES.is_dir(), reason="needs ../shared/data/wfinstances (real instances, not ours to ship)"
)
def test_real_instances_are_read_whole() -> None:
    trace = formats.read("wfformat", INSTANCES)
    tasks = {entry.job.id: len(entry.job.stages) for entry in trace.workload.jobs}
    assert tasks == {
        "1000genome-chameleon-2ch-100k-001": 52,
        "blast-chameleon-small-003": 43,
        "montage-chameleon-2mass-005d-001": 58,
        "srasearch-chameleon-10a-004": 22,
    }


@pytest.mark.skipif(
    not INSTANCES.is_dir(), reason="needs ../shared/data/wfinstances (real instances, not ours to ship)"
)
def test_edges_of_real_instances_carry_every_file_that_one_task_writes_and_another_reads() -> None:
    for path in sorted(INSTANCES.glob("*.json.gz")):
        specification = json.loads(gzip.decompress(path.read_bytes()))["workflow"]["specification"]
        sizes = {file["id"]: file["sizeInBytes"] for file in specification["files"]}
        written = {file for task in specification["tasks"] for file in task["outputFiles"]}
        read_ones = sum(
            sizes[file] for task in specification["tasks"] for file in task["inputFiles"] if file in written
        )
        stages = only(formats.read("wfformat", path)).job.stages
        assert sum(edge.data for stage in stages for edge in stage.edges) == read_ones > 0
