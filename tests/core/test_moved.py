"""Plug-ins import some modules by the names that these had before the kit was a package of its own."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from schedulers.moved import MOVED

KIT = Path(__file__).parents[2] / "schedulers" / "kit"


@pytest.mark.parametrize("name", sorted(MOVED))
def test_the_old_path_gives_the_module_that_has_moved(name: str) -> None:
    assert (KIT / f"{name}.py").is_file()
    assert importlib.import_module(f"schedulers.core.{name}") is importlib.import_module(f"schedulers.kit.{name}")


def test_a_name_that_was_never_there_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"schedulers\.core\.no_such_thing"):
        importlib.import_module("schedulers.core.no_such_thing")
