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

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from rm_emulator.results.figures import Comparison, Outcome, Run, bare
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
    """An expectation that cannot be read, or that names what is not there. column counts from 1."""

    def __init__(self, text: str, column: int, message: str) -> None:
        self.text, self.column = text, column
        super().__init__(f"expectation '{text}', column {column}: {message}")


class Number(msgspec.Struct, frozen=True):
    """A literal."""

    value: float


class Step(msgspec.Struct, frozen=True):
    """One name or index of a path and the column it stands in."""

    key: str | int
    column: int


class Path(msgspec.Struct, frozen=True):
    """A figure of the summary."""

    steps: tuple[Step, ...]


class Operation(msgspec.Struct, frozen=True):
    """An arithmetic operation; a negative sign is 0 - right."""

    sign: str
    left: Term
    right: Term


Term = Number | Path | Operation


class Expectation(msgspec.Struct, frozen=True):
    """A comparison of two terms, and the text it was read from."""

    text: str
    sign: str
    left: Term
    right: Term


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    column: int


def parse(text: str) -> Expectation:
    """Reads one expectation. Raises ExpectError with the column and what would be accepted there."""
    if len(text) > _LONGEST:
        raise ExpectError(text[:40] + "...", _LONGEST + 1, f"expected the end: {_LONGEST} characters at most")
    return _Reader(text).expectation()


def evaluate(expectation: Expectation, summary: Mapping[str, Any]) -> Outcome:
    """Whether it holds and the figures of both sides. summary: `figures.Summary` as plain data.

    Raises ExpectError for an unknown label or field, with the nearest valid name.
    """
    left = _value(expectation.left, expectation.text, summary)
    right = _value(expectation.right, expectation.text, summary)
    holds = left is not None and right is not None and COMPARISONS[expectation.sign](left, right)
    return Outcome(text=expectation.text, holds=holds, left=left, right=right)


def check(expectation: Expectation, labels: Sequence[str], baseline: str | None = None) -> None:
    """Raises ExpectError for labels and fields that no run with these labels can have. Needs no run."""
    evaluate(expectation, _skeleton(list(labels), baseline or labels[0]))


