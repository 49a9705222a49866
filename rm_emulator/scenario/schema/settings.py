"""Settings described by a struct of the code: of registered names, and of some workloads.

Names of policies, predictors, placers and trace formats are checked against their registries, so a plug-in's
parameters are checked as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec
from pydantic import ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, InitErrorDetails

from rm_emulator.issues import did_you_mean, show_value
from rm_emulator.scenario.schema.values import Block, has_text_keys, mistake, refuse
from schedulers.core.errors import InvalidParameters, UnknownName, nearest
from schedulers.core.registry import Registry


class Named(Block):
    """`{kind: NAME, settings}` of a registry, the settings inline."""

    model_config = ConfigDict(extra="allow")

    kind: str

    @property
    def settings(self) -> dict[str, Any]:
        """The settings with the kind, as the registry parses them."""
        return {"kind": self.kind, **(self.model_extra or {})}


class Settings(Block):
    """A block with keys of its own and the settings of a struct, declared in the code that uses the settings."""

    model_config = ConfigDict(extra="allow")

    of: ClassVar[type[msgspec.Struct]]

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the struct given in the file."""
        return dict(self.model_extra or {})

    @model_validator(mode="before")
    @classmethod
    def _checked(cls, data: Any) -> Any:
        if has_text_keys(data):
            own = {key: value for key, value in data.items() if key not in cls.model_fields}
            refuse(setting_errors(f"workload '{data.get('kind')}'", cls.of, own, tuple(cls.model_fields)))
        return data

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        block = super().__get_pydantic_json_schema__(schema, handler)
        block["properties"] = {**block.get("properties", {}), **struct_properties(cls.of)}
        block["additionalProperties"] = False
        return block


def registered_errors(
    registry: Registry[Any], settings: Mapping[str, Any], beside: Iterable[str] = ()
) -> list[InitErrorDetails]:
    """As `named_errors`, and the error of a class that cannot be made with its settings."""
    errors = named_errors(registry, settings, beside)
    if not errors:
        try:
            make, params = registry.parse(settings)
            make(params)
        except (InvalidParameters, UnknownName) as error:
            errors.append(error_at((), str(error), dict(settings)))
        except Exception as error:  # a plug-in's own
            text = f"{registry.kind} '{settings['kind']}' cannot be made: {type(error).__name__}: {error}"
            errors.append(error_at((), text, dict(settings)))
    return errors


def named_errors(
    registry: Registry[Any], settings: Mapping[str, Any], beside: Iterable[str] = ()
) -> list[InitErrorDetails]:
    """Every mistake in `{'kind': name, **settings}`, each at its own key; `beside`: other keys of the same block."""
    name = settings.get("kind")
    if name is None:
        accepted = ", ".join(entry.name for entry in registry)
        return [error_at((), f"kind is missing (accepted: {accepted})", settings)]
    try:
        entry = registry.entry(str(name))
    except UnknownName as error:
        text = f"unknown {registry.kind} '{name}' (accepted: {', '.join(error.known)})"
        return [error_at(("kind",), text, name, did_you_mean(error.nearest))]
    own = {key: value for key, value in settings.items() if key != "kind"}
    return list(setting_errors(f"'{entry.name}'", entry.params, own, ("kind", *beside)))


def setting_errors(
    what: str, params: type[msgspec.Struct], settings: Mapping[str, Any], beside: Iterable[str] = ()
) -> Iterable[InitErrorDetails]:
    """Every mistake in the settings of a struct, each at its own key; `beside`: other keys of the same block."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(params)}
    for key, value in settings.items():
        if key not in fields:
            accepted = list(dict.fromkeys((*beside, *fields)))
            text = f"{what} has no setting '{key}' (accepted: {', '.join(accepted)})"
            yield error_at((str(key),), text, value, did_you_mean(nearest(str(key), accepted)), key=True)
            continue
        try:
            if isinstance(value, float) and not math.isfinite(value):
                raise msgspec.ValidationError("Expected a finite number")
            msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError as error:
            text = f"{show_value(value)} is not accepted: {str(error)[:1].lower()}{str(error)[1:]}"
            choices = _choices(fields[key].type)
            if choices:
                text = f"{show_value(value)} is not accepted (expected {', '.join(choices)})"
            near = nearest(value, choices) if isinstance(value, str) else None
            yield error_at((str(key),), text, value, did_you_mean(near))


def _choices(type_: Any) -> list[str]:
    """The words accepted by a setting of the type, [] for a type without an enumeration."""
    return [str(word) for word in msgspec.json.schema(type_).get("enum", ())]


def error_at(
    loc: tuple[str | int, ...], text: str, value: Any, hint: str = "", *, key: bool = False
) -> InitErrorDetails:
    """A mistake at a place below the block."""
    return InitErrorDetails(type=mistake(text, hint, key=key), loc=loc, input=value)


def struct_properties(params: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of each field; nested structs are written out, as there is nowhere to refer to."""
    schema = msgspec.json.schema(params)
    definitions = schema.get("$defs", {})
    properties = _written_out(definitions[params.__name__]["properties"], definitions)
    assert isinstance(properties, dict)
    return properties


def _written_out(part: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(part, list):
        return [_written_out(item, definitions) for item in part]
    if isinstance(part, dict):
        if "$ref" in part:
            return _written_out(definitions[part["$ref"].rpartition("/")[2]], definitions)
        return {key: _written_out(value, definitions) for key, value in part.items()}
    return part


def registry_schema(registry: Registry[Any], shared: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An alternative of JSON Schema per registered name, with its settings."""
    options = [
        {
            "type": "object",
            "title": entry.name,
            "description": entry.summary,
            "properties": {"kind": {"const": entry.name}, **(shared or {}), **struct_properties(entry.params)},
            "required": ["kind"],
            "additionalProperties": False,
        }
        for entry in registry
    ]
    return {"oneOf": options, "discriminator": {"propertyName": "kind"}}
