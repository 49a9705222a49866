"""The reference of the scenario file, docs/scenario.md: every key with its type, default, meaning and an example.

The schema has the texts: below a key its meaning and, after `e.g.`, an example. The text about a registered name stands
in its class.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel

from rm_emulator.scenario.durations import show_duration
from rm_emulator.scenario.listing import written
from rm_emulator.scenario.schema import Scenario
from rm_emulator.scenario.schema.settings import Settings, struct_properties
from rm_emulator.scenario.schema.structs import meanings, of_annotation, whole
from rm_emulator.scenario.schema.workload import SyntheticWorkload, WorkloadBlock

_INTRODUCTION: Final = """\
# The scenario file

All keys of a scenario, made from the schema by `rm-emulator schema --markdown` (without the option: as JSON Schema, for
editors). `rm-emulator check FILE` names every mistake of a file with its line. Settings of a policy, predictor, placer
profile or chart stand beside its `kind`; `rm-emulator policies NAME`, `predictors NAME`, `placers NAME`,
`profiles NAME` and `charts NAME` tell them.

The smallest file:

```yaml
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: smallest}
spec:
  cluster: {nodes: [{count: 4, capacity: {cpu: 8, memory: 32Gi}}]}
  workload: {kind: synthetic, preset: 2sigma-like, jobs: 50}
  policies: [{kind: fifo}, {kind: gs, predictor: {kind: slearn}}]
```

- **duration**: `500ms`, `1.5s`, `2m`, `1h30m`, `1d`; a plain number is seconds. Times are kept in whole milliseconds.
- **quantity**: as Kubernetes writes them: `4`, `500m`, `1.5Gi`. `cpu` is in cores, `memory` in bytes, others in pieces.
- **limit**: a share of the cluster (`25%` or `0.25`), or quantities of resources (`{cpu: 4, memory: 8Gi}`).
- **seeds**: `[1, 2, 3]`, `4` or `1..5`.
- YAML is read by the rules of version 1.2: `1e3` is a number, `no` is text. A key given twice is a mistake.
- `--set spec.cluster.nodes[0].count=8` changes a key for one run; so is every example on this page tested.
"""


class Key(NamedTuple):
    """A key of the file."""

    path: str
    """Path such as `spec.cluster.nodes[].count`."""
    type: str
    default: str
    """Default as written in a file."""
    meaning: str
    example: str | None


class ReferenceSection(NamedTuple):
    """A mapping of the file."""

    path: str
    kind: str
    """Kind of the workload or architecture, for a mapping of a single kind only."""
    about: str
    keys: list[Key]

    @property
    def title(self) -> str:
        """Its heading."""
        return f"{self.path or 'The document'}{f', kind: {self.kind}' if self.kind else ''}"


_ANY_WORKLOAD: Final = tuple(WorkloadBlock.model_fields)
#: Keys that all kinds of workloads, or several of architectures, have.
_ANY: Final = (*_ANY_WORKLOAD, "schedulers", "give_up")


def sections() -> list[ReferenceSection]:
    """All sections, in the order of the schema; a block with several places is told at its first place."""
    return list(_sections("", Scenario, "", set()))


def _sections(path: str, model: type[BaseModel], kind: str, told: set[type]) -> Iterator[ReferenceSection]:
    told.add(model)
    schema = model.model_json_schema()
    properties, required = schema["properties"], schema.get("required", ())
    keys, texts = [], meanings(model)
    for name in sorted(model.model_fields, key=_ANY_WORKLOAD.__contains__):
        meaning, example = _parted(texts[name])
        default = "required" if name in required else _default(properties[name])
        keys.append(Key(_join(path, name), _type(properties[name]), default, meaning, example))
    if issubclass(model, Settings):
        keys += _settings(path, struct_properties(model.of), {}, model.model_fields)
    yield ReferenceSection(path, kind, inspect.getdoc(model) or "", keys)
    for name, field in model.model_fields.items():
        for below, part in _blocks(whole(field)):
            if part not in told:
                kinds = part.model_fields.get("kind") if name in ("workload", "architecture") else None
                of_one = get_args(kinds.annotation)[0] if kinds is not None else kind
                which = "any" if name in _ANY else of_one
                yield from _sections(_join(path, name) + below, part, which, told)
    if model is SyntheticWorkload:
        yield _knobs(_join(path, "knobs"))


def _knobs(path: str) -> ReferenceSection:
    from rm_emulator.workload.synthetic import PRESETS, Preset

    preset = msgspec.to_builtins(PRESETS["2sigma-like"])
    about = "Settings of a preset; the examples are those of 2sigma-like."
    return ReferenceSection(path, "synthetic", about, list(_settings(path, struct_properties(Preset), preset, ())))


def _settings(
    path: str, properties: Mapping[str, Any], examples: Mapping[str, Any], beside: Mapping[str, Any] | tuple[()]
) -> Iterator[Key]:
    """The settings of a struct; the default is an example where there is no other."""
    for name, field in properties.items():
        if name not in beside:
            example = examples.get(name, field.get("examples", [field.get("default")])[0])
            default = "the preset's" if examples else _default(field)
            yield Key(_join(path, name), _type(field), default, field.get("description", ""), written(example))


def _blocks(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    """The models inside an annotation, each with the `[]` of the enclosing lists."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "", annotation
        return
    origin, parts = get_origin(annotation), get_args(annotation)
    if (made := of_annotation(annotation)) is not None:
        yield from _blocks(made)
    elif origin is Annotated:
        yield from _blocks(parts[0])
    elif origin is list or origin in (Union, types.UnionType):
        for part in parts:
            for below, model in _blocks(part):
                yield ("[]" if origin is list else "") + below, model


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _parted(text: str) -> tuple[str, str | None]:
    """The text before `, e.g.`, and the example in backticks."""
    found = re.fullmatch(r"(.*), e\.g\. `(.*)`\.", " ".join(text.split()))
    return (found[1], found[2]) if found else (text.rstrip("."), None)


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    if default in (None, "", [], {}):
        return ""
    if "oneOf" in schema:
        return written({"kind": default["kind"]})
    if schema.get("$comment", "").startswith("duration") and isinstance(default, int):
        return show_duration(default)
    return "its defaults" if isinstance(default, dict) and "$ref" in schema else written(default)


