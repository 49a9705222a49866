"""Counts words of docstrings and pages, and lines of comments: `python -m tests.words` fails past a limit."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = ("schedulers", "rm_emulator", "operators", "forecaster")
#: Words that stand for a noun: the reader has to find the noun elsewhere.
PRONOUNS: Final = frozenset(
    ["it", "that", "what", "who", "which", "whose", "those", "these", "this", "one", "they", "whoever"]
)
#: Packages whose fast paths and orders need a reason beside them.
EXPLAINED: Final = ("schedulers/core", "rm_emulator/engine", "operators/extender")
MAX_SHARE: Final = 0.05
MAX_MODULE_SHARE: Final = 0.07
#: A module with fewer docstring words has no share worth a limit.
MODULE_WORDS: Final = 300
MIN_COMMENTS: Final = 0.04
#: Rows of the glossary.
MAX_ROWS: Final = 120
#: Words of all pages that somebody writes.
MAX_PROSE: Final = 60_000
#: Comments that a program reads.
_PRAGMA: Final = re.compile(r"#\s*(type:|noqa|pragma|!)")


class Count(NamedTuple):
    """Words of docstrings, pronouns among these words, lines with a comment, and lines of a file."""

    words: int
    pronouns: int
    comments: int
    lines: int

    @property
    def share(self) -> float:
        """Pronouns among the words of docstrings, 0..1."""
        return self.pronouns / max(self.words, 1)


def count(text: str) -> Count:
    """Counts one file. Code in backticks is no prose; strings below attributes are docstrings, too."""
    words = [word for doc in docstrings(text) for word in re.findall(r"[a-z']+", re.sub(r"`[^`]*`", "", doc).lower())]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {t.start[0] for t in tokens if t.type == tokenize.COMMENT and not _PRAGMA.match(t.string)}
    return Count(len(words), sum(word in PRONOUNS for word in words), len(comments), text.count("\n"))


def docstrings(text: str) -> Iterator[str]:
    """Every string of a file that stands as a statement of its own."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(doc))):
                yield doc


def total(counts: dict[str, Count], below: str = "") -> Count:
    """The sum over all files below a folder; `below` is a path from the root of the checkout."""
    chosen = [c for path, c in counts.items() if path.startswith(below)]
    return Count(*(sum(figures) for figures in zip(*chosen, strict=True)))


@cache
def homonyms() -> dict[tuple[str, str], list[str]]:
    """Files by program and name of each public class that is defined more than once in that program."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in files():
        for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[path.split("/")[0], node.name].append(path)
    return {name: where for name, where in places.items() if len(where) > 1}


def files() -> list[str]:
    """Python files of the product, as paths from the root of the checkout."""
    return sorted(file.relative_to(ROOT).as_posix() for package in PRODUCT for file in (ROOT / package).rglob("*.py"))


def pages() -> list[Path]:
    """Pages that somebody writes: without generated ones, of which the template counts instead."""
    docs = sorted((ROOT / "docs").rglob("*.md"))
    written = [f for f in docs if f.with_suffix(".in.md") not in docs and ROOT / "docs/reference" not in f.parents]
    return [*ROOT.glob("*.md"), *(f for f in written if f != ROOT / "docs/scenario.md")]


def prose(text: str) -> int:
    """Words of a page; blocks of code are no prose, and what a template fills in is a single word."""
    filled = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "x", text, flags=re.DOTALL)
    return len(re.sub(r"^```.*?^```$", "", filled, flags=re.DOTALL | re.MULTILINE).split())


def page_words() -> dict[Path, int]:
    """Words of each page."""
    return {page: prose(page.read_text(encoding="utf-8")) for page in pages()}


def glossary(text: str) -> Iterator[str]:
    """One line for each mistake of a glossary's words: too many rows, or one word in two cells."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    rows = [cell for cell in cells if cell.strip() not in ("word", "---")]
    if len(rows) > MAX_ROWS:
        yield f"the glossary has {len(rows)} rows; at most {MAX_ROWS} are accepted"
    counts = Counter(word.strip() for row in rows for word in re.sub(r"\(.*?\)", "", row).split(","))
    for word in (word for word, count in counts.items() if count > 1):
        yield f"the glossary explains {word} twice: one meaning for one word"


def mistakes(counts: dict[str, Count]) -> Iterator[str]:
    """One line for each limit that is passed."""
    if (share := total(counts).share) > MAX_SHARE:
        yield f"pronouns are {share:.1%} of the words of docstrings; at most {MAX_SHARE:.0%} are accepted"
    for path, c in counts.items():
        if c.words > MODULE_WORDS and c.share > MAX_MODULE_SHARE:
            yield f"{path}: pronouns are {c.share:.1%} of the words of docstrings; at most {MAX_MODULE_SHARE:.0%}"
    for package in EXPLAINED:
        c = total(counts, package + "/")
        if c.comments < MIN_COMMENTS * c.lines:
            yield f"{package}: {c.comments / c.lines:.1%} of the lines have a comment; at least {MIN_COMMENTS:.0%}"
    for (_, name), where in homonyms().items():
        yield f"class {name} is defined in {', '.join(where)}: one meaning for one name"
    if (words := sum(page_words().values())) > MAX_PROSE:
        yield f"pages have {words:,} words; at most {MAX_PROSE:,} are accepted"
    yield from glossary((ROOT / "docs/glossary.md").read_text(encoding="utf-8"))


def main() -> int:
    """Prints the figures of each program and package, then what passes a limit; 1 if anything does."""
    counts = {path: count((ROOT / path).read_text(encoding="utf-8")) for path in files()}
    lines = []
    for below in ("", *(f"{program}/" for program in PRODUCT), *(f"{package}/" for package in EXPLAINED)):
        c = total(counts, below)
        words, comments = f"pronouns {c.share:.1%} of {c.words:,} words", f"comments {c.comments / c.lines:.1%}"
        lines.append(f"{below or 'all':22} {words}, {comments} of {c.lines:,} lines")
    lines.append(f"{'pages':22} {sum(page_words().values()):,} words")
    found = list(mistakes(counts))
    sys.stdout.write("\n".join([*lines, *found]) + "\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
