"""Data to repeat a run: run.json in its directory, next to the scenario as resolved.

command, folder        the command line, and its working directory
begun                  when, in UTC
scenario, seeds        all settings, as in scenario.yaml, enough to reproduce the results
version, code, commit  of the program: its version, the hash of its sources, and their git commit (`-dirty` with
                       uncommitted changes), null for sources outside a checkout
python, packages       versions of the interpreter and of the program's requirements
platform               the operating system and the machine
plugins                the sha256 of each plug-in file
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rm_emulator.plugins import hashes
from rm_emulator.version import __version__


def of_run(scenario: Mapping[str, Any], plugins: Sequence[str], code: str) -> dict[str, Any]:
    """The contents of run.json. scenario: as resolved; plugins: files; code: the hash of the program's sources."""
    return {
        "command": sys.orig_argv,
        "folder": str(Path.cwd()),
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
        "scenario": scenario,
        "seeds": scenario["spec"]["seeds"],
        "version": __version__,
        "code": code,
        "commit": commit(Path(__file__).parents[2]),
        "python": platform.python_version(),
        "packages": packages(),
        "platform": platform.platform(),
        "plugins": hashes(plugins),
    }


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


def packages() -> dict[str, str]:
    """The versions of the program's requirements, {} for a program that is not installed."""
    try:
        needed = metadata.requires("rm-emulator") or []
    except metadata.PackageNotFoundError:
        return {}
    names = [match[0] for line in needed if "extra ==" not in line and (match := re.match(r"[\w.-]+", line))]
    return {name: metadata.version(name) for name in sorted(names)}