class _Reader:
    """A recursive-descent reader of the grammar above."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.at = 0
        self.depth = 0

    def _tokens(self) -> list[_Token]:
        tokens, at = [], 0
        while self.text[at:].strip():
            match = _TOKEN.match(self.text, at)
            if match is None or match.lastgroup is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                raise ExpectError(self.text, at + 1, f"cannot read {self.text[at]!r} ({self._accepted()})")
            tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
            at = match.end()
        return [*tokens, _Token("end", "", len(self.text) + 1)]

    @staticmethod
    def _accepted() -> str:
        return "accepted are figures such as label.jct_s.mean, numbers, + - * / ( ) and one of " + " ".join(COMPARISONS)

    def expectation(self) -> Expectation:
        left = self._sum()
        sign = self._take()
        if sign.text not in COMPARISONS:
            raise self._wrong(sign, f"one of {' '.join(COMPARISONS)}")
        right = self._sum()
        if self._peek().kind != "end":
            raise self._wrong(self._peek(), "the end, or one of + - * /")
        return Expectation(self.text, sign.text, left, right)

    def _peek(self) -> _Token:
        return self.tokens[self.at]

    def _take(self) -> _Token:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def _wrong(self, token: _Token, wanted: str) -> ExpectError:
        seen = f"'{token.text}'" if token.text else "the end"
        return ExpectError(self.text, token.column, f"expected {wanted}, found {seen}")

    def _sum(self) -> Term:
        left = self._term()
        while self._peek().text in ("+", "-"):
            left = Operation(self._take().text, left, self._term())
        return left

    def _term(self) -> Term:
        left = self._factor()
        while self._peek().text in ("*", "/"):
            left = Operation(self._take().text, left, self._factor())
        return left

    def _factor(self) -> Term:
        token = self._take()
        if token.kind == "number":
            value = float(token.text)
            if not math.isfinite(value):
                raise self._wrong(token, "a smaller number")
            return Number(value)
        if token.kind == "name":
            return self._path(token)
        if token.text in ("-", "("):
            self.depth += 1
            if self.depth > _DEEPEST:
                raise self._wrong(token, f"at most {_DEEPEST} brackets and signs inside each other")
            inside = self._factor() if token.text == "-" else self._sum()
            self.depth -= 1
            if token.text == "-":
                return Operation("-", Number(0.0), inside)
            self._close(")")
            return inside
        raise self._wrong(token, "a figure such as label.jct_s.mean, a number or '('")

    def _path(self, first: _Token) -> Path:
        steps = [Step(first.text, first.column)]
        while self._peek().text in (".", "["):
            if self._take().text == ".":
                name = self._take()
                if name.kind != "name":
                    raise self._wrong(name, 'a name (write ["..."] around anything but letters, digits, _ and -)')
                steps.append(Step(name.text, name.column))
                continue
            key = self._take()
            if key.kind == "text":
                steps.append(Step(key.text[1:-1], key.column))
            elif key.kind == "number" and key.text.isdigit():
                steps.append(Step(int(key.text), key.column))
            else:
                raise self._wrong(key, 'a name in quotes, as in queues["prod"], or a whole number')
            self._close("]")
        return Path(tuple(steps))

    def _close(self, sign: str) -> None:
        token = self._take()
        if token.text != sign:
            raise self._wrong(token, f"'{sign}'")


def _value(term: Term, text: str, summary: Mapping[str, Any]) -> float | None:
    if isinstance(term, Number):
        return term.value
    if isinstance(term, Path):
        return _figure(term.steps, text, summary)
    left, right = _value(term.left, text, summary), _value(term.right, text, summary)
    if left is None or right is None or (term.sign == "/" and right == 0):
        return None
    value = _ARITHMETIC[term.sign](left, right)
    return value if math.isfinite(value) else None


def _figure(steps: tuple[Step, ...], text: str, summary: Mapping[str, Any]) -> float | None:
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


def _down(value: Any, steps: Sequence[Step], text: str) -> Any:
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


def _known(step: Step, known: Mapping[str, Any] | Sequence[str], what: str, text: str) -> str:
    if step.key in known:
        return str(step.key)
    near = nearest(str(step.key), known)
    hint = f", did you mean '{near}'?" if near else ""
    if not near and what == "field" and "-" in str(step.key):
        hint = " (a minus needs space around it)"
    raise ExpectError(text, step.column, f"unknown {what} '{step.key}'{hint} (known: {', '.join(known) or 'none'})")


def _number(value: Any, step: Step, text: str) -> float | None:
    if isinstance(value, Mapping):
        if "value" in value:
            return _number(value["value"], step, text)
        raise ExpectError(text, step.column, f"'{step.key}' is several figures: name one of {', '.join(value)}")
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise ExpectError(text, step.column, f"'{step.key}' is not a number: {value!r}")


class _Anything(dict[str, Any]):
    """Stands for names that only a run can tell: has every key, with the figures of one entry below it."""

    def __init__(self, below: Any) -> None:
        super().__init__()
        self._below = below

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: str) -> Any:
        return self._below


def _skeleton(labels: list[str], baseline: str) -> dict[str, Any]:
    """A summary with every field and no figures."""
    run, comparison = _blank(msgspec.inspect.type_info(Run)), _blank(msgspec.inspect.type_info(Comparison))
    return {
        "runs": [{**run, "label": label} for label in labels],
        "comparisons": [{**comparison, "label": label} for label in labels if label != baseline],
    }


def _blank(kind: msgspec.inspect.Type) -> Any:
    """What has the names of a type, with None for each figure; text stays text, so that it is told from figures."""
    kind = bare(kind)
    if isinstance(kind, msgspec.inspect.DictType):
        return _Anything(_blank(kind.value_type))
    if isinstance(kind, msgspec.inspect.StructType):
        return {field.name: _blank(field.type) for field in kind.fields}
    return "..." if isinstance(kind, msgspec.inspect.StrType) else None
