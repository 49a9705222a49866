"""What a commit concerns: subjects of whose files it changed one, and an eighth of all others, drawn by its hash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from rm_emulator.testing import Subject
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry

ROOT = Path(__file__).parents[2]


class Commit(NamedTuple):
    """The commit that is checked out. changed: files that differ from the one before it, also uncommitted ones."""

    hash: str
    changed: frozenset[Path]

    @classmethod
    def here(cls) -> Commit | None:
        """None where nothing is known of commits, or of the one before: then everything is concerned."""
        try:
            found = _git("rev-parse", "HEAD").strip()
            changed = _git("diff", "--name-only", "HEAD~1").split()
        except (OSError, subprocess.CalledProcessError):
            return None
        return cls(found, frozenset(ROOT / name for name in changed))

    def concerns(self, subject: Subject) -> bool:
        """Whether it changed a file in which a part of the subject, or a class that it is made from, is defined."""
        return not self.changed.isdisjoint(files(subject))

    def draws(self, name: str) -> bool:
        """Whether a subject of this name is among the eighth; each worker of a run draws the same."""
        return sha256(f"{self.hash} {name}".encode()).digest()[0] % 8 == 0


def files(subject: Subject) -> frozenset[Path]:
    """Files of the classes of a subject's policy, of the policies in it, of its predictor and its placer."""
    parts: list[tuple[Registry[Any], Any]]
    parts = [(policies, subject.policy), (predictors, subject.predictor), (placers, subject.placement)]
    classes = (cls for registry, spec in parts for kind in _kinds(spec) for cls in _mro(registry, kind))
    found = (getattr(sys.modules[cls.__module__], "__file__", None) for cls in classes)
    return frozenset(Path(file) for file in found if file is not None)


def _mro(registry: Registry[Any], kind: str) -> tuple[type, ...]:
    return registry.entry(kind).cls.__mro__


def _kinds(spec: Any) -> Iterator[str]:
    if isinstance(spec, dict) and "kind" in spec:
        yield spec["kind"]
        for value in spec.values():
            yield from _kinds(value)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
