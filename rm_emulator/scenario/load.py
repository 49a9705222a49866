"""From a file to a checked `Scenario`: read, apply overrides, validate; every mistake at once, with its place."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
from pydantic import ValidationError

from rm_emulator.issues import InvalidInput, Issue, did_you_mean, show_path, show_point, show_value
from rm_emulator.plugins import load_plugins
from rm_emulator.scenario import objects, sweep
from rm_emulator.scenario.document import Document, parse_documents, parse_value, read_documents
from rm_emulator.scenario.durations import parse_seeds
from rm_emulator.scenario.faults import located
from rm_emulator.scenario.paths import Keys, kind_of, parse_path, put
from rm_emulator.scenario.schema import API_VERSION, Scenario
from rm_emulator.scenario.schema.values import RESOURCE_NAMES
from rm_emulator.scenario.sweep import Point
from schedulers.core.errors import nearest

EXAMPLES: Final = Path(__file__).parent / "examples"


class _Text(NamedTuple):
    """Places of a scenario's values: in the file, in an option given for a value, in the list of a sweep."""

    document: Document
    set_paths: Mapping[Keys, str]
    moved: Mapping[Keys, Keys]

    @property
    def folder(self) -> Path:
        """Folder of the file; of a dict, the working directory."""
        return Path(self.document.file).resolve().parent if self.document.file else Path.cwd()

    def issue(self, path: Sequence[str | int], message: str, hint: str = "", *, key: bool = False) -> Issue:
        """A mistake at `path`. key: its last key is meant."""
        path = tuple(path)
        for swept, value in self.moved.items():
            if path[: len(swept)] == swept or (key and swept[: len(path)] == path):
                below = path[len(swept) :]
                path, key = (value[:-1], True) if key and not below else ((*value, *below), key)
                break
        for changed, option in self.set_paths.items():
            if path[: len(changed)] == changed:
                return Issue(option, message, None, None, show_path(path) if len(path) > len(changed) else "", hint)
        return self.document.issue(path, message, hint, key=key)


class Loaded:
    """A scenario with its text, so that later checks can name places.

    With a sweep: the scenario at a point, the first point unless taken from `points`, the list of all points.
    """

    def __init__(self, scenario: Scenario, text: _Text, point: Point) -> None:
        self.scenario, self.point = scenario, point
        self.file = text.document.file
        """The file as the user named it, '' for plain data."""
        self.folder = text.folder
        """Where relative paths inside the scenario begin."""
        self.issue = text.issue
        """Makes a mistake at a path, placed in the file, or at the option with the value."""
        self.points: tuple[Loaded, ...] = (self,)
        self.notes: tuple[str, ...] = ()  # what was left out of the file
        self.plugins: tuple[str, ...] = ()  # absolute paths
        self.of_objects = False  # its jobs are Kubernetes objects


def gathered(found: Sequence[tuple[Point, Iterable[Issue]]]) -> list[Issue]:
    """The mistakes of all points, each once; a mistake of some points only names the first of these points."""
    where: dict[Issue, list[Point]] = {}
    for point, issues in found:
        for issue in dict.fromkeys(issues):
            where.setdefault(issue, []).append(point)
    return [
        issue if len(points) == len(found) or issue.path.startswith("spec.sweep") else _said_of(issue, points)
        for issue, points in where.items()
    ]


def _said_of(issue: Issue, points: Sequence[Point]) -> Issue:
    others = f", and at {len(points) - 1} more" if len(points) > 1 else ""
    return msgspec.structs.replace(issue, message=f"{issue.message} (at {show_point(points[0].values)}{others})")


