"""Expectations over a summary: `slearn.jct_s.mean < 0.9 * fifo.jct_s.mean` makes a policy change a CI job.

    expectation = sum ("<" | "<=" | ">" | ">=" | "==") sum
    sum         = term {("+" | "-") term}
    term        = factor {("*" | "/") factor}
    factor      = number | path | "-" factor | "(" sum ")"
    path        = name {"." name | "[" text "]" | "[" integer "]"}

A path starts with a label (`slearn.wait_s.p90`, `gs.queues["prod.etl"].jct_s.mean`; a label that is not a
plain name: `runs["3 sigma"].makespan_s`) or with `comparisons` and a label (`comparisons.slearn.ratio_of_means`,
`comparisons.slearn.ratio_of_means.ci95[0]`). Its value is the mean over the seeds. An expectation on a
figure that does not apply (null) does not hold. Names may contain a hyphen, so a minus needs space around it.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from rm_emulator.results.figures import ExpectationOutcome, LabelComparison, Run, bare
from schedulers.core.errors import UserError, nearest

COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": partial(math.isclose, rel_tol=1e-9, abs_tol=1e-12),
}
#: Figures that are left out of a run to which they do not apply.
_SOMETIMES: Final = {field.name: None for field in msgspec.structs.fields(Run) if field.default is msgspec.UNSET}
_ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
#: Characters of an expectation; brackets inside brackets go no deeper than Python does.
_LONGEST: Final = 500
_DEEPEST: Final = 20
_SIGNS: Final = f"one of {' '.join(COMPARISONS)}"
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_]\w*(?:-\w+)*)
      | (?P<text>"[^"]*"|'[^']*')
      | (?P<sign><=|>=|==|[<>+\-*/().\[\]])
    )""",
    re.VERBOSE | re.ASCII,
)


class ExpectError(UserError, ValueError):
    """An expectation with a mistake of form, or with an unknown name. column counts from 1."""

    def __init__(self, text: str, column: int, message: str) -> None:
        self.text, self.column = text, column
        super().__init__(f"expectation '{text}', column {column}: {message}")


#: A side of an expectation: its value over a summary, None where a figure in it does not apply.
Term = Callable[[Mapping[str, Any]], float | None]


class _DividedByZero(Exception):
    """A side has no value although all of its figures have. column: of the sign, from 1."""

    def __init__(self, column: int) -> None:
        super().__init__("division by zero")
        self.column = column


class Expectation(msgspec.Struct, frozen=True):
    """A comparison of two terms, and its text."""

    text: str
    sign: str
    left: Term
    right: Term


class _Token(NamedTuple):
    """A word of an expectation; as a step of a path: its name or index."""

    kind: str
    text: str
    column: int

    @property
    def key(self) -> str | int:
        if self.kind == "number":
            return int(self.text)
        return self.text[1:-1] if self.kind == "text" else self.text


def parse(text: str) -> Expectation:
    """Reads an expectation. Raises ExpectError with the column and the words accepted there."""
    if len(text) > _LONGEST:
        raise ExpectError(text[:40] + "...", _LONGEST + 1, f"expected the end: {_LONGEST} characters at most")
    return _Reader(text).expectation()


def evaluate(expectation: Expectation, summary: Mapping[str, Any]) -> ExpectationOutcome:
    """Outcome of an expectation: whether true, and the figures of both sides. summary: `figures.Summary` as plain data.

    Raises ExpectError for an unknown label or field, with the nearest valid name.
    """
    try:
        left, right = expectation.left(summary), expectation.right(summary)
    except _DividedByZero as error:
        why = f"{error} at column {error.column}"
        return ExpectationOutcome(text=expectation.text, holds=False, left=None, right=None, why=why)
    holds = left is not None and right is not None and COMPARISONS[expectation.sign](left, right)
    return ExpectationOutcome(text=expectation.text, holds=holds, left=left, right=right)


