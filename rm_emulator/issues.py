"""Mistakes of an input, with everything needed to correct them: file, line, column, path, value, remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from schedulers.core.errors import UserError

#: So many mistakes are kept at all, so that a file that is wrong in every line does not fill the memory.
_KEPT: Final = 1000


class Issue(msgspec.Struct, frozen=True):
    """A mistake of an input."""

    file: str
    """The file as named by the user, '' for an input without a file."""
    message: str
    """The value seen and the accepted values."""
    line: int | None = None
    """1-based; None for an input without lines (an option, a folder) and for a mistake of the file as a whole."""
    col: int | None = None
    """1-based, as `line`."""
    path: str = ""
    """Path of the value inside the document, such as `spec.policies[1].predictor.kind` or `column 'cpu'`; '' for the
    document itself.
    """
    hint: str = ""
    """The probably intended value, without punctuation; '' when nothing is near."""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.col) if part not in (None, ""))
        head = f"{place} {self.path}".strip()
        return (f"{head}: " if head else "") + self.message + (f", {self.hint}" if self.hint else "")


class InvalidInput(UserError):
    """Input that cannot be used.

    issues: the mistakes found, file by file, in order of position. count: how many there are in all. remedy: for all
    of them, a last line.
    """

    #: So many are shown one by one, the rest is counted.
    shown: ClassVar[int] = 20

    def __init__(self, issues: Iterable[Issue] | str, count: int | None = None, *, remedy: str = "") -> None:
        given = [issues] if isinstance(issues, str) else issues
        every = [issue if isinstance(issue, Issue) else Issue("", str(issue)) for issue in given]
        files = {file: place for place, file in enumerate(dict.fromkeys(issue.file for issue in every))}
        self.issues = sorted(every, key=lambda issue: (files[issue.file], issue.line or 0, issue.col or 0))
        self.count = len(every) if count is None else count
        lines = [str(issue) for issue in self.issues[: self.shown]]
        if self.count > self.shown:
            lines.append(f"... and {self.count - self.shown:,} more")
        self.remedy = remedy
        super().__init__("\n".join([*lines, *([remedy] if remedy else [])]))


class TraceError(InvalidInput, ValueError):
    """A trace, a stored workload or a folder of Hadoop that cannot be used; at most 1000 of its mistakes are kept."""


class Issues:
    """Collects the mistakes of an input, to be raised all at once. file: of mistakes without a file of their own."""

    def __init__(self, file: str = "") -> None:
        self.file = file
        self.count = 0
        self.kept: list[Issue] = []

    def add(
        self,
        message: str,
        *,
        file: Path | None = None,
        line: int | None = None,
        column: str = "",
        hint: str | None = None,
    ) -> None:
        """Note a mistake. column: its name, in a table; hint: the nearest valid name, if any is near."""
        self.count += 1
        if len(self.kept) < _KEPT:
            path = f"column '{column}'" if column else ""
            self.kept.append(Issue(str(file or self.file), message, line, path=path, hint=did_you_mean(hint)))

    def include(self, error: TraceError) -> None:
        """Note the mistakes of an unreadable file."""
        self.count += error.count
        self.kept += error.issues[: max(0, _KEPT - len(self.kept))]

    def check(self, *, remedy: str = "") -> None:
        """Raise TraceError if any mistake was noted."""
        if self.count:
            raise TraceError(self.kept, self.count, remedy=remedy)


def did_you_mean(word: str | None) -> str:
    """The hint for a nearest valid name, '' for None."""
    return f"did you mean '{word}'?" if word else ""


def show_path(path: Sequence[str | int]) -> str:
    """`('spec', 'policies', 1, 'kind')` as `spec.policies[1].kind`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("_", "a").replace("-", "a").isalnum():
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def show_point(values: Mapping[str, object]) -> str:
    """A point of a sweep: `cluster.nodes[0].count=50, workload.load=0.7`."""
    return ", ".join(f"{path}={show_swept(value)}" for path, value in values.items())


def show_swept(value: object) -> str:
    """A value of a sweep, text without quotes; a block is shown as its kind and its further keys.

    >>> show_swept({"kind": "decentralised", "method": "batch"})
    'decentralised, method batch'
    >>> show_swept({"kind": "central", "paths": [{"kinds": ["service"], "t_job": "2s"}]})
    'central, paths (kinds service, t_job 2s)'
    """
    if isinstance(value, Mapping):
        parts = [f"{key} {show_swept(part)}" for key, part in value.items() if key != "kind"]
        return ", ".join([*([show_swept(value["kind"])] if "kind" in value else []), *parts])
    if isinstance(value, list):
        return " ".join(f"({show_swept(part)})" if isinstance(part, Mapping) else show_swept(part) for part in value)
    return value if isinstance(value, str) else show_value(value)


def show_value(value: object, limit: int = 60) -> str:
    """A value in a form the user recognises, cut to `limit` characters."""
    text = {None: "null", True: "true", False: "false"}.get(value) if isinstance(value, bool | None) else None
    text = text or repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
