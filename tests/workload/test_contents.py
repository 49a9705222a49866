"""Each format declares its facts: the declaration agrees with its sample, and each lacking fact has its sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from rm_emulator.workload import describe, description, formats, storage
from rm_emulator.workload.contents import FACTS, Contents
from rm_emulator.workload.model import PerTask, Waves, Workload
from tests.workload import samples

#: Facts that a workload does not keep, so no sample can show them.
NOT_KEPT: Final = {"submission": "arrivals look alike, whatever they are"}
#: Values that a reader assumes though the format lacks the fact.
ASSUMED: Final = {
    ("decima", "cpu"): "a demand for all tasks, by its sentence",
    ("decima", "memory"): "a demand for all tasks, by its sentence",
    ("decima", "user"): "users are made up, by its sentence",
    ("yarn_apps", "cpu"): "one vcore, by its sentence",
}
CASES: Final = [(name, fact) for name in formats.names() for fact in FACTS if fact not in NOT_KEPT]


def seen(workload: Workload, fact: str) -> bool:
    """Whether a workload shows the fact in any of its jobs."""
    stages = [stage for entry in workload.jobs for stage in entry.job.stages]
    match fact:
        case "task_times":
            times = [each for entry in workload.jobs for each in entry.runtimes]
            unequal = any(
                isinstance(each, Waves) or (isinstance(each, PerTask) and len(set(each.ms)) > 1) for each in times
            )
            # A format of single tasks has each task's own time, without a stage to show that times differ.
            return unequal or all(stage.tasks == 1 for stage in stages)
        case "recurrence":
            return any(entry.job.name not in ("", entry.job.id) for entry in workload.jobs)
        case "gangs":
            return any(stage.gang for stage in stages)
        case "cpu" | "memory" | "gpu":
            at = [i for i, name in enumerate(workload.resources) if fact in name]
            return any(stage.demand[i] for stage in stages for i in at)
        case "queue":
            return any(entry.job.queue != "default" for entry in workload.jobs)
        case "user":
            return any(entry.job.user for entry in workload.jobs)
        case "dag":
            return any(stage.parents for stage in stages)
        case "dates":
            return workload.began is not None
    raise AssertionError(f"how does a sample show {fact}?")


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Workload]:
    """The workload of each format's sample."""
    found = {}
    for name in formats.names():
        folder = tmp_path_factory.mktemp(name)
        found[name] = formats.read(name, samples.whole(name, folder)).workload
    return found


@pytest.mark.parametrize("name", formats.names())
def test_a_format_declares_its_facts_with_a_sentence_for_each_lacking_one(name: str) -> None:
    contents = formats.contents_of(name)
    assert contents is not None
    assert set(contents.lacks) == set(FACTS) - set(contents.carried)
    assert all(sentence.endswith(".") for sentence in contents.lacks.values())


@pytest.mark.parametrize(("name", "fact"), CASES)
def test_the_declaration_agrees_with_the_sample(read: dict[str, Workload], name: str, fact: str) -> None:
    contents = formats.contents_of(name)
    assert contents is not None
    if (name, fact) in ASSUMED:
        assert not getattr(contents, fact)
        return
    assert seen(read[name], fact) == getattr(contents, fact)


@pytest.mark.parametrize("name", formats.names())
def test_a_whole_sample_has_all_that_its_format_declares(read: dict[str, Workload], name: str) -> None:
    assert read[name].contents == formats.contents_of(name)


def lacking(name: str, path: Path, *facts: str) -> bool:
    """Whether the file lacks the facts beyond those that its format lacks."""
    contents, usual = formats.read(name, path).workload.contents, formats.contents_of(name)
    assert contents is not None
    assert usual is not None
    assert set(contents.lacks) == set(FACTS) - set(contents.carried)
    return set(contents.lacks) - set(usual.lacks) == set(facts)


