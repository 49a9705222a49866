"""STRL, the language of a job's wishes and their worth: as data and as text.

alsched (SoCC'12) and TetriSched (EuroSys'16), section 4. A leaf wants machines of a set over a time; operators combine
values. Times are whole numbers of a common unit, counted from a common 0; values are numbers from 0 on. `upto` is ours:
a stage with leave to start piecemeal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from schedulers.core.errors import SchedulerError, UserError

#: Operators inside operators, at most.
DEEPEST: Final = 50


class Leaf(msgspec.Struct, frozen=True):
    """Machines of a set for [start, start + dur). start None: now; dur None: a slice (alsched has neither)."""

    set: str
    k: int
    v: float
    start: int | None = None
    dur: int | None = None


class Choose(Leaf, frozen=True):
    """`nCk`: exactly k machines, worth v, or none, worth 0."""


class Linear(Leaf, frozen=True):
    """`LnCk`: g of 0 to k machines, worth v * g / k."""


class Max(msgspec.Struct, frozen=True):
    """At most a single operand holds machines; the value is the operand's (STRL's max)."""

    of: tuple[Expression, ...]


class Min(msgspec.Struct, frozen=True):
    """The value is the least operand's (STRL's min)."""

    of: tuple[Expression, ...]


class Sum(msgspec.Struct, frozen=True):
    """The value is the sum of the operands' values (STRL's sum)."""

    of: tuple[Expression, ...]


class UpTo(msgspec.Struct, frozen=True):
    """A sum with at most k machines in all its leaves together, whenever."""

    k: int
    of: tuple[Expression, ...]


class Scale(msgspec.Struct, frozen=True):
    """Worth `by` times the worth of `of`."""

    by: float
    of: Expression


class Barrier(msgspec.Struct, frozen=True):
    """Worth `at` when `of` is worth as much or more, else 0."""

    at: float
    of: Expression


Expression: TypeAlias = Choose | Linear | Max | Min | Sum | UpTo | Scale | Barrier

_LEAVES: Final[dict[str, type[Choose | Linear]]] = {"nCk": Choose, "LnCk": Linear}
_LISTS: Final[dict[str, type[Max | Min | Sum]]] = {"max": Max, "min": Min, "sum": Sum}
_NUMBERED: Final[dict[str, type[UpTo | Scale | Barrier]]] = {"upto": UpTo, "scale": Scale, "barrier": Barrier}
_OPERATORS: Final[dict[str, Any]] = {**_LEAVES, **_LISTS, **_NUMBERED}
_NAMES: Final = {operator: name for name, operator in _OPERATORS.items()}
#: The number with which an operator begins.
_NUMBER: Final = {"upto": "k", "scale": "by", "barrier": "at"}


class InvalidExpression(SchedulerError, UserError):
    """An expression without sense; line and column (from 1) where given as text."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        self.line, self.column, self.what = line, column, message
        super().__init__(message if line is None else f"line {line}, column {column}: {message}")


# -- what it is worth -----------------------------------------------------------------------------


def leaves(expression: Expression) -> Iterator[Leaf]:
    """Its leaves in the order written."""
    if isinstance(expression, Leaf):
        yield expression
    elif isinstance(expression, Scale | Barrier):
        yield from leaves(expression.of)
    else:
        for child in expression.of:
            yield from leaves(child)


def value(expression: Expression, held: Sequence[int]) -> float:
    """The worth of an expression with so many machines held by its leaves, in the order written."""
    return _value(expression, iter(held))


def _value(expression: Expression, held: Iterator[int]) -> float:
    match expression:
        case Choose():
            return expression.v if next(held) == expression.k else 0.0
        case Linear():
            return expression.v * next(held) / expression.k
        case Scale():
            return expression.by * _value(expression.of, held)
        case Barrier():
            reached = _value(expression.of, held) >= expression.at - _TOLERANCE * max(1.0, expression.at)
            return expression.at if reached else 0.0
    values = [_value(child, held) for child in expression.of]
    if isinstance(expression, Max):
        return max(values)  # all but one hold nothing, and nothing is worth 0
    return min(values) if isinstance(expression, Min) else sum(values)


#: Values are sums of shares: three times a third is 1.
_TOLERANCE: Final = 1e-9


# -- as data --------------------------------------------------------------------------------------


