"""The student for containers that end with their tasks: its seeds, and that a stopped evolution goes on."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from rm_emulator.learn.fast_containers import FastContainers
from studies import containers_student as student
from tests.learn.test_fast_containers import two_jobs


def test_no_seed_has_two_uses() -> None:
    most = max(student.TRAINING, *(case.seeds for case in student.CASES.values()))
    firsts = sorted(student.FIRST.values())
    assert all(later - earlier >= most for earlier, later in pairwise(firsts))


class SmallStudy(student.Study):
    """A study of which every episode has two jobs."""

    def _episodes(self, name: str, use: str, count: int) -> list[FastContainers]:
        return [two_jobs()] * count


def test_a_stopped_evolution_goes_on_without_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for name, lengths in (("stopped", (1, 3)), ("whole", (3,))):
        study = SmallStudy(tmp_path, tmp_path / name)
        study.out.mkdir()
        for generations in lengths:
            monkeypatch.setattr(student, "WAYS", {"scarce": student.Way(("scarce",), generations)})
            student.evolve(study, "scarce")
        found[name] = json.loads((study.out / "scarce.json").read_bytes())["search"]
    assert found["stopped"] == found["whole"]
