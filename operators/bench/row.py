"""What a benchmark says, in the form of `rm-emulator bench --json`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final

import msgspec

_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {">=": operator.ge, "<=": operator.le}


class Row(msgspec.Struct, kw_only=True):
    """One line. target: such as `<= 5`, of the ratio where there is one, else of the value."""

    name: str
    value: float
    unit: str
    reference: float | None = None
    ratio: float | None = None
    target: str | None = None
    met: bool | None = None
    note: str = ""

    def __post_init__(self) -> None:
        self.value = float(f"{self.value:.4g}")
        if self.ratio is not None:
            self.ratio = float(f"{self.ratio:.4g}")
        if self.reference is not None:
            self.reference = float(f"{self.reference:.4g}")
        if self.target is not None:
            sign, _, bound = self.target.partition(" ")
            self.met = _COMPARE[sign](self.value if self.ratio is None else self.ratio, float(bound))


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of the values are (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