def check(expectation: Expectation, labels: Sequence[str], baseline: str | None = None) -> None:
    """Raises ExpectError for labels and fields impossible for any run with the given labels. Needs no run."""
    skeleton = _skeleton(list(labels), baseline or labels[0])
    try:
        expectation.left(skeleton), expectation.right(skeleton)
    except _DividedByZero as error:  # of numbers alone, since no figure has a value yet
        raise ExpectError(expectation.text, error.column, str(error)) from None


@functools.cache
def keys(figure: str) -> tuple[str, ...]:
    """Names of fields and keys of a figure of a run, as a path without label: `queues["prod"].wait_s.p90`.

    Raises ExpectError with the column and the words accepted there.
    """
    return _Reader(figure).figure()


class _Reader:
    """A recursive-descent reader of the grammar above. Python's own parser names no expected words."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        self._tokens = self._split()

    def _split(self) -> list[_Token]:
        tokens, at, end = [], 0, len(self._text.rstrip())
        while at < end:
            match = _TOKEN.match(self._text, at)
            if match is None or match.lastgroup is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                accepted = f"accepted are figures such as label.jct_s.mean, numbers, + - * / ( ) and {_SIGNS}"
                raise ExpectError(self._text, at + 1, f"cannot read {self._text[at]!r} ({accepted})")
            tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
            at = match.end()
        return [*tokens, _Token("end", "", len(self._text) + 1)]

    def expectation(self) -> Expectation:
        left = self._sum()
        sign = self._take(_SIGNS, *COMPARISONS)
        right = self._sum()
        self._take("the end, or one of + - * /", "")
        return Expectation(self._text, sign.text, left, right)

    def figure(self) -> tuple[str, ...]:
        steps = self._path(self._take())
        self._take("the end, or one of . [", "")
        return tuple(str(step.key) for step in steps)

    def _next(self, *signs: str) -> bool:
        return self._tokens[self._at].text in signs

    def _take(self, wanted: str = "", *signs: str) -> _Token:
        """The next token, checked against the signs where any are given."""
        token = self._tokens[self._at]
        if signs and token.text not in signs:
            raise self._wrong(token, wanted)
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _wrong(self, token: _Token, wanted: str) -> ExpectError:
        seen = f"'{token.text}'" if token.text else "the end"
        return ExpectError(self._text, token.column, f"expected {wanted}, found {seen}")

    def _sum(self) -> Term:
        left = self._term()
        while self._next("+", "-"):
            left = _operation(self._take(), left, self._term())
        return left

    def _term(self) -> Term:
        left = self._factor()
        while self._next("*", "/"):
            left = _operation(self._take(), left, self._factor())
        return left

    def _factor(self) -> Term:
        token = self._take()
        if token.kind == "number":
            if not math.isfinite(float(token.text)):
                raise self._wrong(token, "a smaller number")
            return _number_of(float(token.text))
        if token.kind == "name":
            return partial(_figure, self._path(token), self._text)
        if token.text not in ("-", "("):
            raise self._wrong(token, "a figure such as label.jct_s.mean, a number or '('")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong(token, f"at most {_DEEPEST} brackets and signs inside each other")
        inside = _operation(token, _number_of(0.0), self._factor()) if token.text == "-" else self._sum()
        self._depth -= 1
        if token.text == "(":
            self._take("')'", ")")
        return inside

    def _path(self, first: _Token) -> list[_Token]:
        steps = [first]
        while self._next(".", "["):
            named, step = self._take().text == ".", self._take()
            if named and step.kind != "name":
                raise self._wrong(step, 'a name (write ["..."] around anything but letters, digits, _ and -)')
            if not named and step.kind != "text" and not step.text.isdigit():
                raise self._wrong(step, 'a name in quotes, as in queues["prod"], or a whole number')
            if not named:
                self._take("']'", "]")
            steps.append(step)
        return steps


def _number_of(value: float) -> Term:
    return lambda summary: value


def _operation(sign: _Token, left: Term, right: Term) -> Term:
    def value(summary: Mapping[str, Any]) -> float | None:
        one, other = left(summary), right(summary)
        if one is None or other is None:
            return None
        if sign.text == "/" and other == 0:
            raise _DividedByZero(sign.column)
        found = _ARITHMETIC[sign.text](one, other)
        return found if math.isfinite(found) else None

    return value


def _figure(steps: Sequence[_Token], text: str, summary: Mapping[str, Any]) -> float | None:
    first, rest = steps[0], steps[1:]
    labels = list(dict.fromkeys(run["label"] for run in summary["runs"]))
    if first.key in ("comparisons", "runs") and first.key not in labels:
        if not rest:
            raise ExpectError(text, first.column, f"name a label: {first.key}.LABEL (labels: {', '.join(labels)})")
        first, rest = rest[0], rest[1:]
    if steps[0].key == "comparisons" and steps[0] is not first:
        compared = {c["label"]: {**c, **c["speedup"]} for c in summary["comparisons"]}
        label = _known(first, compared, "label compared with the baseline", text)
        return _number(_down(compared[label], rest, text), first, text)
    label = _known(first, labels if steps[0] is not first else [*labels, "comparisons", "runs"], "label", text)
    if not rest:
        raise ExpectError(text, first.column, f"name a figure of '{label}', such as {label}.jct_s.mean")
    runs = [{**_SOMETIMES, **run} for run in summary["runs"] if run["label"] == label]
    values = [_number(_down(run, rest, text), rest[-1], text) for run in runs]
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if len(known) == len(values) else None


def _down(value: Any, steps: Sequence[_Token], text: str) -> Any:
    for at, step in enumerate(steps):
        if value is None:
            return None
        if isinstance(value, list):
            if not isinstance(step.key, int) or step.key >= len(value):
                raise ExpectError(text, step.column, f"no entry {step.key!r} (there are 0 to {len(value) - 1})")
            value = value[step.key]
        elif isinstance(value, Mapping):
            value = value[_known(step, value, "field", text)]
        else:
            raise ExpectError(text, step.column, f"'{steps[at - 1].key}' is a single figure: it has no '{step.key}'")
    return value


def _known(step: _Token, known: Mapping[str, Any] | Sequence[str], what: str, text: str) -> str:
    if step.key in known:
        return str(step.key)
    near = nearest(str(step.key), known)
    hint = f", did you mean '{near}'?" if near else ""
    if not near and what == "field" and "-" in str(step.key):
        hint = " (a minus needs space around it)"
    raise ExpectError(text, step.column, f"unknown {what} '{step.key}'{hint} (known: {', '.join(known) or 'none'})")


def _number(value: Any, step: _Token, text: str) -> float | None:
    if isinstance(value, Mapping):
        if "value" in value:
            return _number(value["value"], step, text)
        raise ExpectError(text, step.column, f"'{step.key}' is several figures: name one of {', '.join(value)}")
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise ExpectError(text, step.column, f"'{step.key}' is not a number: {value!r}")


class _Anything(dict[str, Any]):
    """A mapping for names known only after a run: has every key, with the figures of an entry below."""

    def __init__(self, below: Any) -> None:
        super().__init__()
        self._below = below

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: str) -> Any:
        return self._below


def _skeleton(labels: list[str], baseline: str) -> dict[str, Any]:
    """A summary with every field and no figures."""
    run, comparison = _blank(msgspec.inspect.type_info(Run)), _blank(msgspec.inspect.type_info(LabelComparison))
    return {
        "runs": [{**run, "label": label} for label in labels],
        "comparisons": [{**comparison, "label": label} for label in labels if label != baseline],
    }


def _blank(kind: msgspec.inspect.Type) -> Any:
    """The names of a type, with None for each figure; text stays text, to be told from figures."""
    kind = bare(kind)
    if isinstance(kind, msgspec.inspect.DictType):
        return _Anything(_blank(kind.value_type))
    if isinstance(kind, msgspec.inspect.StructType):
        return {field.name: _blank(field.type) for field in kind.fields}
    return "..." if isinstance(kind, msgspec.inspect.StrType) else None
