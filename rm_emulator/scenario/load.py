"""From a file to a checked `Scenario`: read, apply overrides, validate; every mistake at once, with its place."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from rm_emulator.issues import InvalidInput, Issue, did_you_mean, show_path, show_value
from rm_emulator.plugins import load_plugins
from rm_emulator.scenario import objects
from rm_emulator.scenario.document import Document, parse_documents, parse_value, read_documents
from rm_emulator.scenario.durations import parse_seeds
from rm_emulator.scenario.schema import API_VERSION, Scenario
from rm_emulator.scenario.schema.values import RESOURCE_NAMES
from schedulers.core.errors import nearest

EXAMPLES: Final = Path(__file__).parent / "examples"
_STEP = re.compile(r"""\.?([A-Za-z_][\w-]*)|\[(\d+)\]|\["([^"]*)"\]|\['([^']*)'\]""")


class Loaded:
    """A scenario with the text it came from, so that later checks can name places in it."""

    def __init__(self, scenario: Scenario, document: Document, set_paths: Mapping[tuple[str | int, ...], str]) -> None:
        self.scenario, self.document, self._set_paths = scenario, document, dict(set_paths)
        self.notes: tuple[str, ...] = ()  # what was left out of the file
        self.plugins: tuple[str, ...] = ()  # absolute paths

    @property
    def file(self) -> str:
        """The file as the user named it."""
        return self.document.file

    @property
    def folder(self) -> Path:
        """What relative paths inside the scenario are relative to."""
        return Path(self.document.file).resolve().parent

    def issue(self, path: Sequence[str | int], message: str, hint: str = "", *, key: bool = False) -> Issue:
        """A mistake at `path`, placed in the file, or at the option that set the value."""
        return _place(self.document, self._set_paths, path, message, hint, key=key)


def load(
    source: str | Path, *, overrides: Iterable[str] = (), seeds: str | None = None, name: str | None = None
) -> Loaded:
    """Read and validate one scenario file, a packaged example by its name, or standard input by the name `-`.

    overrides: `spec.path=value` each, as in `--set`; seeds: as in `--seeds`. Imports the scenario's plug-ins.
    Raises InvalidInput.
    """
    if str(source) == "-":
        path = Path("standard input")
        documents = parse_documents(sys.stdin.buffer.read(), str(path))
    else:
        path = find(source)
        documents = read_documents(path)
    notes: list[str] = []
    if objects.is_objects(documents):
        document, notes = objects.as_scenario(documents, path)
    else:
        document = _scenario_document(documents)
    set_paths: dict[tuple[str | int, ...], str] = {}
    issues = []
    for text in overrides:
        try:
            set_paths[_override(document.data, text)] = f"--set {text}"
        except ValueError as error:
            issues.append(Issue(f"--set {text}", str(error)))
    if seeds is not None:
        try:
            document.data["spec"]["seeds"] = parse_seeds(seeds)
        except (TypeError, KeyError):
            pass  # there is no `spec` to put them in, which validation says better
        except ValueError as error:
            issues.append(Issue(f"--seeds {seeds}", str(error)))
    if issues:
        raise InvalidInput(issues)
    plugins = _load_plugins(document, set_paths)
    loaded = validate(document, set_paths)
    loaded.notes, loaded.plugins = tuple(notes), tuple(plugins)
    return loaded


def _load_plugins(document: Document, set_paths: Mapping[tuple[str | int, ...], str]) -> list[str]:
    """Import the plug-ins that the scenario names, which its policies may need; what is no list of names is left."""
    spec = document.data.get("spec")
    named = spec.get("plugins") if isinstance(spec, dict) else None
    if not isinstance(named, list) or not all(isinstance(name, str) and name for name in named):
        return []
    files = [Path(document.file).resolve().parent / name for name in named]
    missing = [
        _place(document, set_paths, ("spec", "plugins", index), f"no such plug-in file: {file}", "", key=False)
        for index, file in enumerate(files)
        if not file.is_file()
    ]
    if missing:
        raise InvalidInput(missing)
    return load_plugins(files) if files else []


