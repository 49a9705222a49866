"""Configuration files of all processes: strict YAML, every mistake at once, with file, line, path and remedy.

The file's shape is a tree of frozen `msgspec` structs. A mistake is a message; all of them make one `InvalidConfig`.
"""

from __future__ import annotations

import os
import re
import types
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

import msgspec
import yaml

from schedulers.core.errors import nearest
from schedulers.objects.names import NAMESPACE

T = TypeVar("T", bound=msgspec.Struct)
Where = tuple[str | int, ...]
_MAX_NODES: Final = 100_000
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")


class InvalidConfig(Exception):
    """A configuration with mistakes; `messages` has a line for each mistake."""

    def __init__(self, messages: Iterable[str]) -> None:
        self.messages = list(messages)
        super().__init__("\n".join(self.messages))


Count = Annotated[int, msgspec.Meta(ge=1)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
#: Which nodes are ours to place on: all of them, or those with our taint.
Nodes = Literal["reserved", "all"]


def own_namespace() -> str:
    """The namespace of our own pod, which its manifest puts into the environment; NAMESPACE outside a cluster."""
    return os.environ.get("POD_NAMESPACE") or NAMESPACE


class Millis(int):
    """A duration of the file (`50ms`, `1.5s`, `2m`), in whole milliseconds."""


class Document:
    """A YAML mapping with the line of every key and item.

    `config_map` names the ConfigMap whose `config.yaml` is meant, in a manifest; lines are the manifest's. Raises
    InvalidConfig for a file that cannot be read or is not one YAML mapping.
    """

    def __init__(self, path: Path | str, config_map: str = "") -> None:
        self.file = str(path)
        self._lines: dict[Where, int] = {}
        self._mistakes: list[str] = []
        self._above = 0
        self._nodes = 0
        try:
            node = self._compose(Path(path), config_map)
            self.data: Any = None if node is None else self._read(node, ())
        except OSError as error:
            raise InvalidConfig([f"{self.file}: cannot be read: {error.strerror}"]) from None
        except UnicodeDecodeError as error:
            raise InvalidConfig([f"{self.file}: is not UTF-8 text: {error.reason} at byte {error.start}"]) from None
        except RecursionError:
            raise InvalidConfig([f"{self.file}: is nested too deeply"]) from None
        except yaml.YAMLError as error:
            raise InvalidConfig([_not_yaml(self.file, error, self._above)]) from None
        if self.data is None:
            self.data = {}
        if not isinstance(self.data, dict):
            raise InvalidConfig([f"{self.file}: expected a mapping, got {_kind(self.data)}"])
        if self._mistakes:
            raise InvalidConfig(self._mistakes)

    def located(self, where: Where, message: str) -> str:
        """A message with the place of `where`, or of the nearest key around `where` that stands in the file."""
        at = where
        while at and at not in self._lines:
            at = at[:-1]
        line = f":{self._lines[at]}" if at else ""
        path = f" {_show(where)}:" if where else ""
        return f"{self.file}{line}:{path} {message}"

    def _compose(self, path: Path, config_map: str) -> yaml.Node | None:
        text = path.read_text("utf-8-sig")
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        maps = {str(_at(d, "metadata", "name")): d for d in documents if _at(d, "kind") == "ConfigMap"}
        if not maps:
            if len(documents) > 1:
                raise InvalidConfig([f"{self.file}: has {len(documents)} YAML documents: expected one"])
            return documents[0] if documents else None
        inner = _find(maps.get(config_map), "data", "config.yaml")
        if not isinstance(inner, yaml.ScalarNode):
            there = ", ".join(maps)
            raise InvalidConfig([f"{self.file}: there is no ConfigMap '{config_map}' with config.yaml in it ({there})"])
        self._above = inner.start_mark.line + 1
        return yaml.compose(inner.value, Loader=yaml.SafeLoader)

    def _read(self, node: yaml.Node, where: Where) -> Any:
        self._nodes += 1  # aliases repeat their content
        if self._nodes > _MAX_NODES:
            raise InvalidConfig([f"{self.file}: has more than {_MAX_NODES:,} values, aliases followed"])
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, where)
        if isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                self._lines[*where, i] = self._line(item)
            return [self._read(item, (*where, i)) for i, item in enumerate(node.value)]
        try:
            return yaml.constructor.SafeConstructor().construct_object(node)
        except ValueError as error:  # such as the 99th of a month
            self._mistakes.append(f"{self.file}:{self._line(node)}: {_show(where)}: {node.value!r}: {error}")
            return None

    def _line(self, node: yaml.Node) -> int:
        return int(node.start_mark.line) + 1 + self._above

    def _read_mapping(self, node: yaml.MappingNode, where: Where) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value in node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            line = self._line(key_node)
            if key in mapping:
                text = f"is given twice, first in line {self._lines[*where, key]}"
                self._mistakes.append(f"{self.file}:{line}: {_show((*where, key))}: {text}")
            self._lines[*where, key] = line
            mapping[key] = self._read(value, (*where, key))
        return mapping


