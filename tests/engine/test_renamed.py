"""Former names that plug-ins may still read."""

from __future__ import annotations

import importlib

import pytest

from rm_emulator import testing
from rm_emulator.engine.containers import Master
from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import Subject, case, run_case


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return run_case(Subject(policy={"kind": "fifo"}), case(1)).simulation


@pytest.mark.parametrize(("old", "new"), [("obey", "carry_out"), ("contain", "make_container")])
def test_a_former_method_of_the_engine_is_the_present_one(simulation: Simulation, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"Simulation.{old} is now called {new}"):
        assert getattr(simulation, old) == getattr(simulation, new)


def test_a_former_attribute_of_a_master_is_read_under_its_present_name() -> None:
    master = Master.__new__(Master)
    master.tasks_left = [3]
    with pytest.warns(DeprecationWarning, match="Master.left is now called tasks_left"):
        assert getattr(master, "left") == [3]  # noqa: B009 (no attribute that a type checker knows)


def test_a_name_that_never_was_is_an_attribute_error(simulation: Simulation) -> None:
    with pytest.raises(AttributeError, match="'Simulation' object has no attribute 'never'"):
        getattr(simulation, "never")  # noqa: B009
    with pytest.raises(AttributeError, match="has no attribute 'Never'"):
        getattr(testing, "Never")  # noqa: B009


@pytest.mark.parametrize("module", ["rm_emulator.testing", "rm_emulator.engine.recording"])
def test_a_former_class_is_found_where_it_was(module: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{module}.Kept is now called MemoryRecording"):
        assert importlib.import_module(module).Kept is MemoryRecording
