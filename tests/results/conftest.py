"""Run directories made without the engine, for all tests of results."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rm_emulator.results import summary


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def fabricate() -> ModuleType:
    """The module that makes run directories."""
    return _load("fabricate")


@pytest.fixture(scope="session")
def run(fabricate, tmp_path_factory) -> tuple[Path, dict, dict]:
    """A run directory of 2 labels x 2 seeds with its scenario and its summary; not to be changed."""
    out_dir = tmp_path_factory.mktemp("run")
    scenario = fabricate.run_directory(out_dir, labels={"slearn": 0.2, "three_sigma": 0.9})
    return out_dir, scenario, summary.build(out_dir, scenario)
