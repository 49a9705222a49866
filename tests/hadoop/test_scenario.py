"""SLS folders as scenario folders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rm_emulator.cli import main
from rm_emulator.hadoop.folder import read_folder
from rm_emulator.hadoop.scenario import scenario_data, scenario_text, write_scenario
from rm_emulator.issues import TraceError
from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import load
from rm_emulator.scenario.schema import Scenario
from rm_emulator.workload import formats, storage
from rm_emulator.workload.model import Fixed, PerTask
from schedulers.core.errors import InvalidParameters

from .conftest import MakeFolder, job, task

DATA = Path(__file__).parents[3] / "shared" / "data" / "yarn-sls"


def spec(path: Path) -> dict[str, Any]:
    return scenario_data(read_folder(path))["spec"]


def as_fifo(data: dict[str, Any]) -> dict[str, Any]:
    """The scenario with a policy that needs no queues of Hadoop's."""
    return {**data, "spec": {**data["spec"], "policies": [{"kind": "fifo"}]}}


def test_all_but_the_policy_is_an_ordinary_scenario(folder: MakeFolder) -> None:
    text = scenario_text(read_folder(folder()))
    Scenario.model_validate(as_fifo(yaml.safe_load(text)))


def test_the_cluster(folder: MakeFolder) -> None:
    cluster = spec(folder(sls={"yarn.sls.nm.heartbeat.interval.ms": "500", "yarn.sls.nm.vcores": "8"}))["cluster"]
    assert cluster["nodes"] == [{"count": 2, "name": "node", "capacity": {"cpu": 8, "memory": "10Gi"}, "rack": "r"}]
    assert (cluster["profile"], cluster["heartbeat"]) == ("sls", "500ms")
    assert cluster["application_master"] == {"heartbeat": "1s"}
    assert cluster["sizes"]["maximum"] == {"cpu": 4, "memory": "8Gi"}


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["n1", "n2", "n3"], [("n", 3)]),
        (["n1"], [("n1", None)]),
        (["n1", "n3"], [("n1", None), ("n3", None)]),
        ([f"n{i}" for i in range(1, 11)], [(f"n{i}", None) for i in range(1, 11)]),
        ([f"n{i:02}" for i in range(1, 11)], [("n", 10)]),
        (["a", "b"], [("a", None), ("b", None)]),
    ],
)
def test_nodes_keep_their_names(folder: MakeFolder, names: list[str], groups: list[tuple[str, int | None]]) -> None:
    path = folder([job(tasks=[{"duration.ms": 5}])], nodes=[{"rack": "r", "nodes": [{"node": n} for n in names]}])
    data = scenario_data(read_folder(path))
    assert [(g["name"], g.get("count")) for g in data["spec"]["cluster"]["nodes"]] == groups
    from rm_emulator.scenario.cluster import nodes
    from schedulers.core.resources import Resources

    scenario = Scenario.model_validate(as_fifo(data))
    assert [n.id for n in nodes(scenario.spec.cluster.nodes, Resources())] == names


def test_the_queue_tree(folder: MakeFolder) -> None:
    assert spec(folder())["queues"] == [
        {"name": "root"},
        {"name": "root.a", "parent": "root", "weight": 40},
        {"name": "root.b", "parent": "root", "weight": 60},
    ]


def test_the_number_of_running_applications_is_the_core_s_to_keep(folder: MakeFolder) -> None:
    allocations = (
        "<allocations><queueMaxAppsDefault>7</queueMaxAppsDefault>"
        '<queue name="a"><maxRunningApps>3</maxRunningApps></queue><queue name="b"/></allocations>'
    )
    found = {queue["name"]: queue.get("max_running") for queue in spec(folder(fair=allocations))["queues"]}
    assert found == {"root": 7, "root.a": 3, "root.b": 7}