def load(
    source: str | Path | Mapping[str, Any],
    *,
    overrides: Iterable[str] = (),
    changes: Mapping[str, Any] = MappingProxyType({}),
    seeds: str | Sequence[int] | None = None,
    policies: Sequence[Any] = (),
) -> Loaded:
    """Read and validate one scenario file, a packaged example by its name, standard input by `-`, or plain data.

    policies: more of them, after the scenario's own.
    overrides: `spec.path=value` each, as in `--set`; changes: the same in Python; seeds: as in `--seeds`, or numbers.
    Imports the scenario's plug-ins. Raises InvalidInput.
    """
    document, notes, of_objects = _read(source)
    set_paths: dict[Keys, str] = {}
    issues = []
    for index, policy in enumerate(policies):
        try:
            own = document.data["spec"]["policies"]
            own.append(policy)
        except (TypeError, KeyError, AttributeError):
            break  # validation says what is wrong with the scenario's own
        set_paths["spec", "policies", len(own) - 1] = f"policies[{index}]"
    given: list[tuple[str, str | tuple[str, Any]]] = [(f"--set {text}", text) for text in overrides]
    given += [(f"set={{{path!r}: {show_value(value)}}}", (path, value)) for path, value in changes.items()]
    for option, change in given:
        try:
            where, value = _split(change) if isinstance(change, str) else change
            set_paths[_override(document.data, where, value)] = option
        except ValueError as error:
            issues.append(Issue(option, str(error)))
    if seeds is not None:
        try:
            document.data["spec"]["seeds"] = parse_seeds(seeds)
        except (TypeError, KeyError):
            pass  # there is no `spec` to put them in, which validation says better
        except ValueError as error:
            issues.append(Issue(f"--seeds {seeds}", str(error)))
    if issues:
        raise InvalidInput(issues)
    # Before validation, which asks the registries for every name.
    plugins = _load_plugins(_Text(document, set_paths, {}))
    loaded = validate(document, set_paths)
    loaded.notes, loaded.plugins = tuple(notes), tuple(plugins)
    for point in loaded.points:
        point.of_objects = of_objects
    return loaded


def _read(source: str | Path | Mapping[str, Any]) -> tuple[Document, list[str], bool]:
    """The document of a scenario, notes on omitted parts of its file, and whether the file holds Kubernetes objects."""
    if isinstance(source, Mapping):
        return _scenario_document([Document("", copy.deepcopy(dict(source)), None)]), [], False
    if str(source) == "-":
        path = Path("standard input")
        documents = parse_documents(sys.stdin.buffer.read(), str(path))
    else:
        path = find(source)
        documents = read_documents(path)
    if objects.is_objects(documents):
        return *objects.as_scenario(documents, path), True
    return _scenario_document(documents), [], False


def _load_plugins(text: _Text) -> list[str]:
    """Import the scenario's plug-ins before its policies are checked; anything but a list of names is left to check."""
    spec = text.document.data.get("spec")
    named = spec.get("plugins") if isinstance(spec, dict) else None
    if not isinstance(named, list) or not all(isinstance(name, str) and name for name in named):
        return []
    files = [text.folder / name for name in named]
    missing = [
        text.issue(("spec", "plugins", index), f"no such plug-in file: {file}")
        for index, file in enumerate(files)
        if not file.is_file()
    ]
    if missing:
        raise InvalidInput(missing)
    return load_plugins(files) if files else []


def find(source: str | Path) -> Path:
    """The file, or the packaged example of the given name. Raises InvalidInput with the nearest name."""
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
        issues.append(first.issue((), f"expected a mapping with apiVersion, kind, metadata, spec; got {kind_of(data)}"))
    elif isinstance(data.get("kind"), str) and data["kind"] != "Scenario":
        near = did_you_mean(nearest(data["kind"], ["Scenario"]))
        issues.append(first.issue(("kind",), f"a document of kind '{data['kind']}': expected 'Scenario'", near))
    if issues:
        raise InvalidInput(issues)
    return first


def _split(text: str) -> tuple[str, Any]:
    """`PATH=VALUE` in two. Raises ValueError."""
    where, equals, value = text.partition("=")
    if not equals or not where.strip():
        raise ValueError("expected PATH=VALUE, such as spec.workload.load=0.8")
    return where.strip(), parse_value(value)


