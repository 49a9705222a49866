"""Each policy, predictor and placer that brain takes, with the settings under which it runs DAGs on a control plane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry
from tests.commit import Commit

#: Brain's settings for a plug-in of each kind; the plug-in's own is added.
_AROUND: Final[Mapping[str, Mapping[str, Any]]] = {
    "policy": {"predictor": {"kind": "slearn"}},
    "predictor": {"policy": {"kind": "gs"}},
    "placement": {"policy": {"kind": "fifo"}, "predictor": {"kind": "slearn"}},
}
_REGISTRIES: Final[Mapping[str, Registry[Any]]] = {
    "policy": policies,
    "predictor": predictors,
    "placement": placers,
}
#: What a policy needs beside itself.
_NEEDED: Final[Mapping[str, Mapping[str, Any]]] = {
    "graphene": {"predictor": {"kind": "point_estimate"}},
    "lachesis": {"placement": {"kind": "deft", "ahead": False}},
}
#: Those that every commit runs: with plans, with networks.
_ALWAYS: Final = {"policy graphene", "policy decima"}


def subjects() -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, brain's settings) of each."""
    for key, registry in _REGISTRIES.items():
        for entry in registry:
            if "kubernetes" in entry.worlds:
                needed = _NEEDED.get(entry.name, {}) if key == "policy" else {}
                yield f"{key} {entry.name}", {"reserveAfter": None, **_AROUND[key], key: {"kind": entry.name}, **needed}


def of_a_commit() -> Iterator[Any]:
    """All as parameters of a test: those of _ALWAYS and one of 32 others, all by night."""
    others = [name for name, _ in subjects() if name not in _ALWAYS]
    drawn = _ALWAYS | Commit.here().cases(__name__, others, of=32)
    for name, settings in subjects():
        now = name in drawn
        yield pytest.param(settings, id=name, marks=() if now else pytest.mark.nightly)