def find(source: str | Path) -> Path:
    """The file, or the packaged example of that name. Raises InvalidInput that names what is near."""
    path = Path(source)
    if path.is_dir():
        raise InvalidInput([Issue(str(source), "is a folder: expected a scenario file (YAML)")])
    if path.exists():
        return path
    packaged = EXAMPLES / f"{source}.yaml"
    if path.name == str(source) and packaged.exists():
        return packaged
    beside = path.parent if path.parent.is_dir() else None
    files = [str(p) for p in beside.glob("*.y*ml")] if beside else []
    names = [p.stem for p in sorted(EXAMPLES.glob("*.yaml"))]
    near = nearest(str(source), [*files, *(str(Path(f).relative_to(".")) for f in files if beside == Path()), *names])
    message = f"no such file, nor a packaged example (examples: {', '.join(names)})"
    raise InvalidInput([Issue(str(source), message, hint=did_you_mean(near))])


def _scenario_document(documents: list[Document]) -> Document:
    first = documents[0]
    issues = []
    for document in documents[1:]:
        kind = document.data.get("kind") if isinstance(document.data, dict) else None
        message = f"a second document, of kind {show_value(kind)}: one Scenario a file is accepted"
        issues.append(document.issue(("kind",) if kind else (), message))
    data = first.data
    if not isinstance(data, dict):
        issues.append(
            first.issue((), f"expected a mapping with apiVersion, kind, metadata, spec; got {_kind_of(data)}")
        )
    elif isinstance(data.get("kind"), str) and data["kind"] != "Scenario":
        near = did_you_mean(nearest(data["kind"], ["Scenario"]))
        issues.append(first.issue(("kind",), f"a document of kind '{data['kind']}': expected 'Scenario'", near))
    if issues:
        raise InvalidInput(issues)
    return first


def _override(data: Any, text: str) -> tuple[str | int, ...]:
    """Set one value in place, making missing mappings on the way. Raises ValueError that says which part is bad."""
    where, equals, value = text.partition("=")
    if not equals or not where.strip():
        raise ValueError("expected PATH=VALUE, such as spec.workload.load=0.8")
    path = _parse_path(where.strip())
    if path[0] != "spec" and path[0] != "metadata":
        raise ValueError("a path begins with 'spec' or 'metadata', such as spec.workload.load")
    parsed = parse_value(value)
    at = data
    for depth, part in enumerate(path):
        so_far, last = show_path(path[:depth]) or "the document", depth == len(path) - 1
        if isinstance(part, int):
            if not isinstance(at, list):
                raise ValueError(f"{so_far} is {_kind_of(at)}, it has no [{part}]")
            if part >= len(at):
                raise ValueError(f"{so_far} has {len(at)} entries: expected [0] to [{len(at) - 1}]")
        elif not isinstance(at, dict):
            raise ValueError(f"{so_far} is {_kind_of(at)}, it has no '{part}'")
        if last:
            at[part] = parsed
        elif isinstance(part, int):
            at = at[part]
        else:
            if at.get(part) is None:
                at[part] = {}
            at = at[part]
    return path


def _parse_path(text: str) -> tuple[str | int, ...]:
    path: list[str | int] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or (at > 0 and match[1] is not None and text[at] != "."):
            raise ValueError(f"the path cannot be read at '{text[at:]}' (write spec.policies[0].tie)")
        name, index, *quoted = match.groups()
        path.append(int(index) if index is not None else name or quoted[0] or quoted[1] or "")
        at = match.end()
    return tuple(path)


def validate(document: Document, set_paths: Mapping[tuple[str | int, ...], str] | None = None) -> Loaded:
    """The checked scenario of a document. Raises InvalidInput with every mistake of form."""
    set_paths = set_paths or {}
    try:
        scenario = Scenario.model_validate(document.data)
    except ValidationError as error:
        raise InvalidInput(_translate(document, set_paths, e) for e in error.errors(include_url=False)) from None
    return Loaded(scenario, document, set_paths)


def _place(
    document: Document,
    set_paths: Mapping[tuple[str | int, ...], str],
    path: Sequence[str | int],
    message: str,
    hint: str,
    *,
    key: bool,
) -> Issue:
    for changed, option in set_paths.items():
        if tuple(path[: len(changed)]) == changed:
            return Issue(option, message, None, None, show_path(path) if len(path) > len(changed) else "", hint)
    return document.issue(path, message, hint, key=key)