def read(data: Any) -> Expression:
    """An expression as data, a mapping of a single key each, as in `{max: [{nCk: {set: gpu, k: 2, v: 8}}]}`.

    Raises InvalidExpression, with the keys down to the mistake in front.
    """
    return _read(data, "", [])


def _read(data: Any, at: str, above: list[int]) -> Expression:
    if id(data) in above:
        raise InvalidExpression(f"{at or 'expression'}: contains itself")
    if len(above) >= DEEPEST:
        raise InvalidExpression(f"{at}: more than {DEEPEST} operators inside each other")
    if not isinstance(data, Mapping) or len(data) != 1 or next(iter(data)) not in _OPERATORS:
        found = list(data) if isinstance(data, Mapping) else data
        raise InvalidExpression(f"{at or 'expression'}: {found!r} (expected one of {', '.join(_OPERATORS)})")
    ((name, inner),) = data.items()
    at, above = f"{at}.{name}" if at else name, [*above, id(data)]
    if name in _LISTS:
        if not isinstance(inner, Sequence) or isinstance(inner, str) or not inner:
            raise InvalidExpression(f"{at}: {inner!r} (expected a list of at least one expression)")
        return _LISTS[name](tuple(_read(each, f"{at}[{index}]", above) for index, each in enumerate(inner)))
    if not isinstance(inner, Mapping):
        raise InvalidExpression(f"{at}: {inner!r} (expected a mapping)")
    known = (_NUMBER[name], "of") if name in _NUMBER else _LEAF_KEYS
    strange = next((key for key in inner if key not in known), None)
    missing = next((key for key in known[:3] if key not in inner and key not in ("start", "dur")), None)
    if strange is not None or missing is not None:
        what = f"unknown key '{strange}'" if strange is not None else f"no '{missing}'"
        raise InvalidExpression(f"{at}: {what} (expected {', '.join(known)})")
    made = dict(inner)
    if name == "upto":
        if not isinstance(inner["of"], Sequence) or isinstance(inner["of"], str) or not inner["of"]:
            raise InvalidExpression(f"{at}.of: {inner['of']!r} (expected a list of at least one expression)")
        made["of"] = tuple(_read(each, f"{at}.of[{index}]", above) for index, each in enumerate(inner["of"]))
    elif name not in _LEAVES:
        made["of"] = _read(inner["of"], f"{at}.of", above)
    return _made(name, made, at)


_LEAF_KEYS: Final = ("set", "k", "v", "start", "dur")


def _made(name: str, settings: Mapping[str, Any], at: str) -> Expression:
    """An operator with numbers, checked. Raises InvalidExpression."""
    for key, number in settings.items():
        if key == "of":
            continue
        if key == "set":
            sound, wanted = isinstance(number, str) and number != "", "the name of a set of machines"
        elif key in ("v", "by", "at"):
            sound, wanted = _is_number(number) and number >= 0, "a number from 0 on"
        else:
            least = 0 if key == "start" else 1
            sound = _is_number(number) and number == int(number) and number >= least
            wanted = f"a whole number from {least} on"
        if not sound:
            raise InvalidExpression(f"{at}: {key} is {number!r} (expected {wanted})")
    made = {key: int(told) if key in ("k", "start", "dur") else told for key, told in settings.items()}
    operator: Expression = _OPERATORS[name](**made)
    return operator


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# -- as text --------------------------------------------------------------------------------------


def write(expression: Expression, *, indent: str | None = None) -> str:
    """The text for `parse`. indent: for an operator's parts on lines of their own; None for a single line."""
    return _write(expression, indent, 0)


def _write(expression: Expression, indent: str | None, depth: int) -> str:
    name = _NAMES[type(expression)]
    if isinstance(expression, Leaf):
        parts = [_quoted(expression.set), f"k={expression.k}"]
        parts += [f"{key}={told}" for key in ("start", "dur") if (told := getattr(expression, key)) is not None]
        return f"{name}({', '.join([*parts, f'v={_number(expression.v)}'])})"
    of = (expression.of,) if isinstance(expression, Scale | Barrier) else expression.of
    number = getattr(expression, _NUMBER[name]) if name in _NUMBER else None
    first = [] if number is None else [str(number) if isinstance(expression, UpTo) else _number(number)]
    parts = [*first, *(_write(child, indent, depth + 1) for child in of)]
    if indent is None:
        return f"{name}({', '.join(parts)})"
    inside, outside = "\n" + indent * (depth + 1), "\n" + indent * depth
    return f"{name}({inside}{f',{inside}'.join(parts)}{outside})"


