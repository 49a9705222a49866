"""Columns of a stranger's table by our names: `submit=SubmitTime@ms`, `durations=End-Start`, `memory=Mem@MiB`.

A target is a column of the csv format; its source a column of the file, or a difference of two; behind `@` stands a
unit, or the form of dates. Units left open are inferred from the first rows, and reported as a mapping to keep.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import yaml

from rm_emulator.files import load_yaml
from rm_emulator.issues import Issues
from rm_emulator.workload.formats import PAIRS
from rm_emulator.workload.records import clock, number, plain, shown
from rm_emulator.workload.tables import BadRow, BadRows, decoded, one, read_bytes
from schedulers.core.errors import InvalidParameters, nearest

UNITS_MS: Final = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6}
#: From so large a number on, a time is in this unit: seconds reach it in the year 5138.
_EPOCHS: Final = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))
_DATES: Final = (
    *("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d", "%Y-%m-%d %H:%M:%S %z", "%Y-%m-%d %H:%M:%S %Z"),
    *("%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y"),
    *("%m/%d/%Y %I:%M:%S %p", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y", "%d-%m-%Y %H:%M:%S"),
    *("%d/%b/%Y:%H:%M:%S %z", "%d-%b-%Y %H:%M:%S", "%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S %Z"),
)
_ISO: Final = "iso"
_TIMES: Final = ("durations", "mean", "hint")
_CPU: Final = {"": "", "cores": "", "m": "m", "millicores": "m"}
_BYTES: Final = {
    **{unit: unit.removesuffix("B") for unit in ("B", "k", "K", "M", "G", "T", "Ki", "Mi", "Gi", "Ti")},
    **{f"{unit}B": unit for unit in ("k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti")},
    **{"KB": "k", "K": "k", "bytes": ""},
}
#: Columns of numbers, beside `res:NAME`; an arrival may be a date, too.
_NUMBERS: Final = (*_TIMES, "submit", "tasks", "cpu", "memory", "cov", "weight")
#: A number with a fraction, and with a unit.
_FRACTION: Final = re.compile(r"\s*[+-]?\d*[.,]\d*([eE][+-]?\d+)?\s*[A-Za-z]*\s*")
_AMOUNT: Final = re.compile(r"([0-9.eE+-]+?)\s*([A-Za-z]*)")
#: So many rows are looked at to see how times are written.
_LOOKED_AT: Final = 1000
Rows = Iterator[tuple[int, list[str]]]
#: From the cells of the sources to the text of the target.
_Made = Callable[[Sequence[str]], str]


class _Source(msgspec.Struct):
    """The source of a target."""

    target: str
    columns: tuple[int, ...]
    """Positions in the file."""
    names: tuple[str, ...]
    """Titles of the columns."""
    unit: str
    """The text behind `@`."""

    def __str__(self) -> str:
        return "-".join(self.names) + (f"@{self.unit}" if self.unit else "")


class Mapped(msgspec.Struct):
    """The table with our columns."""

    header: list[str]
    rows: Rows
    """Good rows; bad rows are noted during iteration."""
    titles: dict[str, str]
    """Titles of the file's own columns, by our names."""
    mapping: dict[str, str]
    """The mapping with every unit told."""
    unused: list[str]
    """Titles of the columns without a target."""


def read_map(path: Path) -> dict[str, str]:
    """A mapping from a YAML file. Raises TraceError."""
    text = decoded(path, read_bytes(path))
    try:
        return msgspec.convert(load_yaml(text), dict[str, str])
    except (yaml.YAMLError, msgspec.ValidationError):
        raise one(path, "not a mapping: one line per column is needed, such as 'submit: SubmitTime@ms'") from None


