"""Randomness by name: every draw is keyed by (seed, purpose, ids), never by the order of drawing.

Two policies therefore meet the same duration of the same task, and adding a fault does not shift the arrivals (DESIGN
section 5). No state is kept.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import numpy as np

_TWO_53: Final = float(2**53)


def digest(seed: int, purpose: str, *ids: str | int) -> int:
    """128 bits depending on the arguments alone."""
    # A separator that no id contains: ('a', 'bc') and ('ab', 'c') must differ.
    text = "\x1f".join((str(seed), purpose, *map(str, ids)))
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "little")


def uniform(seed: int, purpose: str, *ids: str | int) -> float:
    """A number in [0, 1)."""
    # 53 bits fill the mantissa of a float, so that the quotient is exact and below 1.
    return (digest(seed, purpose, *ids) & (2**53 - 1)) / _TWO_53


def generator(seed: int, purpose: str, *ids: str | int) -> np.random.Generator:
    """A NumPy generator for a block of draws (all tasks of a stage, all arrivals of a workload)."""
    return np.random.Generator(np.random.Philox(key=digest(seed, purpose, *ids)))