@pytest.mark.parametrize(
    ("header", "row", "facts"),
    [
        ("job,durations", "a,1", {"recurrence", "cpu", "memory", "gpu", "queue", "user", "dag", "submission", "dates"}),
        (
            "job,name,user,queue,submit,parents,cpu,memory,res:nvidia.com/gpu,tasks,durations",
            "a,n,u,q,2024-01-31T10:00:00,,1,1Gi,1,2,1;2",
            set(),
        ),
        (
            "job,name,user,queue,submit,parents,cpu,memory,res:gpu,tasks,durations",
            "a,n,u,q,7,,1,1Gi,1,2,3",
            {"task_times", "dates"},
        ),
        (
            "job,app,user,queue,submit,parents,cpu,memory,res:gpu,tasks,mean",
            "a,n,u,q,7,,1,1Gi,1,2,3",
            {"task_times", "dates"},
        ),
    ],
)
def test_a_table_tells_by_its_columns(tmp_path: Path, header: str, row: str, facts: set[str]) -> None:
    (tmp_path / "jobs.csv").write_text(f"{header}\n{row}\n")
    assert lacking("csv", tmp_path / "jobs.csv", *facts)


def test_files_without_names_lack_recurrence(tmp_path: Path) -> None:
    assert lacking("google2011", samples.write("google2011", tmp_path), "recurrence")
    assert lacking("google2019", samples.write("google2019", tmp_path), "recurrence", "user")


def test_a_folder_of_tasks_alone_lacks_the_facts_of_the_other_tables(tmp_path: Path) -> None:
    (tmp_path / "pai_task_table.csv").write_text(samples.PAI["pai_task_table.csv"])
    assert lacking("alibaba2020", tmp_path, "task_times", "recurrence", "user", "submission")


def test_a_stored_workload_keeps_its_facts(tmp_path: Path) -> None:
    trace = formats.convert("swf", samples.write("swf", tmp_path), tmp_path / "stored")
    assert (
        formats.stored(tmp_path / "stored").workload.contents == trace.workload.contents == formats.contents_of("swf")
    )


def test_a_stored_workload_without_facts_is_read(tmp_path: Path) -> None:
    trace = formats.read("swf", samples.write("swf", tmp_path))
    workload = msgspec.structs.replace(trace.workload, contents=None)
    storage.save(workload, tmp_path / "stored")
    assert "contents" not in (tmp_path / "stored" / "workload.yaml").read_text()
    assert storage.load(tmp_path / "stored") == workload


def test_facts_of_another_version_are_read() -> None:
    known = msgspec.json.decode(b'{"cpu": true, "moons": true, "lacks": {}}', type=Contents)
    assert known.carried == ["cpu"]


def test_the_description_of_a_workload_names_the_lacking_facts(tmp_path: Path) -> None:
    trace = formats.read("swf", samples.write("swf", tmp_path))
    described = describe.describe(trace.workload)
    assert described.contents == trace.workload.contents
    assert "not in the trace, task times: All tasks of a job take the job's run time." in description.lines(described)


def test_a_listing_has_the_facts() -> None:
    about = json.loads(json.dumps(formats.describe("swf")))
    assert "gangs" in about["carries"]
    assert about["lacks"]["task_times"] == "All tasks of a job take the job's run time."


@pytest.fixture
def undeclared() -> Iterator[str]:
    @formats.register("undeclared", source="tests")
    class Undeclared:
        """A format without a declaration."""

        columns = ()

        @staticmethod
        def read(path: Path, options: formats.NoParams) -> formats.Trace:
            return formats.Trace(workload=Workload(name="nothing", jobs=()))

    yield "undeclared"
    formats.FORMATS._entries.pop("undeclared")


def test_a_format_without_a_declaration_leaves_the_question_open(undeclared: str, tmp_path: Path) -> None:
    assert formats.contents_of(undeclared) is None
    assert formats.read(undeclared, tmp_path).workload.contents is None
    assert "lacks" not in formats.describe(undeclared)
