"""`init --from TRACE`: a scenario that runs at once, for a sample of every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rm_emulator.workload import formats
from tests.cli.conftest import Command
from tests.workload import samples


def drafted(command: Command, trace: Path, folder: Path, *options: str) -> dict[str, Any]:
    """The scenario written for a trace."""
    code, out, err = command("init", "--from", str(trace), str(folder), *options)
    assert code == 0, err
    path = Path(out.splitlines()[0])
    assert [Path(line).name for line in out.splitlines()] == [path.name, f"{path.stem}-nodes.yaml"]
    written: dict[str, Any] = yaml.safe_load(path.read_text())
    return written | {"path": path}


@pytest.mark.parametrize("name", formats.names())
@pytest.mark.drawn(of=8)
@pytest.mark.usefixtures("no_report")
def test_the_scenario_of_every_format_is_without_mistakes_and_runs(command: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "traces").mkdir()
    trace = samples.whole(name, tmp_path / "traces")
    scenario = drafted(command, trace, tmp_path / "mine", "--format", name)
    for path in (tmp_path / "mine").glob("*.yaml"):
        said = command("check", str(path))
        assert said.code == 0, said.err
    code, _, err = command("run", str(scenario["path"]), "--out", str(tmp_path / "out"), "--quiet", "--jobs", "1")
    assert (code, err) == (0, "")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert len({run["label"] for run in summary["runs"]}) == 3
    assert all(run["unfinished_jobs"] == 0 for run in summary["runs"])


@pytest.mark.parametrize(
    ("name", "profile"), [("swf", "events"), ("yarn_apps", "yarn"), ("pods", "kubernetes"), ("alibaba2017", "events")]
)
def test_the_profile_fits_the_trace(command: Command, tmp_path: Path, name: str, profile: str) -> None:
    trace = samples.whole(name, tmp_path)
    assert drafted(command, trace, tmp_path / "mine", "--format", name)["spec"]["cluster"]["profile"] == profile


def table(folder: Path, rows: str) -> Path:
    path = folder / "jobs.csv"
    path.write_text(rows)
    return path


RECURRING = "".join(f"j{n},etl,{n * 1000},8,{60 + n % 3}\n" for n in range(9))


def policies(command: Command, trace: Path, folder: Path) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = drafted(command, trace, folder)["spec"]["policies"]
    return written


def test_without_run_times_of_single_tasks_history_is_tried(command: Command, tmp_path: Path) -> None:
    trace = table(tmp_path, f"job,name,submit,tasks,durations\n{RECURRING}")
    assert policies(command, trace, tmp_path / "mine") == [
        {"kind": "fifo"},
        {"kind": "fair"},
        {"label": "three_sigma", "kind": "gs", "predictor": {"kind": "three_sigma"}},
    ]


def test_with_run_times_of_single_tasks_sampling_is_tried(command: Command, tmp_path: Path) -> None:
    rows = "".join(f"j{n},{n * 1000},3,1;2;3\n" for n in range(9))
    trace = table(tmp_path, f"job,submit,tasks,durations\n{rows}")
    assert policies(command, trace, tmp_path / "mine")[2]["predictor"] == {"kind": "slearn"}


def test_with_neither_no_estimate_is_needed(command: Command, tmp_path: Path) -> None:
    rows = "".join(f"j{n},{n * 1000},3,{n + 1}\n" for n in range(9))
    trace = table(tmp_path, f"job,submit,tasks,durations\n{rows}")
    assert policies(command, trace, tmp_path / "mine")[2] == {"kind": "las"}


def test_queues_of_the_trace_are_there_and_shared_fairly(command: Command, tmp_path: Path) -> None:
    trace = table(tmp_path, "job,queue,submit,durations\na,prod,0,10\nb,yes,1,10\nc,1,1,10\n")
    scenario = drafted(command, trace, tmp_path / "mine")
    assert [queue["name"] for queue in scenario["spec"]["queues"]] == ["1", "prod", "yes"]
    assert scenario["spec"]["policies"][1] == {"kind": "drf"}


def test_users_share_where_there_are_no_queues(command: Command, tmp_path: Path) -> None:
    trace = table(tmp_path, "job,user,submit,durations\na,ann,0,10\nb,bob,1,10\n")
    assert policies(command, trace, tmp_path / "mine")[1] == {"kind": "drf", "level": "user"}


def test_each_policy_has_its_reason_above_it(command: Command, tmp_path: Path) -> None:
    path = drafted(command, samples.whole("csv", tmp_path), tmp_path / "mine")["path"]
    lines = path.read_text().splitlines()
    entries = [at for at, line in enumerate(lines) if line.startswith("  - {") and "kind" in line]
    assert len(entries) == 3
    assert all(lines[at - 1].startswith("  # ") for at in entries)


def test_a_long_trace_is_cut_and_says_so(command: Command, tmp_path: Path) -> None:
    trace = table(tmp_path, "job,submit,tasks,durations\na,0,90000,1\nb,1,9000,1\nc,2,90000,1\n")
    scenario = drafted(command, trace, tmp_path / "mine")
    assert scenario["spec"]["workload"]["options"] == {"limit": 2}
    assert "The first 2 of 3 jobs" in scenario["path"].read_text()


def test_a_stored_workload_is_named_by_its_folder(command: Command, tmp_path: Path) -> None:
    trace = table(tmp_path, f"job,name,submit,tasks,durations\n{RECURRING}")
    assert command("convert", "csv", str(trace), str(tmp_path / "stored"))[0] == 0
    workload = drafted(command, tmp_path / "stored", tmp_path / "mine")["spec"]["workload"]
    assert workload == {"kind": "trace", "format": "internal", "path": "../stored"}


def test_options_and_the_cluster_are_taken_over(command: Command, tmp_path: Path) -> None:
    trace = table(tmp_path, "job,submit,tasks,durations\na,0,3,60000\n")
    options = ("--option", "time_unit=ms", "--node", "cpu=4,memory=8Gi", "--nodes", "7")
    spec = drafted(command, trace, tmp_path / "mine", *options)["spec"]
    assert spec["workload"]["options"] == {"time_unit": "ms"}
    assert spec["cluster"]["nodes"] == [{"count": 7, "capacity": {"cpu": 4, "memory": "8Gi"}}]


def with_hosts(folder: Path) -> Path:
    (folder / "jobs.json").write_text(samples.SLS.replace('"map",', '"map", "container.host": "/rack/node7",'))
    return folder / "jobs.json"


def test_nodes_that_tasks_prefer_are_left_out_as_the_cluster_has_others(command: Command, tmp_path: Path) -> None:
    scenario = drafted(command, with_hosts(tmp_path), tmp_path / "mine")
    assert scenario["spec"]["workload"]["options"] == {"hosts": False}
    said = command("check", scenario["path"])
    assert said.code == 0, said.err


def test_a_stored_workload_with_such_nodes_is_refused(command: Command, tmp_path: Path) -> None:
    assert command("convert", "hadoop", with_hosts(tmp_path), tmp_path / "stored").code == 0
    said = command("init", "--from", tmp_path / "stored", tmp_path / "mine")
    assert (said.code, (tmp_path / "mine").exists()) == (2, False)
    assert "convert the trace with --option hosts=false" in said.err
    assert command("convert", "hadoop", tmp_path / "jobs.json", tmp_path / "w", "--option", "hosts=false").code == 0
    assert command("init", "--from", tmp_path / "w", tmp_path / "mine").code == 0


def test_nothing_is_overwritten(command: Command, tmp_path: Path) -> None:
    trace = table(tmp_path, "job,durations\na,1\n")
    drafted(command, trace, tmp_path / "mine")
    code, _, err = command("init", "--from", str(trace), str(tmp_path / "mine"))
    assert code == 2
    assert "is there already" in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("one", "two"), "a single DIR"),
        (("--wait", "soon"), "--wait: not a duration: 'soon'"),
        (("--node", "cpu"), "'cpu' is no resource of a node"),
        (("--node", "cpu=500m"), "a task asks for 1 of cpu, the node has 500m"),
    ],
)
def test_bad_options_are_refused(command: Command, tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    trace = table(tmp_path, "job,durations\na,1\n")
    code, _, err = command("init", "--from", str(trace), *options)
    assert code == 2
    assert said in err


@pytest.mark.parametrize(
    "option",
    [
        ("--format", "csv"),
        ("--option", "limit=1"),
        ("--wait", "10m"),
        ("--node", "cpu=4"),
        ("--nodes", "3"),
    ],
)
@pytest.mark.parametrize("words", [(), ("hello", "DIR")])
def test_options_of_a_trace_are_refused_without_one(
    command: Command, tmp_path: Path, option: tuple[str, str], words: tuple[str, ...]
) -> None:
    code, out, err = command("init", *(tmp_path if word == "DIR" else word for word in words), *option)
    assert (code, out, list(tmp_path.iterdir())) == (2, "", [])
    assert option[0] in err
    assert "belong to --from TRACE" in err
