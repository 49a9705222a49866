"""Randomness by name: every draw is keyed by (seed, purpose, ids), never by the order of drawing.

Two policies that meet the same task therefore meet the same duration, and adding a fault does not
shift the arrivals (DESIGN section 5). Nothing here keeps state.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import numpy as np

_TWO_53: Final = float(2**53)


def digest(seed: int, purpose: str, *ids: str | int) -> int:
    """128 bits that depend on nothing but the arguments."""
    text = "\x1f".join((str(seed), purpose, *map(str, ids)))
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "little")


def uniform(seed: int, purpose: str, *ids: str | int) -> float:
    """One number in [0, 1)."""
    return (digest(seed, purpose, *ids) & (2**53 - 1)) / _TWO_53


def generator(seed: int, purpose: str, *ids: str | int) -> np.random.Generator:
    """A NumPy generator for a block of draws (all tasks of a stage, all arrivals of a workload)."""
    return np.random.Generator(np.random.Philox(key=digest(seed, purpose, *ids)))
