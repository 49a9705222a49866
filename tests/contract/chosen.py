"""Subjects that a commit is tried on in more scenarios: those of whose files it changed one, and an eighth of the rest.

A commit that concerns more than a quarter of all is held to a quarter of these; all are tried by night.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
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
    """The commit that is checked out.

    hash: '' where nothing is known of commits. changed: files that differ from the commit before, also uncommitted
    ones; None where that commit is not known.
    """

    hash: str
    changed: frozenset[Path] | None

    @classmethod
    def here(cls) -> Commit:
        """The commit that git says is checked out."""
        found = ""
        try:
            found = _git("rev-parse", "HEAD").strip()
            changed = _git("diff", "--name-only", "HEAD~1").split()
        except (OSError, subprocess.CalledProcessError):
            return cls(found, None)
        return cls(found, frozenset(ROOT / name for name in changed))

    def concerns(self, subject: Subject) -> bool:
        """Whether it may have changed a file in which a part of the subject, or a base of its class, is defined."""
        return self.changed is None or not self.changed.isdisjoint(files(subject))

    def held_to(self, subjects: Mapping[str, Subject]) -> set[str]:
        """Names of the subjects that are tried in more scenarios; each worker of a run draws the same."""
        concerned = {name for name, subject in subjects.items() if self.concerns(subject)}
        # A change of a base class would add five minutes to CI.
        if 4 * len(concerned) > len(subjects):
            concerned = {name for name in concerned if self._drawn(name) % 4 == 0}
        return concerned | {name for name in subjects if self._drawn(name) % 8 == 0}

    def _drawn(self, name: str) -> int:
        return sha256(f"{self.hash} {name}".encode()).digest()[0]


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
