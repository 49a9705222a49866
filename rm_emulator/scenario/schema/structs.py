"""Blocks of a scenario file made from structs: a concept with a struct in core or engine is declared there alone.

A field's annotation has key, unit and bounds (`schedulers.core.fields`, `msgspec.Meta`), the string below the field
its meaning. `OF` reads such a block into its struct; `block` is for blocks with some keys of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializationInfo,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from rm_emulator.scenario.durations import show_duration
from rm_emulator.scenario.schema import values
from rm_emulator.scenario.schema.policy import PolicyEntry
from rm_emulator.scenario.schema.texts import said
from rm_emulator.scenario.schema.values import Block
from schedulers.core.fields import WRITTEN


def _range(lowest: float, highest: float, words: str) -> AfterValidator:
    """Validator of two ascending numbers above the lowest and up to the highest."""

    def check(value: list[float]) -> list[float]:
        if len(value) != 2 or not lowest < value[0] <= value[1] <= highest:
            raise values.mistake(f"{value} is not accepted (expected two numbers, ascending, {words})")
        return value

    return AfterValidator(check)


S = TypeVar("S", bound=msgspec.Struct)

#: What stands in a file where a field names a form.
_FORMS: Final[dict[str, Any]] = {
    "duration": values.Duration,
    "interval": values.Interval,
    "bytes": values.Bytes,
    "rate": values.Rate,
    "errors": Annotated[list[float], _range(-1, math.inf, "above -1")],
    "factors": Annotated[list[float], _range(0, 1e6, "above 0 and up to 1e+06")],
    "decider": Annotated[
        PolicyEntry, AfterValidator(lambda read: read.model_dump(mode="json")), PlainSerializer(lambda told: told)
    ],
}
#: Forms with a unit, which the code has at the end of a field's name, and a file next to the number.
_TIMES: Final = ("duration", "interval")
_BOUNDS: Final = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")


class StructBlock(Block):
    """A block with keys from the fields of a struct."""

    of: ClassVar[type[msgspec.Struct]]

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = super().__get_pydantic_json_schema__(schema, handler)
        for key, text in meanings(cls).items():
            found["properties"][key].setdefault("description", text)
        return found


class _Struct:
    """Reads a block into the annotated struct, and writes the struct as the block again."""

    def __get_pydantic_core_schema__(self, struct: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(_dumped, info_arg=True)
        if not isinstance(struct, type):  # one of several
            return {**handler.generate_schema(_written(struct)), "serialization": written}
        inner = handler.generate_schema(block(struct))
        return core_schema.no_info_after_validator_function(partial(into, struct), inner, serialization=written)


#: `Annotated[Links, OF]`: a key at which the block of this struct stands, or of one of these.
OF: Final = _Struct()


@cache
def block(struct: type[msgspec.Struct], *without: str) -> type[StructBlock]:
    """The block of a struct's fields, all but some. A subclass may declare a key anew with a different type."""
    keys: dict[str, Any] = {}
    if (tag := struct.__struct_config__.tag) is not None:
        keys["kind"] = (Literal[tag], Field())
    for field in msgspec.structs.fields(struct):
        if field.name in without:
            continue
        given: Any = ... if field.default is msgspec.NODEFAULT else _thawed(field.default)
        if isinstance(given, msgspec.Struct):  # written, so that the JSON Schema shows it
            given = Field(default=as_written(given).model_dump(mode="json"), validate_default=True)
        if field.default_factory is not msgspec.NODEFAULT:
            given = Field(default_factory=field.default_factory)
        keys[_key(field)] = (_written(field.type), given)
    name = struct.__qualname__.removesuffix(".Params")
    made = create_model(name, __base__=StructBlock, __module__=struct.__module__, **keys)
    made.__doc__, made.of = struct.__doc__, struct
    return made


def into(struct: type[S], read: Block, **others: Any) -> S:
    """The struct from a block; others: fields without a key in the block, or with a different meaning there."""
    found = {name: _frozen(getattr(read, key)) for name, key in _keys(struct) if name not in others}
    return struct(**found, **others)