def mapping_of(texts: Sequence[str], path: Path | None, columns: Sequence[str] = ()) -> dict[str, str]:
    """The mapping of a command line: `OURS=YOURS,...`; without `texts` the mapping of the file, if any.

    columns: names on the left side of a file's mapping, not looked at where none is given. Raises TraceError, also for
    a mapping to be written over a file.
    """
    if not texts:
        return {} if path is None else _of_columns(path, read_map(path), columns)
    if path is not None and (path.exists() or not path.parent.is_dir()):
        raise one(
            path, "is there already (the mapping is written there)" if path.exists() else "there is no such folder"
        )
    mapping: dict[str, str] = {}
    for text in itertools.chain.from_iterable(map(PAIRS.split, texts)):
        ours, equals, yours = text.partition("=")
        if not equals or not ours.strip() or not yours.strip():
            raise InvalidParameters(f"'{text}' is not a mapping (write OURS=YOURS, such as submit=SubmitTime)")
        if ours.strip() in mapping:
            raise InvalidParameters(f"'{ours.strip()}' is mapped twice: from '{mapping[ours.strip()]}' and '{yours}'")
        mapping[ours.strip()] = yours.strip()
    return mapping


def _of_columns(path: Path, mapping: dict[str, str], columns: Sequence[str]) -> dict[str, str]:
    """The mapping of a file. Raises TraceError, which names the file, for the name of no column."""
    issues = Issues(str(path))
    for name in mapping if columns else ():
        if name not in columns and not name.startswith("res:"):
            issues.add(
                f"column '{shown(name)}': not a known column (known: {', '.join(columns)})", hint=nearest(name, columns)
            )
    issues.check()
    return mapping


def map_text(mapping: Mapping[str, str], source: str) -> str:
    """A mapping as a YAML file for `read_map`."""
    body: str = yaml.dump(dict(mapping), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=10**6)
    return f"# Columns of {source}: rm-emulator convert csv --map-file THIS_FILE\n{body}"


def mapped(
    path: Path,
    header: list[str],
    rows: Rows,
    mapping: Mapping[str, str],
    *,
    ours: Sequence[str],
    unit: str,
    bad: BadRows,
) -> Mapped:
    """The table under our names. ours: columns that keep their name unless mapped.

    unit: the unit of times in the new table. Raises TraceError for an absent source.
    """
    issues = Issues(str(path))
    sources = [source for target, text in mapping.items() if (source := _source(target, text, header, issues))]
    issues.check()
    used = {place for source in sources for place in source.columns}
    for place, title in enumerate(header):
        name = title.strip()
        if place not in used and name.lower() not in mapping and (name.lower() in ours or name.startswith("res:")):
            sources.append(_Source(name, (place,), (name,), ""))
    first = list(itertools.islice(rows, _LOOKED_AT))
    makers = [(source.columns, _maker(source, first, unit, issues)) for source in sources]
    issues.check()
    taken = used | {place for source in sources for place in source.columns}

    def made() -> Rows:
        for line, cells in itertools.chain(first, rows):
            if len(cells) != len(header):
                bad.add(f"{len(cells)} cells, but the header has {len(header)}", line=line)
                continue
            try:
                yield line, [make([cells[place].strip() for place in places]) for places, make in makers]
            except BadRow as error:
                bad.row(path, line, error)

    return Mapped(
        header=[source.target for source in sources],
        rows=made(),
        titles={source.target: "-".join(source.names) for source in sources},
        mapping={source.target: str(source) for source in sources},
        unused=[title.strip() for place, title in enumerate(header) if place not in taken],
    )


def with_points(path: Path, header: Sequence[str], rows: Rows, mapping: Mapping[str, str], bad: BadRows) -> Rows:
    """The rows with decimal points in place of decimal commas, in the columns of numbers.

    mapping: columns under another name. Rows of another width, and numbers that have a point already, are bad.
    """
    named = {name.strip().lower(): name.strip() for name in header} | dict(mapping)
    sources = [
        _source(target, text, header, Issues())
        for target, text in named.items()
        if target in _NUMBERS or target.startswith("res:")
    ]
    places = sorted({place for source in sources if source and "%" not in source.unit for place in source.columns})
    for line, cells in rows:
        if len(cells) != len(header):
            bad.add(
                f"{len(cells)} cells, but the header has {len(header)} (a number with a decimal comma stands in quotes "
                "where commas separate the cells)",
                line=line,
            )
            continue
        try:
            for place in places:
                cells[place] = ";".join(_with_point(part, header[place].strip()) for part in cells[place].split(";"))
        except BadRow as error:
            bad.row(path, line, error)
        else:
            yield line, cells