def load(path: Path | str, kind: type[T], config_map: str = "") -> T:
    """Read a configuration file, or its ConfigMap, as `kind`. Raises InvalidConfig with every mistake."""
    return parse(Document(path, config_map), kind)


def parse(document: Document, kind: type[T]) -> T:
    """A document as `kind`, a struct of structs. Raises InvalidConfig with every mistake."""
    mistakes: list[tuple[Where, str]] = []
    config = _struct(document.data, kind, (), mistakes)
    if mistakes or config is None:
        raise InvalidConfig([document.located(where, message) for where, message in mistakes])
    return config


def parse_millis(value: object) -> Millis:
    """`50ms`, `1.5s`, `2m`, `1h` in whole milliseconds. Raises ValueError."""
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not a duration (write a number with a unit, such as 50ms, 2s, 1.5m, 1h)")
    ms = Fraction(match[1]) * _UNITS_MS[match[2]]
    if ms and ms < 1:
        raise ValueError(f"{value!r} is too short (at least 1ms)")
    return Millis(ms)


def _struct(data: Any, kind: type[T], where: Where, mistakes: list[tuple[Where, str]]) -> T | None:
    """Read a mapping field by field, so that the first mistake does not hide further mistakes."""
    if not isinstance(data, Mapping):
        mistakes.append((where, f"expected a mapping, got {_kind(data)}"))
        return None
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    before = len(mistakes)
    for key in data:
        if key not in fields:
            near = nearest(str(key), fields)
            hint = f", did you mean '{near}'?" if near else ""
            mistakes.append(((*where, key), f"there is no such field{hint} (accepted: {', '.join(fields)})"))
    values = {}
    for key, field in fields.items():
        if key in data:
            values[field.name] = _value(data[key], field.type, (*where, key), mistakes)
        elif field.required:
            mistakes.append((where, f"'{key}' is missing"))
    if len(mistakes) > before:
        return None
    try:
        return kind(**values)
    except ValueError as error:  # a struct may check what its types do not say
        mistakes.append((where, str(error)))
        return None


def _value(data: Any, type_: Any, where: Where, mistakes: list[tuple[Where, str]]) -> Any:
    nested = _struct_in(type_)
    if nested is not None and data is not None:
        return _struct(data, nested, where, mistakes)
    try:
        return msgspec.convert(data, type_, dec_hook=_decode)
    except (msgspec.ValidationError, ValueError) as error:
        mistakes.append((where, _why(str(error), data)))
        return None


def _why(text: str, data: Any) -> str:
    """The message of msgspec in the words of a configuration file, with the value seen."""
    text, _, deeper = text.partition(" - at `$")
    if deeper:
        return f"{text[:1].lower()}{text[1:]} (at {deeper.rstrip('`').lstrip('.')})"
    text = text.replace("`object | null`", "a mapping or null").replace("`object`", "a mapping")
    text = re.sub(r", got `\w+`$", "", text)
    shown = "" if repr(data) in text else f", got {_kind(data)}"
    return f"{text[:1].lower()}{text[1:]}{shown}"


def _struct_in(type_: Any) -> type[msgspec.Struct] | None:
    """The struct in a field's type, alone or as an alternative to None."""
    options = get_args(type_) if isinstance(type_, types.UnionType) else (type_,)
    return next((o for o in options if isinstance(o, type) and issubclass(o, msgspec.Struct)), None)


def _decode(type_: type, data: Any) -> Any:
    if type_ is Millis:
        return parse_millis(data)
    raise NotImplementedError(type_)  # msgspec's convention for a hook's unknown type


def _find(node: yaml.Node | None, *keys: str) -> yaml.Node | None:
    for key in keys:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        node = next((value for name, value in pairs if name.value == key), None)
    return node


def _at(node: yaml.Node, *keys: str) -> Any:
    found = _find(node, *keys)
    return None if found is None else found.value


def _not_yaml(file: str, error: Exception, above: int) -> str:
    mark = getattr(error, "problem_mark", None)
    line = f":{mark.line + 1 + above}" if mark is not None else ""
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0] or type(error).__name__
    return f"{file}{line}: is not YAML: {problem}"


def _show(where: Where) -> str:
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _kind(data: object) -> str:
    if data is None:
        return "nothing"
    return "a list" if isinstance(data, list) else "a mapping" if isinstance(data, Mapping) else repr(data)