@cache  # msgspec resolves the annotations of a struct anew each time, and a cluster has thousands of nodes
def _keys(struct: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """(field, key) of each field."""
    return tuple((field.name, _key(field)) for field in msgspec.structs.fields(struct))


def of_annotation(annotation: Any) -> Any:
    """The block, or the choice of blocks, of an annotation with `OF`; None without `OF`."""
    if get_origin(annotation) is not Annotated or OF not in annotation.__metadata__:
        return None
    struct = get_args(annotation)[0]
    return block(struct) if isinstance(struct, type) else _written(struct)


def whole(field: FieldInfo) -> Any:
    """The annotation of a block's key as declared; pydantic keeps outermost metadata apart from the annotation."""
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def meanings(model: type[BaseModel]) -> Mapping[str, str]:
    """The text below each key, of the block's own keys and of the struct's."""
    found = {}
    if issubclass(model, StructBlock) and hasattr(model, "of"):
        texts = said(model.of)
        found = {_key(field): texts.get(field.name) or _told(field) for field in msgspec.structs.fields(model.of)}
        if (tag := model.of.__struct_config__.tag) is not None:
            found |= {"kind": f"Its kind, e.g. `{tag}`."}
    own = said(model)
    return {name: own.get(name) or found.get(name, "") for name in model.model_fields}


def _told(field: msgspec.structs.FieldInfo) -> str:
    """The description of a registered name's setting, with the example in the form of a block."""
    of = msgspec.json.schema(field.type)
    text = str(of.get("description", ""))
    if "examples" not in of:
        return text
    example = of["examples"][0]
    written = (
        show_duration(example) if _says(field.type).get("form") in _TIMES else msgspec.json.encode(example).decode()
    )
    return f"{text[:1].upper()}{text[1:]}, e.g. `{written}`."


def _key(field: msgspec.structs.FieldInfo) -> str:
    said = _says(field.type)
    if said.get("key") is not None:
        return str(said["key"])
    return field.name.removesuffix("_ms") if said.get("form") in _TIMES else field.name


def _says(annotation: Any) -> Mapping[str, Any]:
    """The written form from a field's annotation; also of `Annotated[...] | None`."""
    if get_origin(annotation) is Annotated:
        for meta in annotation.__metadata__:
            if isinstance(meta, msgspec.Meta) and meta.extra and WRITTEN in meta.extra:
                return dict(meta.extra[WRITTEN])
        return _says(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return next((said for part in get_args(annotation) if (said := _says(part))), {})
    return {}


def _written(annotation: Any) -> Any:
    """The type of a value in a file for a field of the given type."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _bounded(parts[0], annotation.__metadata__)
    if origin in (Union, UnionType):
        several = [part for part in parts if part is not NoneType]
        together: Any = Union.__getitem__(tuple(map(_written, parts)))
        tagged = all(isinstance(part, type) and issubclass(part, msgspec.Struct) for part in several)
        return Annotated[together, Field(discriminator="kind")] if tagged and len(several) > 1 else together
    if origin is tuple:
        several = [part for part in parts if part is not Ellipsis]
        of_any_length: Any = list.__class_getitem__(_written(several[0]))
        return of_any_length if Ellipsis in parts else Annotated[of_any_length, Field(min_length=2, max_length=2)]
    if origin is dict:
        return dict.__class_getitem__((_written(parts[0]), _written(parts[1])))
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return Annotated[annotation, OF]
    return annotation


def _bounded(base: Any, said: tuple[Any, ...]) -> Any:
    """A type with the bounds, or in the form, from its field."""
    made = _written(base)
    bounds: dict[str, Any] = {}
    for meta in said:
        if isinstance(meta, msgspec.Meta):
            bounds |= {name: value for name in _BOUNDS if (value := getattr(meta, name)) is not None}
            told = (meta.extra or {}).get(WRITTEN, {})
            made = Literal[told["choices"]] if told.get("choices") else _FORMS.get(told.get("form"), made)
            bounds |= told.get("bounds", {})
    return Annotated[made, Field(**bounds)] if bounds else made


def _frozen(value: Any) -> Any:
    """Lists of a file as the tuples of a struct."""
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _thawed(value: Any) -> Any:
    return [_thawed(each) for each in value] if isinstance(value, tuple) else value


def as_written(value: msgspec.Struct) -> Block:
    """A struct as the block it was read from."""
    fields = msgspec.structs.fields(value)
    told: dict[str, Any] = {_key(field): _thawed(getattr(value, field.name)) for field in fields}
    if (tag := value.__struct_config__.tag) is not None:
        told["kind"] = tag
    return block(type(value)).model_construct(**told)


def _dumped(value: msgspec.Struct, how: SerializationInfo) -> dict[str, Any]:
    return as_written(value).model_dump(mode=how.mode, exclude_none=how.exclude_none)