def _with_point(text: str, column: str) -> str:
    if not _FRACTION.fullmatch(text):
        return text
    if "." in text:
        raise BadRow(f"'{shown(text)}' has a decimal point, but the option decimal is a comma", column)
    return text.replace(",", ".")


def advice_on_comma(text: str) -> str:
    """The option that reads a number with a decimal comma; '' for any other text."""
    return " (a decimal comma is read with --option decimal=,)" if "," in text and _FRACTION.fullmatch(text) else ""


def _source(target: str, text: str, header: Sequence[str], issues: Issues) -> _Source | None:
    """Reads `COLUMN`, `COLUMN@UNIT`, `END-START@UNIT`; a column's whole name counts first. None, noted, if wrong."""
    places: dict[str, int] = {}
    for place, title in enumerate(header):
        places.setdefault(title.strip(), place)
    cut = [(text, "")] + [(text[:at], text[at + 1 :]) for at, letter in enumerate(text) if letter == "@"]
    for names, unit in cut:
        if names.strip() in places:
            return _Source(target, (places[names.strip()],), (names.strip(),), unit)
        for at in (at for at, letter in enumerate(names) if letter == "-"):
            end, start = names[:at].strip(), names[at + 1 :].strip()
            if end in places and start in places:
                return _Source(target, (places[end], places[start]), (end, start), unit)
    wanted = cut[-1][0]
    issues.add(
        f"there is no column '{shown(wanted)}' for {target} (the file has: {', '.join(places)[:400]})",
        line=1,
        hint=nearest(wanted, places),
    )
    return None


def _maker(source: _Source, first: list[tuple[int, list[str]]], unit: str, issues: Issues) -> _Made:
    """The function for the target's text; fills `source.unit` in where the first rows show the unit."""
    if source.target == "submit" or len(source.columns) == 2:
        if len(source.columns) == 2 and source.target not in (*_TIMES, "submit"):
            issues.add(f"only times have a difference, not {source.target}", line=1)
        return _times(source, first, unit, issues)
    if source.target in _TIMES:
        return _duration(source, unit, issues)
    if source.target == "memory":
        return _amount(source, _BYTES, issues)
    if source.target == "cpu":
        return _amount(source, _CPU, issues)
    if source.unit:
        issues.add(f"{source.target} has no unit ('@{source.unit}')", line=1)
    return lambda cells: cells[0]


def _times(source: _Source, first: list[tuple[int, list[str]]], unit: str, issues: Issues) -> _Made:
    """A moment, or the time between two, as a number in `unit`."""
    reads, units = [], []
    for place, name in zip(source.columns, source.names, strict=True):
        seen = [(line, cells[place].strip()) for line, cells in first if place < len(cells) and cells[place].strip()]
        kind = source.unit or _kind([text for _, text in seen], name, issues)
        if kind not in UNITS_MS and kind != _ISO and "%" not in kind:
            issues.add(f"'@{kind}' is no unit of time ({', '.join(UNITS_MS)}, iso, or a form such as %d/%m/%Y)", line=1)
        reads.append(_reader(kind, name, seen[0] if seen else (0, "")))
        units.append(kind)
    source.unit = units[0] if len(set(units)) == 1 and units[0] != _ISO else ""

    def made(cells: Sequence[str]) -> str:
        if not all(cells):
            return ""
        moments = [read(text) for read, text in zip(reads, cells, strict=True)]
        span = moments[0] - moments[1] if len(moments) > 1 else moments[0]
        if len(moments) > 1 and span < 0:
            raise BadRow(f"'{shown(cells[0])}' is before '{shown(cells[1])}'", source.names[0])
        return repr(span / UNITS_MS[unit])

    return made


