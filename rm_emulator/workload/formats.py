"""Trace formats: one class per format in `readers/`, registered by name, from inside the tree or outside it.

    @register("mine", source="where the format is defined")
    class Mine:
        '''One line of summary.'''

        columns = (Column("job", "..."),)
        contents = Contents.lacking("gangs", "gpu", task_times="All tasks of a job take the job's run time.")

        class Params(Struct): ...

        @staticmethod
        def read(path, options) -> Trace: ...

The command line's `traces` and `convert` follow from the registration.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from rm_emulator.issues import Issue, Issues, TraceError
from rm_emulator.program import cause
from rm_emulator.workload import storage
from rm_emulator.workload.contents import Contents
from rm_emulator.workload.model import Workload
from rm_emulator.workload.profiles import TpchProfiles, builtin_profiles
from rm_emulator.workload.stage_table import StageTable
from rm_emulator.workload.tables import Column, head, one
from schedulers.core.errors import InvalidParameters, UserError, nearest
from schedulers.core.registry import NoParams, Registry


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A reader's result."""

    workload: Workload
    profiles: TpchProfiles | None = None
    """Measured TPC-H durations for the workload's `Waves`, or None."""
    notes: tuple[str, ...] = ()
    """Rows left out and assumptions, a sentence with its count per entry."""
    mapping: dict[str, str] = {}
    """Source of each column, in the form of the setting `map`; empty for a file with the format's own columns."""

    def lacking(self, contents: Contents, *usual: str, **assumed: str) -> Trace:
        """The trace of a file that lacks some of its format's `contents`; parameters as for `Contents.lacking`."""
        workload = msgspec.structs.replace(self.workload, contents=contents.without(*usual, **assumed))
        return msgspec.structs.replace(self, workload=workload)


class TableTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace as tables, for descriptions: no objects, so millions of stages fit."""

    table: StageTable
    notes: tuple[str, ...] = ()


class TraceFormat(Protocol):
    """The interface of a format class. The settings are a frozen struct `Params` inside the class."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a file of the format; a plain class attribute will do."""
        ...

    @staticmethod
    def read(path: Path, options: Any) -> Trace:
        """Read a file or folder. Raises TraceError with every mistake found."""
        ...

    # `contents: Contents`, facts that files of the format have. A file with fewer facts has its own, in
    # `Workload.contents`. A format without the attribute leaves the question open.
    #
    # A format of large files may also have a static `table(path, options) -> TableTrace | None`: the tables of the
    # workload that `read` gives, without an object per stage; None where only `read` can tell.
    #
    # A format may also have a static `recognises(path, head) -> bool`: whether a folder, or a file that begins with
    # these bytes, looks like one of its own. Without it, the format is never guessed.


#: Between the entries `OURS=YOURS` of a mapping; other commas belong to a value.
PAIRS: Final = re.compile(r",(?=\s*[A-Za-z][\w:./-]*\s*=)")

FORMATS: Final[Registry[TraceFormat]] = Registry(
    "trace format", "rm_emulator.workload.readers", "rm_emulator.hadoop.reader"
)
register = FORMATS.register


def names() -> list[str]:
    """The registered formats, sorted."""
    return [entry.name for entry in FORMATS]


def describe(name: str) -> dict[str, Any]:
    """Plain data for `traces --json`: texts, facts carried and lacking, columns, parameters. Raises UnknownName."""
    entry = FORMATS.entry(name)
    contents = contents_of(name)
    facts = {"carries": contents.carried, "lacks": contents.lacks} if contents else {}
    return {
        "name": entry.name,
        "summary": entry.summary,
        "description": (inspect.getdoc(entry.cls) or "").partition("\n")[2].strip(),
        "source": entry.source,
        **facts,
        "columns": [
            {key: getattr(c, key) for key in ("name", "meaning", "required")} for c in getattr(entry.cls, "columns", ())
        ],
        "parameters": [msgspec.to_builtins(parameter) for parameter in entry.parameters()],
    }