def test_the_capacity_policy(folder: MakeFolder) -> None:
    found = spec(folder(capacity={"yarn.scheduler.capacity.root.a.user-limit-factor": "1.5"}))["policies"]
    queue = {
        "capacity": 40,
        "maximum_capacity": 100,
        "user_limit_factor": 1.5,
        "minimum_user_limit_percent": 100,
        "maximum_am_resource_percent": 0.1,
        "ordering": "fifo",
        "priority": 0,
        "preemptible": True,
    }
    assert found == [
        {
            "kind": "capacity",
            "queues": {"root.a": queue, "root.b": {**queue, "capacity": 60, "user_limit_factor": 1}},
            "node_locality_delay": 40,
            "rack_locality_additional_delay": -1,
            "maximum_offswitch_assignments": 1,
            "multiple_assignments": True,
            "maximum_container_assignments": 100,
            "minimum_allocation": [1024, 1],
            "maximum_allocation": [8192, 4],
            "calculator": "default",
            "preemption": {
                "enabled": True,
                "period_ms": 3000,
                "max_wait_before_kill_ms": 15000,
                "total_per_round": 0.1,
                "max_ignored_over_capacity": 0.1,
                "natural_termination_factor": 0.2,
            },
        }
    ]


def test_queues_below_queues_keep_their_orders(folder: MakeFolder, tmp_path: Path) -> None:
    settings = {
        "root.queues": "prod,dev",
        "root.ordering-policy": "priority-utilization",
        "root.prod.capacity": "60",
        "root.dev.capacity": "40",
        "root.prod.queues": "etl,adhoc",
        "root.prod.etl.capacity": "50",
        "root.prod.adhoc.capacity": "50",
        "root.prod.etl.ordering-policy": "fair",
    }
    path = folder(
        [job(queue="etl")], capacity={f"yarn.scheduler.capacity.{name}": value for name, value in settings.items()}
    )
    queues = spec(path)["policies"][0]["queues"]
    assert queues["root"]["child_ordering"] == "priority-utilization"
    assert queues["root.prod"]["child_ordering"] == "utilization"
    assert queues["root.prod.etl"]["ordering"] == "fair"
    write_scenario(read_folder(path), tmp_path / "out")
    check(load(tmp_path / "out" / "scenario.yaml"))


def test_the_fair_policy(folder: MakeFolder) -> None:
    allocations = (
        "<allocations><defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>"
        '<queue name="a"><weight>2</weight><minResources>25%</minResources><maxRunningApps>3</maxRunningApps></queue>'
        '<queue name="b"><maxResources>vcores=4</maxResources><schedulingPolicy>fair</schedulingPolicy></queue>'
        "</allocations>"
    )
    assert spec(folder(fair=allocations))["policies"] == [
        {
            "kind": "fair_yarn",
            "queues": {
                "root.a": {
                    "weight": 2,
                    "min": [5120, 5],
                    "max_am_share": 0.5,
                    "ordering": "drf",
                    "max_running_apps": 3,
                },
                "root.b": {"weight": 1, "max": [2147483647, 4], "max_am_share": 0.5, "ordering": "fair"},
            },
            "default_ordering": "drf",
            "assign_multiple": False,
            "dynamic_max_assign": True,
            "max_assign": -1,
            "update_ms": 500,
            "reservable_nodes": 0.05,
            "increment_multiple": 2.0,
            "locality_threshold_node": -1,
            "locality_threshold_rack": -1,
            "minimum_allocation": [1024, 1],
            "increment_allocation": [1024, 1],
            "maximum_allocation": [8192, 4],
            "preemption": False,
        }
    ]


def test_the_heading_names_what_is_not_modelled(folder: MakeFolder) -> None:
    text = scenario_text(read_folder(folder(sls={"my.own": "1"})))
    assert "# Not modelled, so passed over:\n#   my.own\n" in text


def test_the_workload_is_stored_beside_it(folder: MakeFolder, tmp_path: Path) -> None:
    maps = [task(5000), task(6000)]
    reduces = [task(1000, container__type="reduce", container__vcores=2)]
    path = folder([job("late", 9000, "b", maps), job("early", 0, "a", maps + reduces, job__user="u")])
    write_scenario(read_folder(path), tmp_path / "out")
    found = storage.load(tmp_path / "out" / "workload")
    early, late = found.jobs
    assert (early.job.id, early.job.queue, early.job.user, late.submit_ms) == ("early", "root.a", "u", 9000)
    assert [(s.name, s.tasks, s.demand, s.parents) for s in early.job.stages] == [
        ("map", 2, (1000, 1024), ()),
        ("reduce", 1, (2000, 1024), (0,)),
    ]
    assert early.runtimes == (PerTask((5000, 6000)), Fixed(1000))
    assert early.am == (1000, 1024)
    assert [s.hosts for s in early.job.stages] == [(("node1",),), (("node1",),)]