def _translate(document: Document, set_paths: Mapping[tuple[str | int, ...], str], error: Mapping[str, Any]) -> Issue:
    """One of pydantic's errors in the words of this project."""
    path, kind, value, context = _untagged(error["loc"]), error["type"], error["input"], error.get("ctx", {})
    hint, key = "", False
    if path and path[-1] == "[key]":  # pydantic's word for the key itself
        path, key = path[:-1], True
        wanted = "text (put it in quotes)" if kind == "string_type" else RESOURCE_NAMES
        message = f"key {show_value(value)} is not accepted (expected {wanted})"
    elif kind == "value":
        message, hint, key = context["text"], context.get("hint", ""), context.get("key", False)
    elif kind == "extra_forbidden":
        accepted = _accepted_keys(error["loc"][:-1])
        message = f"unknown key '{path[-1]}' (accepted: {', '.join(accepted)})"
        hint, key = did_you_mean(nearest(str(path[-1]), accepted)), True
    elif kind == "invalid_key":
        message, key = f"key {show_value(path[-1])} is not text", True
    elif kind == "missing":
        message = f"'{path[-1]}' is missing"
        if path == ("apiVersion",):
            message += f" (expected {API_VERSION})"
    elif kind == "union_tag_invalid":
        choices = [c.strip().strip("'") for c in context["expected_tags"].split(",")]
        path = (*path, "kind")
        message = f"unknown kind {show_value(context['tag'])} (accepted: {', '.join(choices)})"
        hint = did_you_mean(nearest(context["tag"], choices))
    elif kind == "union_tag_not_found":
        message = f"kind is missing (accepted: {', '.join(_accepted_kinds(error['loc']))})"
    elif kind == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        message = f"{show_value(value)} is not accepted (expected {context['expected']})"
        hint = did_you_mean(nearest(value, choices)) if isinstance(value, str) else ""
    else:
        message = _plain(kind, value, context, error["msg"])
    return _place(document, set_paths, path, message, hint, key=key)


_EXPECTED: Final[dict[str, str]] = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text (put it in quotes)",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "at most {le}",
    "string_pattern_mismatch": "letters, digits, '-' and '_', beginning with a letter or digit",
    "string_too_short": "some text",
    "string_too_long": "at most {max_length} characters",
    "recursion_loop": "something that does not contain itself",
}


def _plain(kind: str, value: Any, context: Mapping[str, Any], fallback: str) -> str:
    if kind == "value_error":
        return fallback.removeprefix("Value error, ")
    if kind == "too_short":
        return "is empty: expected at least one entry"
    expected = _EXPECTED.get(kind)
    if expected is None:
        return f"{show_value(value)} is not accepted: {fallback[:1].lower()}{fallback[1:]}"
    seen = _kind_of(value) if isinstance(value, dict | list) else show_value(value)
    return f"{seen} is not accepted (expected {expected.format(**context)})"


def _kind_of(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else show_value(value)


def _accepted_keys(path: Sequence[str | int]) -> list[str]:
    """Keys that the block at `path` of pydantic's error knows."""
    return [str(name) for name in _walk(path)[0].get("properties", {})]


def _accepted_kinds(path: Sequence[str | int]) -> list[str]:
    return list(_walk(path)[0].get("discriminator", {}).get("mapping", {}))


def _untagged(path: Sequence[str | int]) -> tuple[str | int, ...]:
    """The path as it is in the file: without the `kind` that pydantic puts in where it chose among models."""
    return _walk(path)[1]


def _walk(path: Sequence[str | int]) -> tuple[Mapping[str, Any], tuple[str | int, ...]]:
    """The JSON Schema of the block at the path of an error, and the path without the tags of unions."""
    schema = _schema()
    node, clean = _resolved(schema, schema), []
    for part in path:
        tag = node.get("discriminator", {}).get("mapping", {}).get(part)
        if tag is not None:
            node = _resolved(schema, {"$ref": tag})
            continue
        clean.append(part)
        child = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
        node = _resolved(schema, child) if isinstance(child, dict) else {}
    return node, tuple(clean)


@cache
def _schema() -> Mapping[str, Any]:
    return Scenario.model_json_schema()


def _resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in node:
        return _resolved(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) == 1:
        return _resolved(schema, options[0])
    return next((each for option in options if "properties" in (each := _resolved(schema, option))), node)
