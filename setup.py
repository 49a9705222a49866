"""The core compiled to C by mypyc where `RM_EMULATOR_COMPILED=1` asks for that; otherwise all stays plain Python.

A compiled core decides the same, in less time (docs/speed.md). A build needs a C compiler, and mypy beside the packages
that the core imports, so pip has to build in the present environment: `pip install --no-build-isolation .`.
"""

from __future__ import annotations

import os

from setuptools import Extension, setup

#: What runs for each fact. Modules that define msgspec structs stay plain, because mypyc ignores a class's keywords;
#: so do classes from which plug-ins derive, because plain classes cannot derive from compiled ones.
COMPILED = (
    "admission",
    "containers",
    "copies",
    "executors",
    "holds",
    "idle_beats",
    "journal",
    "live",
    "nodes",
    "openings",
    "round",
    "scheduler",
    "sizes",
    "state",
    "vectors",
    "waits",
    "work",
)


def extensions() -> list[Extension]:
    """The compiled modules, or none."""
    if os.environ.get("RM_EMULATOR_COMPILED") != "1":
        return []
    from mypyc.build import mypycify

    return mypycify(["--config-file=pyproject.toml", *(f"schedulers/core/{name}.py" for name in COMPILED)])


setup(ext_modules=extensions())
