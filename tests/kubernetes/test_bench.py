"""Benchmarks of the Kubernetes side where something is missing: a row says so, and the others are measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.groups.kubernetes import PARTS
from benchmarks.rows import Row

#: Groups that ask a real control plane.
REAL = ("beside", "cluster", "gang", "burst", "failover")
WITHOUT_EXTRAS = """
import sys
for missing in ("aiohttp", "greenlet", "gymnasium", "kubernetes", "starlette", "structlog", "uvicorn"):
    sys.modules[missing] = None
from benchmarks.__main__ import main
main(["--tiny", "--json", "kubernetes", "learned"])
"""


def rows(*command: str, **environment: str) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, *command], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)}


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_without_a_control_plane_its_groups_are_rows_that_say_so_and_the_others_are_measured(tmp_path: Path) -> None:
    found = rows(
        "-m",
        "benchmarks",
        "--tiny",
        "--json",
        "kubernetes",
        PATH=str(tmp_path),
        XDG_CACHE_HOME=str(tmp_path),
        KUBEBUILDER_ASSETS="",
    )
    assert [name for name, row in found.items() if row["value"] is None] == list(REAL)
    assert all("make controlplane" in found[name]["note"] for name in REAL)
    assert len(found) > len(REAL)


@pytest.mark.slow
def test_without_extras_what_needs_them_is_a_row_that_names_the_extra_and_the_others_are_measured() -> None:
    found = rows("-c", WITHOUT_EXTRAS)
    said = {name: row["note"] for name, row in found.items() if row["value"] is None}
    assert list(said) == [*PARTS, "training"]
    assert all(note.startswith("cannot run: no module ") for note in said.values())
    assert [name for name, note in said.items() if "rm-emulator[k8s]" not in note] == ["training"]
    assert "rm-emulator[learn]" in said["training"]
    assert len(found) > len(said)


def test_what_was_not_measured_has_met_no_target() -> None:
    assert Row(name="x", value=None, unit="s", target="<= 5").plain()["met"] is None
