"""Named integer resource vectors, and Kubernetes quantities (`500m`, `1.5Gi`) on their way in.

A vector is a plain tuple of ints in the order of a `Resources` object's names: milli-CPU, MiB of
memory, milli-GPU, whole numbers of anything else. Demands round up and capacities down, so that
rounding never over-commits. Names may be appended, never removed or reordered, so that a vector
recorded yesterday keeps its meaning.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from schedulers.core.errors import InvalidQuantity

Vector = tuple[int, ...]

_SUFFIX: Final[dict[str, Fraction]] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")
_MIB: Final = 2**20
#: Characters of a quantity; Kubernetes itself writes none of more than 20.
_LONGEST: Final = 64
#: In base units (bytes among them): more than any vector can hold.
_LARGEST: Final = 2 * 10**21
#: In steps of a vector: 9,000 of them still add up to less than 2**63, beyond which no log could hold their sum.
MOST_STEPS: Final = 10**15
_MILLI: Final = Fraction(1, 1000)
#: How many base units make one step of the vector; everything else counts whole units.
_STEP: Final[dict[str, Fraction]] = {
    "cpu": _MILLI,
    "gpu": _MILLI,
    "memory": Fraction(_MIB),
    "ephemeral-storage": Fraction(_MIB),
    "disk": Fraction(_MIB),
    "network": Fraction(_MIB),
}


def parse_quantity(text: str | int | float) -> Fraction:
    """The exact value of a Kubernetes quantity in base units (cores, bytes, pieces).

    Raises InvalidQuantity for anything refused by Kubernetes, for negative values, and for values too long or too large
    to be meant: numbers of thousands of digits cost seconds, and break every conversion into text.
    """
    # A bool is an int in Python, but `cpu: true` in a file is a mistake.
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise InvalidQuantity(f"not a quantity: {text!r} (write a number such as 4, 500m, 1.5Gi)")
    if isinstance(text, str) and len(text) > _LONGEST:
        raise InvalidQuantity(
            f"quantity too long: '{text[:16]}...' has {len(text)} characters ({_LONGEST} at most, as 500m or 1.5Gi)"
        )
    if isinstance(text, int) and abs(text) > _LARGEST:  # before it becomes text, which fails beyond 4,300 digits
        digits = int(text.bit_length() * math.log10(2)) + 1
        raise InvalidQuantity(f"quantity out of range: a whole number of some {digits} digits (2e21 at most)")
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise InvalidQuantity(f"not a quantity: {text!r} (write a number such as 4, 500m, 1.5Gi)")
    number, exponent, suffix = match.groups()
    if exponent and abs(int(exponent[1:])) > 30:
        raise InvalidQuantity(f"quantity out of range: {text!r} (2e21 at most)")
    value = Fraction(number) * (Fraction(10) ** int(exponent[1:]) if exponent else _SUFFIX[suffix or ""])
    if value < 0:
        raise InvalidQuantity(f"negative quantity: {text!r} (a resource is never below zero)")
    if value > _LARGEST:
        raise InvalidQuantity(f"quantity out of range: {text!r} (2e21 at most)")
    return value


class Resources:
    """The names of the resources of a cluster, in the order of its vectors."""

    __slots__ = ("names",)

    def __init__(self, names: Iterable[str] = ("cpu", "memory")) -> None:
        self.names: tuple[str, ...] = tuple(names)
        if len(set(self.names)) != len(self.names):
            raise InvalidQuantity(f"a resource is named twice: {', '.join(self.names)}")

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"Resources({self.names!r})"

    def extended(self, names: Iterable[str]) -> Resources:
        """The same resources with the new names among `names` appended, in sorted order."""
        return Resources((*self.names, *sorted(set(names) - set(self.names))))

    def demand(self, quantities: Mapping[str, str | int | float]) -> Vector:
        """The demand of a task: every component rounded up. Raises InvalidQuantity."""
        return self._vector(quantities, round_up=True)

    def capacity(self, quantities: Mapping[str, str | int | float]) -> Vector:
        """The capacity of a node: every component rounded down. Raises InvalidQuantity."""
        return self._vector(quantities, round_up=False)

    def _vector(self, quantities: Mapping[str, str | int | float], *, round_up: bool) -> Vector:
        unknown = [name for name in quantities if name not in self.names]
        if unknown:
            raise InvalidQuantity(f"unknown resource '{unknown[0]}' (this cluster has {', '.join(self.names)})")
        return tuple(to_steps(name, quantities.get(name, 0), round_up=round_up) for name in self.names)

    def show(self, vector: Vector) -> dict[str, str]:
        """A vector as Kubernetes quantities, zeros left out: `{'cpu': '500m', 'memory': '4Gi'}`."""
        return {n: show_steps(n, v) for n, v in zip(self.names, vector, strict=True) if v}


def to_steps(name: str, quantity: str | int | float, *, round_up: bool) -> int:
    """A quantity in the vector's integer steps (milli-CPU, MiB, pieces). Raises InvalidQuantity."""
    steps = _known_steps if isinstance(quantity, str) else _steps
    return steps(name, quantity, round_up)


def _steps(name: str, quantity: str | int | float, round_up: bool) -> int:
    steps = parse_quantity(quantity) / _STEP.get(name, Fraction(1))
    if steps > MOST_STEPS:
        most = show_steps(name, MOST_STEPS)
        raise InvalidQuantity(f"quantity out of range: {quantity!r} of {name} ({most} at most)")
    # Exact fractions, because 0.1 + 0.2 as floats would round a demand up to a step too many.
    return -int(-steps // 1) if round_up else int(steps // 1)


#: The pods of one template ask for the same, and exact fractions take their time.
_known_steps: Final = lru_cache(maxsize=4096)(_steps)


def show_steps(name: str, steps: int) -> str:
    """The shortest Kubernetes quantity for a number of steps of a resource."""
    step = _STEP.get(name)
    if not steps:
        return "0"
    if step == _MILLI:
        return str(steps // 1000) if steps % 1000 == 0 else f"{steps}m"
    if step == _MIB:
        for unit, size in (("Ti", 2**20), ("Gi", 2**10)):
            if steps and steps % size == 0:
                return f"{steps // size}{unit}"
        return f"{steps}Mi"
    return str(steps)
