"""A small valid scenario, ways to spoil it, and what is then said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rm_emulator.issues import InvalidInput
from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import load

GOOD = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  seeds: [1]
  cluster:
    nodes: [{count: 2, capacity: {cpu: 2, memory: 4Gi}}]
    profile: yarn
    heartbeat: 1s
  workload:
    kind: jobs
    jobs:
    - name: a
      stages:
      - {name: m, tasks: 2, demand: {cpu: 1}, duration: 3s}
      - {name: r, demand: {cpu: 1}, parents: [m], duration: 2s}
  policies:
  - {kind: fifo}
  - {label: sjf, kind: sjf, predictor: {kind: oracle}}
  baseline: fifo
"""


Mistakes = Callable[..., list[str]]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the scenario, with parts of its text replaced, or another text."""

    def _write(*changes: tuple[str, str], text: str = GOOD) -> Path:
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "s.yaml"
        path.write_text(text)
        return path

    return _write


@pytest.fixture
def mistakes() -> Mistakes:
    """The lines that are printed for a bad file, without the folder."""

    def _mistakes(path: Path, *overrides: str, seeds: str | None = None) -> list[str]:
        with pytest.raises(InvalidInput) as caught:
            check(load(path, overrides=overrides, seeds=seeds))
        return [line.replace(f"{path.parent}/", "") for line in caught.value.lines]

    return _mistakes
