"""What is wrong with an input, said so that it can be put right: file, line, column, path, value, remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

Path = tuple[str | int, ...]


class Issue(msgspec.Struct, frozen=True):
    """One mistake.

    file: as the user named it; line, col: 1-based, None where the input has no lines (an option, a folder).
    path: of the value inside the document, such as `spec.policies[1].predictor.kind`; '' for the document itself.
    hint: what the user probably meant, without punctuation; '' when nothing is near.
    """

    file: str
    message: str
    line: int | None = None
    col: int | None = None
    path: str = ""
    hint: str = ""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.col) if part is not None)
        head = f"{place} {self.path}".rstrip()
        return f"{head}: {self.message}" + (f", {self.hint}" if self.hint else "")


class InvalidInput(Exception):
    """Input that cannot be used; `issues` holds every mistake found, in order of position."""

    def __init__(self, issues: Iterable[Issue] | str) -> None:
        found = [Issue("", issues)] if isinstance(issues, str) else list(issues)
        self.issues = sorted(found, key=lambda i: (i.line or 0, i.col or 0))
        self.bare = isinstance(issues, str)
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> list[str]:
        """One line per mistake, as printed."""
        return [issue.message if self.bare else str(issue) for issue in self.issues]


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


def show_value(value: object, limit: int = 60) -> str:
    """A value as the user would recognise it, cut to `limit` characters."""
    text = {None: "null", True: "true", False: "false"}.get(value) if isinstance(value, bool | None) else None
    text = text or repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