def test_hosts_of_each_task(folder: MakeFolder, tmp_path: Path) -> None:
    tasks = [task(), task(container__host="/r/node2"), {"duration.ms": 5000}]
    write_scenario(read_folder(folder([job(tasks=tasks)])), tmp_path / "out")
    assert storage.load(tmp_path / "out" / "workload").jobs[0].job.stages[0].hosts == (("node1",), ("node2",), ())


def test_maps_of_several_sizes_take_the_first_and_say_so(folder: MakeFolder, tmp_path: Path) -> None:
    path = folder([job(tasks=[task(), task(container__vcores=3)])])
    write_scenario(read_folder(path), tmp_path / "out")
    assert storage.notes(tmp_path / "out" / "workload") == (
        "1 jobs have maps of several sizes: like SLS, all are asked for in the size of the first",
    )


def test_something_else_is_not_replaced(folder: MakeFolder, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("x")
    with pytest.raises(TraceError, match="not a converted scenario"):
        write_scenario(read_folder(folder()), out, overwrite=True)


def test_a_scenario_is_replaced_only_if_asked(folder: MakeFolder, tmp_path: Path) -> None:
    read = read_folder(folder())
    write_scenario(read, tmp_path / "out")
    with pytest.raises(TraceError, match="stored there already"):
        write_scenario(read, tmp_path / "out")
    write_scenario(read, tmp_path / "out", overwrite=True)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["scenario.yaml", "workload"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "sls"]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["rm-emulator", *map(str, arguments)])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_convert_writes_the_folder(
    folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "convert", "hadoop", folder(sls={"my.own": "1"}), tmp_path / "out") == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path / 'out' / 'scenario.yaml'}: 2 nodes, 1 jobs, 1 tasks\n"
    assert said.err == "not modelled: my.own\n"
    assert (tmp_path / "out" / "scenario.yaml").is_file()


def test_convert_of_a_file_writes_a_workload(
    folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = "am_mb=2048"
    code = run(monkeypatch, "convert", "hadoop", folder() / "jobs.json", tmp_path / "out", "--option", option)
    assert code == 0
    assert storage.load(tmp_path / "out").jobs[0].am == (1000, 2048)


def test_convert_tells_all_mistakes_and_leaves_nothing(
    folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(sls={"yarn.sls.nm.vcores": "x", "yarn.sls.nm.memory.mb": "y"})
    assert run(monkeypatch, "convert", "hadoop", path, tmp_path / "out") == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert not (tmp_path / "out").exists()


def test_options_are_for_files(folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "convert", "hadoop", folder(), tmp_path / "out", "--option", "am_mb=1") == 2


def test_the_reader_keeps_queue_names(folder: MakeFolder) -> None:
    assert formats.read("hadoop", folder()).workload.jobs[0].job.queue == "a"


@pytest.mark.parametrize("setting", ["container_mb", "am_vcores"])
def test_sizes_of_the_reader_are_above_zero(folder: MakeFolder, setting: str) -> None:
    with pytest.raises(InvalidParameters, match=setting):
        formats.read("hadoop", folder(), {setting: 0})


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the SLS folders with real runs are not beside this repository (../shared/data/yarn-sls)"
)
@pytest.mark.parametrize("name", sorted(p.name for p in DATA.iterdir()) if DATA.is_dir() else [])
def test_real_folders_are_converted_and_nothing_is_passed_over(name: str, tmp_path: Path) -> None:
    read = read_folder(DATA / name)
    assert (read.not_modelled, read.notes) == ((), ())
    write_scenario(read, tmp_path / "out")
    text = (tmp_path / "out" / "scenario.yaml").read_text()
    Scenario.model_validate(as_fifo(yaml.safe_load(text)))


def test_it_runs_with_a_policy_that_is_there(folder: MakeFolder, tmp_path: Path) -> None:
    from rm_emulator.scenario.check import check

    write_scenario(read_folder(folder()), tmp_path / "out")
    file = tmp_path / "out" / "scenario.yaml"
    file.write_text(yaml.safe_dump(as_fifo(yaml.safe_load(file.read_text()))))
    assert check(load(file)).workload.jobs[0].am == (1000, 1024)
