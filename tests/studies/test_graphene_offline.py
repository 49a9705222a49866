"""Planners on DAGs: demands are drawn as told, runs go on where they were, and tables say what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.workload import storage
from schedulers.planning.dags.dag import Dag
from studies import dags, offline

ROWS = """\
M1,3,a,,Terminated,0,10,100.0,0.3
R2_1,2,a,,Terminated,10,25,100.0,0.3
M1,8,b,,Terminated,5,10,100.0,0.3
M2,1,b,,Terminated,5,45,100.0,0.3
R3_1_2,4,b,,Terminated,45,60,100.0,0.3
"""
ALIBABA = Path(__file__).parents[2] / dags.TRACE


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "batch_task.csv"
    path.write_text(ROWS)
    return path


def test_demands_are_drawn_from_above_0_to_a_unit_and_hang_on_the_stage_alone(trace: Path) -> None:
    workload = dags.read(trace, 1)
    demands = {(e.job.id, s.name): s.demand for e in workload.jobs for s in e.job.stages}
    assert workload.resources == dags.RESOURCES
    assert all(
        0 < amount <= top for d in demands.values() for amount, top in zip(d, (1000, 1024, 1024, 1024), strict=True)
    )
    assert len(set(demands.values())) == len(demands)
    assert dags.read(trace, 1) == workload
    assert dags.read(trace, 2) != workload


def test_a_share_holds_that_part_of_the_tasks(trace: Path) -> None:
    for sample in dags.samples(dags.read(trace, 1), 1, 0.5):
        most = max(sum(s.tasks * s.demand[r] for s in sample.stages) / sample.capacity[r] for r in range(4))
        assert sample.machines - 1 < 0.5 * most <= sample.machines


def test_production_dags_have_as_much_work_on_their_machines_as_path() -> None:
    for sample in dags.production(1)[:5]:
        dag = Dag(sample.stages, sample.runtimes_ms, sample.capacity, sample.machines)
        assert float(dag.work_ms(range(len(dag)))) / max(dag.ways_out()) == pytest.approx(1, abs=0.03)


def test_plans_for_a_single_machine_are_counted() -> None:
    plans = [offline.Planned("a", 1, 1, {}, machines=machines) for machines in (1, 1, 2)]
    assert offline.alone(plans) == "67"


def test_the_first_dags_are_the_same_in_any_larger_sample(trace: Path) -> None:
    workload = dags.read(trace, 1)
    fewer = dags.samples(dags.drawn(workload, 1), 3)
    assert [s.id for s in fewer] == [s.id for s in dags.samples(workload, 3)]


def test_the_workload_file_is_made_once(trace: Path, tmp_path: Path) -> None:
    path = dags.write(tmp_path / "alibaba", trace, 1)
    trace.unlink()
    assert storage.load(dags.write(path, trace, 1)).resources == dags.RESOURCES


def test_no_plan_is_below_the_bound_not_even_one_from_wrong_estimates(trace: Path) -> None:
    for sample in dags.samples(dags.read(trace, 1), 1):
        found = offline.plan(sample, 1, errors=True)
        assert min(found.makespans.values()) >= found.bound
        assert set(found.makespans) == set(offline.ALL)
        assert [len(each) for each in found.misled.values()] == [len(offline.ERRORS)] * 3
        assert min(min(each) for each in found.misled.values()) >= found.bound


def test_a_stopped_run_goes_on(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples, path = dags.samples(dags.read(trace, 1), 1), tmp_path / "plans.jsonl"
    whole = offline.plan_all(samples, path, 1, jobs=1)
    text = path.read_text()
    path.write_text(text[:-20])  # cut in the middle of the last line
    planned: list[str] = []
    plan = offline.plan
    monkeypatch.setattr(offline, "plan", lambda sample, **rest: planned.append(sample.id) or plan(sample, **rest))
    assert offline.plan_all(samples, path, 1, jobs=1) == whole
    assert planned == [samples[-1].id]
    assert path.read_text() == text
    offline.plan_all(samples, path, 2, jobs=1)
    assert len(planned) == 1 + len(samples)  # another seed begins anew


def test_tables_are_about_graphene_and_the_bound() -> None:
    found = [
        offline.Planned(
            "a", 3, 100, {"graphene": 100, "cp": 110}, {name: [100] * 5 + [150] for name in offline.MISLED}
        ),
        offline.Planned(
            "b", 3, 100, {"graphene": 120, "cp": 120}, {name: [100] * 5 + [100] for name in offline.MISLED}
        ),
    ]
    [first, cp] = offline.rows(found)
    assert first[0] == "graphene"
    assert first[7].startswith("1.100 [")
    assert first[8] == "50.0"
    assert cp[0] == "cp"
    assert cp[1].startswith("1.050 [")
    assert cp[4:7] == ["1.10", "50.0", "0.0"]
    last = offline.error_rows(found)[-1]
    assert last[0] == "+50 to +75 %"
    assert last[1].startswith("1.250 [")
    assert last[4] == "1.000 [1.000, 1.000]"


@pytest.mark.slow
@pytest.mark.skipif(
    not ALIBABA.exists(), reason=f"{ALIBABA} is not there: Alibaba's DAGs are not the project's to ship"
)
@pytest.mark.drawn(of=4)
def test_alibabas_dags_can_be_planned(tmp_path: Path) -> None:
    found = offline.measure(tmp_path, ALIBABA, 1, jobs=1, most=3)
    assert found.known == 3690
    assert [len(plans) for plans in found.shares.values()] == [3, 3, 3]
    assert len(found.production) == 3
