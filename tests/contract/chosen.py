"""Subjects that a commit is tried on in more scenarios: those of whose files it changed one, and 1/32 of the rest.

A commit that concerns more than an eighth of all is held to a sixteenth of these; all are tried by night.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rm_emulator.testing import Subject
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry
from tests.commit import Commit


def concerns(commit: Commit, subject: Subject) -> bool:
    """Whether it may have changed a file in which a part of the subject, or a base of its class, is defined."""
    if not commit.changed:
        return commit.changed is None
    return not commit.changed.isdisjoint(files(subject))


def held(commit: Commit, subjects: Mapping[str, Subject]) -> set[str]:
    """Names of the subjects that are tried in more scenarios; each worker of a run draws the same."""
    concerned = {name for name, subject in subjects.items() if concerns(commit, subject)}
    # A change of a base class would add twenty minutes to CI.
    if 8 * len(concerned) > len(subjects):
        concerned = {name for name in concerned if commit.draws(name, of=16)}
    return concerned | {name for name in subjects if commit.draws(name, of=32)}


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