_NAMES: Final = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}


def _type(schema: Mapping[str, Any]) -> str:
    """The accepted type in words."""
    if "$comment" in schema or "$ref" in schema or "oneOf" in schema:
        return str(schema.get("$comment", "mapping"))
    if "enum" in schema or "const" in schema:
        return ", ".join(str(word) for word in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema["anyOf"] if each.get("type") != "null"))
    if schema.get("type") == "array":
        items = schema.get("items")
        return f"list of {_type(items)}" if isinstance(items, dict) and items else "list"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), None)
        return f"mapping of names to {_type(values)}" if isinstance(values, dict) and values else "mapping"
    return _NAMES[schema["type"]] + _range(schema)


def _range(schema: Mapping[str, Any]) -> str:
    if "minimum" in schema and "maximum" in schema and schema["maximum"] <= 1:
        return f" from {schema['minimum']:g} to {schema['maximum']:g}"
    if "exclusiveMinimum" in schema:
        return f" above {schema['exclusiveMinimum']:g}"
    return f", at least {schema['minimum']:g}" if "minimum" in schema else ""


def markdown() -> str:
    """The page docs/scenario.md."""
    parts = [_INTRODUCTION]
    for section in sections():
        rows = "".join(
            f"| `{key.path.rpartition('.')[2]}` | {_cell(key.type)} | {_code(key.default)} | {_cell(key.meaning)} | "
            f"{_code(key.example or '')} |\n"
            for key in section.keys
        )
        head = "| key | type | default | meaning | example |\n| --- | --- | --- | --- | --- |\n"
        parts.append(f"## {section.title}\n\n{section.about}\n\n{head}{rows}")
    return "\n".join(parts)


def _code(text: str) -> str:
    plain = text in ("", "required", "its defaults", "the preset's")
    return text if plain else f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
