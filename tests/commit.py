"""The commit that is checked out: what it changed, and what is drawn by its hash, by every worker of a run alike."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Commit(NamedTuple):
    """A commit.

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

    def draws(self, name: str, of: int) -> bool:
        """Whether a name is drawn by this commit, as one name `of` so many is; `of` is a divisor of 256."""
        return self._digest(name)[0] % of == 0

    def cases(self, test: str, names: Collection[str], of: int) -> set[str]:
        """The cases of a test that this commit draws: one of `of`, rounded up, so that each commit runs the test.

        A test that has a single case is drawn by one commit of `of`, together with all such tests of its file.
        """
        if len(names) == 1:
            return set(names) if self.draws(test.partition("::")[0], of) else set()
        return set(sorted(names, key=self._digest)[: -(-len(names) // of)])

    def _digest(self, name: str) -> bytes:
        return sha256(f"{self.hash} {name}".encode()).digest()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
