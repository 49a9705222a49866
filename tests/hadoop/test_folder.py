"""A whole SLS folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.hadoop.folder import read_folder
from rm_emulator.hadoop.settings import Preemption
from rm_emulator.issues import TraceError

from .conftest import MakeFolder, job, task, xml


def said(path: Path) -> str:
    with pytest.raises(TraceError) as raised:
        read_folder(path)
    return str(raised.value)


def test_defaults(folder: MakeFolder) -> None:
    rm = read_folder(folder()).rm
    assert (rm.minimum, rm.maximum, rm.increment) == ((1024, 1), (8192, 4), (1024, 1))
    assert (rm.node, rm.container, rm.am) == ((10240, 10), (1024, 1), (1024, 1))
    assert (rm.node_heartbeat_ms, rm.am_heartbeat_ms) == (1000, 1000)


def test_sls_forces_the_preemption_monitor_on(folder: MakeFolder) -> None:
    path = folder(sls={"yarn.resourcemanager.scheduler.monitor.enable": "false"})
    assert read_folder(path).rm.preemption == Preemption(enabled=True)


def test_without_sls_the_monitor_is_as_the_file_says(folder: MakeFolder) -> None:
    path = folder()
    (path / "conf" / "sls-runner.xml").rename(path / "conf" / "yarn-site.xml")
    rm = read_folder(path).rm
    assert not rm.sls
    assert not rm.preemption.enabled


def test_the_fair_scheduler_has_no_monitor(folder: MakeFolder) -> None:
    assert not read_folder(folder(fair="<allocations/>")).rm.preemption.enabled


def test_sls_does_not_read_yarn_site(folder: MakeFolder) -> None:
    path = folder()
    (path / "conf" / "yarn-site.xml").write_text(xml({"yarn.scheduler.maximum-allocation-mb": "4096"}))
    found = read_folder(path)
    assert found.rm.maximum == (8192, 4)
    assert found.notes == (
        "yarn.scheduler.maximum-allocation-mb in yarn-site.xml:2 has no effect: SLS reads sls-runner.xml alone",
    )


def test_an_unknown_scheduler_names_the_accepted_ones(folder: MakeFolder) -> None:
    name = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
    text = said(folder(sls={"yarn.resourcemanager.scheduler.class": name}))
    assert f"sls-runner.xml:2: yarn.resourcemanager.scheduler.class: '{name}' is not accepted (expected org." in text
    assert "CapacityScheduler, org." in text
    assert "FairScheduler)" in text


def test_a_queue_may_be_its_last_part_or_its_path(folder: MakeFolder) -> None:
    found = read_folder(folder([job("x", queue="a"), job("y", queue="root.b")]))
    assert found.queues == ("root.a", "root.b")


def test_a_queue_that_is_not_declared(folder: MakeFolder) -> None:
    text = said(folder([job("x", queue="aa")]))
    assert "jobs.json:1: job.queue.name: 'aa' is not declared (accepted: root.a, root.b)" in text


def test_a_queue_with_queues_below_it(folder: MakeFolder) -> None:
    assert "has queues below it, jobs run in leaves" in said(folder([job(queue="root")]))


def test_the_fair_scheduler_makes_queues(folder: MakeFolder) -> None:
    found = read_folder(folder([job(queue="new.x")], fair='<allocations><queue name="a"/></allocations>'))
    assert found.queues == ("root.new.x",)
    assert found.fair is not None
    assert [q.path for q in found.fair.queues] == ["root", "root.a", "root.new", "root.new.x"]


def test_the_fair_scheduler_may_be_told_not_to_make_queues(folder: MakeFolder) -> None:
    path = folder(
        [job(queue="new")],
        fair='<allocations><queue name="news"/></allocations>',
        sls={"yarn.scheduler.fair.allow-undeclared-pools": "false"},
    )
    assert "'new' is not declared (accepted: root.news), did you mean 'root.news'?" in said(path)


def test_a_missing_allocation_file(folder: MakeFolder) -> None:
    path = folder(fair="<allocations/>", sls={"yarn.scheduler.fair.allocation.file": "/etc/fair-schedule.xml"})
    assert "there is no file '/etc/fair-schedule.xml'" in said(path)


def test_an_ask_above_the_maximum(folder: MakeFolder) -> None:
    text = said(folder([job(tasks=[task(container__vcores=5)])]))
    assert "job 'j' asks for 1024 MB, 5 vcores; the largest container has 8192 MB, 4 vcores" in text


def test_a_host_that_is_no_node(folder: MakeFolder) -> None:
    text = said(folder([job(tasks=[task(container__host="/r/node11")])]))
    assert "asks for node 'node11', which nodes.json does not have, did you mean 'node1'?" in text


def test_what_is_not_modelled_is_listed(folder: MakeFolder) -> None:
    found = read_folder(folder(capacity={"yarn.scheduler.capacity.root.a.state": "STOPPED", "my.own": "1"}))
    assert found.not_modelled == ("my.own", "yarn.scheduler.capacity.root.a.state")


def test_a_misspelt_property_is_noted(folder: MakeFolder) -> None:
    found = read_folder(folder(capacity={"yarn.scheduler.capacity.root.a.user-limit-facto": "2"}))
    assert "did you mean 'yarn.scheduler.capacity.root.a.user-limit-factor'?" in found.notes[0]


def test_a_property_of_hadoop_s_that_is_not_modelled_is_not_called_misspelt(folder: MakeFolder) -> None:
    names = ("reservations-continue-look-all-nodes", "schedule-asynchronously.maximum-threads")
    found = read_folder(folder(capacity={f"yarn.scheduler.capacity.{name}": "7" for name in names}))
    assert len(found.not_modelled) == 2
    assert not any("did you mean" in note for note in found.notes)


def test_mistakes_of_all_files_come_together(folder: MakeFolder) -> None:
    path = folder(
        [{**job(), "job.start.ms": "x"}],
        nodes=[{"rack": "r"}],
        sls={"yarn.sls.nm.vcores": "many"},
        capacity={"yarn.scheduler.capacity.root.a.capacity": "x"},
    )
    text = said(path)
    assert all(name in text for name in ("jobs.json:1", "nodes.json:1", "sls-runner.xml:3", "capacity-scheduler.xml:3"))


def test_a_folder_without_configuration(tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text("{}")
    assert "neither sls-runner.xml nor yarn-site.xml is in it" in said(tmp_path)


def test_not_a_folder(tmp_path: Path) -> None:
    assert "not a folder (expected one with jobs.json" in said(tmp_path / "missing")


def test_a_minimum_above_the_maximum(folder: MakeFolder) -> None:
    text = said(folder(sls={"yarn.scheduler.minimum-allocation-mb": "9000"}))
    assert "the minimum allocation (9000) is above the maximum (8192)" in text
