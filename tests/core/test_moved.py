"""Plug-ins import some modules by the names that these had before they were moved or renamed."""

from __future__ import annotations

import importlib

import pytest

from schedulers.moved import MOVED


@pytest.mark.parametrize("name", sorted(MOVED))
def test_the_old_path_gives_the_module_that_has_moved(name: str) -> None:
    assert importlib.import_module(name) is importlib.import_module(MOVED[name])


def test_a_name_that_was_never_there_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"schedulers\.core\.no_such_thing"):
        importlib.import_module("schedulers.core.no_such_thing")
