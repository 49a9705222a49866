"""Data to repeat a run: run.json in its directory, next to the scenario as resolved.

command, folder        the command line, and its working directory
begun                  when, in UTC
scenario, seeds        all settings, as in scenario.yaml, enough to reproduce the results
version, code, commit  of the program: its version, the hash of its sources, and their git commit (`-dirty` with
                       uncommitted changes), null for sources outside a checkout
python, packages       versions of the interpreter and of the program's requirements
platform               the operating system and the machine
plugins                the sha256 of each plug-in file
workers                of cells computed on a cluster (`--engine`): where, by the cell's place in the run directory

Places of cells stand in `workers.jsonl` first, a line `[PLACE, WORKER]` for each cell, and then move to `workers`.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from rm_emulator.experiments.cell import Cell
from rm_emulator.experiments.directory import JOURNAL, read_json
from rm_emulator.files import write_file
from rm_emulator.plugins import GROUP, hashes
from rm_emulator.version import __version__


class RunRecord:
    """run.json of a run directory, written when made, so that an interrupted run can be repeated as well.

    scenario: as resolved; plugins: files; done: cells of earlier runs.
    """

    def __init__(self, path: Path, scenario: Mapping[str, Any], plugins: Sequence[str], done: Iterable[Cell]) -> None:
        self._file, self._journal = path / "run.json", path / JOURNAL
        places = {cell.place.as_posix() for cell in done}
        before = {**read_json(self._file).get("workers", {}), **_journal_of(self._journal)}
        self._workers = {place: worker for place, worker in before.items() if place in places}
        self._made = _of_run(scenario, plugins)
        self.write()

    def computed(self, cell: Cell, worker: str) -> None:
        """Note who computed a cell: at once in the journal, in run.json with 1 % of all time at most for writing."""
        place = cell.place.as_posix()
        self._workers[place] = worker
        with self._journal.open("ab") as journal:
            journal.write(json.dumps([place, worker]).encode() + b"\n")
        if time.monotonic() >= self._next:
            self.write()

    def write(self) -> None:
        """Write run.json, after which the journal holds nothing more and is removed."""
        begun = time.monotonic()
        workers = {"workers": dict(sorted(self._workers.items()))} if self._workers else {}
        write_file(self._file, json.dumps({**self._made, **workers}, indent=1) + "\n")
        self._journal.unlink(missing_ok=True)
        self._next = time.monotonic() + 100 * (time.monotonic() - begun)


def _journal_of(path: Path) -> dict[str, str]:
    """The places that a killed run left in its journal; a line may be torn."""
    found = dict[str, str]()
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        with suppress(ValueError):
            place, worker = msgspec.json.decode(line, type=tuple[str, str])
            found[place] = worker
    return found


def _of_run(scenario: Mapping[str, Any], plugins: Sequence[str]) -> dict[str, Any]:
    return {
        "command": sys.orig_argv,
        "folder": str(Path.cwd()),
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
        "scenario": scenario,
        "seeds": scenario["spec"]["seeds"],
        "version": __version__,
        "code": code_digest(),
        "commit": commit(Path(__file__).parents[2]),
        "python": platform.python_version(),
        "packages": packages(),
        "platform": platform.platform(),
        "plugins": hashes(plugins),
    }


@cache
def code_digest() -> str:
    """Hash of the program's sources and trained networks, so that results of older programs are not reused."""
    digest = hashlib.sha256()
    for package in ("schedulers", "rm_emulator"):
        root = Path(__file__).parents[2] / package
        for file in sorted([*root.rglob("*.py"), *root.rglob("trained/*")]):
            digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def commit(folder: Path) -> str | None:
    """The git commit of the sources in a folder; None for sources unknown to git, and without git."""
    known = _git(folder, "ls-files", "--error-unmatch", "rm_emulator/version.py")
    return None if known is None else _git(folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        ended = subprocess.run(  # noqa: S603 (our own words)
            ["git", "-C", str(folder), *arguments],  # noqa: S607 (whichever git there is)
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None


def program(more: Iterable[str] = ()) -> dict[str, str]:
    """What a call's result may depend on besides its inputs, as far as a version tells: by name, for comparison.

    more: names of packages beyond the program's requirements; those that are not installed are left out.
    """
    python = ".".join(platform.python_version_tuple()[:2])
    found = dict(_installed(more))
    installed = {f"plug-in {point.name}": point.value for point in metadata.entry_points(group=GROUP)}
    own = {"rm-emulator": __version__, "sources": code_digest()[:12], "Python": python}
    return {**own, **packages(), **found, **installed}


def _installed(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            yield name, metadata.version(name)


def packages() -> dict[str, str]:
    """The versions of the program's requirements, {} for a program that is not installed."""
    try:
        needed = metadata.requires("rm-emulator") or []
    except metadata.PackageNotFoundError:
        return {}
    names = [match[0] for line in needed if "extra ==" not in line and (match := re.match(r"[\w.-]+", line))]
    return {name: metadata.version(name) for name in sorted(names)}
