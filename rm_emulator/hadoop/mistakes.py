"""Mistakes of several files, noted as they are found and raised together."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rm_emulator.workload.formats import Issue, TraceError

#: So many are kept; a file that is wrong in every line must not fill the memory.
_KEPT: Final = 1000


class Mistakes:
    """What is wrong with a folder's files."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[Issue] = []

    def add(self, file: Path, line: int | None, message: str, hint: str | None = None) -> None:
        """Note one mistake; hint: the name that was probably meant, None when nothing is near."""
        self.count += 1
        if len(self._kept) < _KEPT:
            self._kept.append(Issue(str(file), message, line, hint=hint or ""))

    def include(self, error: TraceError) -> None:
        """Note the mistakes of a file that could not be read at all."""
        self.count += error.count
        self._kept += error.issues[: max(0, _KEPT - len(self._kept))]

    def check(self) -> None:
        """Raise TraceError if anything was noted."""
        if self.count:
            raise TraceError(self._kept, self.count)