def contents_of(name: str) -> Contents | None:
    """Facts that files of a format have; None for a format without a declaration. Raises UnknownName."""
    contents: Contents | None = getattr(FORMATS.entry(name).cls, "contents", None)
    return contents


def options_from_text(name: str, settings: Iterable[str]) -> dict[str, Any]:
    """`["cov=0.2", "limit=100"]` from a command line as checked values of the format's settings.

    Lists and mappings (`map=job=JobID,submit=At`) are comma-separated. Raises UnknownName, and InvalidParameters with
    the name of the setting and the value.
    """
    entry = FORMATS.entry(name)
    fields = {field.encode_name: field for field in msgspec.structs.fields(entry.params)}
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise InvalidParameters(f"'{setting}' is not a setting (write NAME=VALUE)")
        if key not in fields:
            raise InvalidParameters(unknown_setting(name, key, list(fields)))
        values[key] = _from_text(name, fields[key], text)
    return values


def settings(
    name: str, texts: Iterable[str], *, skip_bad_rows: bool = False, mapping: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The options of a command line: settings as text, and settings with an option of their own.

    Raises as `options_from_text`, and InvalidParameters for a format without rows to leave out or columns to map.
    """
    options = options_from_text(name, texts)
    for key, value, what in (("skip_bad_rows", skip_bad_rows, "rows to leave out"), ("map", mapping, "columns to map")):
        if value and not has_setting(name, key):
            raise InvalidParameters(f"trace format '{name}' has no {what}")
        if value:
            options[key] = value
    return options


def mappable(name: str) -> list[str]:
    """Columns to which a mapping may map; none of a format without mappings. Raises UnknownName."""
    columns = getattr(FORMATS.entry(name).cls, "columns", ()) if has_setting(name, "map") else ()
    return [column.name for column in columns]


def has_setting(name: str, key: str) -> bool:
    """Whether a format has a setting. Raises UnknownName."""
    return key in {field.encode_name for field in msgspec.structs.fields(FORMATS.entry(name).params)}


def unknown_setting(name: str, key: str, known: list[str]) -> str:
    """The message for a setting unknown to a format."""
    near = nearest(key, known)
    hint = f", did you mean '{near}'?" if near else ""
    return f"trace format '{name}' has no setting '{key}'{hint} (it has: {', '.join(known) or 'none'})"


def _from_text(name: str, field: msgspec.structs.FieldInfo, text: str) -> Any:
    """The value as text, or as a comma-separated list or mapping where the text does not fit the setting's type."""
    parts = [part.strip() for part in text.split(",")]
    pairs = [pair.partition("=") for pair in PAIRS.split(text)]
    mapping = {key.strip(): value.strip() for key, equals, value in pairs if equals}
    wrong = ""
    for candidate in (text, parts, *([mapping] if len(mapping) == len(pairs) else ())):
        try:
            return msgspec.convert(candidate, field.type, strict=False)
        except msgspec.ValidationError as error:
            wrong = wrong or str(error)
    if words := [str(word) for word in msgspec.json.schema(field.type).get("enum", ())]:
        near = nearest(text, words)
        hint = f", did you mean '{near}'?" if near else ""
        wrong = f"expected {', '.join(words)}{hint}"
    raise InvalidParameters(f"trace format '{name}' setting '{field.encode_name}': '{text}': {wrong}")


def read(name: str, path: Path | str, options: Mapping[str, Any] | None = None) -> Trace:
    """Read `path` in the named format.

    Raises UnknownName and InvalidParameters for the name and the options, TraceError for the file.
    """
    cls, params = FORMATS.parse({"kind": name, **(options or {})})
    try:
        ours = cls.__module__.startswith("rm_emulator.")
        trace = cls.read(Path(path), params) if ours else _read_by_plugin(cls, name, Path(path), params)
    except MemoryError:
        raise one(path, "does not fit into this machine's memory (take a part of it, or the option limit)") from None
    if trace.workload.contents is not None:
        return trace
    workload = msgspec.structs.replace(trace.workload, contents=contents_of(name))
    return msgspec.structs.replace(trace, workload=workload)


def _read_by_plugin(cls: type[TraceFormat], name: str, path: Path, params: Any) -> Trace:
    """`cls.read` of a plug-in; errors of the reader itself are reported as the plug-in's."""
    try:
        trace = cls.read(path, params)
    except (UserError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise one(path, f"the plug-in that reads '{name}' ({cls.__module__}) failed: {cause(error)}") from error
    if not isinstance(trace, Trace):
        raise one(path, f"the plug-in that reads '{name}' ({cls.__module__}) gave {trace!r}, not a Trace")
    return trace


def guess(path: Path) -> str:
    """The format of a file or folder, by the first bytes. Raises TraceError where no format or several fit."""
    start = b"" if path.is_dir() else head(path)
    looks = [(entry.name, getattr(entry.cls, "recognises", None)) for entry in FORMATS]
    fitting = [name for name, recognises in looks if recognises is not None and recognises(path, start)]
    if len(fitting) != 1:
        which = f"it may be {' or '.join(fitting)}" if fitting else "it looks like none of the formats"
        raise one(path, f"{which} (name it with --format: {', '.join(fitting or names())})")
    return fitting[0]


def is_scenario(path: Path) -> bool:
    """Whether a file is YAML, or the name of an example, rather than a trace or a stored workload."""
    return not path.is_dir() and (path.suffix.lower() in (".yaml", ".yml") or not path.exists())


def opened(path: Path, name: str | None = None, texts: Iterable[str] = (), *, skip_bad_rows: bool = False) -> Trace:
    """A stored workload, or a trace of the named format (guessed when None) with a command line's settings.

    Raises TraceError for a path without a trace, and the errors of `settings`.
    """
    if name is None and storage.is_stored(path):
        return stored(path)
    name = name or guess(path)
    trace = read(name, path, settings(name, texts, skip_bad_rows=skip_bad_rows))
    return msgspec.structs.replace(trace, notes=(f"read as {name}", *trace.notes))


def tabulated(
    path: Path, name: str | None = None, texts: Iterable[str] = (), *, skip_bad_rows: bool = False
) -> TableTrace | None:
    """The tables of a trace, as `opened`; None for stored workloads, and formats and files without a way to them."""
    if name is None and storage.is_stored(path):
        return None
    name = name or guess(path)
    cls, params = FORMATS.parse({"kind": name, **settings(name, texts, skip_bad_rows=skip_bad_rows)})
    tables = getattr(cls, "table", None)
    found: TableTrace | None = tables(path, params) if tables is not None else None
    return found and msgspec.structs.replace(found, notes=(f"read as {name}", *found.notes))


def stored(path: Path | str) -> Trace:
    """The workload in a folder written by `convert`. Raises TraceError for other folders."""
    workload, profiles = storage.load(path), storage.load_profiles(path)
    if profiles is None and workload.uses_waves:
        profiles = builtin_profiles()
    return Trace(workload=workload, profiles=profiles, notes=storage.notes(path))


def convert(
    name: str,
    path: Path | str,
    output: Path | str,
    options: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
) -> Trace:
    """Read `path` in the named format and store the workload in the folder `output` (see `storage.save`).

    Raises the errors of `read` and `storage.save`; on any error nothing is left at `output`.
    """
    storage.check_target(output, overwrite=overwrite)
    trace = read(name, path, options)
    storage.save(trace.workload, output, profiles=trace.profiles, notes=trace.notes, overwrite=overwrite)
    return trace


__all__ = [
    "FORMATS",
    "Column",
    "Contents",
    "Issue",
    "Issues",
    "NoParams",
    "TableTrace",
    "Trace",
    "TraceError",
    "TraceFormat",
    "contents_of",
    "convert",
    "describe",
    "names",
    "options_from_text",
    "read",
    "register",
]