def _override(data: Any, where: str, value: Any) -> Keys:
    """Set a value in place. Raises ValueError with the bad part of the path."""
    path = parse_path(where)
    if not path or path[0] not in ("spec", "metadata"):
        raise ValueError("a path begins with 'spec' or 'metadata', such as spec.workload.load")
    put(data, path, value)
    return path


def validate(document: Document, set_paths: Mapping[Keys, str]) -> Loaded:
    """The checked scenario of a document. Raises InvalidInput with every mistake of form."""
    # Mistakes of the axes first: each would come back at every point of the sweep.
    swept, text = sweep.written(document.data), _Text(document, set_paths, {})
    if wrong := [text.issue(*mistake[:3], key=mistake.key) for mistake in sweep.mistakes(swept, set_paths)]:
        raise InvalidInput(wrong)
    loaded: list[Loaded] = []
    found: list[tuple[Point, list[Issue]]] = []
    points = sweep.points(swept)
    for point in points:
        text = _Text(document, set_paths, point.moved)
        found.append((point, []))
        try:
            scenario = Scenario.model_validate(point.applied(document.data) if swept else document.data)
            scenario = located(scenario, text.folder)
        except ValidationError as error:
            found[-1][1].extend(_translate(text, each) for each in error.errors(include_url=False))
        except sweep.Nowhere as error:
            found[-1][1].append(text.issue(sweep.of_spec(error.axis), str(error), key=True))
        else:
            loaded.append(Loaded(scenario, text, point))
            # At the first valid point, before thousands of further points are validated.
            if swept and len(loaded) == 1:
                _count(loaded[0], len(points))
    if issues := gathered(found):
        raise InvalidInput(issues)
    if issues := gathered([(each.point, _other_labels(each, loaded[0])) for each in loaded]):
        raise InvalidInput(issues)
    loaded[0].points = tuple(loaded)
    return loaded[0]


def _count(loaded: Loaded, points: int) -> None:
    """Raise InvalidInput for a sweep of more cells than are accepted."""
    spec = loaded.scenario.spec
    labels, seeds = len(spec.policies), len(spec.seeds)
    if points * labels * seeds > sweep.CELLS:
        what = f"{points:,} points x {labels} policies x {seeds} seeds"
        raise InvalidInput([loaded.issue(*sweep.too_many(what)[:3], key=True)])


def _other_labels(loaded: Loaded, first: Loaded) -> Iterator[Issue]:
    """Policies with different labels at different points."""
    for index, (policy, there) in enumerate(
        zip(*(each.scenario.spec.policies for each in (loaded, first)), strict=True)
    ):
        if policy.label != there.label:
            message = f"is called '{there.label}' at one point and '{policy.label}' at another: give it a `label`"
            yield first.issue(("spec", "policies", index), message)


def _translate(text: _Text, error: Mapping[str, Any]) -> Issue:
    """An error of pydantic in the project's own words."""
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
    return text.issue(path, message, hint, key=key)


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
    seen = kind_of(value) if isinstance(value, dict | list) else show_value(value)
    return f"{seen} is not accepted (expected {expected.format(**context)})"


def _accepted_keys(path: Sequence[str | int]) -> list[str]:
    """Keys accepted by the block at `path` of pydantic's error."""
    return [str(name) for name in _walk(path)[0].get("properties", {})]


def _accepted_kinds(path: Sequence[str | int]) -> list[str]:
    return list(_walk(path)[0].get("discriminator", {}).get("mapping", {}))


def _untagged(path: Sequence[str | int]) -> Keys:
    """The path as in the file: without the `kind` put in by pydantic for a choice among models."""
    return _walk(path)[1]


def _walk(path: Sequence[str | int]) -> tuple[Mapping[str, Any], Keys]:
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
