"""Old names of the engine go on working for plug-ins, with a DeprecationWarning."""

from __future__ import annotations

import importlib

import pytest

from rm_emulator.engine.containers import Master
from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import Subject, case, run_case


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return run_case(Subject(policy={"kind": "fifo"}), case(1)).simulation


@pytest.mark.parametrize(("old", "new"), [("obey", "carry_out"), ("obeys", "actions"), ("contain", "make_container")])
def test_an_old_name_of_the_engine_reads_the_new_one(simulation: Simulation, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"Simulation.{old} is called {new} now"):
        assert getattr(simulation, old) == getattr(simulation, new)


def test_an_old_name_of_a_master_reads_and_sets_the_new_one() -> None:
    master = Master.__new__(Master)
    with pytest.warns(DeprecationWarning, match="Master.left is called tasks_left now"):
        master.left = [3]
    with pytest.warns(DeprecationWarning, match="Master.left is called tasks_left now"):
        assert master.left == [3]
    assert master.tasks_left == [3]


@pytest.mark.parametrize("module", ["rm_emulator.testing", "rm_emulator.engine.recording"])
def test_an_old_class_is_found_where_it_was(module: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{module}.Kept is called MemoryRecording now"):
        assert importlib.import_module(module).Kept is MemoryRecording
