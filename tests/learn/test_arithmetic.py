"""The first twenty updates are the same bytes on other machines, for which capped instruction sets stand here."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from rm_emulator.learn import checkpoints
from rm_emulator.learn.constants import STATE
from tests.learn.conftest import NEEDS_TORCH, SCENARIO

pytestmark = pytest.mark.slow

#: A machine whose C library and numba have neither AVX nor FMA.
OLD: Final = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F", "NUMBA_CPU_NAME": "generic"}
MACHINES: Final[Mapping[str, Mapping[str, str]]] = {"this": {}, "old": OLD}
CONSTANTS: Final = """\
name: small
method: cma
iterations: 20
workloads: [{scenario: small.yaml, plays: 2, seeds: 1..4}]
validation: {seeds: 5..6, every: 20}
"""
NETWORK: Final = """\
name: small
network: guided
iterations: 20
sequences: 1
rollouts: 2
workloads: [{scenario: small.yaml}]
cloning: {teacher: priced, episodes: 2, epochs: 2}
validation: {seeds: 1..2, every: 20}
"""
#: sha256 of the search, and of the weights with these versions: others may sum in another order.
SEARCH: Final = "29d2934977d131014cd6bc77d76eb8a039773babe9366bca1bbb197983c483d9"
WEIGHTS: Final = "54e14d20aaca2d654f8648ed05081d51be07fa98e69108b04f93ac32ebb4eadb"
VERSIONS: Final = ("2.4.6", "2.15.0")


def trained(config: str, folder: Path, machine: str) -> Path:
    (folder / "small.yaml").write_text(SCENARIO)
    (folder / "config.yaml").write_text(config)
    out = folder / machine
    command = [sys.executable, "-m", "rm_emulator", "train", str(folder / "config.yaml"), "--out", str(out)]
    subprocess.run([*command, "--jobs", "1"], env={**os.environ, **MACHINES[machine]}, check=True, capture_output=True)
    return out


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.drawn(of=2)
def test_twenty_generations_of_constants_are_the_same_bytes(tmp_path: Path, machine: str) -> None:
    search = json.loads((trained(CONSTANTS, tmp_path, machine) / STATE).read_text())["search"]
    assert search["generation"] == 20
    assert hashlib.sha256(json.dumps(search).encode()).hexdigest() == SEARCH


# A minute.
@pytest.mark.nightly
@NEEDS_TORCH
def test_twenty_updates_of_a_network_are_the_same_bytes(tmp_path: Path) -> None:
    found = [checkpoints.load(trained(NETWORK, tmp_path, machine)) for machine in MACHINES]
    assert [state.iteration for state in found] == [20, 20]
    assert found[0].weights == found[1].weights
    if (version("numpy"), version("torch")) == VERSIONS:
        assert hashlib.sha256(found[0].weights).hexdigest() == WEIGHTS