def _kind(texts: Sequence[str], name: str, issues: Issues) -> str:
    """The form of a column's times: fits the first time, and most of the first rows."""
    numbers = [value for text in texts if (value := plain(text)) is not None]
    if not texts or plain(texts[0]) is not None:
        high = max(map(abs, numbers), default=0.0)
        return next((unit for least, unit in _EPOCHS if high >= least), "s")
    forms = [form for form in (_ISO, *_DATES) if _moment(texts[0], form) is not None]
    counts = [sum(_moment(text, form) is not None for text in texts) for form in forms]
    fits = [form for form, count in zip(forms, counts, strict=True) if count == max(counts)]
    if len(fits) > 1 and fits[0] != _ISO:
        either = " or ".join(fits)
        issues.add(f"dates such as '{texts[0]}' may be {either} (write {name}@{fits[0]})", line=1, column=name)
    if not fits:
        advice = advice_on_comma(texts[0]) or f" (write its form: {name}@%d/%m/%Y %H:%M)"
        issues.add(f"'{shown(texts[0])}' is no time that is known{advice}", line=1, column=name)
    return fits[0] if fits else _ISO


def _moment(text: str, form: str) -> float | None:
    """Milliseconds since 1970 (UTC where no zone is written) by a form or a unit; None for other text."""
    try:
        if form in UNITS_MS:
            value = plain(text)
            return None if value is None or not abs(value) <= 1e300 else value * UNITS_MS[form]
        when = datetime.fromisoformat(text) if form == _ISO else datetime.strptime(text, form)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000
    except (ValueError, OverflowError):
        return None


def _reader(kind: str, name: str, first: tuple[int, str]) -> Callable[[str], float]:
    """The function that reads the cells of a column, all of a single kind; first: (line, text) of the first cell."""
    what = "number" if kind in UNITS_MS else "date"

    def read(text: str) -> float:
        moment = _moment(text, kind)
        if moment is None:
            like = f"as line {first[0]} has ('{shown(first[1])}'): one kind per column"
            raise BadRow(f"'{shown(text)}' is not a {what}, {like}{advice_on_comma(text)}", name)
        return moment

    return read


def _duration(source: _Source, unit: str, issues: Issues) -> _Made:
    """Durations in a unit, or as D-HH:MM:SS; several separated by ';'."""
    if source.unit not in ("", *UNITS_MS):
        issues.add(f"'@{source.unit}' is no unit of time ({', '.join(UNITS_MS)})", line=1)
    factor, name = UNITS_MS.get(source.unit or unit, 1.0) / UNITS_MS[unit], source.names[0]

    def made(cells: Sequence[str]) -> str:
        clocks = ":" in cells[0]
        if factor == 1 and not clocks:
            return cells[0]
        parts = map(str.strip, cells[0].rstrip("; ").split(";"))
        return ";".join(
            repr(clock(part, name) * 1000 / UNITS_MS[unit] if clocks else _number(part, name) * factor)
            for part in parts
        )

    return made


def _number(text: str, column: str) -> float:
    try:
        return number(text, column)
    except BadRow as error:
        raise BadRow(f"{error}{advice_on_comma(text)}", column) from None


def _amount(source: _Source, units: Mapping[str, str], issues: Issues) -> _Made:
    """Quantities with Kubernetes' suffixes, from a plain number in the unit or a number with its own unit."""
    if source.unit not in units and source.unit:
        issues.add(f"'@{source.unit}' is no unit of {source.target} ({', '.join(filter(None, units))})", line=1)

    def made(cells: Sequence[str]) -> str:
        match = _AMOUNT.fullmatch(cells[0])
        if match is None:
            return cells[0]  # whoever reads the quantity says what is wrong
        return match[1] + (units.get(match[2], match[2]) if match[2] else units.get(source.unit, ""))

    return made
