"""Profiles are registered; whatever is found keeps the engine's promises."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import get_args

import pytest

import rm_emulator.engine as engine
from rm_emulator.engine.assemble import timing
from rm_emulator.engine.config import Architecture, EngineConfig
from rm_emulator.engine.profile import Profile, architectures, profiles
from rm_emulator.engine.simulation import Simulation
from rm_emulator.scenario.schema import Cluster
from rm_emulator.testing import Subject, case, job, node, run_case, scheduler, stage
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.errors import InvalidParameters, UnknownName

FAIR = Subject(policy={"kind": "fair"})
MASTER = WorkloadJob(job=job("a", stage()), submit_ms=0, runtimes=(Fixed(1),), am=(1, 1))


def test_every_file_registers_a_profile() -> None:
    files = {file.stem for file in (Path(engine.__file__).parent / "profiles").glob("*.py")} - {"__init__"}
    assert files <= set(profiles.names)
    assert all(issubclass(entry.cls, Profile) for entry in profiles)


def test_every_block_of_an_architecture_has_a_class_that_times_it() -> None:
    kinds = {each.__struct_config__.tag for each in get_args(Architecture)}
    assert set(architectures.names) == kinds


def test_settings_that_the_profile_does_not_have_are_named_with_those_that_it_has() -> None:
    config = EngineConfig(nodes=(node(),), profile="kubernetes", settings={"cycel_ms": 3})
    with pytest.raises(InvalidParameters, match=r"profile 'kubernetes' has no setting 'cycel_ms', did you mean 'cycle"):
        timing(config)


def test_an_unknown_profile_is_named_with_those_that_are_there() -> None:
    with pytest.raises(UnknownName, match=r"unknown profile 'yran', did you mean 'yarn'\? \(known: .*kubernetes, "):
        profiles.entry("yran")


def test_the_schema_takes_every_profile() -> None:
    for name in profiles.names:
        assert Cluster(nodes=[{"capacity": {"cpu": 1}}], profile=name).profile == name


@pytest.mark.parametrize("name", profiles.names)
def test_a_profile_says_what_it_models(name: str) -> None:
    assert len((inspect.getdoc(profiles.entry(name).cls) or "").splitlines()) > 2


@pytest.mark.parametrize("disorder", [False, True])
@pytest.mark.parametrize("name", profiles.names)
@pytest.mark.parametrize("seed", range(4))
def test_every_task_of_every_profile_is_executed_and_recorded_once(name: str, disorder: bool, seed: int) -> None:
    made = case(seed, profile=name, disorder=disorder, executors=False)
    ran = run_case(FAIR, made)
    ran.audit.drained()
    tasks = [(task.job, task.stage, task.task) for task in ran.kept.tasks]
    assert len(tasks) == len(set(tasks)) == made.workload.tasks


@pytest.mark.parametrize("name", profiles.names)
def test_a_stage_of_every_profile_starts_after_its_parents_end(name: str) -> None:
    ran = run_case(FAIR, case(3, profile=name))  # behind barriers alone
    ends = {(t.job, t.stage): t.ended_ms for t in sorted(ran.kept.tasks, key=lambda t: t.ended_ms)}
    stages = {entry.job.id: entry.job.stages for entry in ran.simulation.workload.jobs}
    assert any(stage.parents for of_job in stages.values() for stage in of_job)
    for task in ran.kept.tasks:
        assert all(task.granted_ms >= ends[task.job, parent] for parent in stages[task.job][task.stage].parents)


@pytest.mark.parametrize("name", profiles.names)
def test_application_masters_have_containers_only_where_there_are_any(name: str) -> None:
    config, workload = EngineConfig(nodes=(node(cores=2),), profile=name), Workload(name="w", jobs=(MASTER,))
    if profiles.entry(name).cls.has_masters:
        Simulation(config, workload, scheduler("fifo", offers=timing(config).offers)).run()
        return
    with pytest.raises(ValueError, match=f"have containers in profiles 'sls' and 'yarn', not '{name}'"):
        Simulation(config, workload, scheduler("fifo", offers=timing(config).offers))


def test_the_engine_asks_no_profile_for_its_name_and_simpy_stays_in_the_calendar() -> None:
    """The names of profiles stand in their files alone, SimPy's private ones in `calendar.py`."""
    for path in sorted(Path(engine.__file__).parent.rglob("*.py")):
        if path.parent.name in ("profiles", "architectures"):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        attributes = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        assert not strings & set(profiles.names) or path.name == "config.py", path.name  # the default of EngineConfig
        assert not attributes & {"_value", "_ok", "_eid"} or path.name == "calendar.py", path.name
