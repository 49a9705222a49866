"""`rm-emulator case FILE.yaml...`: known-answer cases, one line per check.

A file holds `cases` (each with `id` and `kind`) or `instances` (each with `name` and `model`, the kind, and
`expected`, one check per entry; a value that is not supported is skipped by itself).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from rm_emulator.issues import InvalidInput, Issue, show_value
from rm_emulator.known_answers.checks import ABOUT, Check, Malformed, Skip, Unsupported, known
from rm_emulator.scenario.document import Document, read_documents

#: A file of cases that comes with the package, to run and to copy.
EXAMPLE: Final = Path(__file__).with_name("example.yaml")
_SECTIONS: Final = {"cases": ("id", "kind"), "instances": ("name", "model")}
_HEADS: Final = ("version", "format", *_SECTIONS)


class Line(msgspec.Struct, frozen=True):
    """One line of output. verdict: PASS, FAIL or SKIP."""

    verdict: str
    id: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.verdict} {self.id}" + (f": {self.text}" if self.text else "")


def main(files: Sequence[Path]) -> int:
    """Run the cases of these files and print a line per check. Returns 1 when any check failed, else 0.

    Raises InvalidInput, before anything runs, for files that are not cases.
    """
    sections = [(document, section) for file in files for document, section in _documents(file)]
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    for document, section in sections:
        for line in lines(document, section):
            counts[line.verdict] += 1
            print(line)  # noqa: T201 (the answer)
    print("{PASS} passed, {FAIL} failed, {SKIP} skipped".format_map(counts), file=sys.stderr)  # noqa: T201
    return 1 if counts["FAIL"] else 0


def _documents(file: Path) -> list[tuple[Document, str]]:
    """The documents of a file, each with the section that holds its cases, checked to be cases at all."""
    documents, issues = [], []
    for document in read_documents(file):
        if not isinstance(document.data, dict):
            issues.append(document.issue((), "expected a mapping with `cases` or `instances`"))
            continue
        issues += [
            document.issue((key,), f"unknown key '{key}' (known: {', '.join(_HEADS)})", key=True)
            for key in document.data
            if key not in _HEADS
        ]
        sections = [section for section in _SECTIONS if section in document.data]
        if not sections:
            issues.append(document.issue((), "no `cases` and no `instances`"))
        for section in sections:
            issues += _check(document, section)
            documents.append((document, section))
    if issues:
        raise InvalidInput(issues)
    return documents


def _check(document: Document, section: str) -> Iterator[Issue]:
    cases = document.data[section]
    name, kind = _SECTIONS[section]
    if not isinstance(cases, list) or not cases:
        yield document.issue((section,), f"expected a list of cases, found {show_value(cases)}")
        return
    seen: dict[str, int] = {}
    for number, case in enumerate(cases):
        path = (section, number)
        if not isinstance(case, dict):
            yield document.issue(path, f"expected a case with `{name}` and `{kind}`, found {show_value(case)}")
            continue
        for key in (name, kind):
            if not isinstance(case.get(key), str):
                yield document.issue(path, f"case without `{key}` (a text)")
        case_name = case.get(name)
        if isinstance(case_name, str) and seen.setdefault(case_name, number) != number:
            yield document.issue((*path, name), f"two cases are called '{case_name}'")


def lines(document: Document, section: str) -> Iterator[Line]:
    """What became of every check of a document. Raises InvalidInput for a case that makes no sense."""
    name, kind = _SECTIONS[section]
    for number, case in enumerate(document.data[section]):
        try:
            yield from _run(case[name], case[kind], case)
        except Malformed as error:
            raise InvalidInput([document.issue((section, number), f"case '{case[name]}': {error}")]) from None


def _run(name: str, kind_name: str, case: Mapping[str, Any]) -> Iterator[Line]:
    kind = known().get(kind_name)
    strange = [key for key in case if key not in ABOUT and key not in kind.keys] if kind else []
    why = [f"key '{key}' of kind {kind_name} not supported" for key in strange]
    if kind is None or (why and "model" not in case):
        for suffix in _named_checks(case):
            yield Line("SKIP", f"{name}{suffix}", why[0] if why else f"kind {kind_name} not supported")
        return
    try:
        # All checks first: a case that turns out to be unsupported half-way is skipped as a whole.
        checks = list(kind.run(case))
    except Unsupported as reason:
        yield Line("SKIP", name, str(reason))
        return
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise Malformed(_what(error, kind_name)) from error
    for check in checks:
        yield _line(f"{name}/{check.name}" if check.name else name, check)
    # An instance has many values, each checked by itself.
    yield from (Line("SKIP", f"{name}/{key}", reason) for key, reason in zip(strange, why, strict=True))


def _line(name: str, check: Check | Skip) -> Line:
    if isinstance(check, Skip):
        return Line("SKIP", name, check.why)
    if check.holds:
        return Line("PASS", name)
    expected, got = _first_difference(check)
    return Line("FAIL", name, f"expected {expected} got {got}")


def _first_difference(check: Check) -> tuple[Any, Any]:
    """Of two lists the first entries that differ, else everything."""
    if isinstance(check.expected, list) and isinstance(check.got, list) and len(check.expected) == len(check.got):
        for expected, got in zip(check.expected, check.got, strict=True):
            if not Check("", expected, got, check.tolerance).holds:
                return expected, got
    return check.expected, check.got


def _named_checks(case: Mapping[str, Any]) -> list[str]:
    """The checks of an instance that is not run: one per algorithm and bound; a case has one."""
    names = []
    if "model" in case:
        expected = case.get("expected")
        names += [f"/{name}" for name in expected] if isinstance(expected, dict) else []
        names += ["/optimal"] if "optimal" in case else []
    return names or [""]


def _what(error: Exception, kind: str) -> str:
    if isinstance(error, KeyError):
        return f"kind {kind} needs a key {error}"
    return f"does not have the form of kind {kind} ({type(error).__name__}: {error})"
