"""Regression trees as Breiman et al. (1984) grow them, best split first, with thresholds that people can read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedulers.learned.tree import Branch, Tree

Array = NDArray[np.float64]
Ints = NDArray[np.intp]
#: So many thresholds are tried of each fact, at equal shares of its values.
_THRESHOLDS: Final = 80


class _Split(NamedTuple):
    """gain: by how much squared errors shrink. fact, bin: rows up to this bin of the fact go one way."""

    gain: float
    fact: int
    bin: int


class _Leaf:
    """Rows of a leaf, the best split of them, and, when it was split, the two leaves."""

    def __init__(self, rows: Ints, split: _Split) -> None:
        self.rows, self.split = rows, split
        self.parts: tuple[_Leaf, _Leaf] | None = None


def grow(facts: Array, targets: Array, leaves: int, least: int, value: Callable[[Array], float]) -> Tree:
    """A tree with at most so many leaves, of at least `least` rows each.

    facts: [rows, facts]. targets: [rows, targets]; splits make the sum of their squared errors small. value: of a leaf
    from the mean of its targets; a branch whose leaves all have the same is one leaf.
    """
    edges = [_edges(column) for column in facts.T]
    binned = np.stack([np.searchsorted(e, column) for e, column in zip(edges, facts.T, strict=True)]).astype(np.uint8)
    root = _leaf(np.arange(len(facts)), binned, targets, least)
    fringe = [root]
    while len(fringe) < leaves:
        best = max(fringe, key=lambda leaf: leaf.split.gain)
        if best.split.gain <= 0:
            break
        goes = binned[best.split.fact, best.rows] <= best.split.bin
        best.parts = (
            _leaf(best.rows[goes], binned, targets, least),
            _leaf(best.rows[~goes], binned, targets, least),
        )
        fringe = [leaf for leaf in fringe if leaf is not best] + list(best.parts)
    return _tree(root, targets, edges, value)


def _edges(column: Array) -> Array:
    """Thresholds of three digits: rows up to one of them, and rows above."""
    shares = np.unique(np.quantile(column, np.linspace(0, 1, _THRESHOLDS + 1)[:-1]))
    return np.unique([float(f"{edge:.3g}") for edge in shares])


def _leaf(rows: Ints, binned: NDArray[np.uint8], targets: Array, least: int) -> _Leaf:
    own = targets[rows]
    whole = own.sum(axis=0)
    best = _Split(0.0, 0, 0)
    for fact, bins in enumerate(binned[:, rows]):
        counts = np.bincount(bins).cumsum()[:-1]
        if not len(counts):
            continue
        sums = np.stack([np.bincount(bins, column) for column in own.T]).cumsum(axis=1)[:, :-1]
        others = len(rows) - counts
        may = (counts >= least) & (others >= least)
        with np.errstate(divide="ignore", invalid="ignore"):
            gains = (sums**2).sum(axis=0) / counts + ((whole[:, None] - sums) ** 2).sum(axis=0) / others
        gains = np.where(may, gains, 0.0) - (whole**2).sum() / len(rows)
        found = int(gains.argmax())
        if gains[found] > best.gain:
            best = _Split(float(gains[found]), fact, found)
    return _Leaf(rows, best)


def _tree(leaf: _Leaf, targets: Array, edges: list[Array], value: Callable[[Array], float]) -> Tree:
    if leaf.parts is None:
        return value(targets[leaf.rows].mean(axis=0))
    then, other = (_tree(part, targets, edges, value) for part in leaf.parts)
    if then == other:
        return then
    return Branch(leaf.split.fact, float(edges[leaf.split.fact][leaf.split.bin]), then, other)
