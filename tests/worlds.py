"""Which system runs in which world: docs/worlds.md, from the registries, what brain refuses, and the tests.

python -m tests.worlds
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from operators.extender.config import NOT_HERE, WHY_CENTRAL
from rm_emulator.files import write_file
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry
from studies.tables import filled, table
from tests.kubernetes.subjects import subjects

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "worlds.md"
HEAD: Final = ("system", "what", "source", "emulator", "Kubernetes", "real control plane")
#: Plug-ins by the key of brain's configuration, and what a reader calls them.
_KINDS: Final[Mapping[str, tuple[str, Registry[Any]]]] = {
    "policy": ("policy", policies),
    "predictor": ("predictor", predictors),
    "placement": ("placer", placers),
}
#: Where an accepted policy cannot do there all that it can do in the emulator.
NOTES: Final[Mapping[str, str]] = {
    "delay": "decides as `fair`: no pod says where its input is",
    "capacity": "without preemption",
    "fair_yarn": "without preemption",
    "planned": "without planners that copy",
    "played": "without copies",
    "rayon": "without preemption",
}


def page() -> str:
    """The page from its template."""
    template = PAGE.with_suffix(".in.md").read_text(encoding="utf-8")
    return filled(template, systems=table(HEAD, list(rows())))


def rows() -> Iterator[list[str]]:
    """Cells of HEAD for each plug-in and architecture."""
    tried = {name for name, _ in subjects()}
    for key, (what, registry) in _KINDS.items():
        for entry in registry:
            accepted = "kubernetes" in entry.worlds
            there = NOTES.get(entry.name, "yes") if accepted else f"no: {NOT_HERE}"
            seen = "yes" if f"{key} {entry.name}" in tried else "no"
            yield [f"`{entry.name}`", what, entry.source, "yes", there, seen]
    yield ["`central`", "architecture", "", "yes", "yes, without think times", "yes"]
    for kind in sorted(WHY_CENTRAL.keys() - {"central"}):
        why = WHY_CENTRAL[kind].removeprefix("is for the emulator: ")
        yield [f"`{kind}`", "architecture", "", "yes", f"no: {why}", "no"]


if __name__ == "__main__":
    write_file(PAGE, page())
