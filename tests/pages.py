"""The pages of the documentation as text, code blocks and commands, in the order in which they stand."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SHELL = ("sh", "console")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"`([\w./-]+\.\w+)`:\s*$")
_TREE = re.compile(r"^:::\{toctree\}$(.*?)^:::$", re.DOTALL | re.MULTILINE)
_MORE = ("\\", "|", "&&", " do", "{")


class Block(NamedTuple):
    """A code block. file: what the line before it calls it ("... `jobs.csv`:"), or empty."""

    language: str
    text: str
    line: int
    file: str


class Command(NamedTuple):
    """A command of the shell, and the lines that the page says it prints; none where the page does not say."""

    text: str
    says: list[str]


def blocks(page: str) -> list[Block]:
    """The code blocks of a page; `page` is relative to the checkout."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        above = text[: match.start()]
        named = _NAMED.search(above[-200:])
        found.append(Block(match[1], match[2], above.count("\n") + 1, named[1] if named else ""))
    return found


@cache
def indexed() -> list[str]:
    """The pages of docs/index.md in its order, relative to the checkout."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    lines = [line for tree in _TREE.findall(text) for line in tree.splitlines()]
    names = [line for line in lines if line and not line.startswith(":")]
    files = [file for name in names for file in sorted((ROOT / "docs").glob(f"{name}.md"))]
    return [file.relative_to(ROOT).as_posix() for file in files]


def commands(block: Block) -> Iterator[Command]:
    """Of `sh` every command, of `console` those behind a `$` with what follows them. Comments are left out."""
    lines = block.text.splitlines()
    if block.language == "console":
        starts = [i for i, line in enumerate(lines) if line.startswith("$ ")] + [len(lines)]
        for start, end in pairwise(starts):
            yield Command(lines[start][2:], [line.rstrip() for line in lines[start + 1 : end] if line.strip()])
    elif block.language == "sh":
        whole = ""
        for line in lines:
            whole += line + "\n"
            if not _is_open(whole):
                if command := re.sub(r"(^|\s)#.*", "", whole).strip():
                    yield Command(command, [])
                whole = ""


def _is_open(text: str) -> bool:
    """Whether the next line still belongs to the command."""
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    loops = [len(re.findall(each, text, re.MULTILINE)) for each in (r"^(?:for|while) .* do$", r"^done\b")]
    return loops[0] > loops[1] or re.sub(r"\s#.*", "", text).rstrip().endswith(_MORE)


class Shell:
    """A fresh folder with `rm-emulator` and `python` on the PATH, and the checkout's docs and manifests in it.

    environment: more of it.
    """

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder / "page"
        self.folder.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        names = {"rm-emulator": "-m rm_emulator", "kubectl-rm_emulator": "-m rm_emulator.kubectl", "python": ""}
        for name, called in names.items():
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {called} "$@"\n')
            (programs / name).chmod(0o755)
        for shared in ("docs", "manifests"):
            (self.folder / shared).symlink_to(ROOT / shared)
        self._environment = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "HOME": str(folder),
            **environment,
        }

    def run(self, command: str) -> str:
        """What the command prints; AssertionError when it fails."""
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout


def prints(says: list[str], printed: str) -> bool:
    """True if a page's lines are the printed ones; blank lines and edges do not count.

    The line `...` stands for any lines, ` ...` at the end of a line for the rest of that line.
    """
    shown = "\n".join(_pattern(line.strip()) if line != "..." else r"(?s:.*)" for line in says)
    lines = "\n".join(line.strip() for line in printed.splitlines() if line.strip())
    return re.fullmatch(shown, lines) is not None


def _pattern(line: str) -> str:
    return re.escape(line.removesuffix("...")) + ".*" if line.endswith(" ...") else re.escape(line)
