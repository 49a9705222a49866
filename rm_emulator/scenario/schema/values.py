"""Values with units, and the base of all blocks of a scenario file. Durations are whole milliseconds once read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeGuard

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from rm_emulator.issues import did_you_mean
from rm_emulator.scenario.durations import parse_duration, parse_seeds, show_duration
from rm_emulator.scenario.schema.texts import said
from schedulers.core.errors import InvalidQuantity
from schedulers.core.resources import parse_quantity


def mistake(text: str, hint: str = "", *, key: bool = False) -> PydanticCustomError:
    """A mistake for pydantic to carry: hint, and whether the key itself is wrong, travel in its context."""
    return PydanticCustomError("value", "{text}", {"text": text, "hint": hint, "key": key})


def refuse(errors: Iterable[InitErrorDetails]) -> None:
    """Raise pydantic's ValidationError with the mistakes if there are any."""
    if found := list(errors):
        raise ValidationError.from_exception_data("block", found)


def has_text_keys(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value is a mapping by text; pydantic refuses all other mappings."""
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def read(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A validator from a function raising ValueError with a full message."""

    def validate(value: Any) -> Any:
        try:
            return parse(value)
        except ValueError as error:
            raise mistake(str(error)) from None

    return validate


def _positive(ms: int) -> int:
    if ms < 1:
        raise mistake("is 0: expected a duration above zero")
    return ms


def _quantity(value: Any) -> Any:
    try:
        parse_quantity(value)
    except InvalidQuantity as error:
        raise mistake(str(error), _quantity_hint(value)) from None
    return value


def _quantity_hint(value: Any) -> str:
    """Kubernetes' spelling of a quantity with a differently spelled unit: 4GB, 4gi, 4 GiB."""
    text = str(value).replace(" ", "").rstrip("bB")
    for candidate in (text, text[:-2] + text[-2:].title(), text[:-1] + text[-1:].upper()):
        try:
            parse_quantity(candidate)
        except InvalidQuantity:
            continue
        return did_you_mean(candidate)
    return ""


def _bytes(value: Any, what: str, least: int) -> int:
    """Whole bytes, rounded up; the B of a unit may be left out."""
    text = value.removesuffix("B") if isinstance(value, str) else value
    try:
        amount = -int(-parse_quantity(text) // 1)
    except InvalidQuantity:
        raise mistake(f"not a number of {what}: {value!r} (write {what} such as 1000, 120MiB, 1.5Gi)") from None
    if not least <= amount <= MOST_BYTES:
        raise mistake(f"{value} is not accepted (expected {what} from {least} to {MOST_BYTES:.0e})")
    return amount


#: More bytes than any stage moves; times of transfers stay countable.
MOST_BYTES: Final = 10**18


#: `$comment` is what docs/scenario.md calls a type that has units or several forms.
_DURATION_SCHEMA: Final[dict[str, Any]] = {
    "$comment": "duration",
    "anyOf": [
        {"type": "string", "pattern": r"^\s*((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*(ms|s|m|h|d)?\s*)+$"},
        {"type": "number", "minimum": 0},
    ],
    "description": "500ms, 1.5s, 2m, 1h30m, 1d; plain numbers are seconds",
}
_shown = PlainSerializer(show_duration)
Duration = Annotated[int, BeforeValidator(read(parse_duration)), _shown, WithJsonSchema(_DURATION_SCHEMA)]
_BY_NODE_SCHEMA: Final[dict[str, Any]] = {
    "$comment": "node to duration, or to list with one per task",
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "anyOf": [*_DURATION_SCHEMA["anyOf"], {"type": "array", "items": {"anyOf": _DURATION_SCHEMA["anyOf"]}}]
    },
}
Interval = Annotated[
    int,
    BeforeValidator(_positive),
    BeforeValidator(read(parse_duration)),
    _shown,
    WithJsonSchema({**_DURATION_SCHEMA, "$comment": "duration above zero"}),
]
Quantity = Annotated[
    str | int | float,
    BeforeValidator(_quantity),
    WithJsonSchema(
        {
            "$comment": "quantity",
            "anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}],
            "description": "a Kubernetes quantity: 4, 500m, 1.5Gi",
        }
    ),
]
_BYTES_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}],
    "description": "a number of bytes: 1000, 120MiB, 1.5Gi",
}
RESOURCE_NAMES: Final = "letters, digits, '.', '-', '_' and '/', a letter or digit at both ends"
Bytes = Annotated[
    int,
    BeforeValidator(lambda value: _bytes(value, "bytes", 0)),
    WithJsonSchema({**_BYTES_SCHEMA, "$comment": "bytes"}),
]
Rate = Annotated[
    int,
    BeforeValidator(lambda value: _bytes(value, "bytes per second", 1)),
    WithJsonSchema({**_BYTES_SCHEMA, "$comment": "bytes per second"}),
]
ResourceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$", max_length=300)]
#: Memory below this many bytes is a number whose unit was forgotten.
_LEAST_MEMORY: Final = 2**20


