"""Settings of all tests: hypothesis draws the same examples everywhere, and no test leaves plug-ins behind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rm_emulator.workload.formats import FORMATS
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry
from schedulers.learned.shelf import _SHELF

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _registries_as_before() -> Iterator[None]:
    """What a test registers (plug-ins, deliberately broken policies) is gone for the next one."""
    registries: list[Registry[Any]] = [policies, placers, predictors, FORMATS]
    before = [{entry.name: entry for entry in registry} for registry in registries]
    modules, shelf = set(sys.modules), dict(_SHELF)
    yield
    _SHELF.clear()
    _SHELF.update(shelf)
    for registry, entries in zip(registries, before, strict=True):
        registry._entries.clear()
        registry._entries.update(entries)
    for name in set(sys.modules) - modules:
        if name.startswith("rm_emulator_plugin_"):
            del sys.modules[name]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of tests/same."""
    parser.addoption("--update", action="store_true", help="tests/same: keep the hashes that are found")
    parser.addoption("--every-seed", action="store_true", help="tests/same: all seeds of the scenarios, not only one")