def _number(value: float) -> str:
    return f"{value:.12g}"


def _quoted(name: str) -> str:
    return name if _BARE.fullmatch(name) else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


_BARE: Final = re.compile(r"[A-Za-z_][\w.:/-]*")
_TOKEN: Final = re.compile(
    r"\s*(?:#[^\n]*\s*)*(?:(?P<name>[A-Za-z_][\w.:/-]*)|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r'|(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<sign>[(),=])|(?P<end>\Z)|(?P<other>.))',
    re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"'{self.text}'"


def parse(text: str) -> Expression:
    """An expression as text, as in `max(nCk(gpu, k=2, start=0, dur=2, v=8), nCk(any, k=2, v=3))`; `#` begins a comment.

    `scale(4, e)`, `barrier(6, e)` and `upto(8, e, e)` begin with their number. Raises InvalidExpression with line,
    column and the words expected there.
    """
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._token = self._read()

    def whole(self) -> Expression:
        made = self._expression(0)
        if self._token.kind != "end":
            self._fail("the end")
        return made

    def _read(self) -> _Token:
        found = _TOKEN.match(self._text, self._at)
        assert found is not None
        assert found.lastgroup is not None
        self._at = found.end()
        return _Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup))

    def _next(self) -> _Token:
        token, self._token = self._token, self._read() if self._token.kind != "end" else self._token
        return token

    def _fail(self, expected: str, token: _Token | None = None) -> Any:
        token = token or self._token
        self._wrong(f"expected {expected}, found {token}", token)

    def _wrong(self, message: str, token: _Token) -> Any:
        before = self._text[: token.at]
        raise InvalidExpression(message, before.count("\n") + 1, token.at - (before.rfind("\n") + 1) + 1)

    def _sign(self, sign: str, *, others: str = "") -> None:
        if self._token.text != sign or self._token.kind != "sign":
            self._fail(f"{others}'{sign}'")
        self._next()

    def _is(self, sign: str) -> bool:
        return self._token.kind == "sign" and self._token.text == sign

    def _expression(self, depth: int) -> Expression:
        name = self._token
        if name.kind != "name" or name.text not in _OPERATORS:
            self._fail(f"one of {', '.join(_OPERATORS)}")
        if depth >= DEEPEST:
            self._wrong(f"more than {DEEPEST} operators inside each other", name)
        self._next()
        self._sign("(")
        settings: dict[str, Any] = {}
        if name.text in _LEAVES:
            settings = self._leaf()
        else:
            first = _NUMBER.get(name.text)
            if first is not None:
                settings[first] = self._number()
                self._sign(",")
            parts = [self._expression(depth + 1)]
            while self._is(",") and name.text not in ("scale", "barrier"):
                self._next()
                parts.append(self._expression(depth + 1))
            self._sign(")", others="" if name.text in ("scale", "barrier") else "',' or ")
            if name.text in _LISTS:
                return _LISTS[name.text](tuple(parts))
            settings["of"] = tuple(parts) if name.text == "upto" else parts[0]
        try:
            return _made(name.text, settings, name.text)
        except InvalidExpression as error:
            self._wrong(error.what, name)
            raise

    def _leaf(self) -> dict[str, Any]:
        token = self._token
        if token.kind not in ("name", "text"):
            self._fail("the name of a set of machines")
        self._next()
        name = token.text if token.kind == "name" else re.sub(r"\\(.)", r"\1", token.text[1:-1])
        settings: dict[str, Any] = {"set": name}
        while self._is(","):
            self._next()
            key = self._token
            if key.text not in _LEAF_KEYS[1:] or key.text in settings:
                left = [name for name in _LEAF_KEYS[1:] if name not in settings]
                self._fail(" or ".join(f"'{name}='" for name in left) or "')'")
            self._next()
            self._sign("=")
            settings[key.text] = self._number()
        missing = next((key for key in ("k", "v") if key not in settings), None)
        if missing is not None:
            self._fail(f"',' and '{missing}='")
        self._sign(")", others="',' or ")
        return settings

    def _number(self) -> float:
        if self._token.kind != "number":
            self._fail("a number")
        text = self._next().text
        return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