def _with_units(amounts: dict[str, Any]) -> dict[str, Any]:
    """Refuses memory of a few bytes: `memory: 4` would leave memory out of every decision."""
    memory = amounts.get("memory")
    if memory is not None and 0 < parse_quantity(memory) < _LEAST_MEMORY:
        text = f"memory: {memory} is less than a mebibyte (a number without unit is bytes)"
        raise mistake(text, f"did you mean '{memory}Gi' or '{memory}Mi'?")
    return amounts


Quantities = Annotated[dict[ResourceName, Quantity], Field(min_length=1), AfterValidator(_with_units)]
Seeds = Annotated[
    list[int],
    BeforeValidator(read(parse_seeds)),
    WithJsonSchema(
        {
            "$comment": "seeds",
            "anyOf": [
                {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
                {"type": "string", "pattern": r"^\d+(\s*\.\.\s*\d+)?(\s*,\s*\d+(\s*\.\.\s*\d+)?)*$"},
                {"type": "integer", "minimum": 0},
            ],
            "description": "[1, 2, 3] or 1..5",
        }
    ),
]
Count = Annotated[int, Field(ge=1, le=10_000_000)]
Load = Annotated[float, Field(ge=1e-3, le=1e3)]


class Block(BaseModel):
    """A mapping of the scenario file. The string below a key has its meaning and an example."""

    # Built at its first use: most blocks are parts of others and are never read by themselves.
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True, defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler.resolve_ref_schema(handler(schema))
        for key, text in said(cls).items():
            if key in cls.model_fields:
                found["properties"][key]["description"] = text
        return found


class Distribution(Block):
    """A distribution of times by its mean and coefficient of variation."""

    kind: Literal["lognormal", "gamma", "exponential", "uniform", "normal"]
    """Family of the distribution, e.g. `lognormal`."""
    mean: Interval
    """Its mean, e.g. `30s`."""
    cov: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """Standard deviation over mean, e.g. `0.3`."""

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.kind == "uniform" and self.cov**2 > 1 / 3:
            raise ValueError(f"cov {self.cov:g}: a uniform distribution above zero has 0.577 at most")
        if self.kind == "exponential" and self.cov != 1:
            raise ValueError(f"cov {self.cov:g}: that of an exponential distribution is 1")
        return self


def _of_task(value: Any) -> Any:
    if isinstance(value, list):
        return _each(value, read(parse_duration))
    return read(parse_duration)(value)


def _show_times(value: Any) -> Any:
    if isinstance(value, Distribution | TimesByNode):
        return value.model_dump(mode="json")
    return [show_duration(ms) for ms in value] if isinstance(value, list) else show_duration(value)


class TimesByNode(Block):
    """Run times by node, for machines on which tasks take different times; a node's speed does not count then."""

    by_node: Annotated[
        dict[str, Annotated[int | list[int], BeforeValidator(_of_task), PlainSerializer(_show_times)]],
        Field(min_length=1),
        WithJsonSchema(_BY_NODE_SCHEMA),
    ]
    """For every node of the cluster a duration, or a list of durations by task, e.g. `{n1: 10s, n2: [4s, 6s]}`."""


def _times(value: Any) -> Any:
    """A scalar is a fixed duration, a list has a duration per task, a mapping is a distribution or times by node."""
    if isinstance(value, Mapping) and "by_node" in value:
        return TimesByNode.model_validate(dict(value))
    return _of_task(value) if isinstance(value, list) else _start_up(value)


def _start_up(value: Any) -> Any:
    return Distribution.model_validate(dict(value)) if isinstance(value, Mapping) else read(parse_duration)(value)


def _each(values: list[Any], read: Callable[[Any], Any]) -> list[Any]:
    parsed, errors = [], []
    for index, value in enumerate(values):
        try:
            parsed.append(read(value))
        except PydanticCustomError as error:
            errors.append(InitErrorDetails(type=error, loc=(index,), input=value))
    refuse(errors)
    return parsed


_TIMES_SCHEMA: Final = {
    "$comment": "duration, list with one per task, [distribution](#specclusterstartup), or times by node",
    "anyOf": [
        *_DURATION_SCHEMA["anyOf"],
        {"type": "array", "items": {"anyOf": _DURATION_SCHEMA["anyOf"]}, "minItems": 1},
        Distribution.model_json_schema(),
        TimesByNode.model_json_schema(),
    ],
    "description": "a duration, a list of one per task, {kind: lognormal, mean: 30s, cov: 0.3}, {by_node: {n1: 9s}}",
}
Times = Annotated[
    int | list[int] | Distribution | TimesByNode,
    BeforeValidator(_times),
    PlainSerializer(_show_times),
    WithJsonSchema(_TIMES_SCHEMA),
]


StartUp = Annotated[
    int | Distribution,
    BeforeValidator(_start_up),
    PlainSerializer(_show_times),
    WithJsonSchema(
        {
            "$comment": "duration or [distribution](#specclusterstartup)",
            "anyOf": [*_DURATION_SCHEMA["anyOf"], Distribution.model_json_schema()],
        }
    ),
]
