"""What a benchmark says, and how benchmarks make themselves known."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {">=": operator.ge, "<=": operator.le}

#: By package the extra that brings it.
_EXTRAS: Final[dict[str, str]] = {
    **dict.fromkeys(("aiohttp", "certifi", "cryptography", "kubernetes", "prometheus_client"), "k8s"),
    **dict.fromkeys(("httptools", "starlette", "structlog", "uvicorn"), "k8s"),
    **dict.fromkeys(("greenlet", "gymnasium", "torch"), "learn"),
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the results.

    value, unit: what was measured; None for what cannot be measured here (`note` says why). reference: what it is
    compared with, in the unit that `note` tells. ratio: value to reference, or None where there is no reference.
    target: such as `>= 0.06`, of the ratio where there is one, else of the value; None where nothing is aimed at.
    """

    name: str
    value: float | None
    unit: str
    reference: float | None = None
    ratio: float | None = None
    target: str | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without target or value."""
        figure = self.value if self.ratio is None else self.ratio
        if self.target is None or figure is None:
            return None
        sign, _, bound = self.target.partition(" ")
        return _COMPARE[sign](figure, float(bound))

    def plain(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "name": self.name,
            "value": _round(self.value),
            "unit": self.unit,
            "reference": _round(self.reference),
            "ratio": _round(self.ratio),
            "target": self.target,
            "met": self.met,
            "note": self.note,
        }


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table as plain text, two blanks between its columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


class Benchmark(msgspec.Struct, frozen=True):
    """A measurement that yields rows. tiny: on the smallest sizes, to see that it works rather than how fast."""

    name: str
    group: str
    run: Callable[[bool], Iterator[Row]]

    def rows(self, tiny: bool) -> Iterator[Row]:
        """The rows of `run`; without an extra that it needs, a row without a value that names the extra."""
        try:
            yield from self.run(tiny)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in _EXTRAS:
                raise  # a mistake of ours
            extra = _EXTRAS[missing]
            why = f"no module {error.name}; install the extra {extra} (pip install 'rm-emulator[{extra}]')"
            yield cannot_run(self.name, why)


def cannot_run(name: str, why: str) -> Row:
    """The row of what cannot be measured here."""
    return Row(name=name, value=None, unit="", note=f"cannot run: {why}")


BENCHMARKS: Final[dict[str, Benchmark]] = {}


def benchmark(name: str, group: str) -> Callable[[Callable[[bool], Iterator[Row]]], Callable[[bool], Iterator[Row]]]:
    """Function decorator: make a benchmark known. Its argument is `tiny` (see Benchmark)."""

    def add(function: Callable[[bool], Iterator[Row]]) -> Callable[[bool], Iterator[Row]]:
        BENCHMARKS[name] = Benchmark(name, group, function)
        return function

    return add


def _round(value: float | None) -> float | None:
    """To four figures: the rest is noise."""
    return None if value is None else float(f"{value:.4g}")
